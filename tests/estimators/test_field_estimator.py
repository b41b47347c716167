"""The estimator on several inputs: what it accepts, refuses, answers and keeps."""

from __future__ import annotations

import pickle
import warnings
from dataclasses import replace
from zoneinfo import ZoneInfo

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone

from asvgp import Constant, GPRegressor, Linear, Matern12, Matern32, Matern52
from asvgp.linalg.multifrontal.errors import NotPositiveDefinite
from asvgp.model import memory
from asvgp.model.memory import MemoryBudget, NotEnoughMemory, fitting_cells
from asvgp.policies import MEMORY, VERDICT
from asvgp.runtime.memory import as_bytes, in_words

FIXED = {"noise_variance": 0.01, "optimizer": None}


def surface(n=300, seed=0, columns=2):
    rng = np.random.default_rng(seed)
    X = rng.uniform(0.0, 1.0, (n, columns))
    return X, np.sin(4 * X[:, 0]) * np.cos(3 * X[:, 1]) + 0.1 * rng.standard_normal(n)


@pytest.fixture(scope="module")
def fitted():
    X, y = surface()
    return GPRegressor(Matern32(0.5), num_basis=(12, 10), **FIXED).fit(X, y), X, y


# ---------------------------------------------------------------- devices


def test_cuda_without_a_gpu_says_so(monkeypatch):
    torch = pytest.importorskip("torch")
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    with pytest.raises(ValueError, match=r"finds no CUDA device\. Take device='cpu'"):
        GPRegressor(device="cuda").fit(*surface())


def test_cuda_without_torch_says_how_to_get_it(monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "torch", None)
    with pytest.raises(ValueError, match=r"needs PyTorch.*asvgp\[gpu\]"):
        GPRegressor(device="cuda").fit(*surface())
    with pytest.raises(ValueError, match="device must be 'cpu' or 'cuda'"):
        GPRegressor(device="tpu").fit(*surface())


def test_torch_gives_the_same_fit():
    pytest.importorskip("torch")
    X, y = surface(columns=3)
    kernel = Matern32(0.5, dim=0) * Matern12(0.7, dim=1) + Matern52(0.5, dim=2) + Constant()
    fits = [GPRegressor(kernel, num_basis=9, device=d, **FIXED).fit(X, y) for d in ("cpu", "torch")]
    assert fits[0].elbo_ == pytest.approx(fits[1].elbo_, rel=1e-10)
    for a, b in zip(*(gp.predict(X, return_std=True) for gp in fits), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-7)
    again = pickle.loads(pickle.dumps(fits[1]))
    np.testing.assert_allclose(again.predict(X), fits[0].predict(X), rtol=1e-7)


# ---------------------------------------------------------------- columns and kernels


def test_inputs_without_a_kernel_are_named():
    X, y = surface(columns=3)
    with pytest.raises(ValueError, match=r"1 of 3 columns of X have neither.*: 2\. Add one"):
        GPRegressor(Matern32(dim=0) * Matern32(dim=1)).fit(X, y)
    frame = pd.DataFrame(X, columns=["lon", "lat", "height"])
    with pytest.raises(ValueError, match=r"'height'.*Matern32\(dim='height'\)"):
        GPRegressor(Matern32(dim="lon") * Matern32(dim="lat")).fit(frame, y)


def test_products_over_one_input_twice():
    with pytest.raises(ValueError, match="over input 'lon' twice"):
        Matern32(dim="lon") * Matern12(dim="lon")
    X, y = surface()
    frame = pd.DataFrame(X, columns=["lon", "lat"])
    with pytest.raises(ValueError, match="twice"):  # by name and by number
        GPRegressor(Matern32(dim="lon") * Matern12(dim=0)).fit(frame, y)


def test_unknown_columns_are_named_beside_the_known():
    X, y = surface()
    frame = pd.DataFrame(X, columns=["lon", "lat"])
    with pytest.raises(ValueError, match=r"no column 'depth'; its columns are 'lon', 'lat'"):
        GPRegressor(Matern32(dim="lon") * Matern32(dim="depth")).fit(frame, y)
    with pytest.raises(ValueError, match="X has no column names"):
        GPRegressor(Matern32(dim="lon") * Matern32(dim="lat")).fit(X, y)
    with pytest.raises(ValueError, match="X has 2 columns"):
        GPRegressor(Matern32(dim=0) * Matern32(dim=5)).fit(X, y)


