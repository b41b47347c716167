"""Models with Matérn kernels on the sphere, as users see them."""

from __future__ import annotations

import numpy as np
import pytest

from asvgp import Constant, GPRegressor, Matern, Matern32, load
from asvgp.kernels.text import parse_kernel

NOISE = 0.04
rng = np.random.default_rng(0)
# Latitude and longitude, across the date line
X = np.column_stack([rng.uniform(30.0, 55.0, 250), rng.uniform(160.0, 200.0, 250)])
X[:, 1] = (X[:, 1] + 180.0) % 360.0 - 180.0
Y = np.sin(X[:, 0] / 6.0) * np.cos(np.radians(5.0 * X[:, 1])) + 2.0
Y = Y + 0.2 * rng.standard_normal(250)
NEW = np.column_stack([rng.uniform(29.0, 57.0, 40), rng.uniform(158.0, 202.0, 40)])
TURN = np.array([0.0, 360.0])
KERNEL = Matern(2, 10.0, dim=(1, 0), coordinates="degrees") + Constant(variance=9.0)
SETTINGS = {"optimizer": None, "noise_variance": NOISE}


@pytest.fixture(scope="module")
def fitted():
    return GPRegressor(KERNEL, num_basis=(22, 26), **SETTINGS).fit(X, Y)


def dense(A, B) -> np.ndarray:
    return KERNEL(A, B) + 9.0


NOISY = dense(X, X) + NOISE * np.eye(len(X))


def test_predictions_are_those_of_a_dense_process(fitted):
    solved = np.linalg.solve(NOISY, dense(X, NEW))
    mean, joint = fitted.predict(NEW, return_cov=True)
    np.testing.assert_allclose(mean, solved.T @ Y, atol=0.01)
    np.testing.assert_allclose(joint, dense(NEW, NEW) - dense(NEW, X) @ solved, atol=0.01)
    evidence = -0.5 * Y @ np.linalg.solve(NOISY, Y) - 0.5 * np.linalg.slogdet(2 * np.pi * NOISY)[1]
    assert evidence - 2.0 < fitted.elbo_ < evidence < fitted.evidence_upper_bound_
    low, high = fitted.domain_[1]
    assert 160.0 < low < high < 200.0  # the arc across the date line
    for turns in (-1.0, 2.0):
        np.testing.assert_allclose(fitted.predict(NEW + turns * TURN), mean, rtol=1e-9)


def test_leave_one_out_and_draws(fitted):
    found, inverse = fitted.leave_one_out(X, Y), np.linalg.inv(NOISY)
    np.testing.assert_allclose(found.mean, Y - inverse @ Y / np.diag(inverse), atol=0.02)
    path = fitted.sample_paths(1, random_state=0)[0]
    np.testing.assert_allclose(path(X[:5] + TURN), path(X[:5]))
    assert fitted.sample_y(NEW[:3], 2, random_state=0).shape == (3, 2)


def test_files_and_streams_keep_the_model(fitted, tmp_path):
    fitted.save(tmp_path / "model.asvgp")
    again = load(tmp_path / "model.asvgp")
    assert again.kernel_ == fitted.kernel_
    np.testing.assert_allclose(again.predict(NEW - TURN), fitted.predict(NEW), rtol=1e-9)
    parts = GPRegressor(KERNEL, num_basis=(22, 26), domain=fitted.domain_, **SETTINGS)
    for rows in (slice(0, 100), slice(100, None)):
        parts.partial_fit(X[rows] + TURN * (rows.start > 0), Y[rows])
    np.testing.assert_allclose(parts.predict(NEW), fitted.predict(NEW), rtol=1e-8)


