"""Fields one of whose inputs goes around a circle, as a user sees them."""

from __future__ import annotations

import numpy as np
import pytest

from asvgp import Constant, GPRegressor, Linear, Matern32, Periodic, load
from asvgp.basis import Grid
from asvgp.model.levels import most_doublings
from asvgp.model.plan import Plan
from asvgp.statistics import Statistics
from asvgp.training.boxes import boxes

FIXED = {"noise_variance": 0.01, "optimizer": None}
KERNEL = Periodic(360.0, 80.0, dim=0) * Matern32(0.8, dim=1) + Constant()
TURN = np.array([360.0, 0.0])
SETTINGS = FIXED | {"num_basis": (24, 12), "domain": (None, (0.0, 1.0))}
NEW = np.array([[0.0, 0.2], [359.9, 0.5], [100.0, 0.1], [270.0, 1.4], [15.0, -0.2]])


def globe(count=300, seed=0):
    """Rows whose longitudes are from three turns."""
    rng = np.random.default_rng(seed)
    X = np.stack([rng.uniform(-360.0, 720.0, count), rng.uniform(0.0, 1.0, count)], axis=1)
    angle = np.deg2rad(X[:, 0])
    y = 4.0 + np.cos(angle - 0.5) * np.sin(3 * X[:, 1]) + 0.3 * np.sin(2 * angle)
    return X, y + 0.1 * rng.standard_normal(count)


@pytest.fixture(scope="module")
def fitted():
    X, y = globe()
    return GPRegressor(KERNEL, **SETTINGS).fit(X, y)


def test_turns_change_nothing(fitted):
    X, y = globe()
    other = GPRegressor(KERNEL, **SETTINGS).fit(np.mod(X, [360.0, 9.0]), y)
    assert other.elbo_ == pytest.approx(fitted.elbo_, rel=1e-10)
    for turns in (-2, 1, 5):
        moved = NEW + turns * TURN
        for options in ({}, {"derivative": {0: 1}}):
            expected = fitted.predict(NEW, return_std=True, **options)
            found = fitted.predict(moved, return_std=True, **options)
            np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-12)
    both = fitted.predict(np.concatenate([NEW, NEW + TURN]), return_cov=True)[1]
    np.testing.assert_allclose(both[:5, :5], both[:5, 5:], atol=1e-12)


def test_slopes_go_on_across_the_seam(fitted):
    h, place = 1e-3, np.array([[0.0, 0.4]])
    ends = fitted.predict([[-h, 0.4], [h, 0.4]])
    slope = fitted.predict(place, derivative={0: 1})[0]
    assert slope == pytest.approx((ends[1] - ends[0]) / (2 * h), rel=1e-4)


def test_integrals_go_across_the_seam(fitted):
    pieces = fitted.integrate([[350.0, 0.1], [0.0, 0.1]], [[360.0, 0.7], [20.0, 0.7]])
    whole, std = fitted.integrate([350.0, 0.1], [380.0, 0.7], return_std=True)
    assert whole == pytest.approx(pieces.sum(), rel=1e-9)
    turned = fitted.integrate([-10.0, 0.1], [20.0, 0.7], return_std=True)
    np.testing.assert_allclose(turned, (whole, std), rtol=1e-9)
    # by many points, of two turns as of one
    x = (np.arange(32) + 0.5) / 32
    X = np.stack([360.0 * np.repeat(x, 32), np.tile(x, 32)], axis=1)
    mean, cov = fitted.predict(X, return_cov=True)
    for turns in (1, 2):
        average, std = fitted.integrate(
            [5.0, 0.0], [5.0 + 360.0 * turns, 1.0], average=True, return_std=True
        )
        assert average == pytest.approx(mean.mean(), abs=1e-3)
        assert std == pytest.approx(np.sqrt(cov.mean()), rel=5e-2)


def test_portions_merged_and_forgotten_are_the_whole(fitted):
    X, y = globe()
    kernel = KERNEL
    first, second = (GPRegressor(kernel, **SETTINGS) for _ in range(2))
    first.partial_fit(X[:100], y[:100]).partial_fit(X[100:180], y[100:180])
    second.fit(X[180:], y[180:])
    first.merge(second)
    assert first.elbo_ == pytest.approx(fitted.elbo_, rel=1e-9)
    np.testing.assert_allclose(first.predict(NEW), fitted.predict(NEW), rtol=1e-8)
    more = globe(50, seed=5)
    first.partial_fit(*more).forget(*more)
    np.testing.assert_allclose(first.predict(NEW), fitted.predict(NEW), rtol=1e-7)


