"""Models with seasons from end to end: numbers and times, untidy data, streams, files, errors."""

from __future__ import annotations

import warnings

import numpy as np
import pandas as pd
import pytest

import asvgp
from asvgp import SHO, Constant, GPRegressor, Linear, Matern32, Matern52, Matern72
from asvgp.kernels import Periodic
from asvgp.posterior.exact import ExactPosterior
from tests.dense import ExactGP

NOISE = 0.04
HOURS = 400
KERNEL = (
    Matern32(80.0, 0.5)
    + Periodic(24.0, 12.0, 0.8)
    + Periodic(24.0, 9.0, 0.3) * Matern32(100.0)
    + Constant(variance=9.0)
)
FREE = Matern32() + Periodic(24.0) + Constant()


def series(count=HOURS, seed=0):
    """Return an hourly series with a daily cycle."""
    t = np.arange(float(count))
    noise = np.sqrt(NOISE) * np.random.default_rng(seed).standard_normal(count)
    return t, signal(t) + noise


def signal(t):
    return 3.0 + np.sin(2 * np.pi * t / 24) + 0.3 * np.sin(t / 70)


T, Y = series()
NEW = np.array([0.0, 100.3, 250.0, 399.0, 405.5, 430.0])


def fixed(kernel=KERNEL, **changes) -> GPRegressor:
    """Return an estimator that keeps its hyperparameters."""
    return GPRegressor(kernel, **{"noise_variance": NOISE, "optimizer": None} | changes)


def dense(t, y, new=NEW, w=None, kernel=KERNEL, columns=None, new_columns=None):
    """Return means and standard deviations of the Gaussian process itself."""

    def covariance(a, b):
        lag = np.abs(np.subtract.outer(a, b))
        return sum(
            part.variance * np.prod([f.covariance(lag) for f in part.factors], axis=0)
            for part in kernel.components
        )

    ones = np.ones((len(t), 1)) if columns is None else columns
    news = np.ones((len(new), 1)) if new_columns is None else new_columns
    scale = np.diag([effect.variance for effect in kernel.effects])
    w = np.ones(len(t)) if w is None else w
    whole = covariance(t, t) + ones @ scale @ ones.T + np.diag(NOISE / w)
    cross = covariance(new, t) + news @ scale @ ones.T
    own = covariance(new, new) + news @ scale @ news.T
    inverse = np.linalg.inv(whole)
    return cross @ inverse @ y, np.sqrt(np.diag(own - cross @ inverse @ cross.T))


def close(gp, expected, new=NEW, share=0.02):
    mean, std = gp.predict(new, return_std=True)
    exact, scale = expected
    if np.ndim(exact) == 2:
        scale = np.stack([scale] * exact.shape[1], axis=1)
    assert np.max(np.abs(mean - exact) / scale) < share
    np.testing.assert_allclose(std, scale, rtol=share)


@pytest.mark.parametrize("num_basis", ["auto", 1200], ids=["automatic", "1200 cells"])
def test_answers_are_those_of_a_dense_process(num_basis):
    close(fixed(num_basis=num_basis).fit(T, Y), dense(T, Y))


def test_rows_in_any_order_twice_and_missing():
    rng = np.random.default_rng(1)
    t, y = np.concatenate([T, T[50:80]]), np.concatenate([Y, Y[50:80] + 0.3])
    mixed = rng.permutation(len(t))
    t, y = t[mixed], y[mixed]
    close(fixed().fit(t, y), dense(t, y))
    y[::9] = np.nan
    with pytest.warns(UserWarning, match="NaN"):
        gp = fixed().fit(t, y)
    good = np.isfinite(y)
    close(gp, dense(t[good], y[good]))


def test_irregular_inputs():
    rng = np.random.default_rng(2)
    t = np.concatenate([rng.uniform(0.0, 150.0, 200), rng.uniform(280.0, 400.0, 150)])
    y = signal(t) + 0.2 * rng.standard_normal(len(t))
    close(fixed().fit(t, y), dense(t, y), share=0.05)
    close(fixed(num_basis=1500).fit(t, y), dense(t, y))


