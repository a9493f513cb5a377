"""Export of decoding, with the vocabularies, to one file, which JAX can run without this package.

The file is a zip archive that holds

- `decode.jax`: a function of ids, serialized by `jax.export`;
- `source.json`, `target.json`: the vocabularies, as in the folder of a run;
- `about.json`: the format, sizes, options of the search, special ids, and versions.
"""

import dataclasses
import zipfile
from collections.abc import Callable, Iterator, Sequence
from importlib.metadata import version
from operator import itemgetter
from pathlib import Path
from typing import Any, overload

import jax
import jax.numpy as jnp
import numpy as np
from jax import export as jax_export
from jaxtyping import Array, Int

from attn_jax.data.copying import copyable
from attn_jax.data.run_vocabularies import as_json, from_json
from attn_jax.data.sentences import Sentence, pad
from attn_jax.data.vocabulary import Vocabulary
from attn_jax.decoding.decode import decode
from attn_jax.decoding.options import Search, search_of
from attn_jax.decoding.search import SearchResult
from attn_jax.errors import InputError, reason
from attn_jax.files import reading, writing
from attn_jax.records import strict_json
from attn_jax.startup import start
from attn_jax.tokens import BOS, EOS, PAD, UNK, Copyable
from attn_jax.translation.given_pairs import refuse_one
from attn_jax.translation.hypothesis import Hypothesis
from attn_jax.translation.loading import Place, load
from attn_jax.translation.translator import Translator, hypothesis_of

PLATFORMS = ("cpu", "cuda", "tpu")
FORMAT = 1
FUNCTION, SOURCE, TARGET, ABOUT = "decode.jax", "source.json", "target.json", "about.json"


def export(
    paths: Place | Sequence[Place] | Translator,
    file: Place,
    *,
    batch_size: int = 1,
    source_length: int = 32,
    combination: str = "log_probabilities",
    **options,
) -> None:
    """Writes decoding to one file: a function of token ids, with its parameters, and vocabularies.

    `attn_jax.load_exported` translates text with the file. It is a zip archive, of which JAX alone
    can run `decode.jax`. This function takes ids [batch_size, source_length], int32, padded with 0;
    with a model that copies, the `copies` of `attn_jax.tokens.Copyable` too.
    It returns, for K hypotheses of each sentence, their ids [batch_size, K, T], up to and including
    the end of the sentence (3) and then 0, their log-probabilities and scores, each
    [batch_size, K], and their weights [batch_size, K, L, N, T, S]. It runs wherever
    `jax.export.deserialize` works, with the same version of JAX or a somewhat newer one, which
    keeps such files readable for half a year.

    Args:
      paths: one or several runs or checkpoints, as in `load`, or what `load` has returned.
      file: the file to write.
      batch_size: number of sentences.
      source_length: most tokens of a sentence.
      combination: of several models, as in `load`.
      **options: of `attn_jax.decoding.options.Search`, except those for sampling, and except
        `unknown="copy"`, which needs text.

    Raises:
      InputError: a run or the folder of the file does not exist, or an option or a size is invalid.
    """
    if not Path(file).absolute().parent.is_dir():
        raise InputError(f"cannot write {file}: its folder does not exist")
    search = search_of(options)
    if search.temperature:
        raise InputError("sampling cannot be exported: leave out temperature")
    if search.unknown == "copy":
        raise InputError(
            "unknown=copy cannot be exported: it changes the text, and what is exported returns ids"
        )
    translator = paths if isinstance(paths, Translator) else load(paths, combination=combination)
    search.check_lengths(translator.max_length)
    if not 1 <= source_length <= translator.max_length or batch_size < 1:
        raise InputError(
            f"source_length must be from 1 to the {translator.max_length} of data.max_length and "
            f"batch_size at least 1, got {source_length} and {batch_size}"
        )

    def of_ids(*source: Int[Array, "B S"]) -> tuple[Array, ...]:
        ids = Copyable(*source) if translator.copies else source[0]
        return tuple(decode(translator.models, ids, search=search, **translator.settings))

    ids = jax.ShapeDtypeStruct((batch_size, source_length), jnp.int32)
    arguments = [ids] * (2 if translator.copies else 1)
    exported = jax_export.export(jax.jit(of_ids), platforms=PLATFORMS)(*arguments)
    members = {
        FUNCTION: bytes(exported.serialize()),
        SOURCE: as_json(translator.source).encode(),
        TARGET: as_json(translator.target).encode(),
        ABOUT: strict_json.dumps(_about(exported, search), indent=1).encode(),
    }
    with writing(Path(file)) as (beside,), zipfile.ZipFile(beside, "w") as archive:
        for name, content in members.items():  # without times, so that the same is written again
            archive.writestr(zipfile.ZipInfo(name), content)