def test_too_many_inputs_in_products():
    X, y = surface(columns=5)
    kernel = Matern32(dim=0)
    for dim in range(1, 5):
        kernel = kernel * Matern32(dim=dim)
    with pytest.raises(ValueError, match=r"over 5 inputs together .*the limit is 4"):
        GPRegressor(kernel).fit(X, y)


def test_bad_values_name_column_and_rows():
    X, y = surface()
    X[[7, 9], 1] = np.nan, np.inf
    with pytest.raises(
        ValueError, match=r"column 1 of X contains NaN .* in 2 of 300 rows \(7, 9\)"
    ):
        GPRegressor().fit(X, y)
    frame = pd.DataFrame(X, columns=["lon", "lat"])
    with pytest.raises(ValueError, match=r"column 'lat' of X .*\(7, 9\)"):
        GPRegressor().fit(frame, y)
    with pytest.raises(TypeError, match="column 'lat' of X holds text"):
        GPRegressor().fit(frame.assign(lat="north"), y)


@pytest.mark.parametrize(
    "settings, error, message",
    [
        ({"num_basis": (10, 10, 10)}, ValueError, "one for each of 2 inputs"),
        ({"num_basis": (10, 3)}, ValueError, r"at least degree \+ 1 = 4 for column 1 of X, got 3"),
        ({"num_basis": (10, 9.5)}, TypeError, "one integer per input"),
        ({"num_basis": "many"}, ValueError, "num_basis must be 'auto'"),
        ({"domain": (0, 1)}, ValueError, "column 0 of X: domain must be None or a pair"),
        ({"domain": [(0, 1)]}, ValueError, r"one pair \(a, b\) for each of 2 inputs"),
        ({"domain": [(0, 1), (0, 0.5)]}, ValueError, "column 1 of X: domain=.* leaves out"),
        ({"degree": 1}, ValueError, "degree must be None or an integer from 2"),
        ({"degree": 7}, ValueError, "from 2 .* to 6, got 7"),
        ({"memory_limit": "much"}, ValueError, "memory_limit must be None, a number of bytes"),
        ({"memory_limit": -1}, ValueError, "memory_limit must be None, a number of bytes"),
    ],
)
def test_settings_that_do_not_fit(settings, error, message):
    with pytest.raises(error, match=message):
        GPRegressor(Matern32(), **settings).fit(*surface())


def test_averages_are_for_one_input_and_integrals_need_corners(fitted):
    gp, X, y = fitted
    with pytest.raises(ValueError, match="models of one input"):
        GPRegressor().fit(X, y, width=0.1)
    with pytest.raises(ValueError, match=r"a must have shape \(2,\) or \(m, 2\)"):
        gp.integrate(0.0, 1.0)


def test_times_in_a_zone_have_a_domain_in_it():
    times = pd.date_range("2024-03-30", periods=300, freq="h", tz="Europe/Berlin")
    X = pd.DataFrame({"t": times, "x": np.linspace(0.0, 1.0, 300) % 0.7})
    kernel = Matern32("1 day", dim="t") * Matern32(0.5, dim="x")
    settings = {"noise_variance": 0.1, "optimizer": None}
    field = GPRegressor(kernel, num_basis=6, **settings).fit(X, np.arange(300.0) % 7.0)
    line = GPRegressor(Matern32("1 day"), num_basis=6, **settings).fit(times, np.arange(300.0))
    assert field.domain_[0] == line.domain_
    assert [end.tzinfo for end in field.domain_[0]] == [ZoneInfo("Europe/Berlin")] * 2
    again = GPRegressor(kernel, num_basis=6, domain=field.domain_, **settings)
    assert again.fit(X, np.arange(300.0) % 7.0).domain_ == field.domain_


