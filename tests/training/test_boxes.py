"""Boxes of a field to train on."""

from __future__ import annotations

import numpy as np
import pytest

from asvgp import Constant, GPRegressor, Linear, Matern12, Matern32
from asvgp.basis import Grid
from asvgp.model.levels import levels_by_data
from asvgp.model.plan import Plan
from asvgp.statistics import Statistics
from asvgp.training.boxes import boxes

KERNEL = Matern32(6.0, dim=0) * Matern32(6.0, dim=1) + Constant()
CELLS = 256


def _plan(grids) -> Plan:
    return Plan((0, 1), grids, (2, 2), (0,), ((2, 2),), ((0, 0),), effects=1)


@pytest.fixture(scope="module")
def field():
    rng = np.random.default_rng(0)
    x = np.stack(np.indices((CELLS, CELLS)), axis=-1).reshape(-1, 2) + 0.5
    x = x + rng.uniform(-0.4, 0.4, x.shape)
    keep = rng.uniform(size=len(x)) < 0.8
    x = x[keep]
    y = np.sin(0.1 * x[:, 0]) + 0.1 * rng.standard_normal(len(x))
    grids = (Grid(0.0, float(CELLS), CELLS),) * 2
    stats = Statistics.from_data(x, y, grids, (2, 2), covariates=np.ones((len(x), 1)))
    return x, y, stats


def test_a_box_has_the_statistics_of_its_data(field):
    x, y, stats = field
    parts = boxes(KERNEL, _plan(stats.grids), stats, (1, 1))
    assert len(parts) >= 2
    weights = stats.cell_weights
    for part in parts:
        # find it by its weights, then accumulate its data alone
        side = part.grids[0].cells
        corners = [
            (a, b)
            for a in range(0, CELLS - side + 1, 16)
            for b in range(0, CELLS - side + 1, 16)
            if np.array_equal(weights[a : a + side, b : b + side], part.cell_weights)
        ]
        assert len(corners) == 1
        own = x - np.array(corners[0])
        inside = np.all((own >= 0.0) & (own < side), axis=1)
        alone = Statistics.from_data(
            x[inside],
            y[inside],
            part.grids,
            (2, 2),
            covariates=np.ones((int(inside.sum()), 1)),
        )
        assert part.count == alone.count
        for name in ("moments", "targets", "cross", "column_gram", "column_targets", "squares"):
            np.testing.assert_allclose(getattr(part, name), getattr(alone, name), atol=1e-9)


def test_no_boxes_of_what_is_small_or_has_other_columns(field):
    _, _, stats = field
    assert boxes(KERNEL, _plan(stats.grids), stats, (4, 4)) == []
    other = Matern32(6.0, dim=0) * Matern32(6.0, dim=1) + Linear(2)
    assert boxes(other, _plan(stats.grids), stats, (1, 1)) == []


def test_cells_are_not_finer_than_gridded_data():
    grids = Grid(0.0, 99.0, 512), Grid(0.0, 1.0, 128)
    x = np.stack([np.repeat(np.arange(100.0), 100), np.tile(np.linspace(0, 1, 100), 100)], axis=1)
    stats = Statistics.from_data(x, x[:, 0], grids, (2, 2))
    moments = [stats.moments[:, :, :, 0].sum(axis=1), stats.moments[:, :, 0].sum(axis=0)]
    kernel = Matern32(6.0, dim=0) * Matern32(0.1, dim=1)
    plan = Plan((0, 1), grids, (2, 2), (0,), ((2, 2),), ((0, 0),))
    assert levels_by_data(kernel, plan, moments, stats.count) == (2, 0)


def test_a_large_field_is_trained_on_boxes_and_then_as_a_whole(field):
    x, y, _ = field
    kernel = (
        Matern32(30.0, dim=0) * Matern32(30.0, dim=1)
        + Matern12(5.0, dim=0) * Matern12(5.0, dim=1)
        + Constant()
    )
    gp = GPRegressor(kernel, objective="evidence").fit(x, y)
    assert gp.optimization_.converged
    assert 0.005 < gp.noise_variance_ < 0.015
    truth = np.sin(0.1 * x[:, 0])
    assert np.sqrt(np.mean((gp.predict(x) - truth) ** 2)) < 0.03
