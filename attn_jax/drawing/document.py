"""A page as one file, with nothing to be fetched, and how much it may hold."""

import base64
import dataclasses
import hashlib
import html
import string
import zlib
from importlib import resources
from pathlib import Path
from typing import Any

import numpy as np

from attn_jax.errors import InputError
from attn_jax.records import strict_json

STATIC = resources.files(__package__) / "static"
# In this order they are one script: an earlier one must not run what a later one defines.
SCRIPTS = (
    "elements.js",
    "scale.js",
    "memory.js",
    "data.js",
    "forest.js",
    "tables.js",
    "curves.js",
    "lines.js",
    "grid.js",
    "panel.js",
    "viewer.js",
    "errors.js",
    "main.js",
)
LIBRARY = "uPlot.iife.min.js"
LEVELS = 255  # of weights that are not negative
SIGNED_LEVELS = 127  # of each sign
RAW = -15  # deflate without a header, which browsers call `deflate-raw`


def document(title: str, data: dict[str, Any]) -> str:
    """The HTML of a page.

    Its policy lets a browser run no script but those written here, and load nothing.

    Args:
      title: of the window.
      data: what `main.js` shows. All text in it stays text: it is compressed here, and the scripts
        never make HTML of it.
    """
    scripts = _read(LIBRARY), "\n".join(map(_read, SCRIPTS))
    hashes = " ".join(
        f"'sha256-{base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()}'"
        for script in scripts
    )
    text = strict_json.dumps(data, ensure_ascii=False, separators=(",", ":"))
    return string.Template(_read("page.html")).substitute(
        title=html.escape(title),
        policy=f"default-src 'none'; img-src data:; style-src 'unsafe-inline'; script-src {hashes}",
        licence=_read("uPlot.LICENSE"),
        style=_read("uPlot.min.css") + _read("page.css"),
        library=scripts[0],
        script=scripts[1],
        data=base64.b64encode(zlib.compress(text.encode("utf-8", "replace"), 9, RAW)).decode(),
    )


@dataclasses.dataclass(frozen=True)
class Page:
    """A page that was written to a file. It shows itself in a notebook, as a frame."""

    path: Path

    def _repr_html_(self) -> str:
        text = html.escape(self.path.read_text("utf-8"))
        return (
            f'<iframe srcdoc="{text}" title="{self.path.name}" width="100%" height="700"></iframe>'
        )


def _read(name: str) -> str:
    return (STATIC / name).read_text("utf-8")


def packed(weights: np.ndarray) -> dict[str, Any]:
    """Weights of any shape, as text.

    A code is the square root of a weight, as is a shade, so that soft weights over many positions
    keep their size. Of weights up to 1, none is off by more than 0.004, and one of 0.01 by 0.0004;
    with negative ones, twice that.

    Returns:
      `data`, base64 of the codes, compressed; `peak`, the weight of the largest code; and `signed`,
      whether a code is a number from -127 to 127 rather than from 0 to 255.
    """
    finite = np.nan_to_num(weights.astype(float), posinf=0, neginf=0)
    peak, signed = max(1.0, float(np.abs(finite).max())), bool(finite.min() < 0)
    roots = np.sign(finite) * np.sqrt(np.abs(finite) / peak)
    codes = np.rint(roots * (SIGNED_LEVELS if signed else LEVELS))
    squeezed = zlib.compress(codes.astype(np.int8 if signed else np.uint8).tobytes(), 9, RAW)
    return {"data": base64.b64encode(squeezed).decode(), "peak": peak, "signed": signed}


@dataclasses.dataclass(frozen=True)
class Limits:
    """The most that a page holds.

    Args:
      sentences: of each split, those on which systems differ most.
      systems: how many systems, best first, and the baseline, have all their layers and heads in
        the page; others have the mean.
      megabytes: of all weights; texts and tables come on top, a tenth to a quarter of that.

    Raises:
      InputError: a limit is too low.
    """

    sentences: int = 64
    systems: int = 3
    megabytes: float = 8

    def __post_init__(self):
        for name, least in (("sentences", 1), ("systems", 0), ("megabytes", 0)):
            value = getattr(self, name)
            if not value >= least:
                raise InputError(f"page_{name} must be at least {least}, got {value}")


class Room:
    """The bytes that are left for weights in one page."""

    def __init__(self, limits: Limits):
        self.left = 1e6 * limits.megabytes
        self.left_out = 0  # arrays for which there was no room

    def take(self, weights: np.ndarray) -> dict[str, Any] | None:
        """Packed weights; None if there is no room for them, nor then for any later ones."""
        text = None if self.left_out else packed(weights)
        if text is None or len(text["data"]) > self.left:
            self.left_out += 1
            return None
        self.left -= len(text["data"])
        return text
