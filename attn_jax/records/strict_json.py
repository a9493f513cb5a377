"""JSON that every program reads: a number that is not finite, which JSON cannot hold, is null."""

import math
from typing import Any

import msgspec


def dumps(value: Any, indent: int = -1) -> str:
    """JSON of a value: on one line, or indented by so many spaces."""
    return msgspec.json.format(msgspec.json.encode(value), indent=indent).decode()


def loads(text: str | bytes) -> Any:
    """Measurements that `dumps` wrote, with infinity for null, such as a perplexity beyond floats.

    Raises:
      msgspec.DecodeError: the text is not JSON.
    """
    return _measured(msgspec.json.decode(text))


def _measured(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: math.inf if part is None else _measured(part) for name, part in value.items()}
    return list(map(_measured, value)) if isinstance(value, list) else value
