"""Weights as the page holds them: 8 bits each, compressed."""

import base64
import zlib
from typing import Any

import numpy as np

LEVELS = 255  # of weights that are not negative
SIGNED_LEVELS = 127  # of each sign
RAW = -15  # deflate without a header, which browsers call `deflate-raw`


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