def test_a_domain_given_for_some_inputs_grows_along_the_others():
    X, y = surface()
    gp = GPRegressor(Matern32(0.5), num_basis=8, domain=[(0, 1), None], optimizer=None)
    gp.set_params(noise_variance=0.1).partial_fit(X, y).partial_fit(X * [1.0, 3.0], y)
    assert gp.domain_[0] == (0.0, 1.0)
    assert gp.domain_[1][1] >= 3.0 * X[:, 1].max()
    with pytest.raises(ValueError, match=r"column 0 of X: domain=.* leaves out"):
        gp.partial_fit(3.0 * X, y)
    assert gp.stats_.count == 2 * len(y)


def test_a_front_that_fails_is_explained_and_nothing_is_lost(fitted, monkeypatch):
    gp, X, y = clone(fitted[0]), *fitted[1:]
    gp.fit(X, y)
    before = gp.predict(X)
    failure = NotPositiveDefinite(1, 2, np.array([3, 4]), 4)

    def fail(*arguments, **options):
        raise failure

    monkeypatch.setattr("asvgp.model.devices.CpuFactor", fail)
    monkeypatch.setattr("asvgp.model.grid_roots.RootFactor", fail)
    message = (
        r"not positive definite.*noise variance 0.01. term 1 \(Matern32.*12 splines of degree 3 "
        r"along input 0, lengthscale 0.5 = .* cells; 10 splines.*smaller num_basis"
    )
    with pytest.raises(ValueError, match=message):
        gp.fit(X, y)
    np.testing.assert_array_equal(gp.predict(X), before)


def test_lengthscales_far_beyond_the_cells_are_explained():
    X, y = surface()
    frame = pd.DataFrame(X, columns=["lon", "lat"])
    for wrong, num_basis in ((100.0, 30), (1e4, 30), (1e4, "auto")):
        kernel = Matern52(0.5, dim="lon") * Matern52(0.5, dim="lat")
        kernel = kernel + Matern52(wrong, dim="lon") * Matern52(wrong, dim="lat")
        gp = GPRegressor(kernel, num_basis=num_basis, **FIXED)
        message = (
            r"term 2 \(Matern52\(lengthscale=.*, dim='lon'\) \* .*\d splines of degree 4 along "
            r"input 'lon', lengthscale 1.* = .* cells; .* 'lat'.*lengthscale of at most 3\.9\d* "
            r"along input 'lon', 3\.9\d* along input 'lat', or Linear\(\)"
        )
        with pytest.raises(ValueError, match=message) as caught:
            gp.fit(frame, y)
        assert "input 0" not in str(caught.value)
    gp = GPRegressor(Matern52(3.9, dim="lon") * Matern52(3.9, dim="lat"), **FIXED)
    gp.fit(frame, y)  # what it advises does work


@pytest.mark.parametrize("kernel", [Matern32, Matern52])
@pytest.mark.parametrize("num_basis", [10, "auto"])
def test_digits_are_lost_with_a_word(kernel, num_basis):
    X, y = surface(120)
    spoken, silent = [], VERDICT.few_digits * len(y)  # nats that may be lost without a word
    for length in (1.0, 4.0, 10.0, 20.0, 30.0, 50.0, 300.0, 600.0, 1e4):
        own = kernel(length)
        full = own(X[:, 0]) * own(X[:, 1]) + 0.01 * np.eye(len(y))
        evidence = -0.5 * (y @ np.linalg.solve(full, y) + np.linalg.slogdet(2 * np.pi * full)[1])
        product = kernel(length, dim=0) * kernel(length, dim=1)
        gp = GPRegressor(product, num_basis=num_basis, **FIXED)
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            try:
                gp.fit(X, y)
            except ValueError:
                spoken.append("error")
                continue
        spoken.append("note" if any("good to about" in str(w.message) for w in caught) else "")
        if not spoken[-1]:
            assert gp.elbo_ <= evidence + silent <= gp.evidence_upper_bound_ + 2.0 * silent
    assert spoken[:6] == [""] * 6
    assert (spoken[-1] == "error") == (kernel is Matern52)


# ---------------------------------------------------------------- what it answers


