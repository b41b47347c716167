"""The same fit from every source: files, frames, Arrow, arrays, chunks of any length."""

from __future__ import annotations

import gzip
from itertools import pairwise

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.csv
import pyarrow.dataset
import pyarrow.feather
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import asvgp.sources.blocks
from asvgp import GPRegressor, Linear, Matern32, scan
from asvgp.sources.blocks import in_blocks
from asvgp.sources.source import Chunk

N = 3000


def columns(seed=0, n=N):
    rng = np.random.default_rng(seed)
    x = rng.uniform(0.0, 20.0, n)
    return {"x": x, "y": np.sin(x) + 0.1 * rng.standard_normal(n), "w": rng.uniform(0.5, 2.0, n)}


DATA = columns()
TABLE = pa.table(DATA)


def model(**settings):
    settings = {"num_basis": 60} | settings
    return GPRegressor(Matern32(dim="x"), **settings)


def parts(length=700, data=DATA):
    names = list(data)
    for begin in range(0, len(data[names[0]]), length):
        yield {name: data[name][begin : begin + length] for name in names}


def same(one, other, exact=True):
    for name in ("moments", "targets", "squares"):
        a, b = getattr(one.stats_, name), getattr(other.stats_, name)
        if exact:
            np.testing.assert_array_equal(a, b)
        else:
            np.testing.assert_allclose(a, b, rtol=1e-12, atol=1e-12 * np.abs(b).max())
    if exact:
        np.testing.assert_array_equal(one.kernel_.values, other.kernel_.values)
        new = np.linspace(-1.0, 21.0, 50)
        for a, b in zip(
            one._predict(new, return_std=True), other._predict(new, return_std=True), strict=True
        ):
            np.testing.assert_array_equal(a, b)


@pytest.fixture(scope="module")
def in_memory():
    return GPRegressor(Matern32(), num_basis=60).fit(DATA["x"], DATA["y"])


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    folder = tmp_path_factory.mktemp("files")
    pq.write_table(TABLE, folder / "a.parquet", row_group_size=999)
    pa.csv.write_csv(TABLE, folder / "a.csv")
    (folder / "a.csv.gz").write_bytes(gzip.compress((folder / "a.csv").read_bytes()))
    pa.csv.write_csv(TABLE, folder / "a.tsv", pa.csv.WriteOptions(delimiter="\t"))
    pa.feather.write_feather(TABLE, folder / "a.feather")
    np.savez(folder / "a.npz", **DATA)
    (folder / "many").mkdir()
    for i in range(3):
        pq.write_table(TABLE.slice(i * 1000, 1000), folder / "many" / f"{i}.parquet")
    (folder / "many" / "_SUCCESS").touch()
    return folder


FILES = ["a.parquet", "a.csv", "a.csv.gz", "a.tsv", "a.feather", "a.npz", "many", "many/*.parquet"]


@pytest.mark.parametrize("name", FILES)
def test_files_give_the_fit_of_arrays(files, in_memory, name):
    same(model().fit(files / name, "y"), in_memory)


def test_a_list_of_files_is_read_in_its_order(files, in_memory):
    paths = [str(files / "many" / f"{i}.parquet") for i in range(3)]
    same(model().fit(paths, "y"), in_memory)
    same(model().fit(paths[::-1], "y", sample_weight=None), in_memory, exact=False)


TABLES = {
    "pandas": lambda: pd.DataFrame(DATA),
    "pandas of Arrow types": lambda: TABLE.to_pandas(types_mapper=pd.ArrowDtype),
    "polars": lambda: pl.DataFrame(DATA),
    "lazy polars": lambda: pl.DataFrame(DATA).lazy().filter(pl.col("x") >= 0.0),
    "table": lambda: TABLE,
    "reader": lambda: TABLE.to_reader(700),
    "dataset": lambda: pa.dataset.dataset(TABLE),
    "dictionary": lambda: DATA,
    "structured array": lambda: pd.DataFrame(DATA).to_records(index=False),
    "dictionaries": lambda: parts(),
    "frames": lambda: (pl.DataFrame(part) for part in parts()),
    "batches": lambda: iter(TABLE.to_batches(max_chunksize=700)),
    "function": lambda: parts,
    "scan": lambda: scan(TABLE, inputs="x"),
}


@pytest.mark.parametrize("kind", TABLES)
def test_tables_give_the_fit_of_arrays(in_memory, kind):
    same(model().fit(TABLES[kind](), "y"), in_memory)


def test_anything_with_an_arrow_stream_is_read(in_memory):
    class Stream:
        def __arrow_c_stream__(self, requested_schema=None):
            return TABLE.__arrow_c_stream__(requested_schema)

    same(model().fit(Stream(), "y"), in_memory)


