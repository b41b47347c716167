"""Dask: the same numbers as in one process, from sums that are all that travels."""

from __future__ import annotations

import os
import pickle
import signal
import sys
from dataclasses import fields, replace
from itertools import pairwise

import numpy as np
import pandas as pd
import pytest

from asvgp import Constant, GPRegressor, Linear, Matern32, StudentT, scan
from asvgp.basis import Grid
from asvgp.estimators.ingest import Reader
from asvgp.estimators.portable import Predictor
from asvgp.policies import DATA
from asvgp.sources.dask import computed, tree
from asvgp.statistics import Statistics

dask = pytest.importorskip("dask")
da = pytest.importorskip("dask.array")
dd = pytest.importorskip("dask.dataframe")

FIXED = {"num_basis": 40, "noise_variance": 0.01, "optimizer": None}


def wave(n=3000, seed=0):
    rng = np.random.default_rng(seed)
    x = rng.uniform(0.0, 20.0, n)
    return x, np.sin(x) + 0.1 * rng.standard_normal(n)


@pytest.fixture
def table():
    x, y = wave()
    index = pd.Index(np.arange(len(x)) + 100, name="number")
    return pd.DataFrame({"x": x, "z": np.cos(3.0 * x), "y": y, "w": 1.0 + (x > 10)}, index=index)


def partitions(frame, count=7, order=None):
    """A Dask frame of partitions of different lengths, in any order."""
    edges = np.linspace(0, 1, count + 1) ** 1.3 * len(frame)
    parts = [frame.iloc[int(a) : int(b)] for a, b in pairwise(edges)]
    parts = parts if order is None else [parts[i] for i in order]
    return dd.from_delayed([dask.delayed(part) for part in parts], meta=frame.iloc[:0])


def assert_same(mine, other):
    """Statistics that differ by rounding only."""
    for name in ("moments", "targets", "squares"):
        a, b = getattr(mine.stats_, name), getattr(other.stats_, name)
        np.testing.assert_allclose(a, b, rtol=0, atol=1e-12 * np.abs(b).max())
    for name in ("count", "missing"):
        assert getattr(mine.stats_, name) == getattr(other.stats_, name)
    assert mine.stats_.log_weights == pytest.approx(other.stats_.log_weights)


@pytest.fixture
def returned():
    """Bytes of everything that comes back to the client, in the order it does."""
    sizes = []

    def get(graph, keys, **options):
        found = dask.threaded.get(graph, keys, **options)
        sizes.append(len(pickle.dumps(found)))
        return found

    with dask.config.set(scheduler=get):
        yield sizes


