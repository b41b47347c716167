"""The file of a model: what is in it, and that it is whole or not there."""

import errno
import io
import json
import os
import stat
import zipfile

import numpy as np
import pytest

import asvgp
from asvgp import (
    GPRegressor,
    Matern32,
)
from asvgp.saving import atomic, model_file
from tests.saving.saved import (
    FIELDS,
    LINES,
    again,
    fitted,
    line,
    mixed,
    outputs,
    rewrite,
    same,
    sums,
)

each_model = pytest.mark.parametrize("case", [*LINES, *FIELDS], ids=lambda case: case.__name__)


@pytest.fixture
def path(tmp_path):
    return tmp_path / "model.asvgp"


# ---------------------------------------------------------------- the file


@each_model
@pytest.mark.parametrize("full", [False, True])
def test_the_same_model_gives_the_same_bytes(case, full, path):
    gp = fitted(case)[0]
    gp.save(path, full=full)
    first = path.read_bytes()
    asvgp.load(path).save(path, full=full)
    assert path.read_bytes() == first


def test_numpy_reads_the_arrays(path):
    gp = fitted(mixed)[0]
    gp.save(path, full=True)
    with np.load(path, allow_pickle=False) as arrays:
        assert same(arrays["data.stats.moments"], gp.stats_.moments)
        assert all(arrays[n].dtype.kind == "f" for n in arrays.files if n != "model.json")
        content = json.loads(arrays["model.json"])
    assert content["format"] == "asvgp model"
    assert content["library"] == asvgp.__version__


def test_headers_are_those_of_numpy():
    for array in (np.ones((3, 2)), np.asfortranarray(np.ones((3, 2))), np.array(1.0), np.arange(0)):
        stream = io.BytesIO()
        np.save(stream, array)
        fortran = array.flags.f_contiguous and not array.flags.c_contiguous
        header = model_file._npy_header(array.dtype.str, fortran, array.shape)
        stream.seek(0)
        assert np.lib.format.read_magic(stream) == (1, 0)
        mine = io.BytesIO(header)
        np.lib.format.read_magic(mine)
        read = np.lib.format.read_array_header_1_0
        assert read(mine) == read(stream)
        assert mine.tell() % 64 == 0


def test_the_data_are_not_in_it(path):
    x = np.linspace(0.0, 1.0, 100_000)
    GPRegressor(Matern32(0.1), num_basis=20, noise_variance=1.0, optimizer=None).fit(x, x).save(
        path
    )
    assert path.stat().st_size < 20_000


def test_empty_cells_take_no_room(path):
    x = np.concatenate([np.linspace(0.0, 0.01, 500), [1.0]])
    gp = GPRegressor(Matern32(0.1), num_basis=50_000, noise_variance=1.0, optimizer=None)
    gp.partial_fit(x, x)
    loaded = again(gp, path)
    assert path.stat().st_size < 0.1 * gp.stats_.moments.nbytes
    assert same(loaded.stats_.moments, gp.stats_.moments)


def test_what_shrinks_is_compressed_and_nothing_else(path):
    rng = np.random.default_rng(0)
    half = np.where(rng.uniform(size=200_000) < 0.5, rng.standard_normal(200_000), 0.0)
    late = np.concatenate([rng.standard_normal(20_000), np.zeros(180_000)])
    digits = rng.standard_normal(200_000)
    model_file.write(path, {}, {"half": half, "late": late, "digits": digits, "few": digits[:3]})
    with zipfile.ZipFile(path) as archive:
        members = {info.filename[:-4]: info for info in archive.infolist()}
    assert members["half"].compress_size < 0.65 * half.nbytes
    assert members["late"].compress_size < 0.15 * late.nbytes
    for name in ("digits", "few"):
        assert members[name].compress_type == zipfile.ZIP_STORED
    found = model_file.read(path)[1]
    assert same(found["half"], half)
    assert same(found["late"], late)


def test_fields_that_an_older_file_lacks_have_their_defaults(path):
    fitted(line)[0].save(path, full=True)

    def older(model):
        stats = model["shared"]["data.stats"]["Statistics"]
        for name in ("convention", "widths", "width_weights", "centre", "column_centre"):
            del stats[name]
        del model["state"]["_fit_now"]["Fit"]["timings"]
        del model["settings"]["memory_limit"]

    rewrite(path, older)
    gp, X, _, _ = fitted(line)
    assert same(asvgp.load(path).predict(X), gp.predict(X))