def test_frames_built_like_those_of_pandas(in_memory):
    class Frame:
        def __init__(self, data, index=None):
            self.frame = pd.DataFrame(data, index)

        def __getattr__(self, name):
            return getattr(self.frame, name)

        def __len__(self):
            return len(self.frame)

    Frame.__module__ = "modin.pandas.dataframe"
    gp = model().fit(Frame(DATA), "y")
    same(gp, in_memory)
    assert isinstance(gp.predict(Frame(DATA)), Frame)


def test_arrays_by_the_numbers_of_their_columns(in_memory, tmp_path):
    array = np.column_stack([DATA["y"], DATA["x"]])
    same(GPRegressor(Matern32(), num_basis=60).fit(scan(array, target=0)), in_memory)
    np.save(tmp_path / "a.npy", array)
    gp = GPRegressor(Matern32(), num_basis=60).fit(scan(tmp_path / "a.npy", target=0))
    same(gp, in_memory)
    assert gp.predict([5.0]).shape == (1,)
    weighted = np.column_stack([DATA["w"], DATA["x"], DATA["y"]])
    for role in ("weight", "noise_variance"):
        argument = {"weight": "sample_weight"}.get(role, role)
        gp = GPRegressor(Matern32(), num_basis=60).fit(scan(weighted, target=2, **{role: 0}))
        twin = GPRegressor(Matern32(), num_basis=60).fit(
            DATA["x"], DATA["y"], **{argument: DATA["w"]}
        )
        same(gp, twin)
    chunks = [(part["x"], part["y"]) for part in parts()]
    same(GPRegressor(Matern32(), num_basis=60).fit(iter(chunks)), in_memory)
    with pytest.raises(ValueError, match="There is no column 7"):
        GPRegressor().fit(scan(array, target=7))


def test_weights_noise_widths_and_several_outputs_by_name():
    x, y, w = DATA.values()
    weighted = GPRegressor(Matern32(), num_basis=60).fit(x, y, sample_weight=w)
    same(model().fit(TABLE, "y", sample_weight="w"), weighted)
    same(model().fit(scan(TABLE, "y", weight="w")), weighted)
    known = GPRegressor(Matern32(), num_basis=60).fit(x, y, noise_variance=w)
    same(model().fit(TABLE, "y", noise_variance="w"), known)
    outputs = GPRegressor(Matern32(), num_basis=60).fit(x, np.column_stack([y, w]))
    gp = model().fit(TABLE, ["y", "w"])
    same(gp, outputs)
    assert gp.predict(TABLE).schema.names == ["mean_y", "std_y", "mean_w", "std_w"]
    averages = {"x": np.floor(x), "y": y, "width": np.ones(N)}
    whole = GPRegressor(Matern32()).fit(averages["x"], y, width=averages["width"])
    same(GPRegressor(Matern32()).fit(averages, "y", width="width"), whole)
    same(GPRegressor(Matern32()).fit(scan({"x": averages["x"], "y": y}, "y", width=1.0)), whole)


# ---------------------------------------------------------------- more than one block


@pytest.fixture
def short_blocks(monkeypatch):
    monkeypatch.setattr(asvgp.sources.blocks, "block_rows", lambda columns: 512)


class Counted:
    """A function that brings chunks and counts how often, and how many are alive."""

    def __init__(self, length=100):
        self.length, self.passes = length, 0

    def __call__(self):
        self.passes += 1
        yield from parts(self.length)


@pytest.mark.usefixtures("short_blocks")
def test_two_passes_find_the_domain_and_one_is_enough_where_it_is_known(files, in_memory):
    source = Counted()
    gp = model().fit(source, "y")
    assert source.passes == 2
    assert gp.domain_ == in_memory.domain_
    same(gp, in_memory, exact=False)
    source = Counted()
    model(domain=(0.0, 20.0)).fit(source, "y")
    assert source.passes == 1
    by_statistics = model().fit(files / "a.parquet", "y")
    same(by_statistics, gp)
    same(model().fit(files / "a.csv", "y"), gp)
    same(model().fit(files / "many", "y"), gp)
    same(model().fit(pl.scan_parquet(files / "a.parquet"), "y"), gp)


@pytest.mark.usefixtures("short_blocks")
def test_parquet_statistics_spare_a_pass(files, monkeypatch):
    def refused(*_):
        raise AssertionError("a pass over the inputs")

    monkeypatch.setattr(asvgp.sources.blocks, "outermost", refused)
    model().fit(files / "a.parquet", "y")
    with pytest.raises(AssertionError):
        model().fit(files / "a.csv", "y")


