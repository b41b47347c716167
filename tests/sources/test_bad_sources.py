"""Data as they are found: a clear error or a right result."""

from __future__ import annotations

import decimal
from zoneinfo import ZoneInfo

import numba
import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import asvgp.sources.blocks
from asvgp import GPRegressor, Matern32, scan
from asvgp.runtime.progress import Progress

N = 400
RNG = np.random.default_rng(0)
X = RNG.uniform(0.0, 10.0, N)
Y = np.sin(X) + 0.1 * RNG.standard_normal(N)
TIMES = np.datetime64("2024-03-30") + (X * 86400 * 1000).astype("timedelta64[ms]")


def gp(kernel=None, **settings):
    return GPRegressor(kernel or Matern32(), num_basis=30, **settings)


def written(tmp_path, text, name="a.csv", encoding="utf-8"):
    path = tmp_path / name
    path.write_bytes(text if isinstance(text, bytes) else text.encode(encoding))
    return path


def csv(**columns):
    names = list(columns)
    rows = [",".join(map(str, row)) for row in zip(*columns.values(), strict=True)]
    return "\n".join([",".join(names), *rows, ""])


def test_names_that_are_not_there(tmp_path):
    path = written(tmp_path, csv(hours=X, power=Y))
    with pytest.raises(ValueError, match=r"no column 'pwer'.*Did you mean 'power'"):
        gp().fit(path, "pwer")
    with pytest.raises(ValueError, match=r"no column 'POWER'.*Did you mean 'power'"):
        gp().fit(path, "POWER")
    semicolons = written(tmp_path, csv(hours=X, power=Y).replace(",", ";"))
    with pytest.raises(ValueError, match=r"no column 'power'.*separated by ';'"):
        gp().fit(semicolons, "power")
    path = written(tmp_path, csv(hours=X, power=Y))
    with pytest.raises(ValueError, match=r"kernel is over 'hour'.*Did you mean 'hours'"):
        gp(Matern32(dim="hour")).fit(path, "power")
    with pytest.raises(ValueError, match="'power' is the target and an input"):
        gp().fit(scan(path, "power", inputs=["hours", "power"]))
    with pytest.raises(ValueError, match="by the kernel, an input"):
        gp(Matern32(dim="power")).fit(path, "power")
    with pytest.raises(ValueError, match="named twice"):
        gp().fit(scan(path, "power", inputs=["hours", "hours"]))
    with pytest.raises(ValueError, match="No column is left"):
        gp().fit({"power": Y}, "power")
    with pytest.raises(ValueError, match="target y is None"):
        gp().fit(path)
    with pytest.raises(ValueError, match="given twice"):
        gp().fit(scan(path, "power"), "hours")
    with pytest.raises(TypeError, match="name of a column"):
        gp().fit(scan(path, "power"), sample_weight=np.ones(N))
    model = gp().fit(path, "power")
    with pytest.raises(ValueError, match=r"no column 'hours'.*Did you mean 'hour'"):
        model.predict(pd.DataFrame({"hour": X}))


def test_columns_of_one_name(tmp_path):
    path = written(tmp_path, csv(a=X, b=Y).replace("a,b", "a,a", 1))
    with pytest.raises(ValueError, match="2 columns 'a'"):
        gp().fit(path, "a")
    frame = pd.DataFrame(np.column_stack([X, Y, Y]), columns=["x", "y", "y"])
    with pytest.raises(ValueError, match="2 columns 'y'"):
        gp().fit(frame, "y")
    frame.columns = ["x", "y", "x"]
    with pytest.raises(ValueError, match="2 columns 'x'"):
        gp(Matern32(dim="x")).fit(frame, "y")
    frame = pd.DataFrame(np.column_stack([X, Y, Y, Y]), columns=["x", "y", "z", "z"])
    assert gp(Matern32(dim="x")).fit(frame, "y").stats_.count == N  # who cares for z


