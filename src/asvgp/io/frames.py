"""Data frames and Arrow tables in memory."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from asvgp.io.roles import Roles
from asvgp.io.source import Source


def open_source(data, roles: Roles) -> Source | None:
    """A source for frames and tables."""
    return None


def frame_columns(item) -> Mapping[str, Any]:
    """Columns of a frame by name."""
    names = [str(name) for name in item.columns]
    if hasattr(item, "iloc"):
        return {name: item.iloc[:, i] for i, name in enumerate(names)}
    return {name: item.to_series(i) for i, name in enumerate(names)}
