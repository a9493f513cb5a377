"""Digests of JSON that are written into it, so that not even a digit changes in silence."""

import hashlib
import re
from typing import Any

from attn_jax.errors import InputError
from attn_jax.records import strict_json

DIGEST = "digest"
LENGTH = 16  # hexadecimal digits


def sealed(content: dict[str, Any]) -> dict[str, Any]:
    """A table with its digest."""
    return content | {DIGEST: _digest(content)}


def opened(content: Any, where: str) -> Any:
    """A table without its digest; tables of earlier versions have none.

    Args:
      content: as it was read.
      where: what an error names.

    Raises:
      InputError: the table has changed since it was written.
    """
    if not isinstance(content, dict):
        return content
    known = {name: value for name, value in content.items() if name != DIGEST}
    # A digest without its name is one whose name has changed.
    lost = DIGEST not in content and any(map(_is_digest, content.values()))
    if lost or content.get(DIGEST, _digest(known)) != _digest(known):
        raise InputError(f"{where} is damaged: it has changed")
    return known


def _is_digest(value: Any) -> bool:
    return isinstance(value, str) and re.fullmatch(rf"[0-9a-f]{{{LENGTH}}}", value) is not None


def _digest(content: Any) -> str:
    text = strict_json.dumps(content, sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:LENGTH]
