"""A translation that knows its source, and shows itself in a notebook.

Figures are drawn by modules that are imported when first needed, since translating does without.
"""

from __future__ import annotations

import dataclasses
import os
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from attn_jax.data.sentences import Sentence
from attn_jax.tokens import written

if TYPE_CHECKING:
    from attn_jax.drawing.document import Page
    from attn_jax.drawing.style import Picture


@dataclasses.dataclass(frozen=True, eq=False)
class Hypothesis:
    """A translation, and what the model attended to at each token."""

    text: str
    tokens: list[str]  # as predicted; in the text, source words may replace `<unk>`
    log_probability: float  # of the tokens and the end of the sentence, in nats
    score: float  # by which a search ranks the hypotheses of a sentence
    # [L, N, T, S], for each layer and head; T includes the end of the sentence.
    weights: np.ndarray = dataclasses.field(repr=False)
    source: Sentence = dataclasses.field(repr=False)  # of S tokens

    @property
    def alignment(self) -> np.ndarray:
        """The mean of the weights over layers and heads, [T, S]."""
        return self.weights.mean(axis=(0, 1))

    @property
    def steps(self) -> list[str]:
        """The T tokens, with the end of the sentence."""
        return written(self.tokens, self.weights.shape[2])

    def heat_map(self) -> Picture:
        """The alignment as a figure, target tokens down and source tokens across."""
        from attn_jax.drawing.alignments import heat_map

        return heat_map(self.alignment, self.source.tokens, self.steps)

    def bars(self) -> Picture:
        """The alignment as a figure with a bar chart for each step."""
        from attn_jax.drawing.alignments import step_bars

        return step_bars(self.alignment, self.source.tokens, self.steps)

    def heads(self) -> Picture:
        """The weights of each layer and head as a figure, layers down and heads across."""
        from attn_jax.drawing.heads import heads

        return heads(self.weights, self.source.tokens, self.steps)

    def page(self, path: str | os.PathLike[str]) -> Page:
        """Writes an HTML file that shows what each token looks at, in a browser, without a network.

        What is returned shows itself in a notebook.

        Args:
          path: of the file, which is replaced if it exists.
        """
        from attn_jax.drawing.viewer import write_viewer
        from attn_jax.pairs import Weighed

        pair = Weighed(self.source.tokens, self.steps, self.weights)
        return write_viewer(Path(path), [(self.source.text, self.text)], {"": [pair]})

    def _repr_html_(self) -> str:
        from attn_jax.drawing.hover import hover

        texts = {"source": self.source.text, "translation": self.text}
        return hover(texts, self.alignment, self.source.tokens, self.steps)
