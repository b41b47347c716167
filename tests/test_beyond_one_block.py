"""Data of more than one block: what a look at the first rows cannot tell."""

from __future__ import annotations

import re

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.csv
import pytest

import asvgp.io.blocks
import asvgp.io.dask
from asvgp import Constant, GPRegressor, Linear, Matern32, scan

N = 1500
MINUTES = np.arange(N)
RNG = np.random.default_rng(0)
C = 1000.0 + RNG.standard_normal(N)
Y = np.sin(MINUTES / 90.0) + 0.5 * (C - 1000.0) + 0.1 * RNG.standard_normal(N)
TIMES = np.datetime64("2024-01-01", "ns") + MINUTES * np.timedelta64(1, "m")
FRAME = pd.DataFrame({"c": C, "t": TIMES, "y": Y})
KERNEL = Matern32("2 hours", dim="t") + Linear("c") + Constant()
SETTINGS = {"optimizer": None, "noise_variance": 0.01}


@pytest.fixture
def short_blocks(monkeypatch):
    monkeypatch.setattr(asvgp.io.blocks, "block_rows", lambda columns: 512)
    monkeypatch.setattr(asvgp.io.dask, "block_rows", lambda columns: 512)


def chunks(frame=FRAME, length=400):
    return (frame[begin : begin + length] for begin in range(0, len(frame), length))


def in_dask(frame):
    dd = pytest.importorskip("dask.dataframe")
    return dd.from_pandas(frame, npartitions=5, sort=False)


KINDS = {
    "frame": lambda frame: frame,
    "zone": lambda frame: frame.assign(t=frame["t"].dt.tz_localize("UTC")),
    "function": lambda frame: lambda: chunks(frame),
    "arrow": lambda frame: pa.Table.from_pandas(frame),
    "dask": in_dask,
}


@pytest.mark.filterwarnings("ignore:.*Sending large graph")
@pytest.mark.parametrize("kind", KINDS)
def test_averages_over_a_duration_beside_a_covariate(kind, monkeypatch):
    whole = GPRegressor(KERNEL, num_basis=127, **SETTINGS)
    whole.fit(FRAME[["c", "t"]], Y, width="1min")
    assert whole.stats_.grid.cells == 125
    monkeypatch.setattr(asvgp.io.blocks, "block_rows", lambda columns: 512)
    monkeypatch.setattr(asvgp.io.dask, "block_rows", lambda columns: 512)
    gp = GPRegressor(KERNEL, num_basis=127, **SETTINGS)
    gp.fit(scan(KINDS[kind](FRAME), "y", width="1min"))
    assert gp.stats_.grid == whole.stats_.grid
    np.testing.assert_allclose(gp.stats_.moments, whole.stats_.moments, rtol=1e-9, atol=1e-9)
    estimates = [[effect.estimate for effect in each.effects_] for each in (gp, whole)]
    assert estimates[0] == pytest.approx(estimates[1], rel=1e-6)


def test_widths_by_the_numbers_of_columns(short_blocks):
    X = np.column_stack([C, MINUTES])
    kernel = Matern32(120.0, dim=1) + Linear(0) + Constant()
    gp = GPRegressor(kernel, num_basis=127, **SETTINGS)
    gp.fit(scan(lambda: ((X[i::3], Y[i::3]) for i in range(3)), width=1.0))
    assert gp.domain_ == (0.0, N)


def test_averages_over_areas_are_refused_as_in_memory(short_blocks):
    data = {"a": MINUTES.astype(float), "c": C, "y": Y}
    gp = GPRegressor(Matern32(dim="a") * Matern32(dim="c"), num_basis=5)
    with pytest.raises(ValueError, match="models of one input"):
        gp.fit(scan(data, "y", width=1.0))


def test_knots_that_cut_intervals_are_told_of_all_data(short_blocks):
    data = {"x": 10.0 * MINUTES, "y": Y}
    for settings in ({}, {"domain": (0.0, 15000.0)}):
        gp = GPRegressor(Matern32(900.0), num_basis=99, **SETTINGS, **settings)
        with pytest.raises(ValueError, match="Knots cut") as told:
            gp.fit(scan(data, "y", width=10.0))
        found = re.search(r"num_basis=(\d+) and domain=\(([\d.]+), ([\d.]+)\)", str(told.value))
        assert found is not None
        lower, upper = float(found[2]), float(found[3])
        assert lower == 0.0 and 15000.0 <= upper < 15200.0
        gp = GPRegressor(
            Matern32(900.0), num_basis=int(found[1]), domain=(lower, upper), **SETTINGS
        )
        assert gp.fit(scan(data, "y", width=10.0)).stats_.count == N
