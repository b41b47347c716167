"""Fixed effects against dense Gaussian processes with the effects' covariance added."""

from __future__ import annotations

import numpy as np
import pandas as pd
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from asvgp import SHO, Constant, GPRegressor, Linear, Matern32, Matern52, Matern72
from asvgp.basis import Grid
from asvgp.data.columns import Table, match
from asvgp.kernels import Kernel
from asvgp.model.chain_effects import Design, estimate
from asvgp.model.prior import ChainPrior
from asvgp.posterior.chain import ChainPosterior
from asvgp.posterior.chain_paths import continued, draw_paths, mean_spline
from asvgp.posterior.integrals import integrate
from asvgp.posterior.posterior import LinePoints
from asvgp.posterior.samples import sample
from asvgp.statistics import Statistics
from tests.dense import design as splines
from tests.dense import gram
from tests.engines import both_bounds, factored, lower_bound, upper_bound

NOISE = 0.05
KERNEL = (
    Matern52(1.1, 0.9)
    + Constant(variance=50.0)
    + Linear(variance=3.0)
    + Linear(1, variance=7.0)
    + Linear(2, variance=0.5)
)
VARIANCES = np.array([50.0, 3.0, 7.0, 0.5])
NEW = np.array([-1.0, 0.5, 2.2, 2.2001, 4.9, 6.0])


def data(n=150, outputs=1):
    rng = np.random.default_rng(3)
    x = rng.uniform(0.0, 5.0, n)
    x[0], x[-1] = 0.0, 5.0
    z = np.stack([rng.standard_normal(n) + 0.3 * x, x**2 / 10.0], axis=1)
    w = rng.uniform(0.5, 2.0, n)
    y = 5.0 + 0.7 * x - 2.0 * z[:, 0] + z[:, 1] + np.sin(2.0 * x) + 0.2 * rng.standard_normal(n)
    if outputs > 1:
        y = np.stack([y, *(rng.standard_normal((outputs - 1, n)) + 3.0)], axis=1)
    return x, z, w, y


def new_columns():
    return np.random.default_rng(4).standard_normal((len(NEW), 2))


def columns(x, z):
    return np.column_stack([np.ones(len(x)), x, z])


class Dense:
    """The whole model as one covariance: splines' prior, effects, noise."""

    def __init__(self, x, z, w, y, cells=None):
        kernel = KERNEL.components[0]
        self.x, self.y = x, y
        self.effects = columns(x, z)
        self.cells = cells
        self.kernel = kernel if cells is None else self._spline_kernel
        self.covariance = self.kernel(x) + (self.effects * VARIANCES) @ self.effects.T
        self.noisy = self.covariance + np.diag(NOISE / w)

    def _spline_kernel(self, x, y=None):
        """``phi' K^-1 phi``, what the splines can express of the kernel."""
        grid = Grid(0.0, 5.0, self.cells)
        model = ChainPrior(KERNEL, grid, 3)
        inverse = np.linalg.inv(gram(model.priors[0]))
        y = x if y is None else y
        return splines(x, grid, 3) @ inverse @ splines(y, grid, 3).T

    def evidence(self):
        return (
            -0.5 * self.y @ np.linalg.solve(self.noisy, self.y)
            - 0.5 * (np.linalg.slogdet(2.0 * np.pi * self.noisy)[1])
        )

    def cross(self, functional):
        """Covariance of the data with a functional given by its action on kernel and Z."""
        of_kernel, of_columns = functional
        return of_kernel + (of_columns * VARIANCES) @ self.effects.T

    def predict(self, new, z):
        columns_new = columns(new, z)
        kernel = KERNEL.components[0]
        cross = kernel(new, self.x) + (columns_new * VARIANCES) @ self.effects.T
        prior = kernel(new) + (columns_new * VARIANCES) @ columns_new.T
        gain = np.linalg.solve(self.noisy, cross.T).T
        return gain @ self.y, prior - gain @ cross.T


def statistics(cells=1500, **kwargs):
    x, z, w, y = data(**kwargs)
    return Statistics.from_data(x, y, Grid(0.0, 5.0, cells), 3, w, covariates=z)


