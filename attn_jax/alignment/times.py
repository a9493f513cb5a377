"""When words were spoken, from the weights of speech: dynamic time warping, as Whisper does it."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from attn_jax.errors import InputError
from attn_jax.pairs import Weighed


class Timed(NamedTuple):
    """A word, and when it was spoken, in seconds."""

    word: str
    start: float
    end: float


def word_times(
    pair: Weighed,
    heads: Sequence[tuple[int, int]] | None = None,
    *,
    seconds: float = 0.02,
    width: int = 7,
) -> list[Timed]:
    """When each target word was spoken.

    The weights of each head are standardised over the target tokens, smoothed by a median over
    `width` annotations, and averaged. The path of the largest sum through them gives the annotation
    at which each token begins. Radford et al. 2022 (Whisper): its program, `timing.py`.

    Args:
      pair: of speech and its text, as `weights_of` returns it.
      heads: layers and heads, from 0, which are read; None: all of the upper half of the layers.
        Models of Whisper name them in `model.generation_config.alignment_heads`.
      seconds: the time from one annotation to the next.
      width: of the median filter, odd.

    Raises:
      InputError: the pair has no words, or there is no such head.
    """
    words = pair.target_words
    if words is None:
        raise InputError("the pair does not say which tokens are words: give its target_words")
    heard = range(len(pair.source)) if pair.source_words is None else pair.source_words
    weights = np.asarray(pair.weights, float)[..., [word >= 0 for word in heard]]
    layers, count = weights.shape[:2]
    if heads is None:
        heads = [(layer, head) for layer in range(layers // 2, layers) for head in range(count)]
    for layer, head in heads:
        if not (0 <= layer < layers and 0 <= head < count):
            raise InputError(
                f"there is no head {(layer, head)} of {layers} layers and {count} heads"
            )
    chosen = np.stack([weights[place] for place in map(tuple, heads)])
    deviation = chosen.std(axis=1, keepdims=True)
    chosen = (chosen - chosen.mean(axis=1, keepdims=True)) / np.where(deviation, deviation, 1)
    scores = median_filter(chosen, width).mean(axis=0)
    spoken = [place for place, word in enumerate(words) if word >= 0]
    if not spoken:
        return []
    # With the token after the last word, which begins where that ends.
    rows = [*spoken, *range(spoken[-1] + 1, min(spoken[-1] + 2, len(words)))]
    tokens, positions = warped(scores[rows])
    begins = np.concatenate(
        [positions[np.flatnonzero(np.diff(tokens, prepend=-1))], [positions[-1] + 1]]
    )
    found = []
    for word in range(max(words) + 1):
        places = [nth for nth, place in enumerate(rows) if words[place] == word]
        text = "".join(pair.target[rows[nth]] for nth in places).lstrip("▁")
        start, end = begins[places[0]], begins[places[-1] + 1]
        found.append(Timed(text, seconds * float(start), seconds * float(end)))
    return found


def median_filter(values: np.ndarray, width: int) -> np.ndarray:
    """The median over so many values along the last axis, whose ends are reflected."""
    half = width // 2
    if values.shape[-1] <= half:
        return values
    padded = np.pad(values, [(0, 0)] * (values.ndim - 1) + [(half, half)], mode="reflect")
    return np.median(np.lib.stride_tricks.sliding_window_view(padded, width, axis=-1), axis=-1)


def warped(scores: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Dynamic time warping: the path of the largest sum, from the first corner to the last.

    Each step goes to the next row, to the next column, or to both. Sakoe and Chiba 1978.

    Args:
      scores: [T, S].

    Returns:
      The rows and the columns of the path.
    """
    rows, columns = scores.shape
    best = np.full((rows + 1, columns + 1), -np.inf)
    best[0, 0] = 0
    moves = np.zeros((rows, columns), int)
    for row in range(rows):
        for column in range(columns):
            from_ = best[row, column], best[row, column + 1], best[row + 1, column]
            moves[row, column] = int(np.argmax(from_))
            best[row + 1, column + 1] = max(from_) + scores[row, column]
    path = [(rows - 1, columns - 1)]
    while path[-1] != (0, 0):
        row, column = path[-1]
        move = moves[row, column]
        path.append((row - (move != 2), column - (move != 1)))
    found = np.array(path[::-1])
    return found[:, 0], found[:, 1]
