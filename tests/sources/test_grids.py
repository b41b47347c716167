"""xarray, NetCDF and Zarr: the same fit as from arrays, and answers on the same coordinates."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

from asvgp import Constant, GPRegressor, Linear, Matern32, scan
from asvgp.sources import grid_answers, grids

xr = pytest.importorskip("xarray")
pytest.importorskip("dask")
dask_array = pytest.importorskip("dask.array")

KERNEL = Matern32(3.0, dim="lon") * Matern32(2.0, 1.5, dim="lat")
NUMBERED = Matern32(2.0, 1.5, dim=0) * Matern32(3.0, dim=1)  # columns lat, lon
FIXED = {"num_basis": 16, "noise_variance": 0.04, "optimizer": None}
missing_is_fine = pytest.mark.filterwarnings("ignore:.*are left out as missing:UserWarning")


def field(*shape, seed=0):
    rng = np.random.default_rng(seed)
    axes = np.meshgrid(*(np.linspace(0, 4, n) for n in shape), indexing="ij")
    return np.sin(sum(axes)) + 0.2 * rng.standard_normal(shape)


@pytest.fixture
def sea():
    """Latitude descends, as it often does."""
    lat, lon = np.linspace(60.0, 50.0, 24), np.linspace(-10.0, 5.0, 31)
    depth = np.cos(lon)[None, :] * lat[:, None] / 50
    return xr.Dataset(
        {
            "sst": (("lat", "lon"), field(24, 31), {"units": "K"}),
            "depth": (("lat", "lon"), depth),
        },
        {"lat": ("lat", lat, {"units": "degrees_north"}), "lon": lon, "run": 7},
        {"title": "sea"},
    )


def rows(data, name="sst"):
    lat, lon = np.meshgrid(data.lat, data.lon, indexing="ij")
    X = np.stack([lat.ravel(), lon.ravel()], axis=1)
    return X, data[name].transpose("lat", "lon").values.ravel()


def assert_same(mine, other, tolerance=1e-12):
    """Statistics that differ by rounding only."""
    for name in ("moments", "targets", "squares"):
        a, b = getattr(mine.stats_, name), getattr(other.stats_, name)
        np.testing.assert_allclose(a, b, rtol=0, atol=tolerance * np.abs(b).max())
    assert (mine.stats_.count, mine.stats_.missing) == (other.stats_.count, other.stats_.missing)


def assert_answers(found, model, X, dims=("lat", "lon")):
    """A Dataset that says what a model of arrays does."""
    mean, std = model.predict(X, return_std=True)
    assert found["mean"].dims == found["std"].dims == dims
    np.testing.assert_allclose(found["mean"].values.ravel(), mean, atol=1e-12)
    np.testing.assert_allclose(found["std"].values.ravel(), std, atol=1e-12)


@pytest.fixture
def small_blocks(monkeypatch):
    monkeypatch.setattr(grids, "block_rows", lambda columns: 100)
    monkeypatch.setattr(grid_answers, "ROWS", 100)


class TestTheSameFit:
    @pytest.mark.parametrize("chunks", [None, {"lat": 5, "lon": 10}, {"lon": 4}])
    def test_from_a_dataset(self, sea, chunks):
        X, y = rows(sea)
        expected = GPRegressor(NUMBERED, **FIXED).fit(X, y)
        data = sea if chunks is None else sea.chunk(chunks)
        gp = GPRegressor(KERNEL, **FIXED).fit(data, "sst")
        assert_same(gp, expected)
        assert list(gp.feature_names_in_) == ["lat", "lon"]
        assert_answers(gp.predict(data), expected, X)

    def test_from_blocks(self, sea, small_blocks):
        X, y = rows(sea)
        expected = GPRegressor(NUMBERED, **FIXED).fit(X, y)
        gp = GPRegressor(KERNEL, **FIXED).fit(sea, "sst")
        assert_same(gp, expected)
        assert_answers(gp.predict(sea), expected, X)

    def test_trained(self, sea):
        X, y = rows(sea)
        named = Matern32(2.0, 1.5, dim="lat") * Matern32(3.0, dim="lon")
        gp = GPRegressor(named).fit(sea, "sst")
        mean = gp.predict(sea)["mean"].values
        axes = sea.lat.values, sea.lon.values
        on_grid = GPRegressor(NUMBERED).fit(axes, sea.sst.values)
        assert gp.num_basis_ == on_grid.num_basis_
        np.testing.assert_allclose(mean, on_grid.predict(axes), atol=1e-12)
        by_row = GPRegressor(NUMBERED).fit(X, y)  # whose sums are rounded otherwise
        np.testing.assert_allclose(mean.ravel(), by_row.predict(X), atol=1e-7)

    def test_from_a_data_array_in_any_order_of_dimensions(self, sea):
        X, y = rows(sea)
        expected = GPRegressor(NUMBERED, **FIXED).fit(X, y)
        gp = GPRegressor(KERNEL, **FIXED).fit(scan(sea.sst.T, inputs=["lat", "lon"]))
        assert_same(gp, expected)
        found = gp.predict(sea.sst.T)
        assert found["mean"].dims == ("lon", "lat")
        assert_answers(found.transpose("lat", "lon"), expected, X)

    @pytest.mark.parametrize("ending", ["nc", "zarr"])
    def test_from_a_file(self, sea, ending, tmp_path, small_blocks):
        path = tmp_path / f"sea.{ending}"
        write(sea, path)
        X, y = rows(sea)
        expected = GPRegressor(NUMBERED, **FIXED).fit(X, y)
        gp = GPRegressor(KERNEL, **FIXED).fit(path, "sst")
        assert_same(gp, expected)
        found = gp.predict(path)
        assert found["mean"].chunks  # lazily, in blocks
        assert max(map(np.prod, np.broadcast(*np.ix_(*found["mean"].chunks)))) <= 100
        assert_answers(found, expected, X)

    def test_from_many_files(self, sea, tmp_path):
        for number in range(3):
            part = sea.isel(lat=slice(8 * number, 8 * number + 8))
            part.to_netcdf(tmp_path / f"part{number}.nc")
        X, y = rows(sea)
        expected = GPRegressor(NUMBERED, **FIXED).fit(X, y)
        for data in (tmp_path, tmp_path / "*.nc", sorted(tmp_path.glob("*.nc"))):
            assert_same(GPRegressor(KERNEL, **FIXED).fit(scan(data, "sst")), expected)

    @pytest.mark.parametrize("lazy", [False, True])
    def test_in_three_inputs_with_times(self, lazy, small_blocks):
        time = np.datetime64("2024-01-01", "ns") + np.arange(9) * np.timedelta64(1, "D")
        lat, lon = np.linspace(1, 0, 7), np.linspace(0, 1, 8)
        data = xr.DataArray(field(9, 7, 8), {"time": time, "lat": lat, "lon": lon}, name="t2m")
        kernel = (
            Matern32("2 days", dim="time") * Matern32(0.5, dim="lat") * Matern32(0.5, dim="lon")
        )
        settings = FIXED | {"num_basis": 6}
        expected = GPRegressor(
            Matern32("2 days", dim=0) * Matern32(0.5, dim=1) * Matern32(0.5, dim=2), **settings
        ).fit((time, lat, lon), data.values)
        given = data.chunk(time=2) if lazy else data
        gp = GPRegressor(kernel, **settings).fit(given)
        assert_same(gp, expected)
        found = gp.predict(given)["mean"]
        assert bool(found.chunks) == lazy
        np.testing.assert_allclose(found, expected.predict((time, lat, lon)), atol=1e-12)
        later = gp.predict(xr.Dataset(coords={"lat": [0.5], "lon": lon, "time": time[-1:] + 10}))
        assert dict(later.sizes) == {"time": 1, "lat": 1, "lon": 8}

    def test_of_one_input_is_that_of_arrays_bit_for_bit(self):
        time = np.datetime64("2024-01-01", "ns") + np.arange(500) * np.timedelta64(1, "h")
        y = field(500)
        gp = GPRegressor(Matern32("1 day")).fit(xr.DataArray(y, {"time": time}, name="load"))
        expected = GPRegressor(Matern32("1 day")).fit(time, y)
        assert gp.elbo_ == expected.elbo_
        assert np.array_equal(
            gp.predict(xr.Dataset(coords={"time": time}))["mean"], expected.predict(time)
        )

    def test_with_weights_along_one_dimension(self, sea):
        sea["weight"] = "lat", np.linspace(1, 2, 24)
        X, y = rows(sea)
        weights = np.repeat(sea.weight.values, 31)
        for data in (sea, sea.chunk({"lat": 5})):
            gp = GPRegressor(KERNEL, **FIXED).fit(data, "sst", sample_weight="weight")
            assert_same(gp, GPRegressor(NUMBERED, **FIXED).fit(X, y, weights))
            assert gp.stats_.log_weights == pytest.approx(np.log(weights).sum())

    def test_with_known_noise(self, sea):
        sea["v"] = ("lat", "lon"), np.linspace(0.01, 0.09, 24 * 31).reshape(24, 31)
        X, y = rows(sea)
        expected = GPRegressor(NUMBERED, **FIXED).fit(X, y, noise_variance=sea.v.values.ravel())
        for data in (sea, sea.chunk({"lat": 5})):
            gp = GPRegressor(KERNEL, **FIXED).fit(data, "sst", noise_variance="v")
            assert_same(gp, expected)

    def test_of_several_outputs(self, sea):
        sea["salt"] = 2.0 * sea.sst + 1.0
        X, y = rows(sea)
        gp = GPRegressor(KERNEL, **FIXED).fit(sea, ["sst", "salt"])
        assert_same(gp, GPRegressor(NUMBERED, **FIXED).fit(X, np.stack([y, 2 * y + 1], axis=1)))
        assert set(gp.predict(sea)) == {"mean_sst", "std_sst", "mean_salt", "std_salt"}

    def test_with_a_covariate_on_the_grid(self, sea, small_blocks):
        X, y = rows(sea)
        X = np.column_stack([X, rows(sea, "depth")[1]])
        kernel = KERNEL + Linear("depth") + Constant()
        expected = GPRegressor(NUMBERED + Linear(2) + Constant(), **FIXED).fit(X, y)
        for data in (sea, sea.chunk({"lat": 5})):
            gp = GPRegressor(kernel, **FIXED).fit(data, "sst")
            assert_same(gp, expected)
            assert_answers(gp.predict(data), expected, X)
        found = gp.predict(sea, components=True)
        parts = [n for n in found if n.startswith("mean_")]
        assert parts == ["mean_product", "mean_linear_depth", "mean_constant"]
        np.testing.assert_allclose(sum(found[n] for n in parts), found["mean"], atol=1e-10)

    @missing_is_fine
    def test_on_a_curvilinear_grid(self, small_blocks):
        y, x = np.meshgrid(np.arange(20.0), np.arange(30.0), indexing="ij")
        lon, lat, values = x + 0.1 * y, y - 0.05 * x, field(20, 30)
        lon[:2, :3] = lat[:2, :3] = values[:2, :3] = np.nan  # nobody knows where
        data = xr.Dataset(
            {"ssh": (("y", "x"), values)},
            {"lon": (("y", "x"), lon), "lat": (("y", "x"), lat)},
        )
        known = ~np.isnan(values).ravel()
        X = np.stack([lat.ravel(), lon.ravel()], axis=1)[known]
        expected = GPRegressor(NUMBERED, **FIXED).fit(X, values.ravel()[known])
        for given in (data, data.chunk({"y": 6})):
            gp = GPRegressor(Matern32(2.0, 1.5, dim="lat") * Matern32(3.0, dim="lon"), **FIXED)
            gp.fit(given, "ssh")
            assert gp.stats_.missing == 6
            np.testing.assert_allclose(gp.stats_.moments, expected.stats_.moments, atol=1e-10)
            found = gp.predict(given)["mean"].values
            assert np.isnan(found[:2, :3]).all()
            np.testing.assert_allclose(found.ravel()[known], expected.predict(X), atol=1e-12)


def write(data, path):
    if str(path).endswith(".nc"):
        data.to_netcdf(path)
        return
    with warnings.catch_warnings():  # of the format's own future
        warnings.simplefilter("ignore")
        data.to_zarr(path)


class TestAnswers:
    def test_keep_coordinates_and_attributes(self, sea):
        gp = GPRegressor(KERNEL, **FIXED).fit(sea, "sst")
        found = gp.predict(sea)
        assert found.attrs == {"title": "sea"}
        assert found.lat.attrs == {"units": "degrees_north"}
        assert found.run == 7
        assert found["mean"].attrs == found["std"].attrs == {"units": "K"}
        xr.testing.assert_identical(found.lat, sea.lat)

    def test_are_lazy_where_the_data_were(self, sea, monkeypatch):
        gp = GPRegressor(KERNEL, **FIXED).fit(sea, "sst")
        seen = []
        predict = GPRegressor._predict
        monkeypatch.setattr(
            GPRegressor,
            "_predict",
            lambda self, X, *a, **k: seen.append(len(X)) or predict(self, X, *a, **k),
        )
        found = gp.predict(sea.chunk({"lat": 6, "lon": 8}))
        assert not seen
        assert found["mean"].chunks == ((6,) * 4, (8, 8, 8, 7))
        corner = found["std"][:3, :4].compute()
        assert seen == [48]  # one block
        np.testing.assert_allclose(corner, gp.predict(sea)["std"][:3, :4], atol=1e-14)

    def test_need_no_more_than_coordinates(self, sea):
        gp = GPRegressor(KERNEL, **FIXED).fit(sea, "sst")
        new = xr.Dataset(coords={"lon": np.linspace(-5, 0, 4), "lat": [52.0, 53.0, 99.0]})
        expected = gp.predict((new.lat.values, new.lon.values), return_std=True)
        found = gp.predict(new)
        assert found["mean"].dims == ("lat", "lon")
        np.testing.assert_allclose(found["mean"], expected[0], atol=1e-14)
        np.testing.assert_allclose(found["std"], expected[1], atol=1e-14)

    def test_along_a_track(self, sea):
        gp = GPRegressor(KERNEL, **FIXED).fit(sea, "sst")
        track = xr.Dataset(
            coords={"lon": ("obs", [0.0, 1.0, np.nan]), "lat": ("obs", [55.0, 56.0, 57.0])}
        )
        found = gp.predict(track)["mean"]
        assert found.dims == ("obs",)
        assert np.isnan(found[2])
        np.testing.assert_allclose(found[:2], gp.predict([[55.0, 0.0], [56.0, 1.0]]), atol=1e-14)

    def test_other_questions(self, sea, small_blocks):
        gp = GPRegressor(KERNEL, **FIXED).fit(sea, "sst")
        X, y = rows(sea)
        plain = GPRegressor(NUMBERED, **FIXED).fit(X, y)
        assert gp.score(sea, "sst") == pytest.approx(plain.score(X, y))
        left, expected = gp.leave_one_out(sea, "sst"), plain.leave_one_out(X, y)
        np.testing.assert_allclose(np.sort(left.mean), np.sort(expected.mean), atol=1e-10)
        more = gp.partial_fit(sea, "sst")
        assert more.stats_.count == 2 * plain.stats_.count
        assert_same(more.forget(sea, "sst"), plain)


class TestWhatFilesHold:
    @missing_is_fine
    def test_packed_integers_and_fill_values(self, sea, tmp_path):
        sea["sst"][3:6, 4:9] = np.nan
        packed = {"dtype": "int16", "scale_factor": 0.001, "add_offset": 1.0, "_FillValue": -32768}
        sea.to_netcdf(tmp_path / "packed.nc", encoding={"sst": packed})
        gp = GPRegressor(KERNEL, **FIXED).fit(tmp_path / "packed.nc", "sst")
        assert gp.stats_.missing == 15
        X, y = rows(sea)
        expected = GPRegressor(NUMBERED, **FIXED).fit(X, np.round((y - 1) / 0.001) * 0.001 + 1.0)
        assert_same(gp, expected)

    @pytest.mark.filterwarnings("error")
    def test_missing_values_are_counted(self, sea):
        sea["sst"][0, 0] = np.nan
        gp = GPRegressor(KERNEL, **FIXED).fit(sea, "sst")  # without a warning: gaps are usual
        assert gp.stats_.missing == 1
        assert "(1 missing)" in str(gp.summary())

    @pytest.mark.parametrize("calendar", ["noleap", "360_day"])
    def test_other_calendars_are_refused_and_convert(self, calendar, tmp_path):
        pytest.importorskip("cftime")
        time = xr.date_range("2000-01-01", periods=400, calendar=calendar, use_cftime=True)
        data = xr.Dataset({"t": ("time", np.sin(np.arange(400) / 30))}, {"time": time})
        data.to_netcdf(tmp_path / "model.nc")
        gp = GPRegressor(Matern32("30 days", dim="time"), **FIXED)
        for given in (data, tmp_path / "model.nc"):
            with pytest.raises(ValueError, match=rf"calendar '{calendar}'.*convert_calendar"):
                gp.fit(given, "t")
        align = {"align_on": "year"} if calendar == "360_day" else {}
        gp.fit(data.convert_calendar("standard", **align), "t")
        assert gp.stats_.count == 400

    def test_lengths_of_one_are_squeezed(self, sea):
        X, y = rows(sea)
        deep = sea.expand_dims({"level": [2.5]}, axis=1).drop_vars("depth")
        gp = GPRegressor(KERNEL, **FIXED).fit(deep, "sst")
        assert_same(gp, GPRegressor(NUMBERED, **FIXED).fit(X, y))
        assert gp.predict(deep)["mean"].dims == ("lat", "lon")
        assert_same(GPRegressor(Matern32(2.0, 1.5), **FIXED).fit(deep, "sst"), gp)  # of all others


class TestBlocks:
    def test_are_bounded_and_follow_chunks(self, sea, monkeypatch):
        monkeypatch.setattr(grids, "block_rows", lambda columns: 80)
        source = scan(sea.chunk({"lat": 6, "lon": 7}), "sst").prepared(KERNEL)
        sizes = [chunk.rows for chunk in source.chunks()]
        assert max(sizes) <= 80
        assert sum(sizes) == 744
        assert source.boxes()[0] == {"lat": slice(0, 6), "lon": slice(0, 7)}

    def test_of_answers_follow_the_file(self, tmp_path, monkeypatch):
        monkeypatch.setattr(grid_answers, "ROWS", 60)
        axes = {"time": np.arange(6.0), "lat": np.arange(5.0), "lon": np.arange(7.0)}
        data = xr.DataArray(field(6, 5, 7), axes, name="t").to_dataset()
        data.to_netcdf(tmp_path / "t.nc", encoding={"t": {"chunksizes": (1, 5, 7)}})
        kernel = Matern32(2.0, dim="lon") * Matern32(2.0, dim="lat") * Matern32(2.0, dim="time")
        gp = GPRegressor(kernel, **FIXED | {"num_basis": 5}).fit(tmp_path / "t.nc", "t")
        found = gp.predict(tmp_path / "t.nc")["mean"]
        assert found.dims == ("time", "lat", "lon")
        assert found.chunks == ((1,) * 6, (5,), (7,))

    def test_are_read_one_at_a_time(self, sea, tmp_path, small_blocks, monkeypatch):
        sea.to_netcdf(tmp_path / "sea.nc")
        source = scan(tmp_path / "sea.nc", "sst").prepared(KERNEL)
        read = []
        arrays = grids.GridSource.arrays
        monkeypatch.setattr(
            grids.GridSource,
            "arrays",
            lambda self, box, only: read.append(box) or arrays(self, box, only),
        )
        stream = source.open()
        assert len(read) == 1
        assert not stream.whole
        assert sum(chunk.rows for chunk in stream.blocks()) == 744
        assert not source.data.variables["sst"]._in_memory


class TestBadInput:
    @pytest.mark.parametrize(
        "target, kernel, message",
        [
            ("ssst", KERNEL, "no variable or coordinate 'ssst'.*Did you mean 'sst'"),
            ("lat", KERNEL, "'lat' is a coordinate.*variables are 'sst', 'depth'"),
            ("sst", Matern32(dim="lat"), "no input varies along 'lon' .length 31.*isel"),
            ("sst", Matern32(dim="lat") * Matern32(dim="long"), "over 'long'.*Did you mean 'lon'"),
            ("sst", KERNEL + Linear("sst"), "'sst' is the target and an input"),
        ],
    )
    def test_names(self, sea, target, kernel, message):
        with pytest.raises(ValueError, match=message):
            GPRegressor(kernel, **FIXED).fit(sea, target)

    def test_no_target(self, sea):
        with pytest.raises(ValueError, match="Name the target: the variables are 'sst'"):
            GPRegressor(Matern32(), **FIXED).fit(sea)

    def test_a_dimension_without_coordinate(self, sea):
        with pytest.raises(ValueError, match=r"'lon' has no coordinate.*assign_coords"):
            GPRegressor(KERNEL, **FIXED).fit(sea.drop_vars("lon"), "sst")

    def test_an_input_with_more_dimensions_than_the_target(self, sea):
        sea["deep"] = sea.depth.expand_dims({"level": 3})
        with pytest.raises(ValueError, match=r"varies along 'level' .length 3"):
            GPRegressor(KERNEL + Linear("deep"), **FIXED).fit(sea, "sst")

    def test_files_that_are_none(self, tmp_path):
        (tmp_path / "broken.nc").write_bytes(b"not a file of this kind")
        with pytest.raises(ValueError, match=r"broken.nc cannot be read as NetCDF"):
            scan(tmp_path / "broken.nc", "sst")
        with pytest.raises(FileNotFoundError, match=r"no file.*absent.nc"):
            scan(tmp_path / "absent.nc", "sst")

    def test_text_for_an_input(self, sea):
        named = sea.assign_coords(lon=[f"station {i}" for i in range(31)])
        with pytest.raises((TypeError, ValueError), match="lon"):
            GPRegressor(KERNEL, **FIXED).fit(named, "sst")

    def test_missing_covariates_where_the_target_is_known(self, sea):
        sea["depth"][2, 3] = np.nan
        with pytest.raises(ValueError, match="depth"):
            GPRegressor(KERNEL + Linear("depth"), **FIXED).fit(sea, "sst")