def test_bound_below_evidence_below_upper_bound_and_converging():
    dense = Dense(*data())
    gaps = []
    for cells in (20, 60, 200):
        stats = statistics(cells)
        lower, upper = both_bounds(KERNEL, NOISE, stats, 3)
        assert lower.elbo <= dense.evidence() <= upper
        gaps.append(dense.evidence() - lower.elbo)
    assert gaps[0] > gaps[1] > gaps[2]
    assert gaps[2] < 0.1


@pytest.mark.parametrize("path", ["plain", "square-root"])
def test_evidence_of_the_spline_field_is_exact(path):
    dense = Dense(*data(), cells=40)
    stats = statistics(40)
    assert lower_bound(KERNEL, NOISE, stats, 3, path=path).fit == pytest.approx(
        dense.evidence(), abs=1e-8
    )


@pytest.mark.parametrize("objective", ["elbo", "evidence"])
def test_gradient_is_that_of_differences(objective):
    kernel = Matern32(1.3, 0.7) + SHO(0.9, 2.0, 0.5) + Constant() + Linear() + Linear(1)
    x, z, w, y = data(outputs=2)
    stats = Statistics.from_data(x, y, Grid(0.0, 5.0, 30), 3, w, covariates=z[:, :1])
    theta = np.log(np.append(kernel.values, NOISE))

    def value(theta):
        moved = kernel.replace_free(dict(zip(kernel.parameters, np.exp(theta[:-1]), strict=True)))
        bound = lower_bound(moved, float(np.exp(theta[-1])), stats, (2, 3), objective)
        return bound.elbo if objective == "elbo" else bound.fit

    gradient = lower_bound(kernel, NOISE, stats, (2, 3), objective).gradient
    for i, step in enumerate(1e-4 * np.eye(len(theta))):
        ends = [value(theta + k * step) for k in (-2, -1, 1, 2)]
        difference = (ends[0] - 8.0 * ends[1] + 8.0 * ends[2] - ends[3]) / (12.0 * 1e-4)
        assert gradient[i] == pytest.approx(difference, rel=1e-6, abs=1e-5)


def test_predictions_inside_and_outside():
    dense = Dense(*data())
    posterior = ChainPosterior(KERNEL, NOISE, statistics(), 3)
    mean, cov = dense.predict(NEW, new_columns())
    got, variance = posterior.predict(LinePoints(NEW, new_columns()))
    np.testing.assert_allclose(got[0], mean, atol=2e-5)
    np.testing.assert_allclose(variance, np.diag(cov), rtol=1e-4, atol=1e-6)
    np.testing.assert_allclose(posterior.covariance(LinePoints(NEW, new_columns())), cov, atol=1e-5)


def test_the_coefficients_posterior():
    x, z, w, y = data()
    effects = ChainPosterior(KERNEL, NOISE, statistics(), 3).effects
    assert effects is not None
    noise = KERNEL.components[0](x) + np.diag(NOISE / w)
    information = columns(x, z).T @ np.linalg.solve(noise, columns(x, z)) + np.diag(1 / VARIANCES)
    expected = np.linalg.solve(information, columns(x, z).T @ np.linalg.solve(noise, y))
    beta, covariance = effects.given
    np.testing.assert_allclose(covariance, np.linalg.inv(information), rtol=1e-4, atol=1e-6)
    np.testing.assert_allclose(beta[:, 0], expected, atol=1e-4)


def test_wide_priors_are_generalised_least_squares():
    x, z, w, y = data()
    kernel = Matern52(1.1, 0.9) + Constant() + Linear() + Linear(1) + Linear(2)
    effects = ChainPosterior(kernel, NOISE, statistics(), 3).effects
    assert effects is not None
    noise = KERNEL.components[0](x) + np.diag(NOISE / w)
    information = columns(x, z).T @ np.linalg.solve(noise, columns(x, z))
    expected = np.linalg.solve(information, columns(x, z).T @ np.linalg.solve(noise, y))
    beta, covariance = effects.given
    np.testing.assert_allclose(beta[:, 0], expected, rtol=1e-3)
    np.testing.assert_allclose(covariance, np.linalg.inv(information), rtol=2e-3)


