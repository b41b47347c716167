"""Codes for missing values are noticed, and ordinary data never taken for them."""

import os
import warnings
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import asvgp
from asvgp import GPRegressor, Matern32, Weibull
from asvgp.data.codes import missing_code


def waves(rng, n=400):
    return 20.0 + 5.0 * np.sin(np.arange(n) / 20.0) + rng.standard_normal(n)


@pytest.mark.parametrize("code", [-200, -999, -9999.0, 9999, 999.9, -99.9, -32768, 1e20, -1e30])
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_codes_are_found_in_any_units(code, dtype):
    for seed in range(5):
        rng = np.random.default_rng(seed)
        y = waves(rng).astype(dtype)
        y[rng.permutation(len(y))[: 3 + 10 * seed]] = code
        assert f"are {code:.6g}, and" in missing_code(y)


FLOATS = [-200.0, 999.9, -9999.9, -9999999.0, 9999999.0, -1234567.0, 2147483647.0, 9.96921e36]
FLOATS += [-2147483648.0, 9.969209968386869e36, -1.7976931348623157e308]
INTEGERS = [-200, -32768, 9999999, -1234567, 2147483647, -2147483648]
REMEDIES = [
    *((code, np.float64) for code in FLOATS),
    *((code, np.float32) for code in FLOATS if abs(code) < 1e38),
    *((code, kind) for code in INTEGERS for kind in (np.int64, np.int32)),
    (np.iinfo(np.int64).min, np.int64),
    (np.iinfo(np.int16).min, np.int16),
]


@pytest.mark.parametrize(("code", "dtype"), REMEDIES)
def test_the_remedy_is_one(code, dtype):
    scale = 1.0 if np.dtype(dtype).kind == "f" else 10.0
    y = (scale * waves(np.random.default_rng(0))).astype(dtype)
    y[5:9] = code
    words = missing_code(y)
    statement = words.partition("fit with ")[2]
    shown = statement.partition(" == ")[2].partition(",")[0]
    assert statement == f"y = np.where(y == {shown}, np.nan, y)"
    assert f"4 of 400 values of y are {shown}, and" in words
    scope = {"np": np, "y": y}
    exec(statement, scope)
    assert np.flatnonzero(np.isnan(scope["y"])).tolist() == [5, 6, 7, 8]
    assert missing_code(scope["y"]) == ""
    assert f"y[:, 1] == {shown}" in missing_code(np.stack([np.full_like(y, 7), y], axis=1))


@pytest.mark.parametrize("value", [3.2767, 9.9, 0.999, -0.5, -1e-5, 655.35, 9.99])
def test_values_with_decimals_are_no_codes(value):
    y = 0.01 * abs(value) * np.random.default_rng(0).normal(size=200)
    assert missing_code(np.append(y, [value] * 5)) == ""


def test_the_remedy_is_one_for_tables():
    table = pd.DataFrame({"x": np.arange(400), "temp": waves(np.random.default_rng(0))})
    table.loc[5:8, "temp"] = -9999
    words = missing_code(table["temp"].to_numpy(), columns=("temp",), among="in the first 400 rows")
    assert words.startswith("4 of 400 values of temp in the first 400 rows are -9999, and all")
    statement = words.partition(" of pandas or xarray by ")[2]
    exec(statement, {"table": table})
    assert np.flatnonzero(np.isnan(table["temp"])).tolist() == [5, 6, 7, 8]
    both = np.stack([waves(np.random.default_rng(1)), np.nan_to_num(table["temp"], nan=-1)], axis=1)
    assert "values of two are -1, and" in missing_code(both, columns=("one", "two"))