@pytest.mark.usefixtures("short_blocks")
def test_an_iterator_without_a_domain_is_explained_and_partial_fit_grows(in_memory):
    with pytest.raises(ValueError, match=r"Give domain=.*partial_fit"):
        model().fit(parts(), "y")
    same(model(domain=in_memory.domain_).fit(parts(), "y"), in_memory, exact=False)
    grown = model().partial_fit(parts(), "y")
    assert grown.stats_.count == N
    assert grown.predict(pd.DataFrame({"x": [5.0]}))["mean"][0] == pytest.approx(
        np.sin(5.0), abs=0.1
    )


@pytest.mark.usefixtures("short_blocks")
def test_fields_and_effects_in_blocks():
    rng = np.random.default_rng(1)
    data = {name: rng.uniform(0.0, 1.0, N) for name in ("lon", "lat", "z")}
    data["y"] = np.sin(9.0 * data["lon"]) + data["lat"] + 2.0 * data["z"]
    frame = pd.DataFrame(data)
    kernel = Matern32(dim="lon") * Matern32(dim="lat") + Linear("z")
    settings = {"num_basis": 12, "optimizer": None, "noise_variance": 0.1}
    whole = GPRegressor(kernel, **settings).fit(frame[["lon", "lat", "z"]], frame["y"])
    gp = GPRegressor(kernel, **settings).fit(lambda: parts(100, data), "y")
    np.testing.assert_allclose(gp.stats_.moments, whole.stats_.moments, rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(gp.stats_.cross, whole.stats_.cross, rtol=1e-12, atol=1e-12)
    answer = gp.predict(frame[["z", "y", "lat", "lon"]], components=True)
    assert list(answer.columns)[-2:] == ["mean_linear_z", "std_linear_z"]
    np.testing.assert_allclose(answer["mean"], whole.predict(frame[["lon", "lat", "z"]]))


@pytest.mark.usefixtures("short_blocks")
def test_shuffled_rows_give_the_same_to_rounding(in_memory):
    order = np.random.default_rng(2).permutation(N)
    shuffled = {name: column[order] for name, column in DATA.items()}
    same(model().fit(shuffled, "y"), in_memory, exact=False)


@pytest.mark.usefixtures("short_blocks")
def test_a_source_that_changes_between_passes_is_noticed(tmp_path):
    class Changing(Counted):
        def __call__(self):
            self.passes += 1
            data = columns(n=N - 10 * self.passes)
            return parts(100, data)

    with pytest.raises(ValueError, match="changed between two passes"):
        model().fit(Changing(), "y")

    moving = Counted()  # the second pass, which looks for the range, finds a narrower one

    def narrower():
        return ({**p, "x": p["x"] / (moving.passes or 1)} for p in moving())

    with pytest.raises(ValueError, match="outside the range"):
        model().fit(narrower, "y")

    path = tmp_path / "a.csv"
    pa.csv.write_csv(TABLE, path)

    class Touching(type(scan(path))):
        def fingerprint(self):
            with path.open("a") as file:
                file.write("1.0,1.0,1.0\n")
            return super().fingerprint()

    source = scan(path, "y")
    source.__class__ = Touching
    with pytest.raises(ValueError, match="changed while"):
        model().fit(source)


def test_blocks_hold_a_bounded_number_of_rows(monkeypatch):
    seen = []

    def watched(columns):
        return 512

    monkeypatch.setattr(asvgp.sources.blocks, "block_rows", watched)
    original = asvgp.sources.blocks.BlockStream.blocks

    def counting(self):
        for block in original(self):
            seen.append(block.rows)
            yield block

    monkeypatch.setattr(asvgp.sources.blocks.BlockStream, "blocks", counting)
    model().fit(Counted(2999), "y")
    assert max(seen) == 512
    assert sum(seen) == N


@settings(max_examples=50, deadline=None)
@given(st.lists(st.integers(0, 40), min_size=1, max_size=12), st.integers(1, 30))
def test_blocks_do_not_depend_on_where_chunks_end(lengths, rows):
    total = sum(lengths)
    x, y = np.arange(total, dtype=float), np.arange(total)
    edges = np.cumsum([0, *lengths])
    chunks = [Chunk(x[a:b], y[a:b]) for a, b in pairwise(edges)]
    blocks = [(block.X.copy(), block.y.copy()) for block in in_blocks(chunks, rows)]
    assert all(len(X) == rows for X, _ in blocks[:-1])
    for number, whole in enumerate((x, y)):
        found = np.concatenate([block[number] for block in blocks]) if blocks else np.empty(0)
        np.testing.assert_array_equal(found, whole)


# ---------------------------------------------------------------- learning more, and less


def test_partial_fit_forget_score_and_checks(files, in_memory):
    x, y = DATA["x"], DATA["y"]
    gp = model().partial_fit(files / "many" / "0.parquet", "y")
    gp.partial_fit(TABLE.slice(1000), "y")
    assert gp.stats_.count == N
    gp.partial_fit(x[:5], y[:5]).forget({"x": x[:5], "y": y[:5]}, "y")
    assert gp.stats_.count == N
    with pytest.raises(ValueError, match="never added"):
        gp.forget({"x": [5.0] * 99, "y": [50.0] * 99}, "y")
    gp = model().fit(files / "a.parquet", "y")
    frame = pd.DataFrame(DATA)
    assert gp.score(files / "a.csv", "y") == pytest.approx(in_memory.score(x, y), rel=1e-9)
    assert gp.score(frame, y) == pytest.approx(in_memory.score(x, y), rel=1e-9)
    weighted = in_memory.score(x, y, sample_weight=DATA["w"])
    assert gp.score(TABLE, "y", "w") == pytest.approx(weighted, rel=1e-9)
    left = gp.leave_one_out(files / "a.csv", "y")
    np.testing.assert_array_equal(left.mean, in_memory.leave_one_out(x, y).mean)
    density = gp.log_predictive_density(frame, "y")
    np.testing.assert_array_equal(density, in_memory.log_predictive_density(x, y))
    assert gp.sample_y(frame[:7], 2, random_state=0).shape == (7, 2)


# ---------------------------------------------------------------- answers in kind


@pytest.fixture(scope="module")
def fitted(files):
    return model().fit(files / "a.parquet", "y")


@pytest.fixture(scope="module")
def expected(in_memory):
    return in_memory.predict(DATA["x"], return_std=True)


def check(mean, std, expected):
    np.testing.assert_array_equal(np.asarray(mean), expected[0])
    np.testing.assert_array_equal(np.asarray(std), expected[1])


def test_frames_come_back_as_frames(fitted, expected):
    frame = pd.DataFrame(DATA)[["w", "y", "x"]].set_index(np.arange(N) * 3)
    answer = fitted.predict(frame)
    assert list(answer.columns) == ["mean", "std"]
    pd.testing.assert_index_equal(answer.index, frame.index)
    check(answer["mean"], answer["std"], expected)
    answer = fitted.predict(pl.DataFrame(DATA), components=True)
    assert isinstance(answer, pl.DataFrame)
    assert answer.columns == ["mean", "std", "mean_matern32", "std_matern32"]
    check(answer["mean"], answer["std"], expected)
    answer = fitted.predict(pl.DataFrame(DATA).lazy())
    assert isinstance(answer, pl.LazyFrame)
    check(*answer.collect().get_columns(), expected)
    answer = fitted.predict(TABLE)
    assert isinstance(answer, pa.Table)
    check(answer["mean"], answer["std"], expected)
    assert len(fitted.predict(frame[:0])) == 0


def test_files_and_iterators_come_back_as_they_are_read(fitted, files, expected):
    reader = fitted.predict(files / "many")
    assert isinstance(reader, pa.RecordBatchReader)
    batches = list(reader)
    assert [batch.num_rows for batch in batches] == [1000, 1000, 1000]
    answer = pa.Table.from_batches(batches)
    check(answer["mean"], answer["std"], expected)
    paths = [str(files / "many" / f"{i}.parquet") for i in range(3)]
    for several in (paths, tuple(paths)):
        assert fitted.predict(several).read_all() == answer
    read = []

    def watched():
        for part in parts():
            read.append(len(part["x"]))
            yield part

    answers = fitted.predict(watched())
    assert not read
    first = next(iter(answers))
    assert read == [700]
    np.testing.assert_array_equal(first["mean"], expected[0][:700])
    with pytest.raises(ValueError, match="Covariances"):
        fitted.predict(files / "a.csv", return_cov=True)


def test_arrays_come_back_as_arrays(fitted, in_memory, files, expected):
    check(*fitted.predict(DATA["x"], return_std=True), expected)
    check(*fitted.predict(DATA["x"][:, None], return_std=True), expected)
    frame = pd.DataFrame({"x": DATA["x"]})
    as_ever = GPRegressor(Matern32(), num_basis=60).fit(frame, DATA["y"])
    assert isinstance(as_ever.predict(frame), np.ndarray)
    reader = in_memory.predict(scan(files / "a.csv", inputs="x"))
    check(*reader.read_all(), expected)
    noisy = fitted.predict(pd.DataFrame(DATA), include_noise=True)
    assert (noisy["std"] > 0.09).all()


def test_the_memory_of_a_block_lasts_while_two_more_are_read():
    parts = [Chunk(np.arange(n, n + 4.0), np.full(4, float(n))) for n in range(0, 60, 4)]
    kept: list[tuple[Chunk, np.ndarray]] = []
    for number, block in enumerate(in_blocks(parts, rows=5)):
        kept = [*kept[-2:], (block, np.arange(5.0 * number, 5.0 * number + block.rows))]
        for own, expected in kept:
            np.testing.assert_array_equal(own.X, expected)
    assert len(kept) == 3