def test_an_intercept_that_splines_can_imitate_keeps_its_digits():
    # A long lengthscale, many data, little noise: S is 1e-12 of Z'WZ.
    kernel = Matern32(50.0, 1.0) + Constant(variance=1e6)
    x = np.linspace(0.0, 1.0, 1_000_000)
    y = 1000.0 + np.sin(3.0 * x)
    stats = Statistics.from_data(x, y, Grid(0.0, 1.0, 200), 2)
    effects = ChainPosterior(kernel, 1e-4, stats, 2).effects
    assert effects is not None
    # The same from a thousandth of the data, each with a thousand times the weight, where a
    # dense model can follow.
    few = np.linspace(0.0, 1.0, 400)
    weights = np.full(400, 2500.0)
    target = 1000.0 + np.sin(3.0 * few)
    noisy = Matern32(50.0, 1.0)(few) + np.diag(1e-4 / weights)
    whitened = np.linalg.solve(noisy, np.stack([np.ones(400), target], axis=1))
    precision = whitened[:, 0].sum() + 1e-6
    assert effects.covariance[0, 0] == pytest.approx(1.0 / precision, rel=1e-3)
    assert effects.beta[0, 0] == pytest.approx(whitened[:, 1].sum() / precision, rel=1e-4)


def test_derivatives_and_integrals():
    x, z, w, y = data()
    dense, posterior = Dense(x, z, w, y), ChainPosterior(KERNEL, NOISE, statistics(), 3)
    nothing = np.zeros((len(NEW), 2))
    step = 1e-4
    plus, minus = NEW + step, NEW - step
    both, cov = dense.predict(np.concatenate([plus, minus]), np.tile(nothing, (2, 1)))
    difference = np.hstack([np.eye(len(NEW)), -np.eye(len(NEW))]) / (2.0 * step)
    mean, variance = posterior.predict(NEW, order=1)
    np.testing.assert_allclose(mean[0], difference @ both, atol=2e-3)
    expected = difference @ cov @ difference.T
    np.testing.assert_allclose(variance, np.diag(expected), rtol=1e-2, atol=1e-4)
    np.testing.assert_allclose(posterior.covariance(NEW, 1), expected, atol=5e-3)
    nodes, weights = np.polynomial.legendre.leggauss(60)
    low, high = np.array([-2.0, 1.0, 4.0]), np.array([1.0, 1.5, 7.0])
    places = (low[:, None] + (high - low)[:, None] * (nodes + 1.0) / 2.0).ravel()
    rule = np.kron(np.eye(3), weights[None, :] / 2.0) * np.repeat(high - low, 60)
    values, cov = dense.predict(places, np.zeros((len(places), 2)))
    mean, spread = integrate(posterior, low, high, covariance=True)
    np.testing.assert_allclose(mean[0], rule @ values, atol=1e-3)
    np.testing.assert_allclose(spread, rule @ cov @ rule.T, atol=1e-3)
    np.testing.assert_allclose(integrate(posterior, low, high)[1], np.diag(spread), rtol=1e-8)


def test_draws_have_the_posteriors_moments():
    posterior = ChainPosterior(KERNEL, NOISE, statistics(200), 3)
    inside = np.array([0.0, 1.0, 3.0, 5.0])
    mean, variance = posterior.predict(inside)
    paths = draw_paths(posterior, 4000, random_state=0)
    values = np.stack([path(inside) for path in paths])
    np.testing.assert_allclose(values.mean(axis=0), mean[0], atol=5 * variance.max() ** 0.5 / 60)
    np.testing.assert_allclose(values.var(axis=0), variance, rtol=0.15)
    np.testing.assert_allclose(mean_spline(posterior)(inside), mean[0], atol=1e-10)
    mean, cov = (
        posterior.predict(LinePoints(NEW, new_columns()))[0],
        posterior.covariance(LinePoints(NEW, new_columns())),
    )
    for drawn in (sample, continued):
        draws = drawn(posterior, LinePoints(NEW, new_columns()), 4000, 1)[0]
        error = 5.0 * np.sqrt(np.diag(cov) / 4000)
        assert np.all(np.abs(draws.mean(axis=1) - mean[0]) < error)
        np.testing.assert_allclose(np.cov(draws), cov, atol=0.12 * np.diag(cov).max())


