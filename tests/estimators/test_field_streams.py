"""What goes wrong with real data of several inputs: offsets, mistakes in forgetting."""

from __future__ import annotations

import numpy as np
import pytest

from asvgp import Constant, GPRegressor, Linear, Matern32
from asvgp.basis import Grid
from asvgp.statistics import Statistics

SUMS = ("moments", "targets", "cross", "column_gram", "column_targets", "squares")
WIDE = Constant(variance=1e26)  # whatever the offset, its prior is the same
PRODUCT = Matern32(0.3, dim=0) * Matern32(0.3, dim=1)
ADDITIVE = Matern32(0.3, dim=0) + Matern32(0.3, dim=1)


def surface(n=800, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.uniform(0.0, 1.0, (n, 3))
    y = np.sin(6 * X[:, 0]) + np.cos(5 * X[:, 1]) + np.sin(3 * X[:, 0] * X[:, 1])
    return X, y + np.sin(5 * X[:, 2]) + 0.1 * rng.standard_normal(n)


def assert_moved(moved: GPRegressor, plain: GPRegressor, X, by: float):
    """One model is the other, y higher by a number."""
    assert moved.elbo_ == pytest.approx(plain.elbo_, rel=1e-6)
    assert moved.evidence_upper_bound_ == pytest.approx(plain.evidence_upper_bound_, rel=1e-6)
    assert moved.noise_variance_ == pytest.approx(plain.noise_variance_, rel=1e-6)
    np.testing.assert_allclose(moved.kernel_.values, plain.kernel_.values, rtol=1e-6)
    places = np.concatenate([X[:20], X[:20] + np.array([0.2, -0.5, 3.0])])
    mean, std = moved.predict(places, return_std=True)
    expected, spread = plain.predict(places, return_std=True)
    np.testing.assert_allclose(mean - by, expected, atol=1e-6)
    np.testing.assert_allclose(std, spread, rtol=1e-6)


# ---------------------------------------------------------------- large offsets


@pytest.mark.parametrize(
    "kernel",
    [
        PRODUCT + WIDE + Linear(2, variance=10.0),
        ADDITIVE + WIDE + Linear(2, variance=10.0),
        PRODUCT + Matern32(0.3, dim=2) + WIDE,
    ],
    ids=["product", "additive", "both"],
)
@pytest.mark.parametrize("settings", [{}, {"optimizer": None, "noise_variance": 0.01}])
def test_a_large_mean_costs_no_digits_with_an_intercept(kernel, settings):
    X, y = surface()
    plain, moved = (
        GPRegressor(kernel, num_basis=9, **settings).fit(X, y + by) for by in (0.0, 1e8)
    )
    assert moved.stats_.centre[0] == pytest.approx(1e8)
    if settings:
        assert_moved(moved, plain, X, 1e8)
    else:  # where training ends is known to its tolerance only
        moved = moved.set_params(optimizer=None, kernel=plain.kernel_)
        moved.set_params(noise_variance=plain.noise_variance_)
        assert moved.optimization_.converged
        assert moved.elbo_ == pytest.approx(plain.elbo_, rel=1e-6)
        assert_moved(moved.fit(X, y + 1e8), plain, X, 1e8)
    estimate = moved.effects_[0].estimate - 1e8
    assert estimate == pytest.approx(plain.effects_[0].estimate, abs=1e-6)
    draws = [gp.sample_paths(1, random_state=0)[0](X[:5]) for gp in (moved, plain)]
    np.testing.assert_allclose(draws[0] - 1e8, draws[1], atol=1e-5)


@pytest.mark.parametrize("process", [PRODUCT, ADDITIVE], ids=["product", "additive"])
def test_portions_with_other_offsets_are_one_data_set(process):
    X, y = surface()
    settings = {"num_basis": 9, "noise_variance": 0.01, "optimizer": None}
    settings["domain"] = [(-0.1, 1.1)] * 2
    kernel = process + WIDE + Linear(2, variance=10.0)
    y = y + 1e8 + 1e4 * (X[:, 2] > 0.5)
    order = np.argsort(X[:, 2])
    whole = GPRegressor(kernel, **settings).fit(X, y)
    stream = GPRegressor(kernel, **settings)
    for part in np.array_split(order, 5):
        stream.partial_fit(X[part], y[part])
    low, high = (GPRegressor(kernel, **settings) for _ in range(2))
    merged = low.fit(X[order[:400]], y[order[:400]]).merge(high.fit(X[order[400:]], y[order[400:]]))
    assert high.stats_.centre[0] - low.stats_.centre[0] > 5e3
    assert high.stats_.column_centre[1] - low.stats_.column_centre[1] > 0.4
    for other in (stream, merged):
        assert_moved(other, whole, X, 0.0)
    back = merged.forget(X[order[400:]], y[order[400:]])
    assert_moved(back, GPRegressor(kernel, **settings).fit(X[order[:400]], y[order[:400]]), X, 0.0)


def test_gridded_data_with_an_offset():
    rng = np.random.default_rng(1)
    axes = np.linspace(0.0, 1.0, 30), np.linspace(0.0, 2.0, 40)
    values = np.sin(6 * axes[0])[:, None] * np.cos(3 * axes[1])
    values = values + 0.1 * rng.standard_normal(values.shape)
    values[:8] = np.nan  # the first rows say nothing of the mean
    settings = {"num_basis": 12, "noise_variance": 0.01, "optimizer": None}
    plain, moved = (
        GPRegressor(PRODUCT + WIDE, **settings).fit(axes, values + by) for by in (0.0, 1e8)
    )
    assert moved.elbo_ == pytest.approx(plain.elbo_, rel=1e-6)
    np.testing.assert_allclose(moved.predict(axes) - 1e8, plain.predict(axes), atol=1e-6)


def test_a_proper_prior_of_the_intercept_is_kept_by_centring():
    X, y = surface(120)
    X, y = X + np.array([0.0, 0.0, 7.0]), y + 50.0
    process = Matern32(2.0, dim=0) + Matern32(1.0, 0.5, dim=1)
    kernel = process + Constant(variance=30.0) + Linear(2, variance=2.0)
    gp = GPRegressor(kernel, num_basis=100, noise_variance=0.05, optimizer=None).fit(X, y)
    assert gp.stats_.centre[0] == pytest.approx(y.mean())
    assert gp.stats_.column_centre[1] == pytest.approx(X[:, 2].mean())

    def covariance(A, B):
        out = Matern32(2.0)(A[:, 0], B[:, 0]) + Matern32(1.0, 0.5)(A[:, 1], B[:, 1])
        return out + 30.0 + 2.0 * np.outer(A[:, 2], B[:, 2])

    full = covariance(X, X) + 0.05 * np.eye(len(X))
    evidence = -0.5 * (y @ np.linalg.solve(full, y) + np.linalg.slogdet(2 * np.pi * full)[1])
    assert gp.elbo_ <= evidence <= gp.evidence_upper_bound_
    assert evidence - gp.elbo_ < 0.05
    new = X[:6] + 0.03
    cross = covariance(new, X)
    np.testing.assert_allclose(gp.predict(new), cross @ np.linalg.solve(full, y), atol=1e-3)
    variance = np.diag(covariance(new, new) - cross @ np.linalg.solve(full, cross.T))
    np.testing.assert_allclose(gp.predict(new, return_std=True)[1], variance**0.5, rtol=3e-3)


def test_columns_far_from_zero_have_slopes():
    X, y = surface()
    far = X + np.array([0.0, 0.0, 1e7])
    kernel = PRODUCT + Constant() + Linear(2)
    gp = GPRegressor(kernel, num_basis=9, noise_variance=0.01, optimizer=None).fit(far, y)
    near = GPRegressor(kernel, num_basis=9, noise_variance=0.01, optimizer=None).fit(X, y)
    for a, b in zip(gp.effects_[1][1:], near.effects_[1][1:], strict=True):
        assert a == pytest.approx(b, rel=1e-5)
    slope = gp.predict(far[:4], derivative={2: 1}, return_std=True)
    np.testing.assert_allclose(slope[0], gp.effects_[1].estimate)
    np.testing.assert_allclose(slope[1], gp.effects_[1].std, rtol=1e-6)


@pytest.mark.parametrize("main", [True, False])
def test_centres_are_a_matter_of_rounding(main):
    X, y = surface()
    grids = (Grid(0.0, 1.0, 4), Grid(0.0, 1.0, 6)) if main else ()
    smooths = ((Grid(0.0, 1.0, 5), 2),)
    outputs = np.column_stack([y, 3.0 - y])
    effects = np.column_stack([np.ones(len(X)), X[:, 2], X[:, 0] ** 2])

    def accumulated(rows, centre, column_centre):
        like = Statistics.empty(
            grids,
            (2, 1)[: len(grids)],
            2,
            smooths=smooths,
            linear=3,
            centre=np.array(centre),
            column_centre=np.array(column_centre),
        )
        return Statistics.from_data(
            X[rows, :2] if main else None,
            outputs[rows],
            grids,
            (2, 1)[: len(grids)],
            1.0 + X[rows, 1],
            smooths=smooths,
            smooth_inputs=X[rows, 2:],
            covariates=effects[rows],
            like=like,
        )

    every = slice(None)
    plain, moved = (
        accumulated(every, *centres)
        for centres in (([0.0, 0.0], [0.0, 0.0, 0.0]), ([1.5, -0.5], [0.0, 0.7, -0.2]))
    )
    assert moved.squares[0] != pytest.approx(plain.squares[0], rel=0.1)
    np.testing.assert_allclose(moved.sums, plain.sums)
    both = accumulated(slice(300), [1.5, -0.5], [0.0, 0.7, -0.2]) + accumulated(
        slice(300, None), [-2.0, 0.1], [0.0, 0.0, 3.0]
    )
    for other in (moved, both):
        found = other.recentred(plain.centre, plain.column_centre)
        for name in SUMS:
            np.testing.assert_allclose(
                getattr(found, name), getattr(plain, name), rtol=1e-9, atol=1e-9, err_msg=name
            )
    longer = {"smooth_lower": [-0.4], "smooth_upper": [1.0]}
    if main:
        longer |= {"lower": [-1.0, 0.0], "upper": [1.0, 1.0]}
    changed = [s.extend(**longer).coarsen_columns(2) for s in (moved, plain)]
    if main:
        changed = [s.coarsen((2, 3)) for s in changed]
    found = changed[0].recentred(plain.centre, plain.column_centre)
    for name in SUMS:
        np.testing.assert_allclose(
            getattr(found, name), getattr(changed[1], name), rtol=1e-9, atol=1e-9, err_msg=name
        )


# ---------------------------------------------------------------- forgetting


@pytest.mark.parametrize("kernel", [PRODUCT, ADDITIVE, PRODUCT + Linear(2) + Constant()])
@pytest.mark.parametrize(
    "change",
    [lambda y: y + 1.0, lambda y: y[::-1] * 5.0, lambda y: 0.0 * y - 2.0],
    ids=["more", "others", "one"],
)
def test_forgetting_other_targets_is_refused(kernel, change):
    X, y = surface()
    columns = 3 if kernel.effects else 2
    X = X[:, :columns]
    settings = {"num_basis": 6, "degree": 2, "noise_variance": 0.01, "optimizer": None}
    gp = GPRegressor(kernel, **settings).fit(X, y)  # on four cells along each input
    # Without cells only the data as a whole can contradict.
    corner = (X.max(axis=1) < 0.5) | (kernel is ADDITIVE)
    before = gp.predict(X[:5])
    with pytest.raises(ValueError, match=r"never added: .* Forget exactly what was added"):
        gp.forget(X[corner], change(y[corner]))
    np.testing.assert_array_equal(gp.predict(X[:5]), before)


def test_forgetting_other_columns_or_weights_is_refused():
    X, y = surface()
    kernel = PRODUCT + Linear(2) + Constant()
    gp = GPRegressor(kernel, num_basis=6, noise_variance=0.01, optimizer=None)
    gp.fit(X, y, sample_weight=np.full(len(y), 2.0))
    some = X[:, 0] < 0.5
    with pytest.raises(ValueError, match="never added"):
        gp.forget(X[some] + [0.0, 0.0, 3.0], y[some], sample_weight=np.full(some.sum(), 2.0))
    with pytest.raises(ValueError, match="never added"):
        gp.forget(X[:50], y[:50], sample_weight=np.ones(50))
    gp.forget(X[some], y[some], sample_weight=np.full(some.sum(), 2.0))
    assert gp.stats_.count == np.count_nonzero(~some)