def _about(exported: jax_export.Exported, search: Search) -> dict[str, Any]:
    batch_size, source_length = exported.in_avals[0].shape
    _, n_best, target_length = exported.out_avals[0].shape
    return {
        "format": FORMAT,
        "batch_size": batch_size,
        "source_length": source_length,
        "n_best": n_best,
        "target_length": target_length,
        "search": dataclasses.asdict(search),
        "copies": len(exported.in_avals) > 1,
        "ids": {"pad": PAD, "unknown": UNK, "begin": BOS, "end": EOS},
        "platforms": PLATFORMS,
        "versions": {name: version(name) for name in ("jax", "jaxlib")},
    }


def load_exported(file: Place) -> "Exported":
    """What `attn_jax.export` wrote, ready to translate text.

    Sets up JAX, as `attn_jax.start` does.

    Raises:
      InputError: the file is missing or damaged, was not written by `export`, or only by an earlier
        or a later version of it, or this version of JAX cannot read its function.
    """
    start()
    file = Path(file)
    if file.is_file() and not zipfile.is_zipfile(file):
        raise InputError(
            f"{file} was not written by this version of attn_jax.export, or is damaged (before "
            "files had vocabularies, they were one function, which jax.export.deserialize reads)"
        )
    with reading(file), zipfile.ZipFile(file) as archive:
        about = strict_json.loads(archive.read(ABOUT))
        if about["format"] > FORMAT:
            raise InputError(f"{file} was exported by a later version of attn_jax: install that")
        source, target = (
            from_json(archive.read(name).decode(), file / name) for name in (SOURCE, TARGET)
        )
        function = archive.read(FUNCTION)
    try:
        run = jax_export.deserialize(bytearray(function)).call
    except Exception as error:  # of many kinds
        raise InputError(
            f"{file} cannot be read by JAX {jax.__version__}; it was written by "
            f"{about['versions']['jax']} ({reason(error)})"
        ) from error
    return Exported(jax.jit(run), about, source, target)


class Exported:
    """An exported model with its vocabularies. Several threads may use it at the same time.

    Args:
      run: the function of ids.
      about: its sizes and the options of its search, as `export` writes them.
      source: the source vocabulary.
      target: the target vocabulary.
    """

    def __init__(
        self, run: Callable, about: dict[str, Any], source: Vocabulary, target: Vocabulary
    ):
        self._run = run
        self.about = about
        self.source = source
        self.target = target

    def __repr__(self) -> str:
        return (
            f"Exported({len(self.source)} source and {len(self.target)} target tokens, "
            f"sentences of at most {self.about['source_length']})"
        )

    @overload
    def translate(self, sentences: Sequence[str], *, n_best: int) -> list[list[Hypothesis]]: ...

    @overload
    def translate(self, sentences: Sequence[str], *, n_best: None = None) -> list[Hypothesis]: ...

    def translate(self, sentences, *, n_best=None):
        """Translates sentences, as `Translator.translate` does with the options of the export.

        Args:
          sentences: any number of source sentences.
          n_best: hypotheses for each sentence, at most as many as were exported.

        Raises:
          InputError: a sentence is empty or has more tokens than the `source_length` of the export,
            or n_best is more than that of the export.
        """
        most = self.about["n_best"]
        if n_best is not None and not 1 <= n_best <= most:
            raise InputError(f"n_best must be from 1 to the {most} of the export, got {n_best}")
        refuse_one(sentences, "source")
        sources = [self._cut(number, text) for number, text in enumerate(sentences, start=1)]
        size = self.about["batch_size"]
        found = [
            hypotheses
            for first in range(0, len(sources), size)
            for hypotheses in self._of_batch(sources[first : first + size])
        ]
        return [best for best, *_ in found] if n_best is None else [of[:n_best] for of in found]

    def _cut(self, number: int, sentence: str) -> Sentence:
        if not isinstance(sentence, str):
            raise InputError(f"source sentence {number} is not text: {sentence!r}")
        place, most = f"source sentence {number}", self.about["source_length"]
        cut = self.source.cut_at(place, sentence)
        count = len(cut.tokens)
        if not count:
            raise InputError(f"{place} is empty")
        if count > most:
            raise InputError(
                f"{place} has {count} tokens, more than the {most} of the "
                f"export (source_length): {sentence[:40]!r} …"
            )
        return cut

    def _of_batch(self, sources: list[Sentence]) -> Iterator[list[Hypothesis]]:
        size, length = self.about["batch_size"], self.about["source_length"]
        ids = [self.source.ids(source.tokens) for source in sources]
        batch = (pad(ids + [[]] * (size - len(ids)), length),)
        if self.about.get("copies"):  # not in files of earlier versions
            batch, _ = copyable(batch[0], [source.tokens for source in sources], self.target)
        results = jax.device_get(SearchResult(*self._run(*batch)))
        for row, source in enumerate(sources):
            finite = np.flatnonzero(np.isfinite(results.score[row]))
            if not finite.size:
                raise InputError("the model's probabilities are not finite: its training failed")
            yield [
                hypothesis_of(jax.tree.map(itemgetter((row, nth)), results), source, self.target)
                for nth in finite
            ]
