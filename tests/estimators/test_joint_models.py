"""Models with Matérn kernels over several inputs jointly, as users see them."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from asvgp import Constant, GPRegressor, Linear, Matern, Matern32, load

NOISE = 0.04
rng = np.random.default_rng(0)
X = rng.uniform(0.0, 1.0, (250, 2))
Y = np.sin(6 * X[:, 0]) * np.cos(5 * X[:, 1]) + 2.0 + 0.2 * rng.standard_normal(250)
W = rng.uniform(0.5, 2.0, 250)
NEW = rng.uniform(-0.2, 1.2, (40, 2))
KERNEL = Matern(2, (0.4, 0.5), dim=(0, 1)) + Constant(variance=9.0)


@pytest.fixture(scope="module")
def fitted():
    gp = GPRegressor(KERNEL, optimizer=None, num_basis=22)
    return gp.fit(X, Y, noise_variance=NOISE / W)


def covariance(A, B) -> np.ndarray:
    return KERNEL(A, B) + 9.0


NOISY = covariance(X, X) + np.diag(NOISE / W)


def test_predictions_are_those_of_a_dense_process(fitted):
    solved = np.linalg.solve(NOISY, covariance(X, NEW))
    mean, std = fitted.predict(NEW, return_std=True)
    np.testing.assert_allclose(mean, solved.T @ Y, atol=5e-3)
    variance = 10.0 - np.sum(covariance(X, NEW) * solved, axis=0)
    np.testing.assert_allclose(std, np.sqrt(variance), atol=5e-3)
    evidence = -0.5 * Y @ np.linalg.solve(NOISY, Y) - 0.5 * np.linalg.slogdet(2 * np.pi * NOISY)[1]
    assert evidence - 1.0 < fitted.elbo_ < evidence < fitted.evidence_upper_bound_
    assert fitted.num_basis_ == (22, 22)  # those of the data


def test_derivatives(fitted):
    step = np.array([1e-4, 0.0])
    slopes = (KERNEL(X, NEW + step) - KERNEL(X, NEW - step)) / 2e-4
    solved = np.linalg.solve(NOISY, slopes)
    mean, std = fitted.predict(NEW, return_std=True, derivative={0: 1})
    variance = KERNEL.components[0].derivative_variance([1, 0]) - np.sum(slopes * solved, axis=0)
    np.testing.assert_allclose(mean, solved.T @ Y, atol=0.08)
    np.testing.assert_allclose(std, np.sqrt(variance), rtol=0.02)
    with pytest.raises(ValueError, match="order 2 of f along 1 does not exist"):
        fitted.predict(NEW, derivative={1: 2})


def test_leave_one_out(fitted):
    found, inverse = fitted.leave_one_out(X, Y, noise_variance=NOISE / W), np.linalg.inv(NOISY)
    np.testing.assert_allclose(found.mean, Y - inverse @ Y / np.diag(inverse), atol=0.01)
    np.testing.assert_allclose(found.std, np.diag(inverse) ** -0.5, rtol=5e-3)


def test_integrals(fitted):
    nodes, weights = np.polynomial.legendre.leggauss(16)
    nodes, weights = 0.5 * (nodes + 1.0), 0.5 * weights
    low, high = np.array([-0.2, 0.3]), np.array([0.6, 1.1])
    places = np.stack(np.meshgrid(nodes, nodes, indexing="ij"), axis=-1).reshape(-1, 2)
    places, weight = low + (high - low) * places, np.kron(weights, weights) * 0.64
    cross = covariance(X, places) @ weight
    variance = weight @ covariance(places, places) @ weight - cross @ np.linalg.solve(NOISY, cross)
    mean, std = fitted.integrate(low, high, return_std=True)
    assert mean == pytest.approx(cross @ np.linalg.solve(NOISY, Y), abs=2e-3)
    assert std == pytest.approx(np.sqrt(variance), rel=0.02)


def test_samples_have_the_posterior_moments(fitted):
    mean, joint = fitted.predict(NEW[:4], return_cov=True)
    draws = fitted.sample_y(NEW[:4], 4000, random_state=0)
    np.testing.assert_allclose(draws.mean(axis=1), mean, atol=0.05)
    np.testing.assert_allclose(np.cov(draws), joint, atol=0.06)
    path = fitted.sample_paths(1, random_state=0)[0]
    assert np.all(np.isfinite(path(X[:5])))


def test_files_keep_the_model(fitted, tmp_path):
    fitted.save(tmp_path / "model.asvgp")
    again = load(tmp_path / "model.asvgp")
    assert again.kernel_ == fitted.kernel_
    for a, b in zip(
        again.predict(NEW, return_std=True), fitted.predict(NEW, return_std=True), strict=True
    ):
        np.testing.assert_allclose(a, b, rtol=1e-9)


def test_streams_are_the_whole(fitted):
    parts = GPRegressor(
        KERNEL, optimizer=None, noise_variance=NOISE, num_basis=22, domain=fitted.domain_
    )
    for rows in (slice(0, 100), slice(100, None)):
        parts.partial_fit(X[rows], Y[rows], sample_weight=W[rows])
    np.testing.assert_allclose(parts.predict(NEW), fitted.predict(NEW), rtol=1e-8)


def test_space_and_time_with_components():
    """A joint kernel times one over time, plus a joint one, with effects."""
    t = rng.uniform(0.0, 3.0, len(X))
    Z = np.column_stack([X, t])
    y = Y + 0.5 * t + 0.3 * np.sin(2 * t) * X[:, 0]
    kernel = (
        Matern(1, 0.6, 0.5, dim=(0, 1)) * Matern32(2.0, dim=2)
        + Matern(1, 0.5, dim=(0, 1))
        + Constant(variance=9.0)
        + Linear(2, variance=4.0)
    )
    gp = GPRegressor(kernel, optimizer=None, noise_variance=NOISE, num_basis=(9, 9, 7)).fit(Z, y)
    new = np.column_stack([NEW, rng.uniform(-1.0, 4.0, len(NEW))])
    mean, std, parts = gp.predict(new, return_std=True, components=True)

    def dense(A, B) -> np.ndarray:
        return kernel(A, B) + 9.0 + 4.0 * np.outer(A[:, 2], B[:, 2])

    noisy = dense(Z, Z) + NOISE * np.eye(len(Z))
    solved = np.linalg.solve(noisy, dense(Z, new))
    np.testing.assert_allclose(mean, solved.T @ y, atol=0.2)
    variance = np.diag(dense(new, new)) - np.sum(dense(Z, new) * solved, axis=0)
    np.testing.assert_allclose(std, np.sqrt(variance), atol=0.1)
    evidence = -0.5 * y @ np.linalg.solve(noisy, y) - 0.5 * np.linalg.slogdet(2 * np.pi * noisy)[1]
    assert gp.elbo_ < evidence < gp.evidence_upper_bound_
    assert len(parts) >= 2


def test_training_finds_lengths_and_room():
    """Cells and room follow the lengthscale; the bound is near the dense evidence there."""
    truth = Matern(1, 0.3, 1.5, dim=(0, 1))
    draw = np.random.default_rng(3)
    y = np.linalg.cholesky(truth(X) + 1e-9 * np.eye(len(X))) @ draw.standard_normal(len(X))
    y = y + 0.3 * draw.standard_normal(len(X))
    gp = GPRegressor(Matern(1), objective="evidence").fit(X, y)
    assert 0.2 < gp.kernel_.lengthscale < 1.0
    assert gp.kernel_.dim == (0, 1)
    plan = gp.posterior_.plan
    assert 2.0 < gp.kernel_.lengthscale / plan.grids[0].spacing < 60.0
    assert min(plan.outer[0]) > 0
    noisy = gp.kernel_(X) + gp.noise_variance_ * np.eye(len(X))
    evidence = -0.5 * y @ np.linalg.solve(noisy, y) - 0.5 * np.linalg.slogdet(2 * np.pi * noisy)[1]
    assert gp.elbo_ < evidence
    assert gp.evidence_ == pytest.approx(evidence, abs=4.0)


def test_lengthscales_by_input_are_trained():
    kernel = Matern(2, (0.2, 0.2), dim=(0, 1)) + Constant()
    gp = GPRegressor(kernel, num_basis=12, objective="evidence").fit(X, Y)
    assert min(gp.kernel_.components[0].lengthscale) > 0.3
    assert gp.evidence_ > GPRegressor(kernel, num_basis=12, optimizer=None).fit(X, Y).evidence_


def test_a_kernel_over_too_many_columns_is_an_error():
    Z = np.column_stack([X, X])
    with pytest.raises(ValueError, match="two or three: name them"):
        GPRegressor(Matern(1)).fit(Z, Y)
    with pytest.raises(ValueError, match="there is no nu=2"):
        GPRegressor(Matern(2)).fit(Z[:, :3], Y)
    line = GPRegressor(Matern(1.5), num_basis=30).fit(X[:, 0], Y)
    assert line.kernel_ == Matern32(line.kernel_.lengthscale, line.kernel_.variance)


def test_a_rotation_of_times_and_numbers_is_refused():
    times = pd.Timestamp("2024-03-01") + pd.to_timedelta(np.arange(30.0), "h")
    frame = pd.DataFrame({"km": np.arange(30.0) ** 2 % 7, "time": times})
    kernel = Matern(1, (1.0, "2 hours"), dim=("km", "time"), rotation=0.3)
    with pytest.raises(ValueError, match="one holds times and the other numbers"):
        GPRegressor(kernel, num_basis=8).fit(frame, frame.km)


@pytest.mark.parametrize("start", [0.1, 1.5, 10.0])
def test_a_rotation_is_found_from_any_start(start):
    truth = Matern(2, (1.0, 0.2), dim=(0, 1), rotation=3.0)
    rng = np.random.default_rng(1)
    X = rng.uniform(size=(150, 2))
    root = np.linalg.cholesky(truth(X) + 1e-6 * np.eye(150))
    y = root @ rng.standard_normal(150) + 0.1 * rng.standard_normal(150)
    kernel = Matern(2, (0.5, 0.4), dim=(0, 1), rotation=start)
    found = GPRegressor(kernel, num_basis=8).fit(X, y).kernel_
    along = (
        found.rotation
        if found.lengthscale[0] > found.lengthscale[1]
        else found.rotation - np.pi / 2
    )
    assert abs((along - 3.0 + np.pi / 2) % np.pi - np.pi / 2) < 0.2


def test_numbers_of_numpy_are_numbers():
    given = Matern(np.int64(1), np.array([1.0, 2.0]), dim=np.array([0, 1]))
    assert given == Matern(1, (1.0, 2.0), dim=(0, 1))
