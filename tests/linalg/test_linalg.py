"""Chains of cells against dense matrices, and the two paths against each other."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from asvgp import SHO, Matern12, Matern32, Matern52, Matern72
from asvgp.basis import Grid, log_jacobian
from asvgp.linalg.chain import square_root
from asvgp.model import elimination as module
from asvgp.model.elimination import eliminate, information
from asvgp.model.prior import ChainPrior, Prior
from asvgp.policies import LINE
from asvgp.statistics import Statistics
from tests.dense import KERNELS, design, gram, kernel_id, scatter_cells, spline_band

CASES = [(kernel, extra) for kernel in KERNELS for extra in (1, 2)]
each_case = pytest.mark.parametrize(
    "kernel, extra", CASES, ids=[f"{kernel_id(k)}-p+{e}" for k, e in CASES]
)


def setup(kernel, extra, cells=12, n=40, seed=0, outputs=2):
    """A prior, statistics on its grid, and the dense matrices."""
    rng = np.random.default_rng(seed)
    degree = kernel.order + extra
    grid = Grid(0.0, 2.0, cells)
    x = rng.uniform(0.0, 2.0, n)
    x[:2] = 0.0, 2.0
    y = rng.standard_normal((n, outputs))
    w = rng.uniform(0.2, 3.0, n)
    stats = Statistics.from_data(x, y, grid, degree, w)
    phi = design(np.minimum(x, 2.0 - 1e-13), grid, degree)
    return Prior(kernel, grid, degree), stats, phi, w, y


@each_case
def test_gram_matrix_is_the_inner_product_of_the_basis(kernel, extra):
    """K against quadrature of the splines themselves, in the data's units."""
    degree = kernel.order + extra
    grid = Grid(-1.0, 1.5, 6)
    prior = Prior(kernel, grid, degree)
    process = kernel.markov()
    nodes, weights = np.polynomial.legendre.leggauss(degree + 2)
    h = grid.spacing
    x = (grid.knots[:-1, None] + h * (nodes + 1) / 2).ravel()
    w = np.tile(h * weights / 2, grid.cells)
    applied = sum(a * _derivative(x, grid, degree, i) for i, a in enumerate(process.operator))
    ends = np.stack(
        [_derivative([grid.lower], grid, degree, i)[0] for i in range(kernel.order + 1)]
    )
    expected = applied.T @ (w[:, None] * applied) / np.exp(process.log_density)
    expected += ends.T @ np.linalg.solve(process.covariance, ends)
    scale = np.sqrt(np.diag(expected))
    np.testing.assert_allclose(
        gram(prior) / np.outer(scale, scale), expected / np.outer(scale, scale), atol=1e-10
    )


def _derivative(x, grid, degree, order):
    from scipy.interpolate import BSpline

    knots = grid.lower + grid.spacing * np.arange(-degree, grid.cells + degree + 1)
    spline = BSpline(knots, np.eye(grid.cells + degree), degree)
    return spline.derivative(order)(x) if order else spline(x)


@each_case
def test_prior_factor_trace_and_marginals_match_dense(kernel, extra):
    prior, stats, phi, w, _ = setup(kernel, extra)
    K = gram(prior)
    G = phi.T @ (w[:, None] * phi)
    log_det = prior.log_det + log_jacobian(prior.degree, prior.grid.cells)
    assert log_det == pytest.approx(np.linalg.slogdet(K)[1], abs=1e-7)
    inverse = np.linalg.inv(K)
    trace, _ = prior.trace(stats.pair, stats.cumulative)
    assert trace == pytest.approx(np.trace(inverse @ G), rel=1e-8)
    band = spline_band(prior.covariances(), prior.degree)
    size = prior.degree + 1
    for c, block in enumerate(band):
        np.testing.assert_allclose(block, inverse[c : c + size, c : c + size], atol=1e-7)