def test_files_that_hold_nothing_or_one_row(tmp_path):
    with pytest.raises(ValueError, match="empty"):
        gp().fit(written(tmp_path, ""), "y")
    with pytest.raises(ValueError, match="0 rows"):
        gp().fit(written(tmp_path, "x,y\n"), "y")
    with pytest.raises(ValueError, match="constant"):
        gp().fit(written(tmp_path, "x,y\n1,2\n"), "y")
    settings = {"optimizer": None, "noise_variance": 0.1, "domain": (0.0, 2.0)}
    model = gp(**settings).fit(written(tmp_path, "x,y\n1,2\n"), "y")
    assert model.stats_.count == 1
    header = model.predict(written(tmp_path, "x,y\n"))
    assert header.read_all().shape == (0, 2)
    for kind in ("parquet", "feather", "npy", "npz", "csv.gz"):
        with pytest.raises((ValueError, OSError), match=rf"a\.{kind}"):
            gp().fit(written(tmp_path, b"", f"a.{kind}"), "y")
        with pytest.raises((ValueError, OSError), match=rf"a\.{kind}"):
            gp().fit(written(tmp_path, b"PAR1 nonsense", f"a.{kind}"), "y")
    with pytest.raises(ValueError, match="0 rows"):
        gp().fit(iter([]), "y")
    with pytest.raises(ValueError, match="0 rows"):
        gp().fit(pa.table({"x": pa.array([], pa.float64()), "y": pa.array([], pa.float64())}), "y")


def test_paths_that_lead_nowhere(tmp_path):
    with pytest.raises(FileNotFoundError, match="nowhere"):
        gp().fit(tmp_path / "nowhere.csv", "y")
    with pytest.raises(FileNotFoundError, match="holds no file"):
        gp().fit(tmp_path, "y")
    with pytest.raises(ValueError, match="unknown file ending"):
        gp().fit(written(tmp_path, "x", "a.doc"), "y")
    written(tmp_path, csv(x=X, y=Y), "a.csv")
    written(tmp_path, csv(x=X, y=Y), "b.tsv")
    with pytest.raises(ValueError, match="several kinds"):
        gp().fit(tmp_path, "y")
    with pytest.raises(TypeError, match="no way to read"):
        gp().fit(scan(3.0), "y")
    with pytest.raises(ValueError, match=r"c\.csv has no column 'y'"):
        gp(Matern32(dim="x")).fit(
            [tmp_path / "a.csv", written(tmp_path, csv(x=X, z=Y), "c.csv")], "y"
        )


def test_text_where_numbers_should_be(tmp_path):
    values = [str(v) for v in Y]
    values[17] = "off"
    with pytest.raises(
        TypeError, match=r"'y' must hold numbers, but row 17 \(line 19 of the file\) is 'off'"
    ):
        gp().fit(written(tmp_path, csv(x=X, y=values)), "y")
    with pytest.raises(TypeError, match=r"'y' must hold numbers, but row 17 is 'off'"):
        gp().fit(pd.DataFrame({"x": X, "y": values}), "y")
    sites = ["north"] * N
    with pytest.raises(ValueError, match="'site' cannot be read as times: row 0 is 'north'"):
        gp().fit(pd.DataFrame({"site": sites, "y": Y}), "y")
    with pytest.raises(TypeError, match="'y' holds list"):
        gp().fit(pa.table({"x": X, "y": pa.array([[1.0]] * N)}), "y")
    with pytest.raises(TypeError, match="times of day"):
        gp().fit(pa.table({"x": pa.array([1] * N, pa.time32("s")), "y": Y}), "y")
    with pytest.raises(TypeError, match="must hold numbers, and holds times"):
        gp().fit({"x": X, "y": TIMES}, "y")
    with pytest.raises(TypeError, match="durations"):
        gp().fit({"x": X.astype("timedelta64[s]"), "y": Y}, "y")
    spelt = gp().fit(pd.DataFrame({"x": X, "y": [str(v) for v in Y]}), "y")
    assert spelt.elbo_ == gp().fit(X, Y).elbo_


