"""JSON that every program reads: a number that is not finite, which JSON cannot hold, is null."""

import json
import math
from typing import Any


def dumps(value: Any, **layout: Any) -> str:
    """JSON of a value; `layout` is what `json.dumps` takes."""
    return json.dumps(plain(value), allow_nan=False, **layout)


def loads(text: str | bytes) -> Any:
    """Measurements that `dumps` wrote.

    Raises:
      json.JSONDecodeError: the text is not JSON.
    """
    return measured(json.loads(text))


def plain(value: Any) -> Any:
    """A value as JSON gives it back: with lists for tuples, and None for what is not finite."""
    if isinstance(value, dict):
        return {name: plain(part) for name, part in value.items()}
    if isinstance(value, list | tuple):
        return [plain(part) for part in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def measured(value: Any) -> Any:
    """Measurements with infinity for None, such as a perplexity beyond floats."""
    if isinstance(value, dict):
        return {name: math.inf if part is None else measured(part) for name, part in value.items()}
    return list(map(measured, value)) if isinstance(value, list) else value