@pytest.mark.parametrize("num_basis", ["auto", 1200])
def test_weights_and_outputs(num_basis):
    w = np.random.default_rng(3).uniform(0.3, 3.0, HOURS)
    y = np.stack([Y, 2.0 * Y[::-1]], axis=1)
    close(fixed(num_basis=num_basis).fit(T, y, sample_weight=w), dense(T, y, w=w))


@pytest.mark.parametrize("num_basis", ["auto", 1200])
def test_linear_effects_of_the_input_and_of_a_column(num_basis):
    kernel = KERNEL + Linear(0, variance=0.01) + Linear(1, variance=4.0)
    z = np.random.default_rng(4).standard_normal(HOURS)
    y = Y + 0.01 * T + 1.5 * z
    gp = fixed(kernel, num_basis=num_basis).fit(np.stack([T, z], axis=1), y)
    assert gp.effects_[2].estimate == pytest.approx(1.5, abs=0.1)
    columns = np.stack([np.ones(HOURS), T, z], axis=1)
    news = np.stack([np.ones(len(NEW)), NEW, np.full(len(NEW), 0.7)], axis=1)
    expected = dense(T, y, kernel=kernel, columns=columns, new_columns=news)
    close(gp, expected, news[:, 1:])


def test_times_are_numbers_in_seconds(tmp_path):
    t = pd.date_range("2024-02-27 05:00", periods=HOURS + 48, freq="h")
    season, drift = Periodic("1 day", "12 hours", 0.8), Periodic("1 day", "9 hours", 0.3)
    kernel = Matern32("80 hours", 0.5) + season + drift * Matern32("100 hours")
    gp = fixed(kernel + Constant(variance=9.0)).fit(t[:HOURS], Y)
    ahead = T[-1] + 1.0 + np.arange(48.0)
    close(gp, dense(T, Y, ahead), t[HOURS:])
    assert "1 day" in repr(gp.kernel_)
    assert "1 day" in gp.summary().kernel
    gp.save(tmp_path / "model.asvgp")
    again = asvgp.load(tmp_path / "model.asvgp")
    np.testing.assert_array_equal(again.predict(t), gp.predict(t))


@pytest.mark.parametrize("num_basis", ["auto", 500])
def test_training_finds_the_cycle(tmp_path, num_basis):
    gp = GPRegressor(FREE, num_basis=num_basis).fit(T[:-48], Y[:-48])
    mean, std = gp.predict(T[-48:], return_std=True)
    assert np.sqrt(np.mean((mean - signal(T[-48:])) ** 2)) < 0.25
    assert gp.noise_variance_ == pytest.approx(NOISE, rel=0.25)
    total, spread = gp.integrate(T[-48], T[-48] + 24.0, return_std=True)
    assert abs(total - 24.0 * signal(T[-48:-24]).mean()) < 4.0 * spread + 1.0
    _, parts = gp.predict(T[-48:], components=True)
    np.testing.assert_allclose(sum(part.mean for part in parts), mean, atol=1e-8)
    gp.save(tmp_path / "model.asvgp")
    again = asvgp.load(tmp_path / "model.asvgp")
    for one, other in zip(
        again.predict(NEW, return_std=True), gp.predict(NEW, return_std=True), strict=True
    ):
        np.testing.assert_allclose(one, other, rtol=1e-8)
    again.partial_fit(T[-48:], Y[-48:])
    assert again.stats_.count == HOURS
    assert np.all(again.predict(T[-48:], return_std=True)[1] < std)


@pytest.mark.parametrize("domain", [None, (0.0, 400.0)])
def test_portions_are_the_whole(domain):
    whole, stream = fixed(domain=domain).fit(T, Y), fixed(domain=domain)
    for rows in (slice(0, 90), slice(90, 91), slice(91, None)):
        stream.partial_fit(T[rows], Y[rows])
        assert isinstance(stream.posterior_, ExactPosterior)
    np.testing.assert_allclose(stream.predict(NEW), whole.predict(NEW), atol=1e-6)
    assert stream.stats_.count == HOURS


