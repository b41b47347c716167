"""Bounds against the exact evidence, for every kernel, with data on both ends."""

from itertools import permutations

import numpy as np
import pytest

from asvgp import Matern12, Matern32, Matern52
from asvgp.basis import Grid
from asvgp.model.elimination import eliminate
from asvgp.model.prior import ChainPrior, Prior
from asvgp.statistics import Statistics
from tests.dense import KERNELS, ExactGP, design, gram, kernel_id, sample
from tests.engines import lower_bound, upper_bound

each_kernel = pytest.mark.parametrize("kernel", KERNELS, ids=kernel_id)


@each_kernel
@pytest.mark.parametrize("extra", [1, 2])
def test_bounds_enclose_the_evidence_and_close(kernel, extra):
    noise, span, degree = 0.05, 3.0, kernel.order + extra
    x, y = sample(kernel, noise, 150, span)
    evidence = ExactGP(kernel, noise, x, y).evidence()
    gaps = []
    for cells in (10, 40, 160, 640, 2560):
        stats = Statistics.from_data(x, y, Grid(0.0, span, cells), degree)
        lower = lower_bound(kernel, noise, stats, degree)
        upper = upper_bound(kernel, noise, stats, degree)
        assert lower.elbo <= evidence + 1e-8
        assert evidence <= upper + 1e-8
        assert lower.missed >= -1e-9
        gaps.append((evidence - lower.elbo, upper - evidence))
    gaps = np.array(gaps)
    assert np.all(np.diff(gaps, axis=0) < 1e-8)
    # Matérn-1/2 closes like h, smoother kernels like h^3 and faster.
    assert gaps[-1, 0] < gaps[0, 0] * (0.05 if kernel.order == 0 else 1e-3)


@each_kernel
def test_weighted_data_are_data_with_known_noise(kernel):
    span, noise = 2.0, 0.1
    rng = np.random.default_rng(4)
    weights = rng.uniform(0.2, 5.0, 100)
    x, y = sample(kernel, noise / weights, 100, span)
    evidence = ExactGP(kernel, noise / weights, x, y).evidence()
    degree = kernel.order + 2
    stats = Statistics.from_data(x, y, Grid(0.0, span, 800), degree, weights)
    gap = evidence - lower_bound(kernel, noise, stats, degree).elbo
    assert gap >= -1e-8
    assert gap < (5.0 if kernel.order == 0 else 0.05)
    assert upper_bound(kernel, noise, stats, degree) >= evidence - 1e-8


def test_upper_bound_is_its_formula():
    """Titsias (2014), dense and weighted."""
    rng = np.random.default_rng(7)
    x, y, w = rng.uniform(0, 1, 40), rng.standard_normal(40), rng.uniform(0.5, 2.0, 40)
    kernel, noise, grid = Matern32(0.2, 1.5), 0.3, Grid(0.0, 1.0, 9)
    phi = design(np.minimum(x, 1 - 1e-13), grid, 2) * np.sqrt(w)[:, None]
    nystrom = phi @ np.linalg.solve(gram(Prior(kernel, grid, 2)), phi.T)
    missed = kernel.variance * w.sum() - np.trace(nystrom)
    covariance = nystrom + noise * np.eye(40)
    wide = nystrom + (noise + missed) * np.eye(40)
    v = np.sqrt(w) * y
    expected = (
        -0.5 * np.linalg.slogdet(2 * np.pi * covariance)[1]
        - 0.5 * v @ np.linalg.solve(wide, v)
        + 0.5 * np.log(w).sum()
    )
    stats = Statistics.from_data(x, y, grid, 2, w)
    assert upper_bound(kernel, noise, stats, 2) == pytest.approx(expected, rel=1e-9)


