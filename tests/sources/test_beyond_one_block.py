"""Data of more than one block: what a look at the first rows cannot tell."""

from __future__ import annotations

import os
import re

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest

import asvgp.estimators.ingest
import asvgp.sources.arrow
import asvgp.sources.blocks
import asvgp.sources.dask
from asvgp import Constant, GPRegressor, Linear, Matern32, scan
from asvgp.cli import checkpoint
from asvgp.data.settings import Settings
from asvgp.sources.source import source_for
from tests.cli.command_line import call, refused

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
    monkeypatch.setattr(asvgp.sources.blocks, "block_rows", lambda columns: 512)
    monkeypatch.setattr(asvgp.sources.dask, "block_rows", lambda columns: 512)


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
    whole = GPRegressor(KERNEL, num_basis=128, **SETTINGS)
    whole.fit(FRAME[["c", "t"]], Y, width="1min")
    assert whole.stats_.grid.cells == 125
    monkeypatch.setattr(asvgp.sources.blocks, "block_rows", lambda columns: 512)
    monkeypatch.setattr(asvgp.sources.dask, "block_rows", lambda columns: 512)
    gp = GPRegressor(KERNEL, num_basis=128, **SETTINGS)
    gp.fit(scan(KINDS[kind](FRAME), "y", width="1min"))
    assert gp.stats_.grid == whole.stats_.grid
    np.testing.assert_allclose(gp.stats_.moments, whole.stats_.moments, rtol=1e-9, atol=1e-9)
    estimates = [[effect.estimate for effect in each.effects_] for each in (gp, whole)]
    assert estimates[0] == pytest.approx(estimates[1], rel=1e-6)


def test_widths_by_the_numbers_of_columns(short_blocks):
    X = np.column_stack([C, MINUTES])
    kernel = Matern32(120.0, dim=1) + Linear(0) + Constant()
    gp = GPRegressor(kernel, num_basis=128, **SETTINGS)
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
        assert lower == 0.0
        assert 15000.0 <= upper < 15200.0
        gp = GPRegressor(
            Matern32(900.0), num_basis=int(found[1]), domain=(lower, upper), **SETTINGS
        )
        assert gp.fit(scan(data, "y", width=10.0)).stats_.count == N


def test_widths_of_nothing_in_some_blocks(short_blocks):
    """A block of points is summed otherwise than one of averages, and nothing is lost."""
    x = MINUTES.astype(float)
    width = np.where((x >= 512) & (x < 1024), 1.0, 0.0)
    settings = {"num_basis": 128, "domain": (0.0, 1500.0), **SETTINGS}
    whole = GPRegressor(Matern32(100.0), **settings).fit(x, Y, width=width)
    gp = GPRegressor(Matern32(100.0), **settings).fit({"x": x, "y": Y, "w": width}, "y", width="w")
    assert gp.stats_.count == N
    assert gp.elbo_ == pytest.approx(whole.elbo_, rel=1e-10)
    grid = np.linspace(0.0, 1500.0, 40)
    mean = gp.predict(pd.DataFrame({"x": grid}))["mean"]
    np.testing.assert_allclose(mean, whole.predict(grid), atol=1e-8)


# ---------------------------------------------------------------- ranges by statistics


def test_half_precision_in_parquet(short_blocks, tmp_path):
    x = (MINUTES / 100.0).astype(np.float16)
    pq.write_table(pa.table({"x": x, "y": Y}), tmp_path / "a.parquet")
    gp = GPRegressor(Matern32(1.0), num_basis=40, **SETTINGS).fit(tmp_path / "a.parquet", "y")
    assert gp.domain_ == (0.0, float(x.max()))
    pq.write_table(pa.table({"x": 20.0 + x.astype(float), "y": Y}), tmp_path / "b.parquet")
    gp = GPRegressor(Matern32(1.0), num_basis=40, **SETTINGS)
    gp.fit([tmp_path / "b.parquet", tmp_path / "a.parquet"], "y")
    assert gp.domain_ == (0.0, 20.0 + float(x.max()))


def test_dates_in_parquet(short_blocks, tmp_path):
    days = np.datetime64("2020-01-01", "D") + MINUTES
    table = pa.table({"t": pa.array(days, pa.date32()), "y": Y})
    pq.write_table(table, tmp_path / "a.parquet")
    source = scan(tmp_path / "a.parquet", "y").prepared(None)
    ends = source.ranges().arrays[0]  # pyright: ignore[reportOptionalMemberAccess]
    assert ends.tolist() == [days[0].astype("M8[s]").item(), days[-1].astype("M8[s]").item()]
    gp = GPRegressor(Matern32("30 days"), num_basis=40, **SETTINGS)
    gp.fit(tmp_path / "a.parquet", "y")
    assert [np.datetime64(end, "D") for end in gp.domain_] == [days[0], days[-1]]


# ---------------------------------------------------------------- data that change


def saved(folder, kind):
    path, x = folder / f"a.{kind}", MINUTES / 10.0
    if kind == "npy":
        np.save(path, np.column_stack([x, Y]))
    elif kind == "npz":
        np.savez(path, x=x, y=Y)
    elif kind == "csv":
        pa.csv.write_csv(pa.table({"x": x, "y": Y}), path)
    else:
        pq.write_table(pa.table({"x": x, "y": Y}), path)
    return path


def rewrite(path):
    """The file written again, as long as it was."""
    before = path.stat()
    with open(path, "r+b") as file:
        content = file.read()
        file.seek(0)
        file.write(content)
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns + 1))
    assert path.stat().st_size == before.st_size


