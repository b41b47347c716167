"""Grids with names: dicts of axes, named axes, and what is nearly a grid."""

from __future__ import annotations

import warnings

import numpy as np
import pandas as pd
import pytest

from asvgp import Constant, GPRegressor, Matern32

LAT, LON = np.linspace(-60.0, -40.0, 12), np.linspace(20.0, 50.0, 15)
VALUES = np.sin(LAT / 5.0)[:, None] * np.cos(LON / 8.0)
KERNEL = Matern32(5.0, dim="lat") * Matern32(8.0, dim="lon")
FIXED = {"num_basis": 8, "noise_variance": 0.01, "optimizer": None}


def named(kind):
    if kind == "dict":
        return {"lat": LAT, "lon": LON}
    if kind == "lists":
        return {"lat": LAT.tolist(), "lon": LON.tolist()}
    if kind == "series":
        return pd.Series(LAT, name="lat"), pd.Series(LON, name="lon")
    if kind == "index":
        return pd.Index(LAT, name="lat"), pd.Index(LON, name="lon")
    xr = pytest.importorskip("xarray")
    field = xr.DataArray(VALUES, {"lat": LAT, "lon": LON}, ("lat", "lon"))
    return field.lat, field.lon


@pytest.mark.parametrize("kind", ["dict", "lists", "series", "index", "xarray"])
def test_axes_have_names(kind):
    X = named(kind)
    gp = GPRegressor(KERNEL, **FIXED).fit(X, VALUES)
    assert list(gp.feature_names_in_) == ["lat", "lon"]
    plain = Matern32(5.0, dim=0) * Matern32(8.0, dim=1)
    twin = GPRegressor(plain, **FIXED).fit((LAT, LON), VALUES)
    mean, std = gp.predict(X, return_std=True)
    assert mean.shape == std.shape == VALUES.shape
    np.testing.assert_allclose(mean, twin.predict((LAT, LON)), atol=1e-10)
    np.testing.assert_allclose(gp.predict((LAT[:3], LON)), mean[:3], atol=1e-10)
    gp.partial_fit(X, VALUES)
    assert gp.stats_.count == 2 * VALUES.size
    assert gp.forget(X, VALUES).stats_.count == VALUES.size
    assert gp.score(X, VALUES) > 0.9


def test_names_label_pictures():
    pytest.importorskip("matplotlib")
    from asvgp import plot

    X = {"lat": LAT, "lon": LON}
    gp = GPRegressor(KERNEL, **FIXED).fit(X, VALUES)
    axes = plot.map(gp, X, VALUES)
    assert {axes[0].get_xlabel(), axes[0].get_ylabel()} == {"lat", "lon"}


def test_names_in_another_order_are_refused():
    gp = GPRegressor(KERNEL, **FIXED).fit({"lat": LAT, "lon": LON}, VALUES)
    with pytest.raises(ValueError, match="feature names should match"):
        gp.predict({"lon": LON, "lat": LAT})


def test_one_named_axis():
    gp = GPRegressor(Matern32(5.0, dim="lat"), **FIXED).fit({"lat": LAT}, VALUES[:, 0])
    assert list(gp.feature_names_in_) == ["lat"]
    assert gp.predict({"lat": LAT}).shape == LAT.shape


def test_equal_names_are_none():
    axes = pd.Series(LAT, name="x"), pd.Series(LON, name="x")
    gp = GPRegressor(Matern32(5.0), **FIXED).fit(axes, VALUES)
    assert not hasattr(gp, "feature_names_in_")


@pytest.mark.parametrize(
    ("X", "message"),
    [
        ([LAT, LON], r"list of arrays of lengths \[12, 15\]\. For a grid, give a tuple"),
        (np.meshgrid(LAT, LON, indexing="ij"), r"shape \(12, 15\), as numpy.meshgrid.*X=\(lat"),
        (tuple(np.meshgrid(LAT, LON)), r"shape \(15, 12\), as numpy.meshgrid"),
        ({"lat": LAT, "lon": VALUES}, "one-dimensional axes by name"),
    ],
)
def test_what_is_nearly_a_grid(X, message):
    with pytest.raises(ValueError, match=message):
        GPRegressor(Matern32(5.0), **FIXED).fit(X, VALUES)
    gp = GPRegressor(Matern32(5.0), **FIXED).fit((LAT, LON), VALUES)
    with pytest.raises(ValueError, match=message):
        gp.predict(X)


def test_a_list_of_axes_of_one_length():
    with pytest.raises(ValueError, match=r"list of the axes of y, of lengths \(12, 12\)"):
        GPRegressor(Matern32(5.0), **FIXED).fit([LAT, LAT], VALUES[:, :12])


def test_gaps_of_a_grid_are_no_warning():
    holes = np.where(VALUES > 0.5, np.nan, VALUES)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        gp = GPRegressor(Matern32(5.0) + Constant(), **FIXED).fit((LAT, LON), holes)
    assert gp.stats_.missing == np.isnan(holes).sum()
    assert f"({gp.stats_.missing} missing)" in str(gp.summary())
    rows = np.stack([a.ravel() for a in np.meshgrid(LAT, LON, indexing="ij")], axis=1)
    with pytest.warns(UserWarning, match="rows have y = NaN"):
        GPRegressor(Matern32(5.0) + Constant(), **FIXED).fit(rows, holes.ravel())


@pytest.mark.parametrize("rows", [1, 50])
def test_constant_columns_say_what_to_write(rows):
    X = np.stack([np.linspace(0.0, 1.0, rows), np.full(rows, 3.0)], axis=1)
    if rows == 1:
        message = r"column 0 of X is constant .*domain=\(\(a, b\), None\)"
    else:
        message = r"column 1 of X is constant \(3, n_samples = 50\).*domain=\(None, \(a, b\)\)"
    y = X[:, 0]
    with pytest.raises(ValueError, match=message):
        GPRegressor(Matern32(), **FIXED).fit(X, y)
    domain = (None if rows > 1 else (0.0, 1.0), (2.0, 4.0))
    GPRegressor(Matern32(), domain=domain, **FIXED).fit(X, y)


def test_targets_of_sources_label_pictures():
    pytest.importorskip("matplotlib")
    from asvgp.plot.view import view_of

    frame = pd.DataFrame({"lat": LAT, "height": VALUES[:, 0]})
    gp = GPRegressor(Matern32(5.0, dim="lat"), **FIXED).fit(frame, "height")
    assert view_of(gp).target_label() == "height"