def test_degrees_of_freedom_are_traces():
    x, z, w, _y = data()
    kernel = Matern52(1.1, 0.9) + SHO(0.9, 2.0, 0.5) + KERNEL
    kernel = kernel.replace_parts(kernel.components[:2])  # pyright: ignore[reportAttributeAccessIssue]
    posterior = ChainPosterior(kernel, NOISE, statistics(), (3, 3))
    parts = [part(x) for part in kernel.components]
    parts.append((columns(x, z) * VARIANCES) @ columns(x, z).T)
    noisy = sum(parts) + np.diag(NOISE / w)
    expected = [float(np.trace(np.linalg.solve(noisy, part))) for part in parts]
    got = posterior.factored.component_freedoms()
    np.testing.assert_allclose(got, expected[:2], rtol=1e-3)
    assert posterior.factored.forms().freedom == pytest.approx(sum(expected), rel=1e-3)


def test_leave_one_out_is_refitting():
    x, z, w, y = data(60)
    X = np.column_stack([x, z])
    kernel = Matern52(1.1, 0.9, dim=0) + Constant() + Linear(1) + Linear(2, variance=2.0)
    gp = GPRegressor(kernel, num_basis=40, domain=(0, 5), noise_variance=NOISE, optimizer=None).fit(
        X, y, sample_weight=w
    )
    loo = gp.leave_one_out(X, y, sample_weight=w)
    wide = [effect.variance for effect in gp.kernel_.effects]
    assert wide == [None, None, 2.0]
    precision = Design.of(gp.posterior_.kernel, gp.stats_)
    assert precision is not None
    fixed = Matern52(1.1, 0.9, dim=0) + Constant(variance=1 / precision.precision[0])
    fixed += Linear(1, variance=1 / precision.precision[1]) + Linear(2, variance=2.0)
    for i in (0, 17, 59):
        rest = np.arange(60) != i
        other = GPRegressor(
            fixed, num_basis=40, domain=(0, 5), noise_variance=NOISE, optimizer=None
        ).fit(X[rest], y[rest], sample_weight=w[rest])
        mean, std = other.predict(X[[i]], return_std=True)
        assert loo.mean[i] == pytest.approx(mean[0], rel=1e-8)
        assert loo.std[i] == pytest.approx(np.hypot(std[0], np.sqrt(NOISE)), rel=1e-8)


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 10_000), st.integers(1, 3), st.booleans())
def test_statistics_with_columns_add_subtract_and_coarsen(seed, outputs, weighted):
    rng = np.random.default_rng(seed)
    n = int(rng.integers(2, 60))
    x, z = rng.uniform(0.0, 1.0, n), rng.standard_normal((n, 2))
    y = rng.standard_normal((n, outputs))
    y[rng.uniform(size=n) < 0.1] = np.nan
    w = rng.uniform(0.5, 2.0, n) if weighted else None
    grid = Grid(0.0, 1.0, 8)

    def of(rows, grid=grid):
        own = None if w is None else w[rows]
        return Statistics.from_data(x[rows], y[rows], grid, 2, own, covariates=z[rows])

    whole = of(np.arange(n))
    cut = n // 2
    first, second = of(np.arange(cut)), of(np.arange(cut, n))
    present = ~np.isnan(y).any(axis=1)
    weights = np.ones(n) if w is None else w
    expected = np.hstack([y, z])[present].T @ (z * weights[:, None])[present]
    np.testing.assert_allclose(whole.products, expected, atol=1e-12)
    for got in (first + second, second + first):
        np.testing.assert_allclose(got.columns, whole.columns, atol=1e-12)
        np.testing.assert_allclose(got.products, whole.products, atol=1e-12)
    left = whole - second
    np.testing.assert_allclose(left.columns, first.columns, atol=1e-12)
    np.testing.assert_allclose(left.products, first.products, atol=1e-12)
    coarse = of(np.arange(n), Grid(0.0, 1.0, 2))
    np.testing.assert_allclose(whole.coarsen(4).columns, coarse.columns, atol=1e-12)


