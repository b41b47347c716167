"""Default fits of real data predict no worse than they did.

The scores in ``recorded.json`` are those of ``python -m tests.accuracy.cases``. They are compared
with some room, because optimisers end elsewhere on other machines; what a lost season or a poor
optimum costs is many times that.
"""

from __future__ import annotations

import json

import pytest

from tests.accuracy.cases import NAMES, RECORDED, file_of, folder, scores_of

WORSE = 1.05  # errors may be so many times those recorded
FEWER = 0.04  # the share of values inside 95 % bands may be lower by so much
LOWER = 0.02  # the bound may be lower by so many nats per row


@pytest.mark.parametrize("name", NAMES)
def test_default_is_no_worse_than_recorded(name):
    where = folder()
    if where is None or not (where / file_of(name)).exists():
        pytest.skip(f"ASVGP_DATA names no folder with {file_of(name)}")
    before, now = json.loads(RECORDED.read_text())[name], scores_of(name)
    error = "mase" if "mase" in before else "rmse"
    assert set(now) == set(before) == {error, "crps", "coverage", "bound"}
    assert now[error] <= WORSE * before[error]
    assert now["crps"] <= WORSE * before["crps"]
    assert now["coverage"] >= before["coverage"] - FEWER
    assert now["bound"] >= before["bound"] - LOWER


def test_every_case_is_recorded_as_good():
    """A forecast that is recorded beats the seasonal naive one, and its bands hold."""
    recorded = json.loads(RECORDED.read_text())
    assert set(recorded) == set(NAMES)
    for scores in recorded.values():
        assert scores.get("mase", scores.get("rmse")) < 1.0
        assert 0.89 <= scores["coverage"] <= 0.99