def test_around_the_earth_in_space_and_time_with_components(tmp_path):
    """Longitudes from 0 to 360, a product with time, files, and no seam."""
    lon, lat = rng.uniform(0.0, 360.0, 200), rng.uniform(-40.0, 40.0, 200)
    Z = np.column_stack([lon, lat, rng.uniform(0.0, 1.0, 200)])
    y = np.cos(np.radians(2.0 * lon)) + Z[:, 2] * np.sin(np.radians(lat))
    space = Matern(1, 25.0, dim=(0, 1), coordinates="degrees")
    kernel = space * Matern32(1.0, dim=2) + space.replace(lengthscale=40.0, variance=0.5)
    gp = GPRegressor(kernel, num_basis=(16, 9, 4), **SETTINGS).fit(Z, y)
    noisy = kernel(Z) + NOISE * np.eye(len(Z))
    evidence = -0.5 * y @ np.linalg.solve(noisy, y) - 0.5 * np.linalg.slogdet(2 * np.pi * noisy)[1]
    assert gp.elbo_ < evidence < gp.evidence_upper_bound_
    assert gp.domain_[0] == (0.0, 360.0)
    seam = np.array([[-1e-9, 0.0, 0.5], [0.0, 0.0, 0.5], [360.0, 0.0, 0.5]])
    mean, std, parts = gp.predict(seam, return_std=True, components=True)
    np.testing.assert_allclose(mean, mean[0], rtol=1e-6)
    np.testing.assert_allclose(std, std[0], rtol=1e-6)
    np.testing.assert_allclose(sum(part.mean for part in parts), mean, rtol=1e-9)
    gp.save(tmp_path / "model.asvgp")
    np.testing.assert_allclose(load(tmp_path / "model.asvgp").predict(seam), mean, rtol=1e-9)


def test_near_the_equator_it_is_the_plane():
    places = rng.uniform(-1.0, 1.0, (150, 2))
    y = np.sin(4.0 * places[:, 0]) + 0.2 * rng.standard_normal(150)
    earth, plane = (
        GPRegressor(
            Matern(2, 0.8, dim=(0, 1), coordinates=given), num_basis=12, noise_variance=NOISE
        ).fit(places, y)
        for given in ("degrees", None)
    )
    assert earth.kernel_.values == pytest.approx(plane.kernel_.values, rel=0.02)
    assert earth.elbo_ == pytest.approx(plane.elbo_, abs=0.05)


def test_kernels_as_text():
    text = "matern(1, 5, dim=(lon, lat), coordinates=degrees) * matern32(3, dim=day)"
    kernel = parse_kernel(text)
    assert "coordinates='degrees'" in repr(kernel)
    assert parse_kernel(repr(kernel)) == kernel
    with pytest.raises(ValueError, match="call the kernel with places"):
        kernel.covariance(np.zeros((1, 3)))


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"coordinates": "radians"}, "None or 'degrees'"),
        ({"lengthscale": (1.0, 2.0)}, "one lengthscale"),
        ({"rotation": 0.3}, "not a rotation"),
        ({"dim": (0, 1, 2), "nu": 0.5}, "two inputs"),
        ({"dim": 0}, "two inputs"),
        ({"lengthscale": 120.0}, "at most 90"),
    ],
)
def test_wrong_kernels_are_errors(settings, message):
    with pytest.raises(ValueError, match=message):
        Matern(**({"nu": 1, "dim": (0, 1), "coordinates": "degrees"} | settings))


def test_wrong_places_are_errors(fitted):
    swapped = GPRegressor(Matern(1, 5.0, dim=(0, 1), coordinates="degrees"))
    with pytest.raises(ValueError, match=r"beyond 90 degrees in 250 of 250 rows \(0, 1, .*swapped"):
        swapped.fit(X, Y)
    near = X.copy()
    near[7, 0] = 89.5
    with pytest.raises(ValueError, match=r"beyond 86 degrees in 1 of 250 rows \(7\).*project"):
        GPRegressor(KERNEL).fit(near, Y)
    with pytest.raises(ValueError, match="derivatives along longitude"):
        fitted.predict(NEW, derivative={0: 1})
    with pytest.raises(ValueError, match=r"cos\(latitude\)"):
        fitted.integrate([30.0, 170.0], [40.0, 180.0])
    grown = GPRegressor(KERNEL, num_basis=(22, 26), **SETTINGS).partial_fit(X, Y)
    with pytest.raises(ValueError, match=r"a domain of the longitude of \(-180, 180\)"):
        grown.partial_fit(X + np.array([0.0, 170.0]), Y)
    mixed = KERNEL + Matern32(20.0, dim=1)
    with pytest.raises(ValueError, match="goes around a circle of 360"):
        GPRegressor(mixed, num_basis=12, **SETTINGS).fit(X * [1.0, 9.0], Y)