def frame(n=400):
    rng = np.random.default_rng(0)
    hours = np.arange(n)
    temperature = 10.0 * np.sin(hours / 50.0) + rng.standard_normal(n)
    y = 500.0 + 0.3 * temperature + np.sin(hours / 9.0) + 0.1 * rng.standard_normal(n)
    times = np.datetime64("2024-03-01T00", "ns") + hours * np.timedelta64(1, "h")
    return {"temperature": temperature, "time": times}, y


@pytest.mark.parametrize("make", [pd.DataFrame, pl.DataFrame])
def test_columns_by_name_beside_times(make):
    columns, y = frame()
    X = make(columns)
    kernel = Matern32("9 hours", dim="time") + Constant() + Linear("temperature")
    gp = GPRegressor(kernel, num_basis=200).fit(X, y)
    intercept, slope = gp.effects_
    assert (intercept.name, slope.name) == ("intercept", "slope of 'temperature'")
    assert abs(slope.estimate - 0.3) < 5 * slope.std < 0.2
    assert abs(intercept.estimate - 500.0) < 5 * intercept.std < 5.0
    mean, _std, parts = gp.predict(X, return_std=True, components=True)
    np.testing.assert_allclose(sum(part.mean for part in parts), mean, rtol=1e-10)
    assert [type(part.kernel) for part in parts] == [Matern32, Constant, Linear]
    text = str(gp.summary())
    assert "intercept" in text
    assert "slope of 'temperature'" in text
    assert "(effects)" in text
    assert repr(gp.kernel_).endswith("dim='time') + Constant() + Linear('temperature')")
    with pytest.raises(ValueError, match="feature"):
        gp.predict(X[["time"]])


def test_training_with_an_intercept_needs_no_centring():
    rng = np.random.default_rng(1)
    x = rng.uniform(0.0, 20.0, 3000)
    y = np.sin(x) + 0.1 * rng.standard_normal(3000)
    plain = GPRegressor(Matern32() + Constant(), num_basis=100).fit(x, y)
    moved = GPRegressor(Matern32() + Constant(), num_basis=100).fit(x, y + 1e4)
    assert moved.noise_variance_ == pytest.approx(plain.noise_variance_, rel=1e-3)
    assert moved.kernel_.values == pytest.approx(plain.kernel_.values, rel=2e-3)
    inside = np.linspace(0.0, 20.0, 50)
    np.testing.assert_allclose(moved.predict(inside) - 1e4, plain.predict(inside), atol=1e-4)
    assert moved.predict([1e5])[0] == pytest.approx(1e4 + y.mean(), abs=0.5)


def test_streams_and_rolling_windows_carry_columns():
    columns, y = frame()
    X = pd.DataFrame(columns)
    kernel = Matern32("9 hours", dim="time") + Constant() + Linear("temperature")
    settings = {"num_basis": 100, "noise_variance": 0.01, "optimizer": None}
    domain = (X["time"].iloc[0], X["time"].iloc[-1])
    whole = GPRegressor(kernel, domain=domain, **settings).fit(X, y)
    parts = GPRegressor(kernel, domain=domain, **settings)
    for rows in np.array_split(np.random.default_rng(0).permutation(len(y)), 3):
        parts.partial_fit(X.iloc[rows], y[rows])
    np.testing.assert_allclose(parts.predict(X), whole.predict(X), rtol=1e-9)
    half = GPRegressor(kernel, domain=domain, **settings).fit(X[:200], y[:200])
    np.testing.assert_allclose(
        whole.forget(X[200:], y[200:]).predict(X[:5]), half.predict(X[:5]), rtol=1e-7
    )
    other = GPRegressor(Matern32("9 hours", dim="time"), domain=domain, **settings)
    other.fit(X[["time"]], y)
    with pytest.raises(ValueError, match="different columns"):
        half.merge(other)


