"""Steps to the sites of a likelihood, whose cells have a pace of their own."""

from dataclasses import replace

import numpy as np
import pytest

from asvgp import Bernoulli, Constant, GPRegressor, Matern32
from asvgp.policies import SITES
from asvgp.sites.pace import Pace, of_cells
from asvgp.sites.readings import NodeReading, blended
from asvgp.sites.settle import settle
from asvgp.statistics.combining import SUMS

KERNEL = Matern32(0.3, 200.0, dim=0) * Matern32(0.3, dim=1) + Constant()


@pytest.fixture(scope="module")
def coast():
    """Two sides of a line, which can be told apart, with a reading and first sites."""
    rng = np.random.default_rng(0)
    X = rng.uniform(0.0, 1.0, (2000, 2))
    y = (X[:, 0] + 0.2 * np.sin(9.0 * X[:, 1]) > 0.6).astype(float)
    gp = GPRegressor(KERNEL, num_basis=14, likelihood=Bernoulli(), optimizer=None).fit(X, y)
    data = gp._fit_data()
    return gp, NodeReading(data.structure, data.stats)


def _sites(coast):
    gp, reading = coast
    posterior = gp.posterior_
    like = posterior.engine.statistics
    first = reading.begin(Bernoulli(), like)
    return posterior.anew(posterior.kernel, posterior.likelihood, first), first


def test_one_share_of_all_cells_is_that_of_all_sums(coast):
    posterior, old = _sites(coast)
    new = coast[1].found(Bernoulli(), posterior, old).sites
    assert of_cells(old)
    pace = Pace(shares=np.full(old.cell_weights.shape, 0.4))
    mixed, plain = pace.towards(old, new), blended(old, new, 0.4)
    for name in SUMS:
        np.testing.assert_allclose(getattr(mixed, name), getattr(plain, name), rtol=1e-9, atol=1e-9)


def test_no_weight_becomes_negative_by_a_long_step(coast):
    _, old = _sites(coast)
    new = replace(old, moments=0.05 * old.moments, targets=0.05 * old.targets)
    pace = Pace(shares=np.full(old.cell_weights.shape, SITES.longest_share))
    weights = pace.towards(old, new).cell_weights
    farther = old.cell_weights + SITES.longest_share * (new.cell_weights - old.cell_weights)
    assert farther.min() < 0.0 <= weights.min()


def test_cells_settle_where_one_pace_does_in_fewer_steps(coast):
    posterior, first = _sites(coast)
    found = [
        settle(coast[1], Bernoulli(), posterior, posterior.kernel, first, 0.05, pace=pace)
        for pace in (Pace(), Pace(by_cells=False))
    ]
    assert all(each.converged for each in found)
    assert found[0].steps <= found[1].steps
    assert found[0].bound == pytest.approx(found[1].bound, abs=0.5)
