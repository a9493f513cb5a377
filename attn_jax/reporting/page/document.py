"""The page as one file: template, style, scripts and data, with nothing to be fetched."""

import base64
import hashlib
import html
import string
import zlib
from importlib import resources
from typing import Any

from attn_jax.records import strict_json
from attn_jax.reporting.page.weights import RAW

STATIC = resources.files(__package__) / "static"
# In this order they are one script: an earlier one must not run what a later one defines.
SCRIPTS = (
    "elements.js",
    "scale.js",
    "memory.js",
    "data.js",
    "tables.js",
    "curves.js",
    "lines.js",
    "grid.js",
    "panel.js",
    "viewer.js",
    "main.js",
)
LIBRARY = "uPlot.iife.min.js"


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
    text = strict_json.dumps(data)
    return string.Template(_read("page.html")).substitute(
        title=html.escape(title),
        policy=f"default-src 'none'; img-src data:; style-src 'unsafe-inline'; script-src {hashes}",
        licence=_read("uPlot.LICENSE"),
        style=_read("uPlot.min.css") + _read("page.css"),
        library=scripts[0],
        script=scripts[1],
        data=base64.b64encode(zlib.compress(text.encode("utf-8", "replace"), 9, RAW)).decode(),
    )


def _read(name: str) -> str:
    return (STATIC / name).read_text("utf-8")