def test_collinear_columns_share_what_they_explain():
    rng = np.random.default_rng(2)
    X = np.column_stack([np.linspace(0.0, 5.0, 200), rng.standard_normal(200)])
    X = np.column_stack([X, X[:, 1]])
    y = 2.0 * X[:, 1] + 0.1 * rng.standard_normal(200)
    kernel = Matern32(1.0, 0.1, dim=0) + Linear(1) + Linear(2)
    gp = GPRegressor(kernel, num_basis=20, noise_variance=0.01, optimizer=None).fit(X, y)
    first, second = gp.effects_
    assert first.estimate + second.estimate == pytest.approx(2.0, abs=0.05)
    assert first.std > 10.0  # either alone is anyone's guess
    assert gp.predict(X, return_std=True)[1].max() < 0.2


@pytest.mark.parametrize(
    ("kernel", "X", "message"),
    [
        (Matern32(dim=0), np.zeros((5, 2)), "neither a kernel nor an effect: 1"),
        (Matern32(dim=0) + Linear(2), np.zeros((5, 2)), "X has 2 columns"),
        (Matern32(dim="a") + Linear(1), np.zeros((5, 2)), "no column names"),
        (
            Matern32(dim="a") + Linear("c"),
            pd.DataFrame({"a": [0.0], "b": [0.0]}),
            "no column 'c'; its columns are 'a', 'b'",
        ),
        (Matern32(dim=0) + Linear(1) + Linear(-1), np.zeros((5, 2)), "twice"),
        (Matern32() + Constant() + Constant(), np.zeros((5, 1)), "twice"),
    ],
)
def test_columns_that_do_not_match(kernel, X, message):
    with pytest.raises(ValueError, match=message):
        match(kernel, Table(X))


def test_bad_effects():
    with pytest.raises(ValueError, match="variance must be None"):
        Constant(variance=-1.0)
    with pytest.raises(ValueError, match="fixed effects only"):
        GPRegressor(Constant() + Linear()).fit([0.0, 1.0], [0.0, 1.0])
    with pytest.raises(TypeError, match="such as Matern32"):
        GPRegressor(Constant()).fit([0.0, 1.0], [0.0, 1.0])  # pyright: ignore[reportArgumentType]
    with pytest.raises(TypeError, match="dim must be"):
        match(Matern32(dim=0) + Linear(1.5), Table(np.zeros((3, 2))))  # pyright: ignore[reportArgumentType]
    with pytest.raises(TypeError):
        Constant() + 3.0  # pyright: ignore[reportOperatorIssue]
    X = np.column_stack([np.arange(6.0), [0, 1, np.nan, 3, np.inf, 5]])
    with pytest.raises(ValueError, match=r"column 1 of X contains .* 2 of 6 rows \(2, 4\)"):
        GPRegressor(Matern32(dim=0) + Linear(1)).fit(X, np.arange(6.0))


def test_effects_alone_and_in_any_order():
    kernel = Constant() + Matern32(2.0) + Linear()
    assert isinstance(kernel, Kernel)
    assert repr(kernel) == "Matern32(lengthscale=2.0, variance=1.0) + Constant() + Linear()"
    assert kernel.parameters == ("lengthscale", "variance")
    assert (Constant() + Linear(1, variance=2.0)).components == ()


def test_several_outputs_have_effects_of_their_own():
    x, _z, w, y = data(outputs=2)
    kernel = Matern52(1.1, 0.9) + Constant(variance=50.0)
    both = Statistics.from_data(x, y, Grid(0.0, 5.0, 50), 3, w)
    alone = Statistics.from_data(x, y[:, 1], Grid(0.0, 5.0, 50), 3, w)
    first, second = (ChainPosterior(kernel, NOISE, stats, 3) for stats in (both, alone))
    assert first.effects is not None
    assert second.effects is not None
    assert first.effects.beta[0, 1] == pytest.approx(second.effects.beta[0, 0], rel=1e-10)
    np.testing.assert_allclose(first.predict(NEW)[0][1], second.predict(NEW)[0][0], rtol=1e-9)
    assert upper_bound(kernel, NOISE, alone, 3) < np.inf
    design = Design.of(kernel, both)
    assert design is not None
    assert estimate(design, first.chain, NOISE).outputs == 2


