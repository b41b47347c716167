"""What goes wrong with real streams: offsets, gaps, zeros, growth, mistakes in forgetting."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from asvgp import SHO, Constant, GPRegressor, Linear, Matern12, Matern32, Matern52
from asvgp.basis import Grid
from asvgp.policies import LINE
from asvgp.posterior.chain import ChainPosterior
from asvgp.posterior.posterior import LinePoints
from asvgp.statistics import Statistics
from tests.dense import design, gram
from tests.engines import lower_bound, upper_bound


def wave(n=2000, seed=0, noise=0.1):
    rng = np.random.default_rng(seed)
    x = rng.uniform(0.0, 20.0, n)
    return x, np.sin(x) + noise * rng.standard_normal(n)


@pytest.mark.parametrize("mean", [1e4, 6.4e6, -3e8])
def test_a_large_mean_costs_no_digits_with_an_intercept(mean):
    x, y = wave()
    plain = GPRegressor(Matern32() + Constant(), num_basis=80).fit(x, y)
    moved = GPRegressor(Matern32() + Constant(), num_basis=80).fit(x, y + mean)
    tolerance = 1e-3 + 1e-9 * abs(mean)
    assert moved.noise_variance_ == pytest.approx(plain.noise_variance_, rel=tolerance)
    assert moved.kernel_.values == pytest.approx(plain.kernel_.values, rel=10 * tolerance)
    new = np.linspace(-5.0, 30.0, 40)
    means, std = moved.predict(new, return_std=True)
    expected, spread = plain.predict(new, return_std=True)
    np.testing.assert_allclose(means - mean, expected, atol=10 * tolerance)
    np.testing.assert_allclose(std, spread, rtol=20 * tolerance)
    assert moved.effects_[0].estimate - mean == pytest.approx(
        plain.effects_[0].estimate, abs=10 * tolerance
    )


def test_a_proper_prior_of_the_intercept_is_kept_by_centring():
    x, y = wave(100)
    y = y + 50.0
    kernel = Matern32(2.0, 1.0) + Constant(variance=30.0) + Linear(variance=2.0)
    gp = GPRegressor(kernel, num_basis=400, noise_variance=0.01, optimizer=None).fit(x, y)
    assert gp.stats_.centre[0] == pytest.approx(y.mean())
    design = np.column_stack([np.ones(100), x])
    covariance = Matern32(2.0, 1.0)(x) + (design * [30.0, 2.0]) @ design.T + 0.01 * np.eye(100)
    evidence = (
        -0.5 * y @ np.linalg.solve(covariance, y)
        - 0.5 * np.linalg.slogdet(2 * np.pi * covariance)[1]
    )
    assert gp.elbo_ <= evidence <= gp.evidence_upper_bound_
    assert evidence - gp.elbo_ < 0.5
    new = np.array([3.0, 30.0])
    cross = (
        Matern32(2.0, 1.0)(new, x) + (np.column_stack([np.ones(2), new]) * [30.0, 2.0]) @ design.T
    )
    np.testing.assert_allclose(gp.predict(new), cross @ np.linalg.solve(covariance, y), atol=1e-2)


def test_columns_and_inputs_far_from_zero_have_slopes():
    x, y = wave()
    rng = np.random.default_rng(1)
    z = 1e7 + rng.standard_normal(len(x))
    X = np.column_stack([x + 1e9, z])
    kernel = Matern32(dim=0) + Constant() + Linear(0) + Linear(1)
    gp = GPRegressor(kernel, num_basis=80, degree=2).fit(X, y + 2.0 * z + 0.3 * (x - 10.0))
    _, trend, slope = gp.effects_
    assert abs(slope.estimate - 2.0) < 5 * slope.std < 0.1
    assert abs(trend.estimate - 0.3) < 5 * trend.std < 1.0
    assert gp.noise_variance_ == pytest.approx(0.01, rel=0.1)


def test_a_column_of_zeros_waits_for_its_first_value():
    x, y = wave()
    step = (x > 15.0).astype(float)
    X = np.column_stack([x, step])
    gp = GPRegressor(Matern32(2.0, dim=0) + Constant() + Linear(1), num_basis=80, domain=(0, 20))
    early = x < 15.0
    gp.partial_fit(X[early], y[early])
    assert np.isfinite(gp.predict(X[:3])).all()
    gp.partial_fit(X[~early], (y + 3.0 * step)[~early])
    assert gp.effects_[1].std < 5.0


def fitted(**settings):
    x, y = wave(500)
    weights = settings.pop("weights", None)
    gp = GPRegressor(Matern32(1.0), num_basis=60, noise_variance=0.01, optimizer=None, **settings)
    return gp.fit(x, y, sample_weight=weights), x, y


@pytest.mark.parametrize(
    "change", [lambda y: y + 1.0, lambda y: y[::-1] * 5.0, lambda y: 0.0 * y - 2.0]
)
def test_forgetting_other_targets_is_refused(change):
    gp, x, y = fitted()
    order = np.argsort(x)[:50]
    before = gp.predict([1.0, 5.0])
    with pytest.raises(ValueError, match="never added"):
        gp.forget(x[order], change(y[order]))
    np.testing.assert_array_equal(gp.predict([1.0, 5.0]), before)


def test_forgetting_with_other_weights_is_refused():
    gp, x, y = fitted(weights=np.full(500, 2.0))
    with pytest.raises(ValueError, match="never added"):
        gp.forget(x[:50], y[:50], sample_weight=np.ones(50))
    with pytest.raises(ValueError, match="conventions"):
        gp.forget(x[:50], y[:50], noise_variance=np.full(50, 0.5))
    assert gp.forget(x[:50], y[:50], sample_weight=np.full(50, 2.0)).stats_.count == 450


def test_known_noise_is_asked_for_where_it_matters():
    x, y = wave()
    known = np.full(len(x), 0.01)
    gp = GPRegressor(Matern52(), num_basis=80).fit(x, y, noise_variance=known)
    with pytest.raises(ValueError, match="give noise_variance"):
        gp.predict([5.0], return_std=True, include_noise=True)
    with pytest.raises(ValueError, match="give noise_variance"):
        gp.log_predictive_density([5.0], [0.0])
    _, latent = gp.predict([5.0], return_std=True)
    _, std = gp.predict([5.0], return_std=True, include_noise=True, noise_variance=0.01)
    assert std[0] == pytest.approx(np.hypot(latent[0], 0.1))
    assert gp.log_predictive_density([5.0], [np.sin(5.0)], noise_variance=0.01)[0] > 1.0
    with pytest.raises(ValueError, match="conventions"):
        gp.leave_one_out(x, y)
    assert gp.leave_one_out(x, y, noise_variance=known).std.max() < 0.2
    assert "known" in str(gp.summary())


def test_statistics_of_other_conventions_do_not_add():
    x, y = wave(300)
    relative = GPRegressor(Matern32(1.0), num_basis=30, domain=(0, 20)).fit(x, y)
    known = GPRegressor(Matern32(1.0), num_basis=30, domain=(0, 20)).fit(
        x, y, noise_variance=np.full(300, 0.01)
    )
    with pytest.raises(ValueError, match="weights mean the same"):
        relative.stats_ + known.stats_
    t = pd.date_range("2024-01-01", periods=300, freq="h")
    one = GPRegressor(Matern32("5 hours"), num_basis=30).fit(t, y)
    other = GPRegressor(Matern32("5 hours"), num_basis=30).fit(t + pd.Timedelta("365D"), y)
    with pytest.raises(ValueError, match="same origin"):
        one.stats_ + other.stats_
    with pytest.raises(ValueError, match="origins"):
        one.merge(other)
    with pytest.raises(TypeError, match="another GPRegressor"):
        one.merge(3)


def test_an_automatic_stream_keeps_within_its_cells_and_finds_the_same():
    x = np.linspace(0.0, 100.0, 8000)
    y = np.sin(x / 3.0) + 0.1 * np.random.default_rng(0).standard_normal(8000)
    stream = GPRegressor(Matern32(1.0))
    for part in np.array_split(np.arange(8000), 40):
        stream.partial_fit(x[part], y[part])
        assert stream.stats_.grid.cells <= 2 * LINE.most_finest_cells
    whole = GPRegressor(Matern32(1.0)).fit(x, y)
    assert stream.num_basis_ <= 8 * whole.num_basis_
    assert stream.noise_variance_ == pytest.approx(whole.noise_variance_, rel=1e-2)
    np.testing.assert_allclose(stream.predict(x[::500]), whole.predict(x[::500]), atol=0.02)


def test_a_stray_input_is_refused():
    x, y = wave()
    gp = GPRegressor(Matern32(1.0)).fit(x, y)
    with pytest.raises(ValueError, match="times the domain so far"):
        gp.partial_fit([1e14], [0.0])
    fixed = GPRegressor(Matern32(1.0), num_basis=100).fit(x, y)
    with pytest.raises(ValueError, match="GiB"):
        fixed.partial_fit([1e14], [0.0])
    assert gp.stats_.count == fixed.stats_.count == len(x)


def test_zeros_and_constants_may_arrive_in_portions():
    x, y = wave()
    gp = GPRegressor(Matern32(1.0), num_basis=60, domain=(0, 20)).partial_fit([5.0], [0.0])
    gp.partial_fit(np.linspace(0, 1, 50), np.zeros(50))
    with pytest.raises(ValueError, match=r"root mean square of 0|constant"):
        gp.predict([1.0])
    gp.partial_fit(x, y)
    assert np.isfinite(gp.predict([1.0])[0])


@pytest.mark.parametrize(
    "kernel", [SHO(period=1.0), Matern32(1.0), SHO(fixed="period"), Matern52(lengthscale=1)]
)
def test_a_scale_of_one_needs_a_unit_against_times(kernel):
    t = pd.date_range("2024-01-01", periods=100, freq="h")
    with pytest.raises(ValueError, match="no unit"):
        GPRegressor(kernel, num_basis=20).fit(t, np.sin(np.arange(100.0)))


def test_scales_not_given_are_found_beside_those_that_are():
    rng = np.random.default_rng(0)
    x = np.sort(rng.uniform(0.0, 400.0, 3000))
    y = np.sin(x / 30.0) * 3.0 + np.sin(2 * np.pi * x) + 0.1 * rng.standard_normal(3000)
    settings = {"num_basis": 3000}
    unset = GPRegressor(Matern32() + SHO(1.0, 50.0, fixed="period"), **settings).fit(x, y)
    told = GPRegressor(Matern32(50.0) + SHO(1.0, 50.0, fixed="period"), **settings).fit(x, y)
    assert unset.elbo_ > told.elbo_ - 1.0


def test_months_fit_no_grid():
    edges = pd.date_range("1990-01-01", "2000-01-01", freq="MS")
    days = np.diff(edges) / np.timedelta64(1, "D")
    with pytest.raises(ValueError, match="interval"):
        GPRegressor(Matern32("90 days")).fit(
            edges[:-1], np.sin(np.arange(len(days))), width=pd.to_timedelta(days, unit="D")
        )


def test_evidence_does_not_exploit_processes_shorter_than_the_knots():
    rng = np.random.default_rng(0)
    x = np.sort(rng.uniform(0.0, 10.0, 400))
    kernel = Matern12(0.05, 1.0)
    y = np.linalg.cholesky(kernel(x) + 1e-3 * np.eye(400)) @ rng.standard_normal(400)
    gp = GPRegressor(Matern12(), num_basis=30, objective="evidence")
    with pytest.warns(UserWarning, match="lower limits?, a few times the knot spacing"):
        gp.fit(x, y)
    spacing = gp.stats_.grid.spacing
    assert gp.kernel_.values[0] >= 3.99 * spacing
    assert gp.evidence_ >= gp.elbo_


def test_rows_are_asked_for():
    gp, _, _ = fitted()
    with pytest.raises(ValueError, match=r"say \[x\]"):
        gp.predict(3.0)


def test_a_changed_kernel_is_used_or_refused():
    x, y = wave(300)
    gp = GPRegressor(Matern32(1.0), num_basis=30, domain=(0, 20)).fit(x, y)
    gp.set_params(kernel=Matern32(1.0) + Constant()).partial_fit(x, y)
    assert [effect.name for effect in gp.effects_] == ["intercept"]
    gp.set_params(kernel=Matern32(1.0, dim=0) + Linear(1))
    with pytest.raises(ValueError, match="features as input"):
        gp.partial_fit(np.column_stack([x, x]), y)


def test_components_know_the_uncertainty_of_the_effects():
    x, y = wave(150)
    kernel = Matern52(1.1, 0.9) + SHO(0.9, 2.0, 0.5) + Constant(variance=4.0)
    gp = GPRegressor(kernel, num_basis=700, noise_variance=0.05, optimizer=None).fit(x, y + 2.0)
    new = np.array([-1.0, 3.3, 12.0, 25.0])
    _, _, parts = gp.predict(new, return_std=True, components=True)
    whole = sum(part(x) for part in kernel.components) + 4.0 + 0.05 * np.eye(150)
    for part, got in zip(kernel.components, parts[:2], strict=True):
        cross = part(new, x)
        variance = part.variance - np.einsum("ij,ji->i", cross, np.linalg.solve(whole, cross.T))
        np.testing.assert_allclose(got.std**2, variance, rtol=1e-3)
    variance = 4.0 - 16.0 * np.linalg.solve(whole, np.ones(150)).sum()
    np.testing.assert_allclose(parts[2].std ** 2, variance, rtol=1e-3)
    row = gp.summary().effects[0]
    reach = 1.959963984540054 * variance**0.5
    assert row["upper"] - row["lower"] == pytest.approx(2 * reach, rel=1e-3)


def test_a_growing_domain_keeps_columns():
    x, y = wave(400)
    z = np.cos(3.0 * x)[:, None]
    X = np.column_stack([x, z])
    order = np.argsort(x)
    settings = {"num_basis": 50, "noise_variance": 0.01, "optimizer": None}
    kernel = Matern32(1.0, dim=0) + Constant(variance=9.0) + Linear(1, variance=5.0)
    grown = GPRegressor(kernel, **settings).fit(X[order[:200]], y[order[:200]])
    grown.partial_fit(X[order[200:]], y[order[200:]])
    stats = grown.stats_
    direct = Statistics.from_data(x, y, stats.grid, stats.degree, covariates=z, like=stats)
    np.testing.assert_allclose(stats.products, direct.products, atol=1e-9)
    posterior = ChainPosterior(grown.posterior_.kernel, 0.01, direct, stats.degree)
    new = np.linspace(-1.0, 21.0, 30)
    expected, variance = posterior.predict(LinePoints(new, np.ones((30, 1))))
    mean, std = grown.predict(np.column_stack([new, np.ones(30)]), return_std=True)
    np.testing.assert_allclose(mean, expected[0], atol=1e-9)
    np.testing.assert_allclose(std**2, variance, rtol=1e-7)


def test_upper_bound_with_effects_is_the_formula():
    x, y = wave(80)
    kernel, noise = Matern32(1.0, 1.0) + Constant(variance=4.0), 0.05
    stats = Statistics.from_data(x, y, Grid(0.0, 20.0, 40), 2)
    posterior = ChainPosterior(kernel, noise, stats, 2)
    missed = lower_bound(kernel, noise, stats, 2).missed
    captured = Matern32(1.0, 1.0)(x) - _missed_covariance(posterior, x)
    inner = captured + 4.0
    wide = inner + (noise + missed) * np.eye(80)
    expected = (
        -0.5 * y @ np.linalg.solve(wide, y)
        - 0.5 * np.linalg.slogdet(2 * np.pi * (inner + noise * np.eye(80)))[1]
    )
    assert upper_bound(kernel, noise, stats, 2) == pytest.approx(expected, abs=1e-6)


def _missed_covariance(posterior: ChainPosterior, x):
    """``k - phi' K^-1 phi``."""
    functions = design(x, posterior.grid, 2)
    captured = functions @ np.linalg.solve(gram(posterior.model.priors[0]), functions.T)
    return posterior.kernel.components[0](x) - captured