def test_files_bring_the_circle_back(fitted, tmp_path):
    fitted.save(tmp_path / "model.npz")
    again = load(tmp_path / "model.npz")
    for options in ({"return_std": True}, {"derivative": {1: 1}}):
        again_at, fitted_at = again.predict(NEW, **options), fitted.predict(NEW, **options)
        np.testing.assert_allclose(again_at, fitted_at, rtol=1e-9)
    assert again.stats_.grids[0] == Grid(0.0, 360.0, 24, cyclic=True)
    again.partial_fit(*globe(20, seed=2))


def test_draws_and_leave_one_out(fitted):
    X, y = globe()
    for path in fitted.sample_paths(2, random_state=0):
        np.testing.assert_allclose(path(NEW[:3]), path(NEW[:3] - 2 * TURN), rtol=1e-10)
    loo = fitted.leave_one_out(X, y)
    for row in (0, 150):
        rest = np.arange(len(y)) != row
        other = GPRegressor(KERNEL, **SETTINGS).fit(X[rest], y[rest])
        mean, std = other.predict(X[[row]], return_std=True)
        assert loo.mean[row] == pytest.approx(mean[0], abs=1e-6)
        assert loo.std[row] == pytest.approx(np.sqrt(std[0] ** 2 + 0.01), rel=1e-5)


def test_grids_of_data_and_weights():
    axes = np.linspace(-170.0, 190.0, 31), np.linspace(0.0, 1.0, 9)
    X = np.stack([np.repeat(axes[0], 9), np.tile(axes[1], 31)], axis=1)
    y = np.cos(np.deg2rad(X[:, 0])) + X[:, 1]
    gridded = GPRegressor(KERNEL, **SETTINGS).fit(axes, y.reshape(31, 9))
    rows = GPRegressor(KERNEL, **SETTINGS).fit(X, y)
    assert gridded.elbo_ == pytest.approx(rows.elbo_, rel=1e-9)
    weights = np.where(X[:, 0] < 0.0, 2.0, 1.0)
    twice = np.concatenate([X, X[weights == 2.0] + TURN])
    weighted = GPRegressor(KERNEL, **SETTINGS).fit(X, y, weights)
    repeated = GPRegressor(KERNEL, **SETTINGS).fit(twice, np.append(y, y[weights == 2.0]))
    np.testing.assert_allclose(weighted.predict(NEW), repeated.predict(NEW), rtol=1e-8)


@pytest.mark.parametrize("objective", ["elbo", "evidence"])
def test_training_finds_cells_that_divide_the_circle(objective):
    X, y = globe(600)
    kernel = Periodic(360.0, dim=0) * Matern32(dim=1) + Periodic(360.0, dim=0) + Constant()
    gp = GPRegressor(kernel, objective=objective).fit(X, y)
    for axes in gp.posterior_.plan.axes(gp.kernel_):
        assert axes[0].count * 2 ** axes[0].level == gp.stats_.grids[0].cells or axes[0].count >= 8
    new, truth = globe(200, seed=9)
    assert np.sqrt(np.mean((gp.predict(new) - truth) ** 2)) < 0.13
    assert "Periodic" in str(gp.summary())


def test_a_number_of_functions_that_cannot_be_halved():
    X, y = globe()
    gp = GPRegressor(Periodic(360.0, dim=0) * Matern32(dim=1), num_basis=(25, 12)).fit(X, y - 4.0)
    assert gp.num_basis_ == (25, 12)
    assert most_doublings(Grid(0.0, 360.0, 25, cyclic=True)) == 0


