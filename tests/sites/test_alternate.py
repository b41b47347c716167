"""Rounds of training: they rise, and end where the settled bound has no gradient left."""

from __future__ import annotations

import numpy as np
import pytest

from asvgp import (
    Bernoulli,
    Constant,
    Gamma,
    GPRegressor,
    Linear,
    Matern,
    Matern32,
    NegativeBinomial,
    Poisson,
)
from asvgp.sites.alternate import Numbers
from asvgp.sites.readings import NodeReading, RowReading
from asvgp.sites.settle import settle

RNG = np.random.default_rng(2)
FAMILIES = [Poisson(), Bernoulli(), Gamma(), NegativeBinomial()]


def problem(family, inputs):
    """Return a kernel, X and y of a family."""
    X = RNG.uniform(0.0, 10.0, (400, inputs))
    f = np.sin(X[:, 0]) + (np.cos(X[:, 1]) if inputs > 1 else 0.0)
    y = family.with_values([2.0] * len(family.parameters)).sample(f, np.random.default_rng(3))
    kernel = Matern32(dim=0) * Matern32(dim=1) if inputs > 1 else Matern32()
    return kernel + Constant(), X if inputs > 1 else X[:, 0], y


@pytest.mark.parametrize("inputs", [1, 2])
@pytest.mark.parametrize("family", FAMILIES, ids=repr)
def test_rounds_rise_to_where_no_gradient_is_left(family, inputs):
    kernel, X, y = problem(family, inputs)
    gp = GPRegressor(kernel, num_basis=60 if inputs == 1 else 12, likelihood=family).fit(X, y)
    report, data, posterior = gp.optimization_, gp._fit_data(), gp.posterior_
    assert report.converged
    assert np.all(np.diff(report.trace) >= -1e-6)
    assert gp.elbo_ >= report.trace[-1] - 1e-6
    reading = NodeReading(data.structure, data.stats)
    if not data.summed:
        reading = RowReading(data.structure, lambda: (data.rows(X, y).observed,), len(y))
    names = [name for name in posterior.kernel.parameters if name not in posterior.kernel.fixed]
    numbers = len(gp.likelihood_.parameters)

    def reached(shift):
        values = dict(zip(posterior.kernel.parameters, posterior.kernel.values, strict=True))
        moved = {name: values[name] * np.exp(s) for name, s in zip(names, shift, strict=False)}
        other = gp.likelihood_.with_values(gp.likelihood_.values * np.exp(shift[len(names) :]))
        there = posterior.kernel.replace_free(moved)
        return settle(reading, other, posterior, there, posterior.engine.statistics).bound

    for i in range(len(names) + numbers):
        shift = 0.1 * (np.arange(len(names) + numbers) == i)
        low, middle, high = reached(-shift), reached(0.0 * shift), reached(shift)
        assert middle > max(low, high) - 1e-3
        # the top of the parabola through the three is no higher than what training tolerates
        bend = 2.0 * middle - low - high
        if bend > 1e-3:
            assert (high - low) ** 2 / (8.0 * bend) < 5e-3


def test_all_counts_zero_settle_in_few_steps():
    x = np.linspace(0.0, 1.0, 100)
    gp = GPRegressor(Matern32() + Constant(), num_basis=30, likelihood=Poisson())
    with pytest.warns(UserWarning, match="All y are alike"):
        gp.fit(x, np.zeros(100))
    assert gp.optimization_.steps <= 25
    assert np.all(gp.predict(x) < 0.05)


@pytest.mark.parametrize(
    "kernel", [Matern32(2.0, dim=0) * Matern32(5.0, dim=1), Matern(1, 2.0, dim=(0, 1))]
)
def test_divergences_read_off_variances_are_those_of_the_gradient(kernel):
    _, X, y = problem(Poisson(), 2)
    gp = GPRegressor(kernel + Linear(0) + Constant(), num_basis=9, likelihood=Poisson())
    factored = gp.set_params(optimizer=None).fit(X, y).posterior_.factored
    forms = factored.forms()
    expected = 0.5 * (factored.gained + forms.energy - forms.freedom)
    assert factored.divergence() == pytest.approx(expected, rel=1e-9)


def test_slopes_that_are_not_finite_move_no_number():
    numbers, family = (
        Numbers.of(NegativeBinomial(2.0, free=("dispersion",)), 100),
        NegativeBinomial(),
    )
    numbers.learn(family, np.array([3.0]))
    numbers.learn(family.with_values([1.5]), np.array([np.nan]))
    assert numbers.moved(family, np.array([np.inf])) is family
    moved = numbers.moved(family, np.array([3.0]))
    assert moved.number("dispersion") > family.number("dispersion")