@pytest.mark.parametrize("kind", ["csv", "parquet", "npy", "npz"])
def test_files_that_change_without_growing(kind, short_blocks, tmp_path, monkeypatch):
    path = saved(tmp_path, kind)
    target = 1 if kind == "npy" else "y"
    gp = GPRegressor(Matern32(10.0), num_basis=40, **SETTINGS)
    assert gp.fit(scan(path, target)).stats_.count == N
    honest = asvgp.sources.blocks.BlockStream.statistics

    def statistics(self, reader, progress=None):
        rewrite(path)
        return honest(self, reader, progress)

    monkeypatch.setattr(asvgp.sources.blocks.BlockStream, "statistics", statistics)
    with pytest.raises(ValueError, match="have changed while they were read"):
        gp.fit(scan(path, target))


def stopped_fit(folder, kind, monkeypatch):
    """A fit that Ctrl-C ended after two blocks; its arguments."""
    path = saved(folder, kind)
    target = "1" if kind == "npy" else "y"
    arguments = ("fit", path, "--target", target, "--num-basis", 40, "-o", folder / "m.asvgp")
    monkeypatch.setattr(checkpoint, "EVERY", -1.0)
    honest, done = asvgp.estimators.ingest.Reader.statistics, []

    def statistics(self, *given):
        done.append(1)
        if len(done) > 2:
            raise KeyboardInterrupt
        return honest(self, *given)

    with monkeypatch.context() as patch:
        patch.setattr(asvgp.estimators.ingest.Reader, "statistics", statistics)
        assert "1,024" in call(*arguments, code=130).stderr
    return path, arguments


@pytest.mark.parametrize("kind", ["csv", "npy", "npz"])
def test_a_changed_file_is_not_resumed(kind, short_blocks, tmp_path, monkeypatch):
    path, arguments = stopped_fit(tmp_path, kind, monkeypatch)
    rewrite(path)
    assert "data differ" in refused(tmp_path, *arguments, "--resume")


# ---------------------------------------------------------------- which row is wrong


def test_rows_of_texts_are_counted_from_the_first():
    text = [str(time) for time in TIMES]
    text[1234] = "yesterday"
    frame = FRAME.assign(t=text)[["t", "y"]]
    gp = GPRegressor(Matern32("2 hours"), num_basis=40, **SETTINGS)
    with pytest.raises(ValueError, match="row 1234 is 'yesterday'"):
        gp.fit(lambda: chunks(frame), "y")


def test_rows_are_counted_after_a_checkpoint(short_blocks, tmp_path, monkeypatch):
    monkeypatch.setattr(checkpoint, "EVERY", -1.0)
    y = Y.copy()
    y[1234] = np.inf
    pq.write_table(pa.table({"x": MINUTES / 10.0, "y": y}), tmp_path / "a.parquet")
    arguments = ("--target", "y", "--num-basis", 40, "-o", tmp_path / "m.asvgp")
    said = refused(tmp_path, "fit", tmp_path / "a.parquet", *arguments)
    assert "From row 1024 " in said
    assert f" {1234 - 1024}." in said


def test_rows_are_counted_after_a_resumption(short_blocks, tmp_path, monkeypatch):
    path, arguments = stopped_fit(tmp_path, "parquet", monkeypatch)
    stamp, y = path.stat(), Y.copy()
    y[1234] = np.inf
    pq.write_table(pa.table({"x": MINUTES / 10.0, "y": y}), path)
    monkeypatch.setattr(
        "asvgp.sources.arrow.ArrowDataset.fingerprint",
        lambda self: ((str(path), stamp.st_size, stamp.st_mtime_ns),),
    )
    said = call(*arguments, "--resume", code=1).stderr
    assert "From row 1024 " in said
    assert f" {1234 - 1024}." in said


def test_rows_of_predictions_are_counted_from_the_first(tmp_path, monkeypatch):
    monkeypatch.setattr(asvgp.sources.arrow, "ROWS", 100)
    x = MINUTES / 10.0
    pq.write_table(pa.table({"x": x, "y": Y}), tmp_path / "a.parquet")
    model = tmp_path / "m.asvgp"
    fixed = ("--fixed", "--noise", "0.01", "--num-basis", 40)
    call("fit", tmp_path / "a.parquet", "--target", "y", *fixed, "-o", model)
    text = [str(value) for value in x]
    noise = ["0.01"] * N
    text[1234], noise[678] = "broken", "silent"
    pq.write_table(pa.table({"x": text}), tmp_path / "b.parquet")
    output = ("-o", tmp_path / "out.csv")
    said = refused(tmp_path, "predict", model, tmp_path / "b.parquet", *output)
    assert "row 1234 is 'broken'" in said
    pq.write_table(pa.table({"x": x, "v": noise}), tmp_path / "b.parquet")
    known = ("--include-noise", "--noise-variance", "v")
    said = refused(tmp_path, "predict", model, tmp_path / "b.parquet", *known, *output)
    assert "row 678 is 'silent'" in said


def test_the_line_of_a_default_kernel_bends_where_all_rows_are_seen(short_blocks):
    """How it bends depends on how long the series is, which the first block does not say."""
    x = np.arange(600.0)
    y = 20.0 * (x / 512.0) ** 2 + np.random.default_rng(1).standard_normal(600)
    settings = Settings.parse(None)

    def bends(rows, growing=False):
        blocks = [(x[:rows][part], y[:rows][part]) for part in (slice(300), slice(300, None))]
        source = source_for(lambda: iter(blocks))
        kernel = asvgp.estimators.ingest.absorb(settings, source, growing=growing).data.layout.given
        assert Linear() in kernel.effects
        return any({"period", "lengthscale"} & {*part.fixed} for part in kernel.components)

    assert bends(512)
    assert not bends(600)
    assert not bends(512, growing=True)