def test_models_on_one_domain_merge():
    parts = [
        fixed(domain=(0.0, 400.0), num_basis=800).fit(T[rows], Y[rows])
        for rows in (slice(None, None, 2), slice(1, None, 2))
    ]
    merged = parts[0].merge(parts[1])
    whole = fixed(domain=(0.0, 400.0), num_basis=800).fit(T, Y)
    for one, other in zip(
        merged.predict(NEW, return_std=True), whole.predict(NEW, return_std=True), strict=True
    ):
        np.testing.assert_allclose(one, other, rtol=1e-6)
    assert merged.elbo_ == pytest.approx(whole.elbo_)


def test_leave_one_out_is_that_of_refits():
    t, y = T[:60], Y[:60]
    left = fixed().fit(t, y).leave_one_out(t, y)
    for i in (0, 31, 59):
        rest = np.arange(60) != i
        mean, std = dense(t[rest], y[rest], t[[i]])
        assert left.mean[i] == pytest.approx(mean[0], abs=0.02 * std[0])


@pytest.mark.filterwarnings("ignore:.*the data span")
@pytest.mark.parametrize("rows", [2, 3, 10])
def test_few_rows_say_that_they_are_few(rows):
    with pytest.warns(UserWarning, match=f"{rows} observations are too few"):
        gp = GPRegressor(Matern32() + Periodic(1.5) + Constant()).fit(0.25 * T[:rows], Y[:rows])
    mean, std = gp.predict(0.25 * T[:rows], return_std=True)
    assert np.isfinite(mean).all()
    assert np.isfinite(std).all()


@pytest.mark.parametrize(
    ("kernel", "message"),
    [
        (Matern32() + Periodic(1e4), "the data span 400"),
        (Matern32() + Periodic(1.5), "less than two steps of 1 between inputs"),
        (Periodic(24.0) + Periodic(24.0) + Constant(), "like component 1"),
        (Matern32() + SHO(1e4, 5.0) + Constant(), "the data span 400"),
        (Matern32() + SHO(1.5, 50.0) + Constant(), "less than two steps of 1 between inputs"),
    ],
    ids=str,
)
def test_seasons_that_the_data_cannot_show(kernel, message):
    with pytest.warns(UserWarning, match=message):
        gp = GPRegressor(kernel).fit(T, Y)
    assert message in " ".join(str(gp.summary()).split())
    assert np.isfinite(gp.predict(NEW)).all()


def test_durations_in_notes():
    t = pd.date_range("2024-01-01", periods=60, freq="D")
    with pytest.warns(UserWarning, match=r"365\.25 days, but the data span 60 days"):
        GPRegressor(Matern32() + Periodic("1 year") + Constant()).fit(t, Y[:60])


def test_ordinary_seasons_need_no_note():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        GPRegressor(FREE).fit(T, Y)


@pytest.mark.parametrize(
    ("kernel", "X", "message"),
    [
        (Matern32() + Periodic(0.001), T, "period 0.001 is too short"),
        (Periodic(24.0), pd.date_range("2024", periods=HOURS, freq="h"), "24"),
        (Periodic("1 day"), T, "1 day"),
        (Periodic(24.0), np.ones(HOURS), "X is constant"),
    ],
    ids=["short", "number", "duration", "constant"],
)
def test_what_cannot_be_fitted_says_why(kernel, X, message):
    with pytest.raises(ValueError, match=message):
        GPRegressor(kernel).fit(X, Y)


def test_incommensurate_periods_are_refused_or_oscillate():
    t, y = series(4000)
    with pytest.raises(ValueError, match="no common part"):
        fixed(Periodic(24.0) + Periodic(24.0 * np.sqrt(5.0))).fit(t, y)
    gp = fixed(Periodic(24.0, 9.0) + SHO(24.0 * np.sqrt(5.0), 100.0)).fit(t, y - 3.0)
    assert np.isfinite(gp.predict(NEW)).all()


