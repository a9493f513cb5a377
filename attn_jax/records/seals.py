"""Digests of JSON that are written into it, so that not even a digit changes in silence."""

import hashlib
import json
import re
from typing import Any

from attn_jax.errors import InputError
from attn_jax.records import strict_json

DIGEST = "digest"
LENGTH = 16  # hexadecimal digits


def sealed(content: dict[str, Any]) -> dict[str, Any]:
    """A table, as JSON will give it back, with its digest."""
    return content | {DIGEST: _digest(content)}


def opened(content: Any, where: str, advice: str = "") -> Any:
    """A table without its digest; one that was written by hand has none.

    Args:
      content: as JSON gave it.
      where: what an error names.
      advice: what follows in the error message.

    Raises:
      InputError: the table has changed since it was written.
    """
    if not isinstance(content, dict):
        return content
    known = {name: value for name, value in content.items() if name != DIGEST}
    if DIGEST in content:
        whole = content[DIGEST] == _digest(known)
    else:  # a digest without its name is one whose name has changed
        whole = not any(map(_is_digest, content.values()))
    if not whole:
        raise InputError(f"{where} is damaged: it has changed{advice}")
    return known


def dumps(record: dict[str, Any], **layout: Any) -> str:
    """Strict JSON of measurements, with its digest; `layout` is what `json.dumps` takes."""
    return json.dumps(sealed(strict_json.plain(record)), **layout)


def loads(text: str, where: str) -> Any:
    """The measurements in JSON that `dumps` wrote; `where` is what an error names.

    Raises:
      json.JSONDecodeError: the text is not JSON.
      InputError: the text has changed since it was written.
    """
    return strict_json.measured(opened(json.loads(text), where))


def _is_digest(value: Any) -> bool:
    return isinstance(value, str) and re.fullmatch(rf"[0-9a-f]{{{LENGTH}}}", value) is not None


def _digest(content: Any) -> str:
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()[:LENGTH]