class TestFrames:
    @pytest.mark.parametrize("order", [None, [3, 0, 6, 1, 5, 2, 4]])
    def test_give_the_same_fit(self, table, order):
        expected = GPRegressor(Matern32(dim="x"), **FIXED).fit(table, "y")
        data = partitions(table, order=order)
        gp = GPRegressor(Matern32(dim="x"), **FIXED).fit(data, "y")
        assert_same(gp, expected)
        found, wanted = gp.predict(data).compute(), expected.predict(table)
        pd.testing.assert_frame_equal(found.sort_index(), wanted, rtol=0, atol=1e-12)

    @pytest.mark.parametrize("count", [1, 2, 8, 9, 17, 65])
    def test_none_is_lost_in_the_tree(self, count):
        numbers = [dask.delayed(2**i) for i in range(count)]
        (found,) = computed(tree(numbers, sum, fan_in=8))
        assert found == 2**count - 1

    def test_train_as_well(self, table):
        expected = GPRegressor(Matern32(dim="x")).fit(table, "y")
        gp = GPRegressor(Matern32(dim="x")).fit(partitions(table), "y")
        assert gp.num_basis_ == expected.num_basis_
        assert gp.elbo_ == pytest.approx(expected.elbo_, rel=1e-9)
        found = gp.predict(partitions(table)).compute()
        pd.testing.assert_frame_equal(found, expected.predict(table), atol=1e-7)

    def test_with_weights_effects_and_the_index(self, table):
        kernel = Matern32(3.0, dim="x") + Linear("z") + Constant()
        expected = GPRegressor(kernel, **FIXED).fit(table, "y", sample_weight="w")
        gp = GPRegressor(kernel, **FIXED).fit(partitions(table), "y", sample_weight="w")
        assert_same(gp, expected)
        assert gp.effects_[0].estimate == pytest.approx(expected.effects_[0].estimate, rel=1e-9)
        by_index = GPRegressor(Matern32(9.0, dim="number"), **FIXED)
        assert_same(
            by_index.fit(partitions(table), "y"),
            GPRegressor(Matern32(9.0, dim="number"), **FIXED).fit(table, "y"),
        )

    def test_of_several_inputs_outputs_and_missing_rows(self, table):
        table["other"] = np.where(table.x < 2, np.nan, 2 * table.y)
        kernel = Matern32(3.0, dim="x") * Matern32(1.0, dim="z")
        settings = FIXED | {"num_basis": 12}
        with pytest.warns(UserWarning, match="left out as missing"):
            expected = GPRegressor(kernel, **settings).fit(table, ["y", "other"])
        with pytest.warns(UserWarning, match="left out as missing"):
            gp = GPRegressor(kernel, **settings).fit(partitions(table), ["y", "other"])
        assert_same(gp, expected)
        assert list(gp.predict(partitions(table)).columns) == list(expected.predict(table).columns)

    def test_with_times_in_a_zone(self, table):
        begin = pd.Timestamp("2024-03-31", tz="Europe/Berlin")
        table["time"] = begin + pd.to_timedelta(table.x, unit="D")
        kernel = Matern32("2 days", dim="time")
        expected = GPRegressor(kernel, **FIXED).fit(table, "y")
        gp = GPRegressor(kernel, **FIXED).fit(partitions(table), "y")
        assert_same(gp, expected)
        assert gp.domain_ == expected.domain_

    def test_with_empty_partitions(self, table):
        empty = table[table.x < 2]
        data = partitions(table.sort_values("x"))
        some = data[data.x < 2]
        gp = GPRegressor(Matern32(dim="x"), **FIXED).fit(some, "y")
        assert_same(gp, GPRegressor(Matern32(dim="x"), **FIXED).fit(empty, "y"))
        assert len(gp.predict(some).compute()) == len(empty)
        with pytest.raises(ValueError, match="no data: 0 rows"):
            gp.fit(data[data.x < -1], "y")

    @pytest.mark.filterwarnings("ignore:The inplace keyword")  # Dask's own use of pandas
    def test_from_parquet_read_only_what_is_needed(self, table, tmp_path):
        for number in range(3):
            table.iloc[1000 * number : 1000 * (number + 1)].to_parquet(
                tmp_path / f"{number}.parquet"
            )
        data = dd.read_parquet(tmp_path)
        gp = GPRegressor(Matern32(dim="x"), **FIXED).fit(data, "y")
        assert_same(gp, GPRegressor(Matern32(dim="x"), **FIXED).fit(table, "y"))

    def test_other_questions(self, table):
        expected = GPRegressor(Matern32(dim="x"), **FIXED).fit(table, "y")
        gp = GPRegressor(Matern32(dim="x"), **FIXED).fit(partitions(table), "y")
        assert gp.score(partitions(table), "y") == pytest.approx(expected.score(table, "y"))
        assert_same(gp.partial_fit(partitions(table), "y").forget(partitions(table), "y"), expected)
        left = gp.leave_one_out(partitions(table), "y")
        np.testing.assert_allclose(left.mean, expected.leave_one_out(table, "y").mean, atol=1e-9)