def test_names_of_columns_stay():
    X, y = surface(columns=3)
    frame = pd.DataFrame(X, columns=["lon", "lat", "height"])
    kernel = Matern32(0.5, dim="lon") * Matern12(0.7, dim="lat") + Matern52(0.5, dim="height")
    gp = GPRegressor(kernel + Constant(), num_basis=8, **FIXED).fit(frame, y)
    assert gp.kernel_ == kernel + Constant()
    assert gp.kernel_.parameters[:2] == ("1.lengthscale[lon]", "1.lengthscale[lat]")
    assert list(gp.feature_names_in_) == ["lon", "lat", "height"]
    text = str(gp.summary())
    assert "lengthscale[lon]" in text
    assert "Matern32(lon) x Matern12(lat) + Matern52(height)" in text
    assert "grid in 2 inputs, nested dissection" in text
    with pytest.raises(ValueError, match="feature names should match"):
        gp.predict(frame[["lat", "lon", "height"]])


def test_time_is_one_of_the_columns():
    rng = np.random.default_rng(0)
    hours = rng.uniform(0, 72, 400)
    frame = pd.DataFrame(
        {
            "lon": rng.uniform(0, 10, 400),
            "time": pd.Timestamp("2024-03-01") + pd.to_timedelta(hours, "h"),
        }
    )
    y = np.sin(frame.lon) * np.cos(hours / 8) + 0.1 * rng.standard_normal(400)
    kernel = Matern32(dim="lon") * Matern32("6 hours", dim="time")
    gp = GPRegressor(kernel, num_basis=(12, 14)).fit(frame, y)
    assert "hours" in repr(gp.kernel_) or "day" in repr(gp.kernel_)
    assert np.issubdtype(np.asarray(gp.domain_[1]).dtype, np.datetime64)
    assert np.corrcoef(gp.predict(frame), y)[0, 1] > 0.95
    numbers = np.column_stack([frame.lon, hours * 3600])
    same = GPRegressor(Matern32(dim=0) * Matern32(6 * 3600.0, dim=1), num_basis=(12, 14))
    np.testing.assert_allclose(same.fit(numbers, y).predict(numbers), gp.predict(frame), atol=1e-3)
    with pytest.raises(TypeError, match="column 'time' of X holds numbers"):
        gp.predict(frame.assign(time=1.0))
    with pytest.raises((TypeError, ValueError), match="hours"):
        GPRegressor(Matern32("6 hours", dim="lon") * Matern32("6 hours", dim="time")).fit(frame, y)


def test_outputs_share_the_model(fitted):
    gp, X, y = fitted
    both = clone(gp).fit(X, np.column_stack([y, 2 * y]))
    mean, std = both.predict(X, return_std=True)
    np.testing.assert_allclose(mean, np.column_stack([gp.predict(X), 2 * gp.predict(X)]), atol=1e-9)
    np.testing.assert_allclose(std[:, 1], gp.predict(X, return_std=True)[1])
    assert both.sample_y(X[:4], 3, random_state=0).shape == (4, 2, 3)


def test_weights_count_rows(fitted):
    gp, X, y = fitted
    twice = clone(gp).fit(np.vstack([X, X[:50]]), np.append(y, y[:50]))
    weights = np.ones(len(y))
    weights[:50] = 2.0
    weighted = clone(gp).fit(X, y, sample_weight=weights)
    np.testing.assert_allclose(weighted.predict(X), twice.predict(X), atol=1e-8)
    known = clone(gp).fit(X, y, noise_variance=0.01 / weights)
    np.testing.assert_allclose(known.predict(X), twice.predict(X), atol=1e-8)
    with pytest.raises(ValueError, match="300 values of sample_weight are zero: nothing to fit"):
        clone(gp).fit(X, y, sample_weight=np.zeros(len(y)))


def test_pickles_and_clones(fitted):
    gp, X, _ = fitted
    again = pickle.loads(pickle.dumps(gp))
    np.testing.assert_array_equal(again.predict(X), gp.predict(X))
    fresh = clone(gp)
    assert fresh.get_params() == gp.get_params()
    assert fresh.get_params()["memory_limit"] is None
    assert not hasattr(fresh, "n_features_in_")
    assert fresh.set_params(num_basis=9).num_basis == 9


