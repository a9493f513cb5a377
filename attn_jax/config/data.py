"""The options of data."""

from dataclasses import dataclass

from attn_jax.settings.fields import option, path

LINKED_LEVELS = {"word", "symbol"}  # whose tokens are what links and gold alignments connect


@dataclass(frozen=True)
class Data:
    """Which sentence pairs to use, and how to split them into tokens."""

    name: str = option(
        "reverse",
        "copy, reverse, sort, dates, parallel (your own text), "
        "or a translation data set of TFDS such as ted_hrlr_translate/pt_to_en",
    )
    train: str = path(
        "parallel: prefix of PREFIX.<source> and PREFIX.<target>, or a TSV; plain or .gz, .bz2, "
        ".xz, .zst"
    )
    valid: str = path("parallel: the same for validation")
    test: str = path("parallel: the same for the final test; may be left out")
    links: str = path(
        "parallel, in words or symbols: links of the training pairs, each a line such as 0-0 2-1"
    )
    columns: str = option(
        "",
        "parallel, a TSV: columns of source, target and perhaps a second source, as in 1,2 or "
        "1,2,3; when empty, it has only two",
    )
    source: str = option("", "source side: file suffix (parallel) or language (TFDS)")
    target: str = option("", "target side: file suffix (parallel) or language (TFDS)")
    second_source: str = option(
        "", "second source, such as tags: file suffix (parallel, in files of a side each)"
    )
    source_level: str = option(
        "auto", "source tokens: word, character, symbol, subword, tag or auto"
    )
    target_level: str = option(
        "auto", "target tokens: word, character, symbol, subword, tag or auto"
    )
    second_level: str = option(
        "tag", "second source tokens: tag (cut at spaces and ;), word, character, symbol or subword"
    )
    words: int = option(0, "word level: how many of the most frequent are known; 0: all", low=0)
    min_count: int = option(2, "word level: occurrences in training that a known word needs", low=1)
    subwords: int = option(8000, "subword level: largest size of the vocabulary", low=8)
    character_coverage: float = option(
        1.0,
        "subword level: share of the training text's characters that must be known, 0.98 to 1",
        low=0.98,
        high=1,
    )
    vocabulary: str = option("separate", "separate for each side, or joint")
    bleu_tokenizer: str = option("13a", "sacrebleu's tokenisation: 13a, none, char, intl, zh, ...")
    examples: int = option(20000, "copy, reverse, sort, dates: training pairs", low=1)
    held_out: int = option(
        1000, "copy, reverse, sort, dates: pairs each for validation and test", low=1
    )
    shortest: int = option(5, "copy, reverse, sort: symbols in the shortest sequence", low=1)
    longest: int = option(20, "copy, reverse, sort: symbols in the longest sequence", low=1)
    symbols: int = option(26, "copy, reverse, sort: distinct symbols", low=1)
    seed: int = option(0, "copy, reverse, sort, dates: seed of the generated pairs", low=0)
    max_length: int = option(
        512, "longest sentence in tokens that is translated or evaluated", low=1
    )
    directory: str = path(
        "where data sets that are generated or of TFDS are kept; the user cache folder when empty"
    )

    @property
    def sources(self) -> int:
        """The number of sources, 1 or 2."""
        return 2 if self.second_source or self.columns.count(",") == 2 else 1