class TestAnswers:
    def test_of_frames_are_lazy_and_keep_the_index(self, table, monkeypatch):
        gp = GPRegressor(Matern32(dim="x"), **FIXED).fit(table, "y")
        seen = []
        predict = GPRegressor._predict
        monkeypatch.setattr(
            GPRegressor,
            "_predict",
            lambda self, X, *a, **k: seen.append(len(X)) or predict(self, X, *a, **k),
        )
        data = partitions(table)
        found = gp.predict(data, components=True)
        assert not seen
        names = ["mean", "std", "mean_matern32", "std_matern32"]
        assert list(found.columns) == names
        assert found.index.name == "number"
        assert {str(kind) for kind in found.dtypes} == {"float64"}
        first = found.partitions[0].compute()
        assert seen == [len(first)]
        assert list(first.index) == list(table.index[: len(first)])

    @pytest.mark.parametrize("data", ["frame", "array"])
    def test_hold_the_model_once(self, table, data):
        gp = GPRegressor(Matern32(dim="x"), **FIXED).fit(table, "y")
        if data == "frame":
            found = gp.predict(partitions(table))
        else:
            found = gp.predict(da.from_array(table[["x"]].to_numpy(), chunks=(500, 1)))
        graph = dict(
            found.optimize().__dask_graph__() if data == "frame" else found.__dask_graph__()
        )
        models = [key for key in graph if "Predictor" in str(key)]
        assert len(models) == 1
        assert len(pickle.dumps(Predictor(gp))) < 20_000

    def test_of_arrays_are_as_of_arrays(self, table):
        X, y = table[["x", "z"]].to_numpy(), table[["y", "w"]].to_numpy()
        kernel = Matern32(3.0, dim=0) + Linear(1) + Constant()
        gp = GPRegressor(kernel, **FIXED).fit(X, y)
        lazy = da.from_array(X, chunks=(700, 1))
        only = gp.predict(lazy)
        mean, std, parts = gp.predict(lazy, return_std=True, components=True)
        expected = gp.predict(X, return_std=True, components=True)
        for found, wanted in zip((only, mean, std), (expected[0], *expected[:2]), strict=True):
            assert found.shape == wanted.shape == (3000, 2)
            np.testing.assert_allclose(found.compute(), wanted, atol=1e-14)
        for found, wanted in zip(parts, expected[2], strict=True):
            assert found.kernel == wanted.kernel
            np.testing.assert_allclose(found.std.compute(), wanted.std, atol=1e-14)


class TestArrays:
    @pytest.mark.parametrize("shape", [(-1, 1), (-1,)])
    def test_give_the_same_fit(self, table, shape):
        x, y, w = (table[name].to_numpy() for name in "xyw")
        expected = GPRegressor(Matern32(), **FIXED).fit(x, y, w)
        X = da.from_array(x.reshape(shape), chunks=(800, 1)[: len(shape)])
        targets = da.from_array(y, chunks=500)
        gp = GPRegressor(Matern32(), **FIXED).fit(X, targets, w)
        assert_same(gp, expected)
        np.testing.assert_allclose(gp.predict(X).compute(), expected.predict(x), atol=1e-12)

    def test_of_several_columns(self, table):
        X, y = table[["x", "z"]].to_numpy(), table.y.to_numpy()
        settings = FIXED | {"num_basis": 12}
        expected = GPRegressor(Matern32(2.0), **settings).fit(X, y)
        lazy = da.from_array(X, chunks=(700, 1))
        assert_same(
            GPRegressor(Matern32(2.0), **settings).fit(lazy, da.from_array(y, 700)), expected
        )
        whole = da.from_array(table[["x", "z", "y"]].to_numpy(), chunks=(700, 3))
        assert_same(GPRegressor(Matern32(2.0), **settings).fit(scan(whole, target=2)), expected)

    def test_as_frame_and_series(self, table):
        data = partitions(table)
        gp = GPRegressor(Matern32(), **FIXED).fit(data[["x"]], data["y"])
        assert_same(gp, GPRegressor(Matern32(), **FIXED).fit(table[["x"]], table["y"]))
        assert list(gp.predict(data).columns) == ["mean", "std"]

    def test_larger_than_a_first_look(self, returned):
        x, y = wave(DATA.many_rows + 50_000)
        X, targets = da.from_array(x, chunks=30_000), da.from_array(y, chunks=30_000)
        settings = {"noise_variance": 0.01, "optimizer": None}
        gp = GPRegressor(Matern32(), **settings).fit(X, targets)
        first, survey, sums = returned
        assert first < 100_000  # a few thousand rows
        assert survey < 10_000
        assert sums < 1.2 * 8 * 11 * gp.stats_.grid.cells  # those of the cells, none of the rows
        assert_same(gp, GPRegressor(Matern32(), **settings).fit(x, y))

    def test_one_pass_where_the_domain_is_given(self, returned):
        x, y = wave(DATA.many_rows + 50_000)
        gp = GPRegressor(Matern32(), domain=(0.0, 20.0), **FIXED)
        gp.fit(da.from_array(x, chunks=30_000), da.from_array(y, chunks=30_000))
        assert len(returned) == 2  # the first look, and the sums
        assert max(returned) < 100_000