def test_derivatives_are_limits_of_differences(fitted):
    gp, X, _ = fitted
    places, step = X[:20] * 0.9 + 0.05, np.array([1e-5, 0.0])
    slope, std = gp.predict(places, derivative={0: 1}, return_std=True)
    difference = (gp.predict(places + step) - gp.predict(places - step)) / 2e-5
    np.testing.assert_allclose(slope, difference, rtol=1e-4, atol=1e-5)
    assert np.all(std > 0.0)
    np.testing.assert_allclose(gp.predict(places, derivative=(1, 0)), slope)
    with pytest.raises(ValueError, match="say along which to differentiate"):
        gp.predict(places, derivative=1)
    with pytest.raises(ValueError, match="of order 2 of f along 0 does not exist"):
        gp.predict(places, derivative={0: 2})
    with pytest.raises(ValueError, match="is no input"):
        gp.predict(places, derivative={"depth": 1})


def test_derivatives_by_name():
    X, y = surface()
    frame = pd.DataFrame(X, columns=["lon", "lat"])
    gp = GPRegressor(Matern32(0.5), num_basis=10, **FIXED).fit(frame, y)
    by_number = GPRegressor(Matern32(0.5), num_basis=10, **FIXED).fit(X, y)
    np.testing.assert_allclose(
        gp.predict(frame, derivative={"lat": 1}), by_number.predict(X, derivative={1: 1})
    )


def test_covariance_has_the_variance_on_its_diagonal(fitted):
    gp, X, _ = fitted
    places = np.vstack([X[:15], [[1.4, 0.5], [-0.3, 2.0]]])
    mean, cov = gp.predict(places, return_cov=True)
    again, std = gp.predict(places, return_std=True)
    np.testing.assert_allclose(mean, again, atol=1e-9)
    np.testing.assert_allclose(np.diag(cov), std**2, atol=1e-8)
    assert np.linalg.eigvalsh(cov).min() > -1e-8
    _, cov = gp.predict(places, return_cov=True, derivative={0: 1})
    _, std = gp.predict(places, return_std=True, derivative={0: 1})
    np.testing.assert_allclose(np.diag(cov), std**2, atol=1e-8)
    with pytest.raises(ValueError, match="At most one"):
        gp.predict(places, return_cov=True, return_std=True)


def test_effects_are_those_of_least_squares_where_there_is_little_else():
    X, _ = surface(columns=3)
    rng = np.random.default_rng(1)
    y = 2.0 + 3.0 * X[:, 2] + 0.1 * rng.standard_normal(len(X))
    kernel = Matern32(0.5, 1e-8, dim=0) * Matern32(0.5, dim=1) + Constant() + Linear(2)
    gp = GPRegressor(kernel, num_basis=8, **FIXED).fit(X, y)
    design = np.column_stack([np.ones(len(X)), X[:, 2]])
    beta = np.linalg.lstsq(design, y, rcond=None)[0]
    errors = np.sqrt(np.diag(0.01 * np.linalg.inv(design.T @ design)))
    np.testing.assert_allclose([effect.estimate for effect in gp.effects_], beta, rtol=1e-3)
    np.testing.assert_allclose([effect.std for effect in gp.effects_], errors, rtol=1e-3)
    slope = gp.predict(X, derivative={2: 1})
    np.testing.assert_allclose(slope, beta[1], rtol=1e-3)