ORDINARY = {
    "counts": lambda rng: rng.poisson(rng.gamma(0.3, 3.0, 2000)),
    "counts from one": lambda rng: rng.geometric(0.1, 2000),
    "few counts": lambda rng: rng.poisson(0.2, 50),
    "rain": lambda rng: np.round(rng.gamma(0.4, 8.0, 2000) * (rng.random(2000) < 0.2), 1),
    "rain above a threshold": lambda rng: (
        (rng.random(2000) < 0.2) * (5 + rng.gamma(0.4, 8.0, 2000))
    ),
    "two states": lambda rng: np.where(
        rng.random(2000) < 0.5, 0, 1000 + rng.integers(-20, 20, 2000)
    ),
    "standby": lambda rng: np.where(rng.random(2000) < 0.5, 5, 1000 + rng.integers(-20, 20, 2000)),
    "binary": lambda rng: rng.integers(0, 2, 2000),
    "signs": lambda rng: 2 * rng.integers(0, 2, 2000) - 1,
    "marks": lambda rng: rng.integers(1, 11, 2000),
    "clipped above": lambda rng: np.minimum(rng.normal(3500, 500, 2000).round(), 4095),
    "clipped below": lambda rng: np.maximum(rng.normal(0, 5, 2000), -3),
    "detection limit": lambda rng: np.maximum(rng.lognormal(0, 1, 2000), 0.5),
    "heavy tails": lambda rng: np.round(rng.standard_t(1.2, 2000) * 10),
    "normal, whole": lambda rng: np.round(rng.normal(0, 30, 2000)),
    "standardised rain": lambda rng: (lambda y: (y - y.mean()) / y.std())(
        np.round(rng.gamma(0.4, 8.0, 2000) * (rng.random(2000) < 0.2), 1)
    ),
    "standardised states": lambda rng: (lambda y: (y - y.mean()) / y.std())(
        np.where(rng.random(2000) < 0.5, 0.0, rng.normal(1000, 20, 2000))
    ),
    "per cent": lambda rng: np.minimum(rng.normal(90, 12, 2000).round(), 100),
    "one outlier": lambda rng: np.append(rng.normal(0, 1, 2000), -9999.0),
    "constant": lambda rng: np.full(2000, -200.0),
}


@pytest.mark.parametrize("kind", ORDINARY)
def test_ordinary_data_have_none(kind):
    for seed in range(50):
        y = np.asarray(ORDINARY[kind](np.random.default_rng(seed)))
        assert missing_code(y) == "", seed
        assert missing_code(y[:60]) == "", seed


def test_real_data_with_and_without_codes():
    folder = Path(os.environ.get("ASVGP_DATA", "shared/data"))
    if not (folder / "air_quality.npz").exists():
        pytest.skip("the data sets are not at hand")
    coded = {("srtm3_vancouver", "elev_m")}
    coded |= {(name, "adt_1e4m") for name in ("ssh_global_20190223", "ssh_med_2005q2")}
    for path in sorted(folder.glob("*.npz")):
        with np.load(path) as table:
            for name in table.files:
                values = table[name].ravel()
                expected = (path.stem, name) in coded or (
                    path.stem == "air_quality" and name != "hour"
                )
                assert bool(missing_code(values)) == expected, (path.stem, name)


def test_fits_warn_and_summaries_say_it():
    x, y = np.arange(400.0), waves(np.random.default_rng(0))
    model = GPRegressor(Matern32(30.0), num_basis=30, optimizer=None)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert "Please check" not in str(model.fit(x, y).summary())
    y[::40] = -200.0
    with pytest.warns(UserWarning, match="10 of 400 values of y are -200"):
        model.fit(x, y)
    assert "a code for missing values" in " ".join(str(model.summary()).split())
    with pytest.warns(UserWarning, match="are -200"):
        GPRegressor(Matern32(30.0), num_basis=30).partial_fit(x, y)
    with warnings.catch_warnings():  # rows that are not there are not looked at
        warnings.simplefilter("error")
        weights = (y != -200.0).astype(float)
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", "10 of 400 rows")
            model.fit(x, y, sample_weight=weights)
    assert model.summary().missing_code == ""


