"""Cells that training with sites begins on: a few for every row, and no fewer places apart."""

from dataclasses import replace

import numpy as np
import pytest

from asvgp import Constant, GPRegressor, Matern32, StudentT
from asvgp.estimators import families
from asvgp.policies import SITES


def joined(monkeypatch, x, **settings):
    """Return the cells of the data, and those that training has got, with the rows it reads."""
    seen = []

    def watched(settings, structure, stats, rows=0):
        found = workable(settings, structure, stats, rows)
        seen.append((stats, found, rows))
        return found

    workable = families.workable
    monkeypatch.setattr(families, "workable", watched)
    y = np.sin(x) + 0.1 * np.random.default_rng(1).standard_t(4.0, len(x))
    kernel = Matern32(1.0) + Constant()
    GPRegressor(kernel, optimizer=None, likelihood=StudentT(4.0, 0.1), **settings).fit(x, y)
    return seen


@pytest.fixture
def few(monkeypatch):
    """Let cells of so few rows be joined that tests are quick."""
    monkeypatch.setattr("asvgp.sites.cells.SITES", replace(SITES, most_cells=256))


def test_rows_get_a_few_cells_each(monkeypatch, few):
    x = np.linspace(0.0, 10.0, 200) + np.random.default_rng(0).uniform(0.0, 0.01, 200)
    ((stats, found, rows),) = joined(monkeypatch, x)
    assert rows == 200
    assert stats.grid.cells > 4 * rows
    assert 2 * rows < found.grid.cells <= SITES.cells_per_row * rows
    assert found.weight == pytest.approx(stats.weight)


def test_places_that_wide_cells_would_join_stay_apart(monkeypatch, few):
    rng = np.random.default_rng(0)
    x = np.concatenate([rng.uniform(0.0, 0.02, 150), rng.uniform(9.98, 10.0, 150)])
    ((stats, found, rows),) = joined(monkeypatch, x)
    before, after = (np.count_nonzero(each.cell_weights) for each in (stats, found))
    assert stats.grid.cells > SITES.cells_per_row * rows
    assert after >= SITES.still_apart * before
    wider = found.coarsen()
    assert np.count_nonzero(wider.cell_weights) < SITES.still_apart * before


def test_functions_that_were_asked_for_are_kept(monkeypatch, few):
    x = np.random.default_rng(0).uniform(0.0, 10.0, 100)
    ((stats, found, _),) = joined(monkeypatch, x, num_basis=2000)
    assert found is stats
    assert found.grid.cells > SITES.cells_per_row * len(x)
