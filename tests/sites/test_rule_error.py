"""Sums in place of rows: training notices where they are too coarse, and mends it."""

from dataclasses import replace

import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning

from asvgp import Bernoulli, Constant, Gamma, GPRegressor, Matern32, Poisson
from asvgp.estimators import families
from asvgp.policies import SITES
from asvgp.sites.readings import NodeReading, RowReading
from tests.interrupted import interrupted_climbs

KERNEL = Matern32(5.0, 1.0) + Constant()


def rows(family, n=5000):
    rng = np.random.default_rng(0)
    x = rng.uniform(0.0, 100.0, n)
    return x, family.sample(0.5 + np.sin(x), rng)


@pytest.mark.parametrize("family", [Poisson(), Bernoulli(), Gamma(2.0)], ids=repr)
@pytest.mark.parametrize("basis", [40, 60, 100, 200])
def test_the_estimate_is_above_the_error(family, basis, monkeypatch):
    monkeypatch.setattr("asvgp.estimators.families.SITES", replace(SITES, most_rule_error=np.inf))
    x, y = rows(family)
    settings = {"num_basis": basis, "likelihood": family, "optimizer": None}
    gp = GPRegressor(KERNEL, **settings).fit(x, y)
    data, posterior = gp._fit_data(), gp.posterior_
    observed = data.rows(x, y).observed
    readings = (
        NodeReading(data.structure, data.stats),
        RowReading(data.structure, lambda: (observed,), len(y)),
    )
    nodes, exact = (r.found(family, posterior, posterior.engine.statistics).value for r in readings)
    assert abs(nodes - exact) < gp.optimization_.rule_error
    assert basis < 200 or gp.optimization_.rule_error < 0.01


@pytest.mark.parametrize("optimizer", [None, "lbfgs"])
def test_rows_are_read_where_sums_are_too_coarse(optimizer, monkeypatch):
    x, y = rows(Poisson())
    settings = {"num_basis": 40, "likelihood": Poisson(), "optimizer": optimizer}
    gp = GPRegressor(KERNEL, **settings).fit(x, y)
    assert gp.optimization_.reads > 1
    assert gp.optimization_.rule_error == 0.0
    data, posterior = gp._fit_data(), gp.posterior_
    observed = data.rows(x, y).observed
    exact = RowReading(data.structure, lambda: (observed,), len(y))
    found = exact.found(Poisson(), posterior, posterior.engine.statistics)
    assert gp.elbo_ == pytest.approx(found.value - posterior.factored.divergence(), abs=1e-3)
    monkeypatch.setattr("asvgp.estimators.families.SITES", replace(SITES, most_rule_error=np.inf))
    wrong = GPRegressor(KERNEL, **settings).fit(x, y)
    assert wrong.optimization_.reads == 1
    assert abs(wrong.elbo_ - gp.elbo_) > 0.1


def test_rows_are_looked_at_once_where_sums_will_do():
    x, y = rows(Poisson())
    gp = GPRegressor(KERNEL, num_basis=60, likelihood=Poisson(), optimizer=None).fit(x, y)
    assert gp.optimization_.reads == 2
    assert 0.0 < gp.optimization_.rule_error < 0.01


def test_finer_sums_are_taken_where_there_are_such(monkeypatch):
    x, y = rows(Poisson())
    monkeypatch.setattr("asvgp.sites.cells.SITES", replace(SITES, most_cells=64))
    readings, fit_reading = [], families.fit_reading

    def noted(settings, structure, family, stats, reading, *beside):
        readings.append(reading)
        return fit_reading(settings, structure, family, stats, reading, *beside)

    monkeypatch.setattr(families, "fit_reading", noted)
    gp = GPRegressor(KERNEL, likelihood=Poisson(), optimizer=None).fit(x, y)
    first, second = (reading.stats.grid.cells for reading in readings)
    assert first == 64
    assert second > 2 * first
    assert gp.optimization_.reads == 1
    assert gp.optimization_.rule_error < 0.01


@pytest.mark.parametrize("instead", ["rows", "finer sums"])
def test_no_training_follows_ctrl_c_where_sums_are_too_coarse(instead, monkeypatch):
    climbs = interrupted_climbs(monkeypatch)
    monkeypatch.setattr("asvgp.sites.cells.SITES", replace(SITES, most_cells=64))
    x, y = rows(Poisson())
    settings = {"num_basis": 40 if instead == "rows" else "auto", "likelihood": Poisson()}
    with pytest.warns(ConvergenceWarning, match="interrupted; the best state so far is kept"):
        gp = GPRegressor(KERNEL, **settings).fit(x, y)
    assert len(climbs) == 1
    assert gp.optimization_.interrupted
    assert (gp.optimization_.reads > 1) == (instead == "rows")
    assert gp.optimization_.rule_error < 0.01  # mended all the same


def test_a_note_says_so_where_rows_are_gone():
    x, y = rows(Poisson())
    gp = GPRegressor(KERNEL, num_basis=40, likelihood=Poisson(), domain=(0.0, 100.0))
    for part in np.array_split(np.arange(len(y)), 2):
        gp.partial_fit(x[part], y[part])
    with pytest.warns(UserWarning, match=r"may be wrong by up to [0-9.]+ nats"):
        gp.predict(x[:3])


@pytest.mark.parametrize("family", [Poisson(), Bernoulli(), Gamma(2.0)], ids=repr)
def test_wider_cells_say_the_same_of_a_posterior_that_has_few(family):
    x, y = rows(family)
    gp = GPRegressor(KERNEL, likelihood=family, optimizer=None).fit(x, y)
    data, posterior = gp._fit_data(), gp.posterior_
    like = posterior.engine.statistics
    every = NodeReading(data.structure, data.stats, per_cell=None)
    reading = NodeReading(data.structure, data.stats)
    wider = reading.suited(like.grids).stats.grid.cells
    assert SITES.rule_cells * like.grid.cells <= wider < data.stats.grid.cells
    assert every.suited(like.grids) is every
    found, exact = (each.found(family, posterior, like) for each in (reading, every))
    assert found.value == pytest.approx(exact.value, abs=1e-6)
    assert found.sites.moments == pytest.approx(exact.sites.moments, abs=1e-6)
    assert found.sites.targets == pytest.approx(exact.sites.targets, abs=1e-6)
    fine = reading.found(family, posterior, data.stats).sites  # where the sites need the cells
    assert fine.grid == data.stats.grid
    assert fine.moments == pytest.approx(every.found(family, posterior, data.stats).sites.moments)
