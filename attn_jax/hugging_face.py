"""Attention out of encoder-decoders of Hugging Face: Marian, T5, BART, Whisper and others.

They are models of PyTorch; neither it nor `transformers` is imported here.
"""

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from attn_jax.errors import InputError
from attn_jax.pairs import BEGINS_WORD, Weighed, numbered

RATE = 16000  # samples of speech per second that Whisper reads
SAMPLES = 320  # of speech for each annotation of Whisper, of 20 ms
SILENCE = "…"  # the source token of what fills up the 30 s that Whisper reads
MARKS = BEGINS_WORD, "Ġ"  # what begins a word: in SentencePiece, and in byte-level tokens


def weights_of(
    model: Any,
    processor: Any,
    sources: Sequence[Any],
    targets: Sequence[str] | None = None,
    **generation: Any,
) -> list[Weighed]:
    """The weights of cross-attention of each pair of a source and a target.

        pairs = attn_jax.weights_of(model, tokenizer, ["The cat sits."], num_beams=4)
        attn_jax.page("a.html", pairs)

    The model reads what it has generated once more, as a given target. So the weights are those of
    each hypothesis itself, also of a beam, whose hypotheses change places.

    Args:
      model: an encoder-decoder of `transformers`.
      processor: its tokenizer; for speech its processor.
      sources: texts; for speech arrays of 16,000 samples per second, from -1 to 1 or integers.
      targets: texts; None: what the model generates.
      generation: options of `model.generate`, such as `num_beams=4`. With
        `num_return_sequences=2`, there are two pairs of each source.

    Returns:
      Pairs as `page`, `save_weights` and `word_times` take them, one sentence after another. Target
      tokens end with that of the end of the sentence. The source tokens of speech are times in
      seconds, one for each annotation, and `…` for the silence that follows.

    Raises:
      InputError: the model gives no weights of cross-attention, or the arguments do not fit.
    """
    _check(model, processor, sources, targets)
    if targets is not None and generation:
        raise InputError(f"{', '.join(generation)}: nothing is generated where targets are given")
    before = getattr(model.config, "_attn_implementation", None)
    training = model.training
    model.eval()
    if before is not None:
        model.set_attn_implementation("eager")  # others have no weights
    try:
        return [
            pair
            for number, source in enumerate(sources)
            for pair in _of_source(
                model, processor, source, None if targets is None else targets[number], generation
            )
        ]
    finally:
        model.train(training)
        if before is not None:
            model.set_attn_implementation(before)


def _check(
    model: Any, processor: Any, sources: Sequence[Any], targets: Sequence[str] | None
) -> None:
    """Raises InputError if arguments do not fit together."""
    if not getattr(model.config, "is_encoder_decoder", False):
        raise InputError(f"{type(model).__name__} has no encoder, and so no cross-attention")
    speaks = hasattr(processor, "feature_extractor")
    of_speech = getattr(model, "main_input_name", "input_ids") != "input_ids"
    if of_speech and not speaks:
        raise InputError(f"{type(model).__name__} reads speech: give its processor")
    kind = "arrays of samples" if speaks else "texts"
    for side, given in (("sources", sources), ("targets", targets)):
        if isinstance(given, str) or getattr(given, "ndim", 0) == 1:
            raise InputError(f"expected a list of {side}, got one")
    if any(isinstance(source, str) == speaks for source in sources):
        raise InputError(f"the sources of {type(model).__name__} are {kind}")
    if targets is not None and len(targets) != len(sources):
        raise InputError(f"got {len(sources)} sources, but {len(targets)} targets")


def _of_source(
    model: Any, processor: Any, source: Any, target: str | None, generation: dict[str, Any]
) -> Iterator[Weighed]:
    """The pairs of one source."""
    tokenizer = getattr(processor, "tokenizer", processor)
    is_text = isinstance(source, str)
    inputs = (
        tokenizer(source, return_tensors="pt")
        if is_text
        else processor(_samples(source), sampling_rate=RATE, return_tensors="pt")
    ).to(model.device)
    if is_text:
        ids = inputs["input_ids"][0].tolist()
        shown, words = _shown(tokenizer, ids), _words(tokenizer, ids)
    else:
        count = -(-len(source) // SAMPLES)
        shown = [*(f"{number * SAMPLES / RATE:.2f}" for number in range(count)), SILENCE]
        words = [*range(count), -1]
    for written in _targets(model, tokenizer, inputs, target, generation):
        weights = _weights(model, inputs, written)
        if weights.shape[-1] >= len(shown):  # what it is filled up with is one token
            rest = weights[..., len(shown) - 1 :].sum(axis=-1, keepdims=True)
            weights = np.concatenate([weights[..., : len(shown) - 1], rest], axis=-1)
        labels, length = written[1:], weights.shape[-1]
        yield Weighed(
            shown[:length],
            _shown(tokenizer, labels),
            weights,
            source_words=words[:length],
            target_words=_words(tokenizer, labels),
        )


def _samples(source: Any) -> np.ndarray:
    """Samples from -1 to 1, also of integers, as in files."""
    array = np.asarray(source)
    return array / -float(np.iinfo(array.dtype).min) if array.dtype.kind == "i" else array


def _targets(
    model: Any, tokenizer: Any, inputs: Any, target: str | None, generation: dict[str, Any]
) -> Iterator[list[int]]:
    """The ids that the decoder reads, from the token that begins a target to that of its end."""
    begins = model.generation_config.decoder_start_token_id
    begins = model.config.decoder_start_token_id if begins is None else begins
    if target is None:
        found = model.generate(**inputs, **generation).tolist()
    else:
        found = [tokenizer(text_target=target)["input_ids"]]
    # Whisper's begin with the language and the task. It leaves these, and the end, out of what it
    # generates.
    prefix = getattr(tokenizer, "prefix_tokens", None) or [begins]
    prefix = prefix if prefix[0] == begins else [begins]  # NLLB's are those of its sources
    end = tokenizer.eos_token_id
    for ids in found:
        ids = ids if ids[0] == begins else [*prefix, *ids, end]
        ends = [place for place, token in enumerate(ids) if token == end]
        yield ids[: min((place for place in ends if place), default=len(ids)) + 1]


def _weights(model: Any, inputs: Any, ids: list[int]) -> np.ndarray:
    """The weights [L, N, T, S] of the steps that predict each token after the first."""
    import torch  # the user's

    before = torch.tensor([ids[:-1]], device=model.device)
    with torch.no_grad():
        output = model(**inputs, decoder_input_ids=before, output_attentions=True)
    layers = getattr(output, "cross_attentions", None)
    if not layers or layers[0] is None:
        raise InputError(f"{type(model).__name__} gives no weights of cross-attention")
    return np.concatenate([layer.float().cpu().numpy() for layer in layers])


def _shown(tokenizer: Any, ids: Sequence[int]) -> list[str]:
    """Tokens as people read them: byte-level ones as text."""
    tokens = tokenizer.convert_ids_to_tokens(ids)
    if not any(token.startswith("Ġ") for token in tokens):
        return tokens
    texts = (tokenizer.decode([number]) for number in ids)
    return [text.replace(" ", "▁") or token for text, token in zip(texts, tokens, strict=True)]


def _words(tokenizer: Any, ids: Sequence[int]) -> list[int]:
    """The index of the word of each token; -1 for special ones, and for Whisper's times."""
    special, tokens = {*tokenizer.all_special_ids}, tokenizer.convert_ids_to_tokens(ids)
    return numbered(
        (
            None if number in special or token.startswith("<|") else token
            for number, token in zip(ids, tokens, strict=True)
        ),
        MARKS,
    )