@each_case
@pytest.mark.parametrize("path, n", [("plain", 40), ("square-root", 40), ("square-root", 5)])
def test_posterior_factor_matches_dense(kernel, extra, path, n):
    prior, stats, phi, w, y = setup(kernel, extra, n=n)
    noise = 0.3
    K, G = gram(prior), phi.T @ (w[:, None] * phi)
    P = K + G / noise
    b = phi.T @ (w[:, None] * y)
    chain = eliminate(ChainPrior(kernel, prior.grid, prior.degree), stats, noise, path)
    size = prior.degree + 1
    log_det = chain.log_det + log_jacobian(prior.degree, prior.grid.cells)
    assert log_det == pytest.approx(np.linalg.slogdet(P)[1], abs=1e-8)
    alpha = np.linalg.solve(P, b) / noise
    np.testing.assert_allclose(chain.explained, np.sum(b * alpha, axis=0) / noise, rtol=1e-8)
    assert np.all(chain.explained_error(noise) <= 1e-8 * chain.explained)
    outer, coef = chain.means(keep=True)
    np.testing.assert_allclose(outer, np.einsum("oci,ocj->ij", coef, coef), rtol=1e-10, atol=1e-10)
    for o in range(2):
        values = design(np.linspace(0.01, 1.99, 50), prior.grid, prior.degree) @ alpha[:, o]
        cells, s = prior.grid.locate(np.linspace(0.01, 1.99, 50))
        mine = np.sum(coef[o, cells] * s[:, None] ** np.arange(size), axis=1)
        np.testing.assert_allclose(mine, values, atol=1e-8)
    trace, total, cov = chain.marginals(keep=True)
    inverse = np.linalg.inv(P)
    assert trace == pytest.approx(np.trace(inverse @ G), rel=1e-8)
    np.testing.assert_allclose(total, cov.sum(axis=0), rtol=1e-12, atol=1e-14)
    for c, block in enumerate(spline_band(cov, prior.degree)):
        np.testing.assert_allclose(block, inverse[c : c + size, c : c + size], atol=1e-8)


def test_moments_are_the_gram_matrix_of_the_data():
    _, stats, phi, w, _ = setup(Matern52(0.3), 1)
    k = stats.degree
    hankel = np.arange(k + 1)[:, None] + np.arange(k + 1)
    blocks = [row[hankel] for row in stats.moments]
    np.testing.assert_allclose(scatter_cells(blocks, k), phi.T @ (w[:, None] * phi), atol=1e-11)


@pytest.mark.parametrize("kernel", [Matern32(0.05), Matern72(0.05), SHO(0.4, 5.0)], ids=kernel_id)
def test_settled_prior_equals_the_unsettled_one(kernel):
    """Stopping the sweeps early changes nothing: compare long and very long domains' ends."""
    degree = kernel.order + 1
    grid = Grid(0.0, 100.0, 20_000)
    prior = Prior(kernel, grid, degree)
    assert prior.first > 10_000  # it did settle
    cov = prior.covariances()
    short = Prior(kernel, Grid(0.0, 30.0, 6_000), degree).covariances()
    scale = np.sqrt(np.einsum("cii->ci", short))[0]
    for mine, other in ((cov[0], short[0]), (cov[10_000], short[3_000]), (cov[-1], short[-1])):
        difference = (mine - other) / np.outer(scale, scale)
        assert np.abs(difference).max() < 1e-11


@settings(max_examples=60, deadline=None)
@given(
    kernel=st.sampled_from([Matern12, Matern32, Matern52, Matern72]),
    ratio=st.floats(-1.0, 3.0),
    level=st.floats(-6.0, 8.0),
    clusters=st.integers(1, 6),
    seed=st.integers(0, 10_000),
)
@example(Matern72, 0.0, 2.0, 4, 8602)
def test_the_automatic_choice_is_accurate(kernel, ratio, level, clusters, seed):
    """Whatever data, lengthscale and noise: the chosen path agrees with the square root."""
    rng = np.random.default_rng(seed)
    n, cells = 300, 40
    centres = rng.uniform(0.0, cells, clusters)
    x = np.clip(
        rng.choice(centres, n) + rng.choice([0.0, 1e-3, 0.3], n) * rng.standard_normal(n), 0, cells
    )
    y = np.sin(x) + rng.standard_normal(n)
    process = kernel(10.0**ratio)
    model = ChainPrior(process, Grid(0.0, float(cells), cells), process.order + 1)
    stats = Statistics.from_data(x, y, model.grid, model.degrees[0])
    noise = 10.0**-level
    chosen = eliminate(model, stats, noise)
    if information(model, stats, noise) <= LINE.certain_information:
        assert chosen.path == "plain"
    elif chosen.path == "plain":
        assert chosen.accurate(noise)
    sure = eliminate(model, stats, noise, "square-root")
    assert abs(chosen.log_det - sure.log_det) < 1e-8 * cells
    size = np.sum(stats.squares) / noise
    # The square root takes points nearer than a millionth of a cell for one, with the mean of their
    # y; in the example it loses 6e-4 nats by that.
    np.testing.assert_allclose(chosen.explained, sure.explained, rtol=1e-8, atol=1e-7 * size)
    np.testing.assert_allclose(chosen.marginals()[0], sure.marginals()[0], rtol=1e-6)


