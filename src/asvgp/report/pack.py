"""Arrays as text of a page: little-endian numbers in base64."""

from __future__ import annotations

import json
from base64 import b64encode
from typing import Any

import numpy as np

from asvgp.basis import Array
from asvgp.report.text import Html, safe

MISSING = 65_535  # of whole numbers that stand for no value


def packed(values, dtype: str = "<f4") -> str:
    """Numbers as the scripts of the page read them."""
    return b64encode(np.ascontiguousarray(values, dtype=dtype).tobytes()).decode("ascii")


def scaled(values: Array) -> tuple[float, float]:
    """An offset and a power of two that leave numbers which single precision holds well."""
    known = values[np.isfinite(values)]
    low, high = (float(known.min()), float(known.max())) if len(known) else (0.0, 1.0)
    spread = high - low
    return 0.5 * (low + high), float(2.0 ** np.round(np.log2(spread))) if spread > 0.0 else 1.0


def quantised(values: Array, low: float, high: float) -> str:
    """Numbers between two others, as 16 bits each; those not finite are `MISSING`."""
    step = (high - low) / (MISSING - 1) or 1.0
    with np.errstate(invalid="ignore"):
        steps = np.rint((np.clip(values, low, high) - low) / step)
    return packed(np.where(np.isfinite(values), steps, MISSING), "<u2")


def as_script(content: Any, name: str) -> Html:
    """JSON that a page carries; nothing in it can end the element."""
    text = json.dumps(content, allow_nan=False, separators=(",", ":"))
    for mark in "<>&":
        text = text.replace(mark, f"\\u{ord(mark):04x}")
    return Html(f'<script type="application/json" id="{safe(name)}">{text}</script>')