class TestWhatIsSent:
    def test_statistics_of_a_line_are_the_cells_that_hold_data(self):
        x, y = wave(500)
        whole = Statistics.from_data(
            x, y, Grid(0.0, 2000.0, 100_000), 2, covariates=np.cos(x)[:, None]
        )
        assert whole.roots is not None  # what follows from them is not sent
        assert sys.getsizeof(whole) >= whole.moments.nbytes  # which Dask goes by
        sent = pickle.dumps(whole)
        assert len(sent) < 0.02 * whole.moments.nbytes * 2
        assert_equal(pickle.loads(sent), whole)
        empty = Statistics.empty(Grid(0.0, 1.0, 100_000), 2)
        assert len(pickle.dumps(empty)) < 2000
        assert_equal(pickle.loads(pickle.dumps(empty)), empty)

    def test_statistics_of_averages(self):
        grid = Grid(0.0, 8.0, 8)
        x = np.arange(2.0, 6.0)
        whole = Statistics.from_data(x, x, grid, 2, width=np.full(4, 0.5))
        assert_equal(pickle.loads(pickle.dumps(whole)), whole)

    def test_statistics_of_a_field(self):
        x, y = np.random.default_rng(0).uniform(0.2, 0.3, (100, 2)), np.ones(100)
        grids = (Grid(0.0, 1.0, 200), Grid(0.0, 1.0, 100))
        whole = Statistics.from_data(x, y, grids, (2, 1), covariates=np.ones((100, 1)))
        assert sys.getsizeof(whole) >= whole.nbytes  # which Dask goes by
        assert len(pickle.dumps(whole)) < 0.03 * whole.nbytes
        assert_equal(pickle.loads(pickle.dumps(whole)), whole)
        columns = Statistics.from_data(None, y, smooths=[(grids[0], 2)], smooth_inputs=x[:, :1])
        assert_equal(pickle.loads(pickle.dumps(columns)), columns)

    def test_a_reader_is_small(self):
        x, y = wave(DATA.many_rows + 10)
        gp = GPRegressor(Matern32(), optimizer=None, noise_variance=0.01).fit(x, y)
        data = gp._data.with_statistics(gp.stats_ - gp.stats_)
        assert len(pickle.dumps(Reader(gp._settings(), data))) < 20_000

    @pytest.mark.parametrize("fields", [1, 2])
    def test_a_model_that_was_sent_predicts_the_same(self, fields):
        x, y = wave(600)
        X = np.stack([x, np.cos(7 * x)], axis=1)[:, :fields]
        kernel = Matern32(2.0) + Constant()
        gp = GPRegressor(kernel, num_basis=12, noise_variance=0.02).fit(X, y)
        again = pickle.loads(pickle.dumps(pickle.loads(pickle.dumps(Predictor(gp, True)))))
        for name, expected in Predictor(gp, True)(X).items():
            assert again(X)[name].tobytes() == expected.tobytes(), name

    @pytest.mark.parametrize("fields", [1, 2, 4])
    def test_a_model_that_was_sent_is_not_factored_again(self, fields, monkeypatch):
        x, y = wave(600)
        X = np.stack([x, np.cos(7 * x), np.sin(3 * x), np.cos(x)], axis=1)[:, :fields]
        gp = GPRegressor(Matern32(2.0) + Constant(), **FIXED | {"num_basis": 12}).fit(X, y)
        far = np.concatenate([X, X[:50] + 30.0])
        expected = Predictor(gp)(far)
        sent = pickle.dumps(Predictor(gp))

        def refused(*_, **__):
            raise AssertionError("factored again")

        monkeypatch.setattr("asvgp.model.chain.ChainEngine.factor", refused)
        if fields != 2:  # beyond the domain, a field of a grid needs its factor
            monkeypatch.setattr("asvgp.model.grid.GridEngine.factor", refused)
        else:
            far, expected = X, {name: values[:600] for name, values in expected.items()}
        found = pickle.loads(sent)(far)
        for name, values in expected.items():
            assert found[name].tobytes() == values.tobytes(), name


