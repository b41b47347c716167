"""Ctrl-C where training climbs."""

import pytest


def interrupted_climbs(monkeypatch: pytest.MonkeyPatch) -> list[None]:
    """Let Ctrl-C strike as soon as a climb begins; return a list with an entry for each."""
    climbs: list[None] = []

    def struck(*_):
        climbs.append(None)
        raise KeyboardInterrupt

    for name in ("_limited", "_whole"):
        monkeypatch.setattr(f"asvgp.training.optimise.{name}", struck)
    return climbs