def test_a_wrong_row_far_from_the_first(tmp_path, monkeypatch):
    many = 60_000  # beyond what types are guessed from
    x, y = np.arange(many), np.ones(many).astype(int).astype(object)
    y[::2] = 2
    y[50_000] = 2.5  # the first that is no integer
    model = gp().fit(written(tmp_path, csv(x=x, y=y)), "y")
    assert model.stats_.count == many
    y[55_000] = "broken"
    with pytest.raises(TypeError, match=r"row 55000 \(line 55002 of the file\) is 'broken'"):
        gp().fit(written(tmp_path, csv(x=x, y=y)), "y")
    monkeypatch.setattr(asvgp.sources.blocks, "block_rows", lambda columns: 512)
    x = X.copy()
    x[300] = np.nan
    with pytest.raises(ValueError, match="NaN or infinity in 1 of 400 rows"):
        gp().fit({"x": x, "y": Y}, "y")
    monkeypatch.setattr(asvgp.sources.blocks, "block_rows", lambda columns: 128)
    with pytest.raises(ValueError, match=r"From row 256 .* NaN .* \(44\)"):
        gp().fit({"x": x, "y": Y}, "y")
    infinite = Y.copy()
    infinite[200] = 1e200
    with pytest.raises(ValueError, match=r"From row 128 .* too large .* 72"):
        gp().fit({"x": X, "y": infinite}, "y")
    with pytest.raises(ValueError, match="leaves out"):
        gp(domain=(0.0, 5.0)).fit({"x": np.sort(X), "y": Y}, "y")


def test_types_of_numbers():
    expected = gp().fit(np.floor(10 * X), Y)
    whole = np.floor(10 * X).astype(int)
    money = [decimal.Decimal(int(v)) for v in whole]
    for values in (
        pa.array(whole, pa.int16()),
        pa.array(whole, pa.uint64()),
        pa.array(money),
        pa.array(whole, pa.float32()),
        pa.array(whole).dictionary_encode(),
        pa.chunked_array([whole[:7], whole[7:]]),
    ):
        assert gp().fit(pa.table({"x": values, "y": Y}), "y").elbo_ == expected.elbo_
    pandas = pd.DataFrame({"x": pd.array(whole, dtype="Int64"), "y": Y})
    assert gp().fit(pandas, "y").elbo_ == expected.elbo_
    truth = pa.table({"x": X, "y": pa.array(Y > 0.0)})
    assert gp().fit(truth, "y").elbo_ == gp().fit(X, Y > 0.0).elbo_


def test_what_is_missing(tmp_path):
    missing = Y.copy()
    missing[[3, 5]] = np.nan
    expected = GPRegressor(Matern32(), num_basis=30)
    with pytest.warns(UserWarning, match="2 of 400 rows"):
        expected.fit(X, missing)
    nulls = pa.array(missing, from_pandas=True)
    path = tmp_path / "a.parquet"
    pq.write_table(pa.table({"x": X, "y": nulls}), path)
    text = written(tmp_path, csv(x=X, y=missing).replace("nan", ""))
    for data in (path, text, pd.DataFrame({"x": X, "y": nulls.to_pandas().astype("Float64")})):
        with pytest.warns(UserWarning, match="2 of 400 rows"):
            assert gp().fit(data, "y").elbo_ == expected.elbo_
    with pytest.raises(ValueError, match=r"2 of 400 rows \(3, 5\)"):
        gp().fit(pa.table({"x": nulls, "y": Y}), "y")
    masked = {"x": X, "y": np.ma.masked_array(Y, np.isnan(missing))}
    with pytest.warns(UserWarning, match="2 of 400 rows"):
        assert gp().fit(masked, "y").elbo_ == expected.elbo_
    with pytest.raises(ValueError, match="All 400 values of y are NaN"):
        gp().fit(pa.table({"x": X, "y": pa.nulls(N)}), "y")
    with pytest.raises(ValueError, match="must not be negative"):
        gp().fit({"x": X, "y": Y, "w": -X}, "y", sample_weight="w")


def test_enormous_values(tmp_path):
    with pytest.raises(ValueError, match="too large"):
        gp().fit(written(tmp_path, csv(x=X, y=[*Y[:-1], 1e300])), "y")
    with pytest.raises(ValueError, match="wider than double precision"):
        gp().fit(written(tmp_path, csv(x=[-1.7e308, *X[2:], 1.7e308], y=Y)), "y")
    huge = written(tmp_path, csv(x=X, y=["9" * 400, *Y[1:]]))
    with pytest.raises((TypeError, ValueError), match=r"infinity|must hold numbers"):
        gp().fit(huge, "y")