def assert_equal(one, other):
    """Check that statistics are the same, without what was computed from them."""
    assert vars(one).keys() == {item.name for item in fields(other)}
    for name, value in vars(one).items():
        expected = getattr(other, name)
        if isinstance(value, np.ndarray):
            assert value.shape == expected.shape
            assert np.array_equal(value, expected)
        else:
            assert value == expected


class TestBadInput:
    def test_unknown_columns(self, table):
        with pytest.raises(ValueError, match=r"no column 'yy'.*Did you mean 'y'"):
            GPRegressor(Matern32(dim="x"), **FIXED).fit(partitions(table), "yy")

    def test_partitions_with_different_columns(self, table):
        parts = [table, table.rename(columns={"y": "power"})]
        data = dd.from_delayed(
            [dask.delayed(p) for p in parts], meta=table.iloc[:0], verify_meta=False
        )
        with pytest.raises(ValueError, match=r"partition differs from the Dask frame.*'y'"):
            GPRegressor(Matern32(dim="x"), **FIXED).fit(data, "y")

    def test_text(self, table):
        table["x"] = table["x"].astype(object)
        table.iloc[2900, 0] = "n/a"
        with pytest.raises((TypeError, ValueError), match=r"(?s)Partition 6.*x"):
            GPRegressor(Matern32(dim="x"), **FIXED).fit(partitions(table), "y")

    def test_inputs_that_are_missing(self, table):
        table.iloc[2900, 0] = np.nan
        data = partitions(table)
        with pytest.raises(ValueError, match="NaN"):
            GPRegressor(Matern32(dim="x"), **FIXED).fit(data, "y")

    def test_arrays_that_do_not_fit(self):
        x, y = wave(100)
        X = da.from_array(x, chunks=10)
        with pytest.raises(ValueError, match="inconsistent numbers of samples: 100 and 99"):
            GPRegressor(**FIXED).fit(X, da.from_array(y[1:], chunks=10))
        with pytest.raises(ValueError, match="rows and columns"):
            scan(da.zeros((2, 2, 2)))
        with pytest.raises(ValueError, match="requires y"):
            GPRegressor(**FIXED).fit(X)

    def test_other_things_of_dask(self):
        with pytest.raises(TypeError, match="no way to read rows from Dask's Delayed"):
            scan(dask.delayed(3))


# ---------------------------------------------------------------- processes


def killing(block, marker, block_id=()):
    """Values of a block; the first time, that of number 5 takes its worker with it."""
    if block_id[0] == 5 and not os.path.exists(marker):
        with open(marker, "w"):
            pass
        os.kill(os.getpid(), signal.SIGKILL)
    return block


def made(block):
    """Rows that begin to exist on a worker."""
    return np.stack(wave(len(block)), axis=1)


def forget_transfers(dask_worker):
    dask_worker.transfer_incoming_log.clear()


def transferred(dask_worker):
    """Bytes that came from other workers."""
    return sum(entry["total"] for entry in dask_worker.transfer_incoming_log)


@pytest.fixture(scope="module")
def cluster():
    distributed = pytest.importorskip("distributed")
    settings = {
        "distributed.comm.timeouts.connect": "30s",
        "distributed.logging.distributed": 50,
        # An idle worker may steal a task and fetch its rows: Dask's choice, by the clock.
        "distributed.scheduler.work-stealing": False,
    }
    with (
        dask.config.set(settings),
        distributed.LocalCluster(
            n_workers=2,
            threads_per_worker=1,
            processes=True,
            dashboard_address=":0",
            silence_logs=50,
        ) as cluster,
    ):
        yield cluster


@pytest.fixture
def client(cluster):
    distributed = pytest.importorskip("distributed")
    with distributed.Client(cluster) as client:
        yield client


