"""Several terms over one column that is in no product: each a smooth of its own."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

import asvgp
from asvgp import SHO, Constant, GPRegressor, Matern12, Matern32, Matern52

NOISE = 0.04
FIXED = {"noise_variance": NOISE, "optimizer": None}

KERNELS = {
    "product": Matern32(0.5, dim=0) * Matern32(0.6, dim=1)
    + Matern52(0.8, 0.5, dim=2)
    + SHO(0.4, 2.0, 0.3, dim=2),
    "additive": Matern52(0.7, dim=0)
    + Matern12(2.0, 0.1, dim=0)
    + Matern32(0.5, 0.8, dim=1)
    + Matern32(0.9, 0.6, dim=2),
}


def data(n=150, columns=3, seed=3):
    rng = np.random.default_rng(seed)
    X = rng.uniform(0.0, 1.0, (n, columns))
    f = np.sin(5 * X[:, 0]) * np.cos(3 * X[:, 1]) + np.sin(9 * X[:, -1])
    return X, f + NOISE**0.5 * rng.standard_normal(n)


@pytest.fixture(params=KERNELS, ids=str)
def kernel(request):
    return KERNELS[request.param]


def test_predictions_are_those_of_the_dense_process(kernel):
    X, y = data()
    places = data(20, seed=4)[0] * 0.9 + 0.05
    gp = GPRegressor(kernel, num_basis=48, domain=[(0, 1)] * 3, **FIXED).fit(X, y)
    noisy = kernel(X, X) + NOISE * np.eye(len(X))
    cross = kernel(places, X)
    mean, std, parts = gp.predict(places, return_std=True, components=True)
    np.testing.assert_allclose(mean, cross @ np.linalg.solve(noisy, y), atol=0.05)
    left = kernel(places, places) - cross @ np.linalg.solve(noisy, cross.T)
    np.testing.assert_allclose(std, np.sqrt(np.diag(left)), rtol=0.05)
    np.testing.assert_allclose(sum(part.mean for part in parts), mean, atol=1e-8)
    for part, own in zip(parts, kernel.components, strict=True):
        dense = own(places, X) @ np.linalg.solve(noisy, y)
        np.testing.assert_allclose(part.mean, dense, atol=0.1)
    covariance = gp.predict(places, return_cov=True)[1]
    np.testing.assert_allclose(np.sqrt(np.diag(covariance)), std, rtol=1e-5)
    evidence = -0.5 * y @ np.linalg.solve(noisy, y) - 0.5 * np.linalg.slogdet(2 * np.pi * noisy)[1]
    assert gp.elbo_ <= evidence <= gp.evidence_upper_bound_


def test_one_number_and_one_pair_for_an_input(kernel):
    X, y = data()
    domain = [(-0.1, 1.0), (0.0, 1.2), (0.0, 1.5)]
    gp = GPRegressor(kernel, num_basis=(8, 9, 10), domain=domain, **FIXED).fit(X, y)
    assert gp.num_basis_ == (8, 9, 10)
    assert gp.domain_ == tuple(domain)
    with pytest.raises(ValueError, match="one for each of 3 inputs"):
        GPRegressor(kernel, num_basis=(8, 9, 10, 10)).fit(X, y)
    with pytest.raises(ValueError, match="each of 3 inputs"):
        GPRegressor(kernel, domain=[(0, 1)] * 4).fit(X, y)


def test_streams_merges_and_files(kernel, tmp_path):
    X, y = data()
    settings = {"num_basis": 9, "domain": [(0, 1)] * 3, **FIXED}
    whole = GPRegressor(kernel, **settings).fit(X, y)
    first, second = (GPRegressor(kernel, **settings) for _ in range(2))
    first.partial_fit(X[:40], y[:40]).partial_fit(X[40:90], y[40:90])
    second.fit(X[90:], y[90:])
    first.merge(second)
    np.testing.assert_allclose(first.predict(X), whole.predict(X), atol=1e-8)
    whole.save(tmp_path / "model.asvgp")
    again = asvgp.load(tmp_path / "model.asvgp")
    np.testing.assert_array_equal(again.predict(X), whole.predict(X))
    again.partial_fit(X, y)
    assert again.stats_.count == 2 * len(X)


def test_leave_one_out_is_a_refit(kernel):
    X, y = data()
    settings = {"num_basis": 9, "domain": [(0, 1)] * 3, **FIXED}
    loo = GPRegressor(kernel, **settings).fit(X, y).leave_one_out(X, y)
    rest = np.arange(len(y)) != 11
    mean, std = (
        GPRegressor(kernel, **settings)
        .fit(X[rest], y[rest])
        .predict(X[[11]], return_std=True, include_noise=True)
    )
    assert loo.mean[11] == pytest.approx(mean[0], abs=1e-7)
    assert loo.std[11] == pytest.approx(std[0], rel=1e-6)


def test_training_names_and_growth():
    X, y = data(400, columns=5)
    frame = pd.DataFrame(X, columns=list("abcde"))
    gp = GPRegressor(Matern52() + Matern12() + Constant(), num_basis=12).fit(frame[:300], y[:300])
    assert [part.dim for part in gp.kernel_.components] == [*"abcde", *"abcde"]
    assert len(gp.num_basis_) == len(gp.domain_) == 5
    assert "a" in str(gp.summary())
    gp.partial_fit(frame[300:] * 1.2, y[300:])
    assert gp.domain_[0][1] > 1.1
    assert np.all(np.isfinite(gp.predict(frame[:5])))
    path = gp.sample_paths(1, random_state=0)[0]
    assert path(frame[:5]).shape == (5,)


def test_automatic_grids_and_pictures():
    pytest.importorskip("matplotlib")
    from asvgp import plot

    X, y = data(300, columns=2)
    frame = pd.DataFrame(X, columns=["u", "v"])
    kernel = Matern52(dim="u") + Matern12(dim="u") + Matern32(dim="v")
    gp = GPRegressor(kernel).fit(frame, y)
    assert len(gp.num_basis_) == 2
    axes = plot.components(gp, frame)
    assert len(np.ravel(axes)) == 3