def test_sums_of_materns_have_cells_of_their_own_on_regular_inputs():
    kernel = Matern32(5.0, 0.5) + Matern52(80.0, 0.8) + Constant(variance=9.0)
    gp = fixed(kernel).fit(T, Y)
    mean, std = gp.predict(NEW, return_std=True)
    expected = dense(T, Y, kernel=kernel)
    np.testing.assert_allclose(mean, expected[0], atol=1e-8)
    np.testing.assert_allclose(std, expected[1], rtol=1e-6)
    assert isinstance(gp.posterior_, ExactPosterior)
    uneven = fixed(kernel).fit(T + 0.3 * np.sin(T), Y)
    assert uneven.num_basis_ > 2 * HOURS  # both on the cells of one chain


def test_twins_part():
    """Components that begin equal have equal gradients, and must not begin so."""
    y = np.sin(T / 60) + 0.3 * np.sin(T / 3) + 0.1 * np.random.default_rng(1).normal(size=HOURS)
    gp = GPRegressor(Matern32() + Matern32()).fit(T, y)
    first, second = (part.lengthscale for part in gp.kernel_.components)
    assert not 0.5 < first / second < 2.0
    assert gp.elbo_ > GPRegressor(Matern32()).fit(T, y).elbo_


@pytest.mark.parametrize(("step", "start"), [(0.1, 0.0), (1 / 3, 0.0), (0.1, 1000.1)])
def test_regular_inputs_are_told_apart_whatever_their_step(step, start):
    """Inputs on knots would come two to a cell by rounding, and need splines then."""
    gp = fixed(Matern32(8.0 * step) + Periodic(24.0 * step, 9.0 * step) + Constant())
    gp.fit(start + step * np.arange(HOURS), Y)
    assert isinstance(gp.posterior_, ExactPosterior)
    assert gp.num_basis_ == HOURS


def test_sums_of_materns_on_one_domain_merge_whatever_their_inputs():
    rng = np.random.default_rng(3)
    kernel = Matern32(5.0) + Matern52(60.0) + Constant()
    x = np.concatenate([np.arange(200.0), rng.uniform(200, 400, 200)])
    one, other = (fixed(kernel, domain=(0, 401)).fit(x[part], Y[part]) for part in HALVES)
    whole = fixed(kernel, domain=(0, 401)).fit(x, Y)
    assert one.merge(other).elbo_ == pytest.approx(whole.elbo_, abs=1e-6)


HALVES = slice(0, 200), slice(200, 400)


@pytest.mark.parametrize("period", [0.381, 0.38, 0.39])
def test_smooth_seasons_at_irregular_inputs_keep_their_digits(period):
    """A prime number of cells per period left the finest splines only, and a bound too high."""
    rng = np.random.default_rng(745014304273)
    x = 0.824 * rng.uniform(size=100)
    y = 1.34 * np.sin(1.27 * x) - 5.0 + 0.971 * rng.standard_normal(100)
    kernel = Periodic(period, 0.478, 2.79, nu=2.5) * Matern32(0.935, 0.363)
    gp = GPRegressor(kernel, noise_variance=0.942, optimizer=None).fit(x, y)
    evidence = ExactGP(kernel, 0.942, x, y).evidence()
    assert evidence - 0.05 < gp.elbo_ <= evidence + 1e-6
    assert gp.num_basis_ < 200


@pytest.mark.filterwarnings("ignore:.*too few to tell a season")
def test_few_cells_per_period_are_no_prime_number_either():
    """With 17 cells, and no wider ones, both bounds were 0.16 nats too low."""
    rng = np.random.default_rng(100611)
    x = 2.0 * rng.uniform(size=10)
    y = 5.9 * np.sin(0.7 * x) + 1.0 + 0.146 * rng.standard_normal(10)
    kernel = Periodic(0.751, 1.33, 0.217, nu=2.5) * Matern72(3.07, 0.2)
    gp = GPRegressor(kernel, noise_variance=0.0214, optimizer=None).fit(x, y)
    evidence = ExactGP(kernel, 0.0214, x, y).evidence()
    assert gp.elbo_ == pytest.approx(evidence, abs=0.01)
    assert gp.evidence_upper_bound_ > evidence - 1e-3