def test_censored_times_are_no_codes():
    rng = np.random.default_rng(0)
    x, times = rng.uniform(0, 10, 300), rng.gamma(2.0, 5.0, 300)
    event = rng.random(300) < 0.7
    y = np.where(event, times, 9999.0)
    assert missing_code(y)
    with warnings.catch_warnings():
        warnings.filterwarnings("error", ".*code for missing.*")
        model = GPRegressor(Matern32(3.0), num_basis=10, likelihood=Weibull()).fit(
            x, y, event=event
        )
    assert model.summary().missing_code == ""


def warned(caught):
    return [str(each.message) for each in caught if "a code for" in str(each.message)]


def plain():
    return GPRegressor(Matern32(30.0), num_basis=30, noise_variance=1.0, optimizer=None)


def test_portions_are_warned_of_once_and_summaries_keep_it(tmp_path):
    x, y = np.arange(400.0), waves(np.random.default_rng(0))
    y[::10] = -200.0
    model = plain()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for part in np.array_split(np.arange(400), 4):
            model.partial_fit(x[part], y[part])
    (words,) = warned(caught)
    assert words.startswith("10 of 100 values of y in one call of partial_fit are -200, and all")
    assert model.summary().missing_code + "." == words
    model.save(tmp_path / "m.asvgp")
    again = asvgp.load(tmp_path / "m.asvgp")
    assert again.summary().missing_code + "." == words
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        again.partial_fit(x + 400.0, y)
    assert warned(caught) == []
    assert again.summary().missing_code + "." == words
    other = GPRegressor(Matern32(30.0), num_basis=30, domain=(0, 400)).partial_fit(x, x)
    with pytest.warns(UserWarning, match="are -200"):
        coded = GPRegressor(Matern32(30.0), num_basis=30, domain=(0, 400)).fit(x, y)
    assert "are -200" in other.merge(coded).summary().missing_code
    gone = y == -200.0
    assert coded.forget(x[gone], y[gone]).summary().missing_code == ""


def test_targets_have_their_names_and_remedies_that_fit_them(tmp_path):
    frame = pd.DataFrame({"x": np.arange(400.0), "temp": waves(np.random.default_rng(0))})
    frame.loc[5:8, "temp"] = -9999.0
    frame.to_csv(tmp_path / "rows.csv", index=False)
    column = "table['temp'] = table['temp'].where(table['temp'] != -9999)."
    kernel = Matern32(30.0, dim="x")
    for data in (frame, tmp_path / "rows.csv"):
        with pytest.warns(UserWarning, match="4 of 400 values of temp are -9999") as caught:
            GPRegressor(kernel, num_basis=30, noise_variance=1.0, optimizer=None).fit(data, "temp")
        (words,) = warned(caught)
        assert words.endswith(column)
    with pytest.warns(UserWarning, match="4 of 400 values of y are -9999") as caught:
        plain().fit(frame[["x"]], frame["temp"])
    assert warned(caught)[0].endswith("fit with y = np.where(y == -9999, np.nan, y).")
    with pytest.warns(UserWarning, match="4 of 400 values of column 1 are -9999") as caught:
        plain().fit(asvgp.scan(frame.to_numpy(), target=1))
    assert "data[:, 1] = np.where(data[:, 1] == -9999, np.nan, data[:, 1])" in warned(caught)[0]


def test_of_streams_the_first_rows_are_named(monkeypatch):
    monkeypatch.setattr("asvgp.sources.blocks.block_rows", lambda _: 1000)
    y = waves(np.random.default_rng(0), 3000)
    y[::10] = -200.0
    frame = pd.DataFrame({"x": np.linspace(0.0, 10.0, 3000), "y": y})
    chunks = (frame.iloc[i : i + 1000] for i in range(0, 3000, 1000))
    with pytest.warns(UserWarning, match="100 of 1,000 values of y in the first 1,000 rows are -2"):
        GPRegressor(Matern32(1.0), num_basis=30, domain=(0, 10), optimizer=None).fit(chunks, "y")
