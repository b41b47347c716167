"""``asvgp forecast`` beside the Python interface's numbers, and what it refuses."""

import json

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet
import pytest
from numpy.testing import assert_allclose

import asvgp
from tests.cli.command_line import call, field, power, refused, write

ROLES = ("--target", "power", "--input", "time")
SHORT = ("--num-basis", 60, "--fixed", "--noise", 0.01)


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    folder = tmp_path_factory.mktemp("files")
    data = power()
    write(data, folder / "power.parquet")
    kernel = ("--kernel", "matern32(6h) + constant", *SHORT)
    call("fit", folder / "power.parquet", *ROLES, *kernel, "-o", folder / "power.asvgp")
    write(field(), folder / "field.parquet")
    small = ("--target", "height", "--num-basis", "8,9", "--fixed", "--noise", 0.01)
    call("fit", folder / "field.parquet", *small, "-o", folder / "field.asvgp")
    return folder


def test_steps_become_a_table(files, tmp_path):
    result = call("forecast", files / "power.asvgp", "--steps", 48, "-o", tmp_path / "out.parquet")
    found = pa.parquet.read_table(tmp_path / "out.parquet").to_pandas()
    twin = asvgp.load(files / "power.asvgp").forecast(48)
    assert list(found) == ["time", *twin]
    assert (pd.DatetimeIndex(found["time"]) == twin.index).all()
    for name in twin:
        assert_allclose(found[name], twin[name], rtol=1e-12)
    assert result.stderr.startswith(f"Wrote {tmp_path / 'out.parquet'} (48 rows: time, mean")


def test_csv_goes_to_standard_output(files):
    words = ("--until", "2024-01-21 22:00", "--level", 90, "--components", "--without-noise")
    shown = call("forecast", files / "power.asvgp", *words).stdout.splitlines()
    assert shown[0] == '"time","mean","std","lower_90","upper_90","matern32","constant"'
    twin = asvgp.load(files / "power.asvgp")
    twin = twin.forecast(until="2024-01-21 22:00", level=0.9, components=True, include_noise=False)
    assert len(shown) == 1 + len(twin)
    assert_allclose([float(x) for x in shown[-1].split(",")[1:]], twin.iloc[-1], rtol=1e-9)


def test_facts_in_json(files, tmp_path):
    words = ("--steps", 3, "--level", "80,0.95", "--json", "-o", tmp_path / "out.csv")
    facts = json.loads(call("forecast", files / "power.asvgp", *words).stdout)
    assert facts["rows"] == 3
    assert facts["columns"][3:] == ["lower_80", "upper_80", "lower_95", "upper_95"]


def test_several_targets_and_future_rows(tmp_path):
    rng = np.random.default_rng(0)
    x = np.arange(200.0)
    table = {"x": x, "warm": rng.standard_normal(200), "a": np.sin(x / 9), "b": np.cos(x / 9)}
    write(pa.table(table), tmp_path / "d.csv")
    two = ("--target", "a", "--target", "b", "--input", "x", *SHORT, "--kernel", "matern32(9)")
    call("fit", tmp_path / "d.csv", *two, "-o", tmp_path / "two.asvgp")
    header = call("forecast", tmp_path / "two.asvgp", "--steps", 2).stdout.splitlines()[0]
    assert header.startswith('"x","mean_a","std_a","lower_80_a"')
    assert '"upper_95_b"' in header
    kernel = ("--kernel", "matern32(9, dim=x) + linear(warm) + constant", *SHORT)
    columns = ("--target", "a", "--input", "x", "--input", "warm")
    call("fit", tmp_path / "d.csv", *columns, *kernel, "-o", tmp_path / "m.asvgp")
    said = refused(tmp_path, "forecast", tmp_path / "m.asvgp", "--steps", 2)
    assert "linear effects of other columns ('warm')" in said
    assert "On the command line: DATA with the rows to forecast" in said
    future = pd.DataFrame({"x": [200.0, 201.0], "warm": [0.0, 1.0]})
    write(pa.Table.from_pandas(future), tmp_path / "future.csv")
    call("forecast", tmp_path / "m.asvgp", tmp_path / "future.csv", "-o", tmp_path / "o.parquet")
    found = pa.parquet.read_table(tmp_path / "o.parquet").to_pandas()
    twin = asvgp.load(tmp_path / "m.asvgp").forecast(X=future)
    assert_allclose(found["mean"], twin["mean"], rtol=1e-12)
    assert found["x"].tolist() == [200.0, 201.0]


def test_what_is_refused(files, tmp_path):
    model = files / "power.asvgp"
    for words in ((), ("--steps", 3, "--until", "2024-02-01")):
        assert "Give one of" in refused(tmp_path, "forecast", model, *words, code=2)
    assert "one or more" in refused(tmp_path, "forecast", model, "--steps", 0)
    said = refused(tmp_path, "forecast", model, "--until", "2024-01-05")
    assert "until=2024-01-05 leaves nothing to forecast: the last input is 2024-01-21T19:30" in said
    assert "not a time" in refused(tmp_path, "forecast", model, "--until", "soon")
    assert "must hold times" in refused(tmp_path, "forecast", model, "--until", "12")
    assert "in per cent, such as 95, got '80;95'" in refused(
        tmp_path, "forecast", model, "--steps", 3, "--level", "80;95", code=2
    )
    said = refused(tmp_path, "forecast", files / "field.asvgp", "--steps", 3)
    assert "this one has 2 (lon, lat)" in said
    said = refused(tmp_path, "forecast", model, "--steps", 3, "--json", code=2)
    assert "table or JSON" in said


def test_irregular_spacing_is_a_warning(tmp_path):
    x = np.sort(np.random.default_rng(0).uniform(0.0, 100.0, 300))
    write(pa.table({"x": x, "y": np.sin(x)}), tmp_path / "d.csv")
    words = ("--target", "y", "--kernel", "matern32(3)", *SHORT, "-o", tmp_path / "m.asvgp")
    call("fit", tmp_path / "d.csv", *words)
    result = call("forecast", tmp_path / "m.asvgp", "--steps", 2)
    assert "warning: The data are not evenly spaced: the forecast takes steps of" in result.stderr


def test_known_noise(tmp_path):
    data = power().append_column("v", pa.array(np.full(1000, 0.01)))
    write(data, tmp_path / "a.parquet")
    words = ("--noise-variance", "v", "--num-basis", 60, "--kernel", "matern32(6h)", "--fixed")
    call("fit", tmp_path / "a.parquet", *ROLES, *words, "-o", tmp_path / "m.asvgp")
    said = refused(tmp_path, "forecast", tmp_path / "m.asvgp", "--steps", 3)
    assert "add --without-noise" in said
    call("forecast", tmp_path / "m.asvgp", "--steps", 3, "--without-noise")
