"""Files and folders of them."""

from __future__ import annotations

from asvgp.io.roles import Roles
from asvgp.io.source import Source


def open_source(data, roles: Roles) -> Source | None:
    """A source for paths."""
    return None
