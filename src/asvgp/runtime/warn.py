"""Warnings that point at the user's own line, however deep in the library they are raised."""

from __future__ import annotations

import sys
import warnings
from pathlib import Path
from types import FrameType

_PACKAGE = str(Path(__file__).parents[1])


def warn(message: str, category: type[Warning] = UserWarning) -> None:
    """Warn, and name the line that called into this package."""
    frame: FrameType | None = sys._getframe(1)
    level, outermost = 2, 2
    while frame is not None:
        level += 1
        if frame.f_code.co_filename.startswith(_PACKAGE):
            outermost = level  # the caller of this frame
        frame = frame.f_back
    warnings.warn(message, category, stacklevel=outermost)