@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="processes cannot be killed here")
class TestProcesses:
    def test_frames_and_grids(self, client, table):
        xr = pytest.importorskip("xarray")
        data = partitions(table, 4)
        gp = GPRegressor(Matern32(dim="x"), **FIXED).fit(data, "y")
        expected = GPRegressor(Matern32(dim="x"), **FIXED).fit(table, "y")
        assert_same(gp, expected)
        found = gp.predict(data).compute()
        pd.testing.assert_frame_equal(found, expected.predict(table), atol=1e-12)

        lat, lon = np.linspace(0, 5, 20), np.linspace(0, 9, 30)
        values = np.sin(lat)[:, None] * np.cos(lon) + 0.1
        grid = xr.DataArray(values, {"lat": lat, "lon": lon}, name="t")
        kernel = Matern32(2.0, dim="lat") * Matern32(2.0, dim="lon")
        settings = FIXED | {"num_basis": 10}
        expected = GPRegressor(kernel, **settings).fit(grid)
        gp = GPRegressor(kernel, **settings).fit(grid.chunk(lat=5))
        assert_same(gp, expected)
        found = gp.predict(grid.chunk(lat=5)).compute()
        xr.testing.assert_allclose(found, expected.predict(grid), atol=1e-12)

    def test_rows_that_are_read_again(self, client, table, monkeypatch):
        monkeypatch.setattr("asvgp.sources.dask.DATA", replace(DATA, many_rows=300))
        kernel = Matern32(dim="x") + Constant(variance=9.0)
        settings = {"num_basis": 40, "optimizer": None, "likelihood": StudentT(scale=0.1)}
        expected = GPRegressor(kernel, **settings).fit(table, "y", sample_weight="w")
        gp = GPRegressor(kernel, **settings).fit(partitions(table, 4), "y", sample_weight="w")
        assert gp.elbo_ == pytest.approx(expected.elbo_, rel=1e-11)
        assert 2 < gp.optimization_.reads <= expected.optimization_.reads

    def test_a_large_model_is_no_part_of_the_graph(self, client):
        x, y = wave()
        gp = GPRegressor(Matern32(), **FIXED | {"num_basis": 200_000}).fit(x, y)
        assert len(pickle.dumps(Predictor(gp))) > 10_000_000  # of which Dask would warn
        expected = gp.predict(x, return_std=True)
        lazy = gp.predict(da.from_array(x, chunks=300), return_std=True)
        for found, wanted in zip(dask.compute(*lazy), expected, strict=True):
            assert found.tobytes() == wanted.tobytes()
        frame = pd.DataFrame({"x": x, "y": y})
        named = GPRegressor(Matern32(dim="x"), **FIXED | {"num_basis": 200_000}).fit(frame, "y")
        found = named.predict(partitions(frame)).compute()
        assert found["std"].to_numpy().tobytes() == expected[1].tobytes()

    def test_rows_stay_where_they_are(self, client):
        blocks = da.zeros((400_000, 2), chunks=(40_000, 2)).map_blocks(made, dtype=float)
        client.run(forget_transfers)
        gp = GPRegressor(Matern32(), domain=(0.0, 20.0), **FIXED)
        assert gp.fit(scan(blocks, target=1)).stats_.count == 400_000
        moved = sum(client.run(transferred).values())
        assert moved < 0.2 * 400_000 * 2 * 8

    def test_one_is_killed_in_the_middle_of_the_pass(self, client, tmp_path):
        marker = tmp_path / "killed"
        x, y = wave(DATA.many_rows + 50_000)
        X = da.from_array(x, chunks=30_000)
        targets = da.map_blocks(
            killing, da.from_array(y, chunks=30_000), marker=str(marker), dtype=float
        )
        gp = GPRegressor(Matern32(), **FIXED).fit(X, targets)
        assert marker.exists()
        expected = GPRegressor(Matern32(), **FIXED).fit(x, y)
        assert_same(gp, expected)
        np.testing.assert_allclose(
            gp.predict(X[:1000]).compute(), expected.predict(x[:1000]), atol=1e-12
        )