def test_plain_path_would_fail_where_it_is_not_chosen():
    """The limit is there for a reason: beyond it the plain path does lose digits."""
    rng = np.random.default_rng(3)
    x = np.repeat(rng.uniform(0.0, 40.0, 5), 200)
    model = ChainPrior(Matern52(3.0), Grid(0.0, 40.0, 40), 3)
    stats = Statistics.from_data(x, np.sin(x), model.grid, 3)
    noise = 1e-12
    assert information(model, stats, noise) > LINE.certain_information
    assert eliminate(model, stats, noise).path == "square-root"
    plain = eliminate(model, stats, noise, "plain")
    sure = eliminate(model, stats, noise, "square-root")
    assert not abs(plain.log_det - sure.log_det) < 1e-6 * 40
    assert plain.defect(noise) > 1e-6  # and the defect tells


@pytest.mark.parametrize(
    "kernel",
    [Matern52(0.02, 100.0) + Matern32(0.02, 40.0), Matern12(1.0, 1.0) + Matern12(30.0, 20.0)],
    ids=["smooth", "rough"],
)
def test_means_that_plain_elimination_loses_are_noticed(kernel):
    """Where log|P| is right to ten digits, what the means explain need not be."""
    x, grid = 10.0 ** np.random.default_rng(0).uniform(-6.0, 0.0, 300), Grid(0.0, 1.0, 2000)
    degree, noise = max(part.order for part in kernel.components) + 1, 1e-4
    model = ChainPrior(kernel, grid, degree)
    stats = Statistics.from_data(x, 10.0 * np.sin(0.03 * x.argsort().argsort()), grid, degree)
    plain, sure = (eliminate(model, stats, noise, path) for path in ("plain", "square-root"))
    assert plain.defect(noise) <= LINE.accepted_defect
    error = np.abs(plain.explained - sure.explained)
    assert error > 1e-6 * 300
    np.testing.assert_allclose(plain.explained_error(noise), error, rtol=0.01)
    assert eliminate(model, stats, noise).path == "square-root"


def scattered_twins(seed, jitter):
    """Five rows nearly at one place, with values far apart beside the noise."""
    rng = np.random.default_rng(seed)
    x = np.repeat(rng.uniform(0.05, 0.95, 60), 5) + jitter * rng.standard_normal(300)
    model = ChainPrior(Matern52(0.3, 1e3) + Matern32(0.1, 1.0), Grid(0.0, 1.0, 100), 3)
    y = np.cumsum(rng.standard_normal(300)) * 300.0
    return model, Statistics.from_data(x, y, model.grid, 3), 1e-4


@pytest.mark.parametrize("jitter", [1e-9, 1e-7, 1e-6])
@pytest.mark.parametrize("seed", range(3))
def test_square_roots_explain_what_the_sums_hold(seed, jitter):
    """Roots of the data leave out how twins differ, and of y what goes with it."""
    model, stats, noise = scattered_twins(seed, jitter)
    plain, sure = (eliminate(model, stats, noise, path) for path in ("plain", "square-root"))
    np.testing.assert_allclose(sure.explained, plain.explained, rtol=1e-13)
    assert sure.log_det == pytest.approx(plain.log_det, abs=1e-8)