def test_domains_keep_their_zone():
    t = pd.date_range("2024-01-01", periods=200, freq="h", tz="Europe/Berlin")
    y = np.sin(np.arange(200.0) / 9.0)
    gp = GPRegressor(Matern32("5 hours"), num_basis=40).fit(t, y)
    lower, upper = gp.domain_
    assert (lower, upper) == (t[0], t[-1])
    assert lower.utcoffset().total_seconds() == 3600
    again = GPRegressor(Matern32("5 hours"), num_basis=40, domain=gp.domain_).fit(t, y)
    np.testing.assert_allclose(again.predict(t), gp.predict(t), atol=1e-6)


def test_text_is_no_time():
    with pytest.raises(TypeError, match="to_datetime"):
        GPRegressor(Matern32("1 day")).fit(["2024-01-01", "2024-01-02"], [0.0, 1.0])
    with pytest.raises(TypeError, match="to_datetime"):
        GPRegressor().fit(np.array(["2024-01-01", "2024-01-02"]), [0.0, 1.0])


def test_merging_other_zones_or_kinds_is_refused():
    t = pd.date_range("2024-01-01", periods=100, freq="h")
    y = np.sin(np.arange(100.0))
    settings = {"num_basis": 20, "noise_variance": 0.1, "optimizer": None}
    plain = GPRegressor(Matern32("5 hours"), **settings).fit(t, y)
    zoned = GPRegressor(Matern32("5 hours"), **settings).fit(t.tz_localize("UTC"), y)
    numbers = GPRegressor(Matern32(5.0), **settings).fit(np.arange(100.0), y)
    with pytest.raises(ValueError, match="zones"):
        plain.merge(zoned)
    with pytest.raises(ValueError, match="of numbers"):
        plain.merge(numbers)


def test_text_is_read_as_times_where_the_model_is_of_times():
    t = np.datetime64("2024-01-01") + np.arange(40)
    y = np.sin(np.arange(40.0) / 5)
    settings = {"num_basis": 30, "noise_variance": 0.01, "optimizer": None}
    gp, twin = (GPRegressor(Matern32("5 days"), **settings).fit(t[:30], y[:30]) for _ in range(2))
    gp.partial_fit([str(day) for day in t[30:]], y[30:])
    twin.partial_fit(t[30:], y[30:])
    np.testing.assert_array_equal(gp.predict(t), twin.predict(t))
    gp.forget([str(day) for day in t[:5]], y[:5])
    assert gp.stats_.count == 35
    with pytest.raises(ValueError, match="row 0 is None"):
        gp.partial_fit([None, "2024-01-09"], y[:2])
    with pytest.raises(TypeError, match=r"holds text|this model was fitted to numbers"):
        GPRegressor(Matern32(), **settings).fit(y, y).partial_fit(["2024-01-09"], y[:1])
