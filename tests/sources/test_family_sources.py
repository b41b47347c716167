"""Likelihoods on Dask and on grids: the same numbers as from arrays."""

from __future__ import annotations

import pickle
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from asvgp import Constant, GPRegressor, Matern32, NegativeBinomial, Poisson, StudentT, scan
from asvgp.estimators.again import PortablePosterior
from asvgp.policies import DATA
from asvgp.sites.readings import Level

dask = pytest.importorskip("dask")
da = pytest.importorskip("dask.array")
dd = pytest.importorskip("dask.dataframe")
xr = pytest.importorskip("xarray")

N = 2000
KERNEL = Matern32(2.0) + Constant(variance=9.0)
FIXED = {"num_basis": 30, "domain": (0.0, 10.0), "optimizer": None}


@pytest.fixture(autouse=True)
def short_heads(monkeypatch):
    """Let sources of Dask look at few rows first, so that partitions stay where they are."""
    monkeypatch.setattr("asvgp.sources.dask.DATA", replace(DATA, many_rows=300))


@pytest.fixture(scope="module")
def table():
    rng = np.random.default_rng(2)
    x, effort = rng.uniform(0.0, 10.0, N), rng.uniform(0.5, 3.0, N)
    return pd.DataFrame(
        {
            "x": x,
            "effort": effort,
            "count": rng.poisson(effort * np.exp(np.sin(x))) * 1.0,
            "value": np.sin(x) + 0.1 * rng.standard_t(3, N),
            "often": rng.integers(1, 3, N) * 1.0,
        }
    )


def assert_same(gp, other, x):
    assert gp.stats_.count == other.stats_.count
    assert gp.elbo_ == pytest.approx(other.elbo_, rel=1e-11)
    mine, theirs = (m.predict(x, return_std=True, type="link") for m in (gp, other))
    # sites that begin elsewhere settle to a millionth of a nat
    np.testing.assert_allclose(mine, theirs, rtol=0, atol=1e-7)


def columns(table, *names, chunks=700):
    return [da.from_array(table[name].to_numpy(), chunks=chunks) for name in names]


@pytest.mark.parametrize("kind", ["named", "beside", "mixed", "arrays"])
def test_one_read_on_dask(kind, table):
    x, y = table["x"].to_numpy(), table["count"].to_numpy()
    beside = {"sample_weight": table["often"].to_numpy(), "exposure": table["effort"].to_numpy()}
    expected = GPRegressor(KERNEL, likelihood=Poisson(), **FIXED).fit(x, y, **beside)
    frame, gp = (
        dd.from_pandas(table, npartitions=5),
        GPRegressor(KERNEL, likelihood=Poisson(), **FIXED),
    )
    if kind == "named":
        gp.fit(scan(frame, "count", "x", weight="often", exposure="effort"))
    elif kind == "beside":
        gp.fit(frame[["x"]], frame["count"], frame["often"], exposure=frame["effort"])
    elif kind == "mixed":
        gp.fit(frame[["x", "effort"]], frame["count"], frame["often"], exposure="effort")
    else:
        X, y, often, effort = columns(table, "x", "count", "often", "effort")
        gp.fit(X, y, often, exposure=effort)
    assert_same(gp, expected, x)
    assert gp.optimization_.reads == 1


def test_predictions_on_dask(table):
    frame = dd.from_pandas(table, npartitions=5)
    gp = GPRegressor(KERNEL, likelihood=Poisson(), **FIXED)
    gp.fit(scan(frame, "count", "x", exposure="effort"))
    x, effort = table["x"].to_numpy(), table["effort"].to_numpy()
    found = gp.predict(frame, exposure="effort").compute()
    mean, std = gp.predict(x, return_std=True, exposure=effort)
    np.testing.assert_allclose(found["mean"], mean, rtol=1e-12)
    np.testing.assert_allclose(found["std"], std, rtol=1e-12)
    (X,) = columns(table, "x")
    np.testing.assert_allclose(gp.predict(X, exposure=2.0), gp.predict(x, exposure=2.0))


@pytest.mark.parametrize("kind", ["frame", "arrays"])
def test_rows_on_dask_are_read_again_where_they_are(kind, table):
    family, sent = StudentT(scale=0.1), []
    x = table["x"].to_numpy()
    expected = GPRegressor(KERNEL, likelihood=family, **FIXED)
    expected.fit(x, table["value"].to_numpy(), sample_weight=table["often"].to_numpy())
    gp = GPRegressor(KERNEL, likelihood=family, **FIXED)

    def get(graph, keys, **options):
        found = dask.threaded.get(graph, keys, **options)
        sent.append(len(pickle.dumps(found)))
        return found

    with dask.config.set(scheduler=get):
        if kind == "frame":
            frame = dd.from_pandas(table, npartitions=7)
            gp.fit(scan(frame, "value", "x", weight="often"))
        else:
            gp.fit(*columns(table, "x", "value", "often"))
    assert_same(gp, expected, x)
    # workers begin with one read of their rows, arrays with two
    assert 2 < gp.optimization_.reads <= expected.optimization_.reads
    assert len(sent) >= gp.optimization_.reads
    # After a first look, sums come back and never the rows.
    assert np.median(sent) < 0.25 * table[["x", "value"]].to_numpy().nbytes


