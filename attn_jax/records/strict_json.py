"""JSON that every program reads: a number that is not finite, which JSON cannot hold, is null."""

import json
import math
from typing import Any


def dumps(value: Any, **layout: Any) -> str:
    """JSON of a value; `layout` is what `json.dumps` takes."""
    return json.dumps(_finite(value), allow_nan=False, **layout)


def loads(text: str) -> Any:
    """Measurements that `dumps` wrote, with infinity for null, such as a perplexity beyond floats.

    Files of earlier versions hold a bare Infinity or NaN, which are read as they are.

    Raises:
      json.JSONDecodeError: the text is not JSON.
    """
    return json.loads(text, object_hook=_measured)


def _finite(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _finite(part) for name, part in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(part) for part in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def _measured(record: dict[str, Any]) -> dict[str, Any]:
    return {name: math.inf if value is None else value for name, value in record.items()}