def test_a_slope_far_above_the_noise_is_said_to_cost_digits():
    x = np.arange(100.0)
    noise = np.random.default_rng(0).standard_normal(100)
    kernel = Matern32(9.0) + Constant() + Linear()

    def model(slope):
        gp = GPRegressor(kernel, num_basis=30, noise_variance=1.0, optimizer=None)
        return gp.fit(x, slope * (x / 99.0 - 0.5) + noise)

    steep = model(1e6)  # whose prior is wider, and nothing else differs
    line = steep.predict(x) - model(0.0).predict(x)
    np.testing.assert_allclose(line, 1e6 * (x / 99.0 - 0.5), atol=1e-3)
    with pytest.warns(UserWarning, match=r"2\.9e\+07 times .* about 0\.\d+ nats per datum"):
        model(1e8)


def twins(seed, jitter, trend=0.0):
    """A model of five rows per instant and a covariate far above the noise; y without its slope.

    The slope of the covariate is 2. Its values wander, and with a ``trend`` follow the input too.
    """
    rng = np.random.default_rng(seed)
    x = np.sort(np.repeat(rng.uniform(0.05, 0.95, 60), 5) + jitter * rng.standard_normal(300))
    z = np.cumsum(rng.standard_normal(300)) * 10.0 ** rng.uniform(0.0, 3.0)
    rest = np.sin(5.0 * x) + 0.01 * rng.standard_normal(300) + trend * np.cos(3.0 * x)
    long = (Matern32, Matern52, Matern72)[seed % 3](
        10.0 ** rng.uniform(-1.0, 1.0), 10.0 ** rng.uniform(0.0, 4.0)
    )
    kernel = long + Matern32(10.0 ** rng.uniform(-2.0, 0.0), 1.0)
    kernel = kernel + Constant(variance=100.0) + Linear(1, variance=9.0)
    grid = Grid(0.0, 1.0, int(rng.choice([50, 200])))
    return kernel, 10.0 ** rng.uniform(-5.0, -3.0), grid, x, z + 0.5 * trend * x, rest


@pytest.mark.parametrize("trend", [0.0, 300.0])
@pytest.mark.parametrize("path", [None, "plain", "square-root"])
@pytest.mark.parametrize("jitter", [1e-9, 1e-6])
def test_the_slope_of_a_steep_covariate_costs_its_prior_alone(jitter, path, trend):
    """By how much bounds of y and of y - 2 z differ follows from the coefficient's posterior.

    z'A^-1 c is m / v, and z'A^-1 z is (v - s) / v^2, with A the covariance of y, v and s the prior
    and posterior variances of the coefficient, and m its posterior mean for c = y - 2 z.
    """
    for seed in range(12):
        kernel, noise, grid, x, z, rest = twins(seed, jitter, trend)
        degree = max(part.order for part in kernel.components) + 1
        steep, flat = (
            Statistics.from_data(x, y, grid, degree, covariates=z) for y in (rest + 2.0 * z, rest)
        )
        bounds = [
            lower_bound(kernel, noise, sums, degree, path=path).elbo for sums in (steep, flat)
        ]
        effects = ChainPosterior(kernel, noise, flat, degree).effects
        assert effects is not None
        (_, (mean,)), (_, (_, variance)) = effects.given
        expected = -0.5 * (4.0 * mean / 9.0 + 4.0 * (9.0 - variance) / 81.0)
        rounding = 1e-15 * (steep.squares[0] + flat.squares[0]) / noise
        assert bounds[0] - bounds[1] == pytest.approx(expected, abs=1e-5 + 5.0 * rounding)


def test_a_steep_covariate_needs_no_square_root():
    """What counts is what the splines explain of the rest of y."""
    for seed in range(12):
        kernel, noise, grid, x, z, rest = twins(seed, 1e-9)
        degree = max(part.order for part in kernel.components) + 1
        paths = set()
        for y in (rest, rest + 2.0 * z):
            stats = Statistics.from_data(x, y, grid, degree, covariates=z)
            paths.add(factored(kernel, noise, stats, degree).chain.path)
        assert len(paths) == 1