def test_work_on_dask_can_be_sent(table):
    """A posterior arrives with what predictions need, and says the same."""
    gp = GPRegressor(KERNEL, likelihood=StudentT(scale=0.1), **FIXED)
    gp.fit(table["x"].to_numpy(), table["value"].to_numpy())
    there = pickle.loads(pickle.dumps(PortablePosterior(gp.posterior_))).posterior
    structure, points = gp._data.structure, gp._data.points(table["x"].to_numpy())
    for mine, theirs in zip(
        structure.predict(gp.posterior_, points), structure.predict(there, points), strict=True
    ):
        np.testing.assert_array_equal(mine, theirs)


def test_partitions_without_rows_or_targets(table):
    gaps = table.assign(value=table["value"].where(np.arange(N) >= 600))
    parts = [gaps[:500], gaps[500:500], gaps[500:1200], gaps[1200:]]
    frame = dd.from_delayed([dask.delayed(part) for part in parts], meta=gaps.iloc[:0])
    gp = GPRegressor(KERNEL, likelihood=StudentT(scale=0.1), **FIXED)
    with pytest.warns(UserWarning, match="600 of 2000 rows"):
        gp.fit(scan(frame, "value", "x"))
    expected = GPRegressor(KERNEL, likelihood=StudentT(scale=0.1), **FIXED)
    expected.fit(table["x"].to_numpy()[600:], table["value"].to_numpy()[600:])
    assert_same(gp, expected, table["x"].to_numpy())


def test_bad_rows_on_dask_say_where(table):
    bad = table.assign(count=table["count"].where(np.arange(N) != 1900, 0.5))
    frame = dd.from_pandas(bad, npartitions=4)
    with pytest.raises(ValueError, match=r"Partition 3: .*whole numbers.*0.5 in row 400"):
        GPRegressor(KERNEL, likelihood=Poisson(), **FIXED).fit(scan(frame, "count", "x"))


# ---------------------------------------------------------------- grids


@pytest.fixture(scope="module")
def grid():
    rng = np.random.default_rng(4)
    lat, lon = np.linspace(0.0, 1.0, 30), np.linspace(0.0, 2.0, 40)
    effort = rng.uniform(0.5, 2.0, (30, 40))
    rate = effort * np.exp(np.sin(3.0 * lat)[:, None] + lon / 2.0)
    dims = ("lat", "lon")
    variables = {"count": (dims, rng.poisson(rate) * 1.0), "effort": (dims, effort)}
    return xr.Dataset(variables, coords={"lat": lat, "lon": lon})


@pytest.mark.parametrize("lazy", [False, True])
def test_grids(lazy, grid):
    family, settings = NegativeBinomial(3.0), {"num_basis": 6, "optimizer": None}
    settings["domain"] = ((0.0, 1.0), (0.0, 2.0))
    kernel = Matern32() + Constant(variance=9.0)
    X = np.stack([c.ravel() for c in np.meshgrid(grid["lat"], grid["lon"], indexing="ij")], axis=1)
    y, effort = (grid[name].values.ravel() for name in ("count", "effort"))
    expected = GPRegressor(kernel, likelihood=family, **settings).fit(X, y, exposure=effort)
    data = grid.chunk(lat=10) if lazy else grid
    gp = GPRegressor(kernel, likelihood=family, **settings)
    gp.fit(scan(data, "count", exposure="effort"))
    assert gp.elbo_ == pytest.approx(expected.elbo_, rel=1e-9)
    # workers begin with one read of their rows, arrays with two
    assert 2 < gp.optimization_.reads <= expected.optimization_.reads
    found = gp.predict(data, exposure="effort")["mean"].values
    wanted = expected.predict(X, exposure=effort)
    np.testing.assert_allclose(found.ravel(), wanted, rtol=1e-6)
    axes = grid["lat"].values, grid["lon"].values
    by_axes = GPRegressor(kernel, likelihood=family, **settings)
    by_axes.fit(axes, grid["count"].values, exposure=grid["effort"].values)
    assert by_axes.elbo_ == pytest.approx(expected.elbo_, rel=1e-9)
    found = by_axes.predict(axes, exposure=grid["effort"].values)
    np.testing.assert_allclose(found.ravel(), wanted, rtol=1e-6)
    bands = by_axes.predict_quantiles(axes, 0.9, exposure=grid["effort"].values)
    assert bands.shape == (30, 40)
    score = by_axes.score(axes, grid["count"].values, exposure=grid["effort"].values)
    assert score == pytest.approx(expected.score(X, y, exposure=effort))


def test_one_mean_everywhere_is_read_on_dask_as_from_arrays(table):
    gp = GPRegressor(KERNEL, likelihood=StudentT(), **FIXED)
    x, y = table["x"].to_numpy(), table["count"].to_numpy()
    given = (x, y), (da.from_array(x, chunks=400), da.from_array(y, chunks=400))
    found = []
    for rows in given:
        added = gp._add(gp._settings(), None, *rows)
        assert added.again is not None
        reading, like = added.again.reading(N, N), added.data.stats
        family = StudentT(df=4.0, scale=0.7)
        sites = reading.begin(family, like, Level(0.3, 0.2))
        found.append((reading.level(family, 0.3, 0.2), sites.cell_weights, sites.targets))
    for one, other in zip(*found, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-9, atol=1e-9)
