"""Likelihoods that read the rows at every step: a sample first, then few reads of all."""

from dataclasses import replace

import numpy as np
import pytest

from asvgp import Binomial, Constant, GPRegressor, Matern32, NegativeBinomial, Poisson, StudentT
from asvgp.basis import Grid
from asvgp.policies import SITES
from asvgp.sites.readings import Boxes, NodeReading
from asvgp.structures.observed import Observed
from asvgp.structures.structure import Points


def rows(n=9000):
    rng = np.random.default_rng(0)
    x = rng.uniform(0.0, 50.0, n)
    y = 0.7 + np.sin(x) + 0.5 * np.sin(0.13 * x) + 0.3 * rng.standard_t(4.0, n)
    wrong = rng.random(n) < 0.1
    y[wrong] += rng.uniform(5.0, 20.0, np.count_nonzero(wrong))
    return x, y


def test_student_t_reads_all_rows_few_times_and_gets_as_far(monkeypatch):
    x, y = rows()
    settings = {"num_basis": 200, "likelihood": StudentT()}
    few = GPRegressor(Matern32() + Constant(), **settings).fit(x, y)
    assert few.optimization_.reads <= 12
    monkeypatch.setattr("asvgp.estimators.families.SITES", replace(SITES, sample_rows=len(y)))
    many = GPRegressor(Matern32() + Constant(), **settings).fit(x, y)
    assert many.optimization_.reads > 12
    assert few.elbo_ > many.elbo_ - 0.05
    mean, std = few.predict(x, return_std=True, type="link")
    np.testing.assert_allclose(many.predict(x, type="link"), mean, atol=0.05 * std.min())


@pytest.mark.parametrize("seed", [0, 1])
def test_what_a_sample_tells_of_numbers_saves_reads(seed):
    """Without their curvature, both numbers of Student's t together took 15 reads, seed 0."""
    rng = np.random.default_rng(seed)
    x = np.sort(rng.uniform(0.0, 100.0, 10_000))
    y = 0.7 + np.sin(x) + 0.5 * np.sin(0.13 * x) + 0.3 * rng.standard_t(4.0, len(x))
    gp = GPRegressor(Matern32() + Constant(), num_basis=300, likelihood=StudentT(df="auto"))
    report = gp.fit(x, y).optimization_
    assert report.reads <= 12
    assert gp.likelihood_.df == pytest.approx(4.0, rel=0.1)
    assert gp.likelihood_.scale == pytest.approx(0.3, rel=0.05)


def test_weights_and_offsets_are_sampled_with_their_rows():
    rng = np.random.default_rng(1)
    x, exposure = rng.uniform(0.0, 10.0, 14000), rng.uniform(0.5, 2.0, 14000)
    rate = exposure * np.exp(1.0 + np.sin(x)) * rng.gamma(3.0, 1.0 / 3.0, 14000)
    y, weight = rng.poisson(rate).astype(float), rng.integers(0, 3, 14000).astype(float)
    gp = GPRegressor(Matern32() + Constant(), num_basis=60, likelihood=NegativeBinomial())
    gp.fit(x, y, exposure=exposure, sample_weight=weight)
    assert gp.optimization_.reads <= 15
    assert gp._fitted().likelihood.dispersion == pytest.approx(3.0, rel=0.15)
    np.testing.assert_allclose(gp.predict(x, type="link"), 1.0 + np.sin(x), atol=0.3)


@pytest.mark.parametrize("family", [NegativeBinomial(2.0), Binomial()], ids=repr)
def test_boxes_begin_at_weighted_means(family):
    rng, n, along = np.random.default_rng(1), 60, 4
    x = rng.uniform(0.0, 3.0, n)  # none in the last box
    extra, offset = rng.integers(5, 9, n).astype(float), rng.standard_normal(n)
    y, weight = rng.integers(0, 5, n).astype(float), rng.integers(0, 3, n).astype(float)

    def observed(rows, weight=None):
        return Observed(Points((x[rows],)), y[rows], extra[rows], weight, offset[rows])

    boxes, parts = Boxes((Grid(0.0, 4.0, 8),), along), np.array_split(np.arange(n), 2)
    found = boxes.levels(family, [observed(rows, weight[rows]) for rows in parts])
    means = [
        [np.average(each[x // 1.0 == box], weights=weight[x // 1.0 == box]) for box in range(3)]
        for each in (y, extra, offset)
    ]
    mean_y, mean_extra, mean_offset = map(np.array, means)
    expected = family.start(mean_y, mean_extra, None, mean_offset)
    np.testing.assert_allclose(found, [*expected, 0.0])
    # a weight of two is a row that is there twice
    twice = boxes.levels(family, [observed(np.repeat(np.arange(n), weight.astype(int)))])
    np.testing.assert_allclose(found, twice)


@pytest.mark.parametrize("count", [3.0, 40.0])
def test_sums_begin_where_a_box_and_its_cells_say_the_same(count):
    x = np.linspace(0.0, 8.0, 400)
    settings = {"num_basis": 300, "likelihood": Poisson(), "optimizer": None}
    gp = GPRegressor(Matern32() + Constant(), **settings).fit(x, np.full(400, count))
    data = gp._fit_data()
    sites = NodeReading(data.structure, data.stats).begin(Poisson(), data.stats)
    assert sites.weight == pytest.approx(400.0 * count, rel=1e-4)  # exp(f) of every row
    assert sites.sums[0] / sites.weight == pytest.approx(np.log(count), rel=1e-4)