def test_leave_one_out_is_a_refit():
    X, y = surface(60, columns=3)
    kernel = Matern32(0.5, dim=0) * Matern32(0.5, dim=1) + Matern32(0.7, dim=2) + Constant()
    domain = [(0, 1)] * 3
    settings = FIXED | {"num_basis": 9, "domain": domain}
    weights = np.random.default_rng(2).uniform(0.5, 2.0, 60)
    noise = 0.01 / weights
    gp = GPRegressor(kernel, **settings).fit(X, y, noise_variance=noise)
    loo = gp.leave_one_out(X, y, noise_variance=noise)
    for row in (0, 17, 59):
        rest = np.arange(60) != row
        other = GPRegressor(kernel, **settings).fit(X[rest], y[rest], noise_variance=noise[rest])
        mean, std = other.predict(X[[row]], return_std=True)
        assert loo.mean[row] == pytest.approx(mean[0], abs=1e-6)
        assert loo.std[row] == pytest.approx(np.sqrt(std[0] ** 2 + 0.01 / weights[row]), rel=1e-5)


def test_the_domain_grows():
    X, y = surface(400)
    order = np.argsort(X[:, 0])
    left, right = order[:200], order[200:]
    gp = GPRegressor(Matern32(0.5), num_basis=12, **FIXED).partial_fit(X[left], y[left])
    before = gp.domain_
    gp.partial_fit(X[right], y[right])
    (low, high), _ = gp.domain_
    assert low == before[0][0]
    assert high >= X[:, 0].max() > before[0][1]
    assert gp.stats_.count == 400
    whole = GPRegressor(Matern32(0.5), num_basis=gp.num_basis_, domain=gp.domain_, **FIXED)
    np.testing.assert_allclose(gp.predict(X), whole.fit(X, y).predict(X), atol=1e-7)
    fixed = GPRegressor(Matern32(), num_basis=12, domain=[(0, 1), (0, 1)], **FIXED).partial_fit(
        X, y
    )
    with pytest.raises(ValueError, match=r"column 0 of X: domain=.* leaves out 1 of 1"):
        fixed.partial_fit([[1.5, 0.5]], [0.0])


# ---------------------------------------------------------------- gridded data


def grid_data(outputs=None):
    rng = np.random.default_rng(3)
    a, b = np.linspace(0, 1, 20), np.sort(rng.uniform(0, 2, 15))
    shape = (20, 15) if outputs is None else (20, 15, outputs)
    values = rng.standard_normal(shape) * 0.1
    values += (np.sin(4 * a)[:, None] * np.cos(3 * b)).reshape(20, 15, *[1] * (values.ndim - 2))
    values[3, 4] = np.nan
    rows = np.stack([c.ravel() for c in np.meshgrid(a, b, indexing="ij")], axis=1)
    return (a, b), values, rows


@pytest.mark.filterwarnings("ignore:.*left out as missing")
@pytest.mark.parametrize("outputs", [None, 2])
@pytest.mark.parametrize(
    "kernel",
    [
        Matern32(0.5),
        Matern32(0.5) + Constant(),
        Matern32(0.5, dim=0) * Matern32(dim=1) + Constant() + Linear(1),
        Matern32(0.5, dim=0) + Matern32(0.5, dim=1),
    ],
    ids=["product", "intercept", "slope", "sum"],
)
def test_a_grid_is_its_expanded_coordinates(kernel, outputs):
    axes, values, X = grid_data(outputs)
    flat = values.reshape(len(X), *values.shape[2:])
    weights = np.random.default_rng(4).uniform(0.5, 2.0, (20, 15))
    gp = GPRegressor(kernel, num_basis=9, **FIXED).fit(axes, values, sample_weight=weights)
    same = GPRegressor(kernel, num_basis=9, **FIXED).fit(X, flat, sample_weight=weights.ravel())
    assert gp.elbo_ == pytest.approx(same.elbo_, rel=1e-9)
    assert gp.n_features_in_ == 2
    found = gp.predict(axes, return_std=True, components=True)
    expected = same.predict(X, return_std=True, components=True)
    for a, b in zip(found[:2], expected[:2], strict=True):
        assert a.shape == values.shape
        np.testing.assert_allclose(a.reshape(b.shape), b, atol=1e-8)
    assert all(part.std.shape == values.shape for part in found[2])
    np.testing.assert_allclose(gp.predict(X), expected[0], atol=1e-8)
    density = gp.log_predictive_density(axes, values)
    assert density.shape == (20, 15)
    np.testing.assert_allclose(density.ravel(), same.log_predictive_density(X, flat), atol=1e-7)
    loo = gp.leave_one_out(axes, values, weights)
    expected = same.leave_one_out(X, flat, weights.ravel()).mean
    assert loo.mean.shape == (*expected.shape[:-1], 20, 15)
    np.testing.assert_allclose(loo.mean.reshape(expected.shape), expected, atol=1e-7)
    gp.forget(axes, values, sample_weight=weights)
    assert gp.stats_.count == 0