def test_outputs_add_up():
    rng = np.random.default_rng(5)
    x, y = rng.uniform(0, 1, 60), rng.standard_normal((60, 3))
    kernel, noise, grid = Matern32(0.2), 0.3, Grid(0.0, 1.0, 20)
    together = Statistics.from_data(x, y, grid, 2)
    alone = [Statistics.from_data(x, y[:, o], grid, 2) for o in range(3)]
    whole = lower_bound(kernel, noise, together, 2)
    parts = [lower_bound(kernel, noise, part, 2) for part in alone]
    assert whole.elbo == pytest.approx(sum(p.elbo for p in parts), rel=1e-12)
    np.testing.assert_allclose(whole.gradient, sum(p.gradient for p in parts), rtol=1e-9)
    assert upper_bound(kernel, noise, together, 2) == pytest.approx(
        sum(upper_bound(kernel, noise, part, 2) for part in alone), rel=1e-12
    )


def test_evidence_objective_is_the_spline_fields_own():
    """The bound without its trace term is the density of y under the spline prior."""
    rng = np.random.default_rng(6)
    x, y = rng.uniform(0, 1, 40), rng.standard_normal(40)
    kernel, noise, grid = Matern12(0.2), 0.3, Grid(0.0, 1.0, 15)
    stats = Statistics.from_data(x, y, grid, 1)
    phi = design(np.minimum(x, 1 - 1e-13), grid, 1)
    covariance = phi @ np.linalg.solve(gram(Prior(kernel, grid, 1)), phi.T) + noise * np.eye(40)
    _, log_det = np.linalg.slogdet(2 * np.pi * covariance)
    expected = -0.5 * y @ np.linalg.solve(covariance, y) - 0.5 * log_det
    bound = lower_bound(kernel, noise, stats, 1, "evidence")
    assert bound.fit == pytest.approx(expected, rel=1e-10)
    assert bound.elbo == pytest.approx(expected - bound.missed / (2 * noise), rel=1e-10)


@each_kernel
def test_gradient_does_not_depend_on_the_path(kernel):
    x, y = sample(kernel, 0.1, 80, 2.0)
    degree = kernel.order + 1
    stats = Statistics.from_data(x, y, Grid(0.0, 2.0, 30), degree)
    results = [
        lower_bound(kernel, 0.1, stats, degree, path=path) for path in ("plain", "square-root")
    ]
    assert results[0].elbo == pytest.approx(results[1].elbo, rel=1e-11)
    np.testing.assert_allclose(results[0].gradient, results[1].gradient, rtol=1e-7, atol=1e-8)


@pytest.mark.parametrize("bound", [lower_bound, upper_bound])
def test_statistics_without_a_sum_of_squares_have_no_gaussian_bound(bound):
    stats = Statistics.from_data([0.2, 0.7], [1.0, -1.0], Grid(0.0, 1.0, 4), 2)
    sites = stats.with_tables(stats.moments, stats.targets)
    with pytest.raises(ValueError, match="the Gaussian bound does not apply"):
        bound(Matern32(), 0.1, sites, 2)


def test_sums_share_compiled_code_whatever_the_order_of_their_terms():
    """Compiled code stays in memory: there is one of every kind of cell, not of every order."""
    terms = [Matern52(0.9), Matern12(2.0, 0.5), Matern32(0.4, 1.5)]
    degrees = {Matern52: 4, Matern12: 1, Matern32: 3}
    x, y = sample(terms[0], 0.05, 60, 3.0)
    stats, found = Statistics.from_data(x, y, Grid(0.0, 3.0, 20), 4), []
    for order in permutations(range(3)):
        kernel = terms[order[0]] + terms[order[1]] + terms[order[2]]
        prior = ChainPrior(kernel, stats.grid, tuple(degrees[type(terms[i])] for i in order))
        chain = eliminate(prior, stats, 0.05, "plain")
        mean = chain.means(keep=True)[1][0]
        parts = {i: mean[:, where] for i, where in zip(order, prior.where, strict=True)}
        found.append((prior.markers, chain.log_det, chain.explained, parts))
    markers, log_det, explained, parts = found[0]
    for other in found[1:]:
        assert other[0] == markers
        np.testing.assert_allclose(other[1], log_det, rtol=1e-12)
        np.testing.assert_allclose(other[2], explained, rtol=1e-10)
        for i, part in parts.items():
            np.testing.assert_allclose(other[3][i], part, atol=1e-8 * np.abs(part).max())