def test_the_better_of_two_means_is_kept(monkeypatch):
    """Where plain elimination loses digits, square roots may lose more."""
    nothing = replace(LINE, accepted_error=0.0, rounding=0.0)
    monkeypatch.setattr(module, "LINE", nothing)  # which no path can do
    paths = set()
    for seed in range(6):
        model, stats, noise = scattered_twins(seed, 1e-6)
        pair = [eliminate(model, stats, noise, path) for path in ("plain", "square-root")]
        chosen = eliminate(model, stats, noise)
        reached = [chain.reached(noise)[0] for chain in pair]
        assert chosen.explained[0] == pytest.approx(max(reached), rel=2e-15)
        paths.add(chosen.path)
    assert "plain" in paths


def test_a_strong_smooth_trend_needs_no_square_root():
    """The information on its states is large, and costs no digits."""
    rng = np.random.default_rng(0)
    x, grid = 10.0 ** rng.uniform(-8.0, 2.0, 400), Grid(0.0, 100.0, 4000)
    model = ChainPrior(Matern32(0.1, 1.0) + Matern32(200.0, 1e4), grid, 2)
    stats, noise = Statistics.from_data(x, 2.0 * (x > 1e-3), grid, 2), 1e-3
    assert information(model, stats, noise) > 1e4 * LINE.certain_information
    chosen, sure = eliminate(model, stats, noise), eliminate(model, stats, noise, "square-root")
    assert chosen.path == "plain"
    assert chosen.log_det == pytest.approx(sure.log_det, abs=1e-9 * 8000)
    np.testing.assert_allclose(chosen.explained, sure.explained, rtol=1e-12)


def test_abundant_smooth_data_need_no_square_root():
    """Much information, but nothing degenerate about it: the check lets the fast path pass."""
    rng = np.random.default_rng(4)
    x = rng.uniform(0.0, 40.0, 20_000)
    model = ChainPrior(Matern52(10.0), Grid(0.0, 40.0, 40), 3)
    stats = Statistics.from_data(x, np.sin(x), model.grid, 3)
    noise = 1e-5
    assert information(model, stats, noise) > LINE.certain_information
    chosen = eliminate(model, stats, noise)
    assert chosen.path == "plain"
    sure = eliminate(model, stats, noise, "square-root")
    assert abs(chosen.log_det - sure.log_det) < 1e-9 * 40


@settings(max_examples=50, deadline=None)
@given(rows=st.integers(1, 9), columns=st.integers(1, 6), seed=st.integers(0, 1000))
def test_triangularise_preserves_the_gram_matrix(rows, columns, seed):
    rng = np.random.default_rng(seed)
    stack = rng.standard_normal((rows, columns)) * 10.0 ** rng.integers(-6, 7, (rows, 1))
    work = stack.copy()
    square_root.triangularise(work, rows, columns)
    assert np.all(np.tril(work, -1)[: min(rows, columns)] == 0.0)
    scale = np.sqrt(np.maximum(np.sum(stack**2, axis=0), 1e-300))
    np.testing.assert_allclose(
        (work.T @ work) / np.outer(scale, scale),
        (stack.T @ stack) / np.outer(scale, scale),
        atol=1e-13,
    )


def test_roots_of_rank_deficient_cells():
    """One distinct x gives one row; an empty cell none; both reproduce the moments."""
    x = np.array([0.25] * 10_000 + [1.1, 1.9])
    stats = Statistics.from_data(x, np.cos(x), Grid(0.0, 3.0, 3), 3)
    roots, scores = stats.roots
    ranks = (np.abs(roots).max(axis=2) > 0).sum(axis=1)
    assert ranks.tolist() == [1, 2, 0]
    hankel = np.arange(4)[:, None] + np.arange(4)
    for c in range(3):
        np.testing.assert_allclose(roots[c].T @ roots[c], stats.moments[c][hankel], rtol=1e-10)
        np.testing.assert_allclose(roots[c].T @ scores[0, c], stats.targets[0, c], rtol=1e-10)


def test_information_grows_with_the_lengthscale():
    """A state remembers a lengthscale of data, not one cell of them."""
    x = np.linspace(0.0, 40.0, 400)
    stats = Statistics.from_data(x, np.sin(x), Grid(0.0, 40.0, 40), 3)
    short, long = (
        information(ChainPrior(Matern52(s), stats.grid, 3), stats, 1.0) for s in (0.5, 20.0)
    )
    assert long == pytest.approx(20.0 * short)
