"""Boxes of a large field, side by side, to train a likelihood on first."""

from contextlib import nullcontext
from dataclasses import replace

import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning

from asvgp import Bernoulli, Constant, GPRegressor, Linear, Matern32
from asvgp.basis import Grid
from asvgp.policies import SITES
from asvgp.sites import train
from asvgp.sites.excerpt import excerpt, side_by_side
from asvgp.statistics import Statistics

KERNEL = Matern32(1.0, dim=0) * Matern32(1.0, dim=1) + Constant()


def test_boxes_side_by_side_have_the_sums_of_rows_that_were_moved_there():
    rng = np.random.default_rng(0)
    parts, X, y = [], [], []
    for place in range(3):
        x = rng.uniform(0.0, 4.0, (200, 2))
        z = rng.standard_normal(200)
        grids = (Grid(0.0, 4.0, 4), Grid(0.0, 4.0, 4))
        parts.append(Statistics.from_data(x, z, grids, (2, 2), covariates=np.ones((200, 1))))
        X.append(x + np.array([place * 6.0, 0.0]))
        y.append(z)
    X, y = np.concatenate(X), np.concatenate(y)
    grids = (Grid(0.0, 16.0, 16), Grid(0.0, 4.0, 4))
    moved = Statistics.from_data(X, y, grids, (2, 2), covariates=np.ones((600, 1)))
    joined = side_by_side(parts, moved, gap=2)
    assert joined.grids == moved.grids
    assert joined.count == moved.count
    for name in ("moments", "targets", "cross", "column_gram", "column_targets", "squares"):
        np.testing.assert_allclose(getattr(joined, name), getattr(moved, name), atol=1e-9)


@pytest.fixture(scope="module")
def coast():
    rng = np.random.default_rng(1)
    X = rng.uniform(0.0, 10.0, (8000, 2))
    f = 3.0 * np.sin(2.0 * X[:, 0]) + 3.0 * np.cos(1.7 * X[:, 1])
    return X, (rng.random(len(X)) < 1.0 / (1.0 + np.exp(-f))).astype(float)


def test_boxes_tell_nearly_the_same_as_the_whole_field(coast, monkeypatch):
    X, y = coast
    settings = {"num_basis": 44, "likelihood": Bernoulli()}
    whole = GPRegressor(KERNEL, **settings).fit(X, y)
    small = replace(SITES, boxes=2, box_sides=(0, 0, 16, 8, 4))
    monkeypatch.setattr("asvgp.sites.excerpt.SITES", small)
    cut = []

    def noted(*given):
        cut.append(excerpt(*given))
        return cut[-1]

    monkeypatch.setattr("asvgp.estimators.families.excerpt", noted)
    quick = GPRegressor(KERNEL, **settings).fit(X, y)
    assert [part.weight < 0.5 * len(y) for part in cut] == [True]
    assert quick.elbo_ == pytest.approx(whole.elbo_, abs=1e-3 * len(y))
    difference = quick.predict(X[:500]) - whole.predict(X[:500])
    assert np.sqrt(np.mean(difference**2)) < 0.02


@pytest.mark.parametrize("interrupted", [False, True])
def test_sites_of_a_whole_field_come_most_of_the_way_on_wider_cells(
    coast, interrupted, monkeypatch
):
    """After Ctrl-C, too: sites have as far to go, and all of the way would take longer."""
    small = replace(SITES, boxes=2, box_sides=(0, 0, 16, 8, 4))
    monkeypatch.setattr("asvgp.sites.excerpt.SITES", small)
    settled, settle, climbs = [], train.settle, []

    def noted(reading, family, before, *given, **settings):
        found = settle(reading, family, before, *given, **settings)
        settled.append((before.engine.size, found.steps))
        return found

    def struck(*_):
        climbs.append(1)
        raise KeyboardInterrupt

    monkeypatch.setattr(train, "settle", noted)
    if interrupted:
        monkeypatch.setattr("asvgp.training.optimise._limited", struck)
    fixed = {"fixed": ("lengthscale",)}
    kernel = Matern32(1.0, dim=0, **fixed) * Matern32(1.0, dim=1, **fixed) + Constant()
    gp = GPRegressor(kernel, num_basis=44, likelihood=Bernoulli())
    with pytest.warns(ConvergenceWarning, match="interrupted") if interrupted else nullcontext():
        gp.fit(*(rows[:2000] for rows in coast))
    assert gp.optimization_.interrupted == interrupted
    assert len(climbs) == interrupted  # that on boxes
    whole = gp.posterior_.engine.size
    place = [size for size, _ in settled].index(whole)
    (functions, before), (_, there) = settled[place - 1 : place + 1]
    assert whole / 5 < functions < whole / 3
    assert there < before


def test_small_fields_and_effects_of_columns_have_no_boxes(coast, monkeypatch):
    monkeypatch.setattr("asvgp.sites.excerpt.SITES", replace(SITES, boxes=2))
    for kernel, basis in ((KERNEL, 20), (KERNEL + Linear(dim=0), 44)):
        settings = {"num_basis": basis, "likelihood": Bernoulli(), "optimizer": None}
        gp = GPRegressor(kernel, **settings).fit(*(rows[:500] for rows in coast))
        data = gp._fit_data()
        plan = data.structure.plan(gp._settings(), data.stats)
        assert excerpt(data.structure.layout.kernel, plan, data.stats) is None