def test_encodings(tmp_path):
    text = csv(größe=X, y=Y, note=["é"] * N)
    assert gp().fit(scan(written(tmp_path, text), "y", "größe")).stats_.count == N
    assert gp().fit(scan(written(tmp_path, text, encoding="utf-8-sig"), "y", "größe"))
    with pytest.raises(ValueError, match="UTF-16"):
        gp().fit(scan(written(tmp_path, text, encoding="utf-16"), "y"))
    latin = csv(x=X, y=Y, note=["é"] * N)
    kernel = Matern32(dim="x")
    assert gp(kernel).fit(written(tmp_path, latin, encoding="latin-1"), "y").stats_.count == N
    with pytest.raises((TypeError, ValueError), match="UTF-8"):
        gp().fit(written(tmp_path, latin, encoding="latin-1"), "note")
    with pytest.raises((TypeError, ValueError), match="UTF-8"):
        gp().fit(scan(written(tmp_path, text, encoding="latin-1"), "y"))


# ---------------------------------------------------------------- times


def in_time():
    return gp(Matern32("1 day"))


@pytest.mark.parametrize("unit", ["s", "ms", "us", "ns"])
def test_times_in_files(tmp_path, unit):
    times = TIMES.astype(f"datetime64[{unit}]")
    expected = in_time().fit(times, Y)
    table = pa.table({"t": times, "y": Y})
    pq.write_table(table, tmp_path / "a.parquet", row_group_size=100)
    model = in_time().fit(tmp_path / "a.parquet", "y")
    assert model.elbo_ == expected.elbo_
    assert model.domain_ == expected.domain_
    text = csv(t=[str(t) for t in times], y=Y)
    assert in_time().fit(written(tmp_path, text), "y").elbo_ == expected.elbo_
    strings = pd.DataFrame({"t": [str(t) for t in times], "y": Y})
    assert in_time().fit(strings, "y").elbo_ == expected.elbo_


def test_times_with_zones(tmp_path, monkeypatch):
    zone = "Europe/Berlin"
    series = pd.Series(TIMES).dt.tz_localize("UTC").dt.tz_convert(zone)
    expected = in_time().fit(series, Y)
    frame = pd.DataFrame({"t": series, "y": Y})
    frame.to_parquet(tmp_path / "a.parquet", row_group_size=100)
    for data in (frame, tmp_path / "a.parquet", pa.Table.from_pandas(frame)):
        model = in_time().fit(data, "y")
        assert model.elbo_ == expected.elbo_
        assert model.domain_ == expected.domain_
        assert model.domain_[0].tzinfo == ZoneInfo(zone)
    monkeypatch.setattr(asvgp.sources.blocks, "block_rows", lambda columns: 128)
    in_blocks = in_time().fit(tmp_path / "a.parquet", "y")
    assert in_blocks.domain_ == expected.domain_
    assert in_blocks.time_origin_ == expected.time_origin_
    text = written(tmp_path, csv(t=[f"{t}Z" for t in TIMES], y=Y))
    model = in_time().fit(text, "y")
    assert model.domain_[0] == expected.domain_[0]
    with pytest.raises(ValueError, match="in the time zone"):
        model.predict(pd.DataFrame({"t": TIMES}))
    answer = model.predict(frame[["t"]][:5])
    np.testing.assert_allclose(answer["mean"], expected.predict(series[:5]), rtol=1e-6)


def test_times_that_cannot_be_read(tmp_path):
    text = [str(t) for t in TIMES]
    text[123] = "yesterday"
    with pytest.raises(
        ValueError,
        match=r"'t' cannot be read as times: row 123 \(line 125 of the file\) is 'yesterday'",
    ):
        in_time().fit(written(tmp_path, csv(t=text, y=Y)), "y")
    with pytest.raises(ValueError, match="row 123 is 'yesterday'"):
        in_time().fit({"t": text, "y": Y}, "y")
    text[123] = f"{TIMES[123]}+01:00"
    with pytest.raises(ValueError, match="row 123"):
        in_time().fit(pd.DataFrame({"t": text, "y": Y}), "y")
    text[123] = ""
    with pytest.raises(ValueError, match=r"NaT in 1 of 400 rows \(123\)"):
        in_time().fit(written(tmp_path, csv(t=text, y=Y)), "y")
    mixed = iter([{"t": TIMES[:50], "y": Y[:50]}, {"t": X[50:], "y": Y[50:]}])
    with pytest.raises(TypeError, match="numbers in some chunks and times"):
        in_time().fit(mixed, "y")
    with pytest.raises(ValueError, match="no unit"):
        gp(Matern32(1.0), optimizer=None).fit({"t": TIMES, "y": Y}, "y")