def test_arrays_come_back_as_they_were(path):
    arrays = {
        "c": np.arange(6.0).reshape(2, 3),
        "f": np.arange(6.0).reshape(2, 3).T,
        "strided": np.arange(12.0)[::2],
        "big": np.arange(5, dtype=">i4"),
        "times": np.array(["2024-01-01", "NaT"], dtype="M8[s]"),
        "flags": np.array([True, False]),
        "none": np.empty((3, 0)),
        "number": np.array(2.5),
        "zeros": np.zeros((40, 50)),
    }
    model_file.write(path, {"x": 1}, arrays)
    model, found = model_file.read(path)
    assert model == {"x": 1}
    for name, array in arrays.items():
        np.testing.assert_array_equal(found[name], array)
        assert found[name].flags.f_contiguous == array.flags.f_contiguous or name == "strided"
        assert found[name].dtype.isnative
        assert found[name].flags.writeable


# ---------------------------------------------------------------- writing it


def test_a_full_disk_leaves_the_old_file(path, monkeypatch):
    gp, X, _, _ = fitted(line)
    gp.save(path)
    before = path.read_bytes()

    class Full(io.FileIO):
        room = 20_000

        def write(self, data, /):
            self.room -= len(memoryview(data).cast("B"))
            if self.room < 0:
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            return super().write(data)

    def opened(name, mode):
        return Full(name, mode) if "x" in mode else open(name, mode)

    monkeypatch.setattr(atomic, "open", opened, raising=False)
    with pytest.raises(OSError, match=r"needs up to .* KiB|MiB.*are left in.*is as it was") as info:
        fitted(sums)[0].save(path)
    assert info.value.errno == errno.ENOSPC
    assert os.listdir(path.parent) == [path.name]
    assert path.read_bytes() == before
    monkeypatch.undo()
    assert same(asvgp.load(path).predict(X), gp.predict(X))


@each_model
def test_the_room_it_needs_is_not_more_than_is_said(case, path, monkeypatch):
    told = []
    honest = atomic.replacing

    def replacing(path, what, size):
        told.append(size())
        return honest(path, what, size)

    monkeypatch.setattr(model_file, "replacing", replacing)
    monkeypatch.setattr(model_file, "_shrinks", lambda raw: False)
    fitted(case)[0].save(path)
    assert told[0] - 20_000 < path.stat().st_size <= told[0]


def test_files_that_may_not_be_so_large(path):
    resource = pytest.importorskip("resource")
    gp = fitted(line)[0]
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (4096, limits[1]))
    try:
        with pytest.raises(
            OSError, match=r"may not be larger than 4.0 KiB here.*ulimit -f"
        ) as info:
            gp.save(path)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert info.value.errno == errno.EFBIG
    assert os.listdir(path.parent) == []


def test_an_interrupted_save_leaves_the_old_file(path, monkeypatch):
    gp = fitted(line)[0]
    gp.save(path)
    before = path.read_bytes()

    def interrupted(_descriptor):
        raise KeyboardInterrupt

    monkeypatch.setattr(os, "fsync", interrupted)
    with pytest.raises(KeyboardInterrupt):
        fitted(sums)[0].save(path)
    assert os.listdir(path.parent) == [path.name]
    assert path.read_bytes() == before


def test_permissions_are_the_usual_or_those_before(path):
    gp = fitted(line)[0]
    plain = path.with_name("plain")
    plain.touch()
    gp.save(path)
    assert stat.S_IMODE(path.stat().st_mode) == stat.S_IMODE(plain.stat().st_mode)
    path.chmod(0o600)
    gp.save(str(path))
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_links_are_followed(path):
    gp = fitted(line)[0]
    gp.save(path)
    link = path.with_name("latest")
    link.symlink_to(path.name)
    fitted(outputs)[0].save(link)
    assert link.is_symlink()
    assert not asvgp.load(path)._data.single


def test_places_that_do_not_exist(path):
    gp = fitted(line)[0]
    with pytest.raises(FileNotFoundError):
        gp.save(path / "deeper" / "model")
    with pytest.raises(IsADirectoryError):
        gp.save(path.parent)
    with pytest.raises(FileNotFoundError):
        asvgp.load(path)
    assert os.listdir(path.parent) == []