def test_a_sum_over_different_inputs():
    X, y = globe(400)
    kernel = Periodic(360.0, dim=0) + Matern32(dim=0) + Matern32(dim=1) + Linear(2) + Constant()
    X = np.column_stack([X, np.arange(400.0)])
    gp = GPRegressor(kernel).fit(X, y + 0.01 * X[:, 2])
    moved = X + np.array([360.0, 0.0, 0.0])
    (mean, here), (_, there) = (gp.predict(points, components=True) for points in (X, moved))
    np.testing.assert_allclose(here[0].mean, there[0].mean, rtol=1e-8, atol=1e-10)
    np.testing.assert_allclose(here[0].std, there[0].std, rtol=1e-8, atol=1e-10)
    np.testing.assert_allclose(sum(part.mean for part in here), mean, rtol=1e-9)
    assert np.ptp(here[0].mean) > 0.3


def test_hours_of_the_day_are_times():
    pd = pytest.importorskip("pandas")
    rng = np.random.default_rng(0)
    hours = rng.uniform(0.0, 24.0 * 30, 300)
    frame = pd.DataFrame(
        {
            "time": pd.Timestamp("2024-03-01") + pd.to_timedelta(hours, "h"),
            "z": rng.uniform(size=300),
        }
    )
    y = np.cos(2 * np.pi * hours / 24) * frame["z"].to_numpy()
    kernel = Periodic("1 day", "6 hours", dim="time") * Matern32(1.0, dim="z")
    gp = GPRegressor(kernel, **FIXED, num_basis=(24, 8)).fit(frame, y)
    later = frame.assign(time=frame["time"] + pd.Timedelta("100 days"))
    np.testing.assert_allclose(gp.predict(later), gp.predict(frame), rtol=1e-7, atol=1e-9)
    assert np.std(y - gp.predict(frame)) < 0.1


def test_a_domain_is_where_the_circle_begins(fitted):
    X, y = globe()
    settings = SETTINGS | {"domain": ((-180.0, 180.0), (0.0, 1.0))}
    gp = GPRegressor(KERNEL, **settings).fit(X, y)
    assert gp.domain_[0] == (-180.0, 180.0)
    np.testing.assert_allclose(gp.predict(NEW), fitted.predict(NEW), atol=1e-6)
    with pytest.raises(ValueError, match=r"one period, 360.*100 long"):
        GPRegressor(KERNEL, domain=((0.0, 100.0), None)).fit(X, y)


@pytest.mark.parametrize(
    ("kernel", "settings", "message"),
    [
        (Periodic(360.0, dim=0) * Matern32(dim=1) + Matern32(dim=0), {}, "two columns"),
        (Periodic(360.0, dim=0) * Matern32(dim=1) + Periodic(90.0, dim=0), {}, "circle of"),
        (Periodic(9.0, dim=0) * Matern32(dim=0) * Matern32(dim=1), {}, "Periodic over that"),
        (Periodic(360.0, dim=0) * Matern32(dim=1), {"num_basis": 6}, "at least 8"),
    ],
)
def test_what_is_refused(kernel, settings, message):
    with pytest.raises(ValueError, match=message):
        GPRegressor(kernel, **settings).fit(*globe(40))


def test_boxes_go_all_around():
    rng = np.random.default_rng(0)
    grids = Grid(0.0, 1.0, 32, cyclic=True), Grid(0.0, 64.0, 4096)
    X = np.stack([rng.uniform(0.0, 1.0, 60_000), rng.uniform(0.0, 64.0, 60_000)], axis=1)
    stats = Statistics.from_data(X, np.sin(X[:, 1]), grids, (1, 1))
    kernel = Periodic(1.0, dim=0) * Matern32(dim=1)
    plan = Plan((0, 1), grids, (1, 1), (0,), ((1, 1),), ((0, 0),))
    parts = boxes(kernel, plan, stats, (1, 1))
    assert parts
    assert all(part.grids[0] == grids[0] for part in parts)
    wide = Grid(0.0, 1.0, 512, cyclic=True), Grid(0.0, 64.0, 256)
    stats = Statistics.from_data(X, np.sin(X[:, 1]), wide, (1, 1))
    assert boxes(kernel, plan, stats, (1, 1)) == []


def test_centred_seasons_are_for_one_input():
    kernel = Periodic(1.0, centred=True, dim=0) * Matern32(dim=1)
    with pytest.raises(ValueError, match="centred=True is for models of one input"):
        GPRegressor(kernel).fit(np.zeros((5, 2)), np.zeros(5))