def test_chunks_that_do_not_fit_together():
    def chunks(second):
        return iter([{"x": X[:50], "y": Y[:50]}, second])

    with pytest.raises(ValueError, match="no column 'y'"):
        gp().fit(chunks({"x": X[50:]}), "y")
    with pytest.raises(ValueError, match="50 rows of X but 49 of y"):
        gp().fit(iter([(X[:50], Y[:49])]))
    with pytest.raises(ValueError, match="has 4 parts"):
        gp().fit(iter([(X, Y, X, Y)]))
    with pytest.raises(ValueError, match="number of columns"):
        gp().fit(iter([(X[:, None], Y), (np.column_stack([X, X]), Y)]))
    with pytest.raises(ValueError, match="beside X"):
        gp().fit(iter([(X, Y, X + 1.0), (X, Y)]))
    with pytest.raises(ValueError, match="different lengths"):
        gp().fit({"x": X, "y": Y[1:]}, "y")


def test_what_was_fitted_before_stays_when_a_source_fails(tmp_path):
    model = gp().fit({"x": X, "y": Y}, "y")
    before = model.predict([5.0])
    with pytest.raises(TypeError):
        model.fit({"x": X, "y": ["off"] * N}, "y")
    np.testing.assert_array_equal(model.predict([5.0]), before)


def test_an_archive_that_is_cut_off(tmp_path):
    path = tmp_path / "data.npz"
    np.savez(path, x=np.arange(100.0), y=np.arange(100.0))
    path.write_bytes(path.read_bytes()[:500])
    with pytest.raises(ValueError, match=r"data\.npz cannot be read as npz"):
        GPRegressor().fit(path, "y")


def test_progress_of_no_rows(capsys):
    progress = Progress(True)
    progress.last = 0.0
    progress.passing(100)(0)
    assert "0 of 100" in capsys.readouterr().err


def test_compiling_is_told_from_two_seconds_on(capsys):
    def compiled_afresh(progress):
        @numba.njit
        def double(x):
            return 2 * x

        with progress:
            assert double(2) == 4
        return capsys.readouterr().err

    assert compiled_afresh(Progress(True)) == ""  # no need to wonder yet
    late = Progress(True)
    late.last = 0.0
    assert "compiling (once)" in compiled_afresh(late)
    silent = Progress(False)
    silent.last = 0.0
    assert compiled_afresh(silent) == ""
    late.last = 0.0
    numba.njit(lambda x: x)(1)  # after the work nobody listens
    assert capsys.readouterr().err == ""


def test_archives_that_need_another_zip_program_are_refused(tmp_path):
    np.savez(path := tmp_path / "rows.npz", x=np.arange(9.0), y=np.arange(9.0))
    content = bytearray(path.read_bytes())
    for place in (content.find(b"PK\x01\x02") + 6, content.find(b"PK\x01\x02") + 10):
        damaged = bytearray(content)
        damaged[place] = 99
        path.write_bytes(damaged)
        with pytest.raises(ValueError, match="cannot be read as npz"):
            asvgp.scan(path)


def test_damaged_classic_netcdf_is_refused_and_does_not_crash(tmp_path):
    frame = pd.DataFrame({"x": np.arange(9.0), "y": np.arange(9.0)}).set_index("x")
    frame.to_xarray().to_netcdf(path := tmp_path / "rows.nc", format="NETCDF3_64BIT")
    content = path.read_bytes()
    for length in (5, 20, 60, 100):
        path.write_bytes(content[:length])
        with pytest.raises(ValueError, match="cannot be read as NetCDF"):
            asvgp.scan(path)