@pytest.mark.filterwarnings("ignore:.*left out as missing")
def test_grids_of_times_and_of_one_axis():
    (a, _), values, _ = grid_data()
    times = np.datetime64("2024-03-01", "s") + np.arange(15) * np.timedelta64(3600, "s")
    kernel = Matern32(0.5, dim=0) * Matern32("3 hours", dim=1)
    gp = GPRegressor(kernel, num_basis=9, **FIXED).fit((a, times), values)
    assert gp.predict((a, times[:4])).shape == (20, 4)
    one = GPRegressor(Matern32(0.5), num_basis=9, **FIXED).fit((a,), values[:, 0])
    np.testing.assert_array_equal(one.predict((a,)), one.predict(a))


def test_grids_whose_values_do_not_fit():
    axes, values, _ = grid_data()
    with pytest.raises(ValueError, match=r"axes of lengths \(20, 15\): y must have that shape"):
        GPRegressor().fit(axes, values.T)
    with pytest.raises(ValueError, match=r"the weights have \(15, 20\)"):
        GPRegressor().fit(axes, values, sample_weight=np.ones((15, 20)))
    with pytest.raises(ValueError, match="give X as rows"):
        GPRegressor(Matern32(dim=0) + Linear(1)).fit(axes, values)


# ---------------------------------------------------------------- memory


def test_limits_as_users_write_them():
    assert as_bytes("1.5 MB") == 1.5e6
    assert as_bytes("2gib") == 2**31
    assert as_bytes(100) == 100.0
    for wrong in ("8 apples", "GiB", 0, True, "-1 GB"):
        with pytest.raises(ValueError, match="memory_limit"):
            as_bytes(wrong)
    assert in_words(2.5 * 2**40) == "2.5 TiB"


def test_more_basis_functions_than_memory():
    X, y = surface()
    gp = GPRegressor(Matern32(0.2), num_basis=10, degree=2, **FIXED).fit(X, y)
    before = gp.predict(X)
    gp.set_params(num_basis=100_000)
    with pytest.raises(NotEnoughMemory, match=r"statistics alone need about .* TiB.*80 % of what"):
        gp.fit(X, y)
    np.testing.assert_array_equal(gp.predict(X), before)
    gp.set_params(num_basis=(200, 100), memory_limit="20 MiB")
    with pytest.raises(MemoryError, match=r"This model needs .*memory_limit is 20.0 MiB") as caught:
        gp.fit(X, y)
    # What it suggests does fit, and is not far from what would not.
    counts = str(caught.value).split("num_basis=(")[1].split(")")[0].split(",")
    fits = tuple(int(count) for count in counts)
    gp.set_params(num_basis=fits).fit(X, y)
    assert gp.num_basis_ == fits
    with pytest.raises(ValueError, match="This model needs"):
        gp.set_params(num_basis=tuple(int(1.3 * n) for n in fits)).fit(X, y)


@pytest.mark.parametrize("settings", [FIXED, {}])
def test_sums_of_terms_that_do_not_fit_are_refused_before_the_pass(settings, monkeypatch):
    X, y = surface(columns=3)
    kernel = Matern32(0.1, dim=0) * Matern32(0.1, dim=1) + Matern32(0.5, dim=2)
    gp = GPRegressor(kernel, num_basis=10, memory_limit="20 MiB", **settings).fit(X, y)

    def never(*arguments, **options):
        raise AssertionError("a pass over the data")

    monkeypatch.setattr("asvgp.statistics.pass_many.ManyInputs.add", never)
    message = r"This model needs about .* MiB, and memory_limit is 20.0 MiB.*num_basis=\("
    with pytest.raises(NotEnoughMemory, match=message):
        gp.set_params(num_basis=40).fit(X, y)
    with pytest.raises(NotEnoughMemory, match=message):  # a domain that grows
        gp.set_params(num_basis=10).partial_fit(4.0 * X, y)
    assert gp.stats_.count == 300


def test_automatic_grids_keep_to_the_limit():
    rng = np.random.default_rng(0)
    X = rng.uniform(0, 1, (4000, 2))
    y = np.sin(25 * X[:, 0]) * np.cos(20 * X[:, 1]) + 0.1 * rng.standard_normal(4000)
    free = GPRegressor(Matern32()).fit(X, y)
    with pytest.warns(UserWarning, match="not refined further.*2.0 MiB"):
        tight = GPRegressor(Matern32(), memory_limit="2 MiB").fit(X, y)
    assert np.prod(tight.num_basis_) < np.prod(free.num_basis_)
    assert memory.plan_need(tight.posterior_.plan, tight._fit_now.kernel).memory <= 2 * 2**20
    assert "memory_limit" in str(tight.optimization_)


def test_statistics_of_automatic_grids_fit():
    def needed(cells):
        return 8.0 * cells[0] * cells[1] * cells[2]

    assert fitting_cells([512, 512, 256], 2, needed, 1e12) == [512, 512, 256]
    assert needed(fitting_cells([512, 512, 256], 2, needed, 1e6)) <= 1e6
    assert fitting_cells([512, 512, 256], 2, needed, 1e6)[2] == 256
    assert fitting_cells([64, 64, 256], 2, needed, 1.0) != [64, 64, 256]


@pytest.mark.parametrize("num_basis", [30_000, (20, 20, 20_000)])
def test_additive_models_that_do_not_fit_are_refused_first(num_basis):
    X, y = surface(columns=3)
    kernel = Matern32(0.5, dim=0) + Matern32(0.5, dim=1) + Matern32(0.5, dim=2)
    if isinstance(num_basis, tuple):
        kernel = Matern32(0.5, dim=0) * Matern32(0.5, dim=1) + Matern32(0.5, dim=2)
    gp = GPRegressor(kernel, num_basis=num_basis, degree=2, memory_limit="32 MiB", **FIXED)
    with pytest.raises(NotEnoughMemory, match=r"GiB, and memory_limit is 32.0 MiB") as caught:
        gp.fit(X, y)
    counts = str(caught.value).split("num_basis=(")[1].split(")")[0].split(",")
    fits = tuple(int(count) for count in counts)
    assert gp.set_params(num_basis=fits).fit(X, y).num_basis_ == fits


@pytest.mark.parametrize("columns", [2, 3])
def test_automatic_grids_of_very_little_memory(columns):
    X, y = surface(columns=3)
    kernel = Matern32() if columns == 3 else Matern32(dim=0) * Matern32(dim=1) + Matern32(dim=2)
    with pytest.warns(UserWarning, match="would not fit in 1.0 MiB"):
        gp = GPRegressor(kernel, memory_limit="1 MiB").fit(X, y)
    assert memory.plan_need(gp.posterior_.plan, gp._fit_now.kernel).memory <= 2**20
    assert len(gp.num_basis_) == 3


def test_long_work_is_announced(monkeypatch, capsys):
    monkeypatch.setattr(memory, "MEMORY", replace(MEMORY, announced_seconds=0.0))
    X, y = surface()
    GPRegressor(Matern32(0.5), num_basis=10, progress=True, **FIXED).fit(X, y)
    text = capsys.readouterr().err
    assert "2 inputs, 100 splines and 0 columns" in text
    assert "s per bound" in text
    GPRegressor(Matern32(0.5), num_basis=10, progress=False, **FIXED).fit(X, y)
    assert capsys.readouterr().err == ""


def test_rooms_of_other_devices():
    torch = pytest.importorskip("torch")
    from asvgp.model.devices import Batched, Cpu

    assert torch is not None
    for engine in (Cpu(), Batched("cpu")):
        assert engine.rate > 1e8
        assert MemoryBudget(None, engine).limit == pytest.approx(0.8 * engine.memory)
