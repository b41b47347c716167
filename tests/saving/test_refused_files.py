"""Files that are no models: damaged, crafted, or at odds with themselves; all are refused."""

import json
import zipfile
from dataclasses import replace
from functools import cache
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import asvgp
from asvgp import (
    Constant,
    GPRegressor,
    Matern32,
    ModelFileError,
    Periodic,
)
from asvgp.policies import SAVING
from asvgp.saving import model_file
from tests.saving.saved import (
    FIELDS,
    LINES,
    additive,
    fitted,
    line,
    mixed,
    nested,
    outputs,
    refused,
    rewrite,
    same,
    sums,
)

each_model = pytest.mark.parametrize("case", [*LINES, *FIELDS], ids=lambda case: case.__name__)


@pytest.fixture
def path(tmp_path):
    return tmp_path / "model.asvgp"


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf, 1e300, -1e300])
@pytest.mark.parametrize("case", [sums, mixed, outputs], ids=lambda case: case.__name__)
def test_numbers_that_cannot_be_are_refused(case, value, path):
    """Though all checksums are right: whoever alters a file can compute those."""
    fitted(case)[0].save(path, full=True)
    _, arrays = model_file.read(path)
    for name in [name for name, array in arrays.items() if array.size]:
        fitted(case)[0].save(path, full=True)

        def change(arrays, name=name):
            arrays[name].flat[arrays[name].size // 2] = value

        rewrite(path, change_arrays=change)
        if name.endswith(".squares") and np.isnan(value) and arrays[name].size == 1:
            asvgp.load(path)  # as of a model without Gaussian noise
        else:
            refused(path, rf"contradicts itself: {name} holds .*(nan|inf|1e\+300).* at \(")


def test_negative_squares_are_refused(path):
    fitted(line)[0].save(path, full=True)
    rewrite(path, change_arrays=lambda arrays: arrays["data.stats.squares"].fill(-1.0))
    refused(path, "sums of squares, are negative")


def test_a_small_file_does_not_take_much_memory(path, monkeypatch):
    """A bomb: zeros, of which a thousand bytes take one in the file."""
    policy = replace(SAVING, believed=1 << 20)
    monkeypatch.setattr(model_file, "SAVING", policy)
    fitted(line)[0].save(path)

    def grow(arrays):
        arrays["data.stats.log_jacobian"] = np.zeros(1 << 21)

    rewrite(path, change_arrays=grow)
    taken = []
    empty = np.empty
    monkeypatch.setattr(np, "empty", lambda n, **kw: taken.append(n) or empty(n, **kw))
    refused(path, r"KiB and would take 16.\d MiB of memory.*If you trust it.*memory_limit='17 MiB'")
    assert not taken  # before anything is read
    with pytest.raises(ModelFileError, match=r"more than 2.0 MiB. If you trust it"):
        asvgp.load(path, memory_limit="2 MiB")
    with pytest.raises(ModelFileError, match="log_jacobian of Statistics cannot have shape"):
        asvgp.load(path, memory_limit="17 MiB")
    monkeypatch.setattr(model_file, "physical_memory", lambda: 1e6)
    with pytest.raises(ModelFileError, match=r"this machine has 976.6 KiB"):
        asvgp.load(path, memory_limit="17 MiB")
    with pytest.raises(ValueError, match="memory_limit must be"):
        asvgp.load(path, memory_limit="much")


def test_sparse_models_are_no_bombs(path):
    """What this library writes, it reads: one point among many cells, written in full."""
    gp = GPRegressor(Matern32(0.1), num_basis=200_000, noise_variance=1.0, optimizer=None)
    gp.partial_fit([0.0, 1.0], [0.0, 1.0]).save(path, full=True)
    assert asvgp.load(path).stats_.count == 2


def test_what_is_no_zip(path):
    for content in (b"", b"x", b"\x80\x04}.", b"PAR1" + bytes(100)):
        path.write_bytes(content)
        refused(path, "is no model file")


def test_what_is_another_zip(path):
    np.savez(path.with_suffix(".npz"), a=np.ones(3))
    refused(path.with_suffix(".npz"), "NumPy arrays")
    objects = np.array([{"a": 1}], dtype=object)
    np.savez(path.with_suffix(".npz"), a=objects, allow_pickle=True)
    refused(path.with_suffix(".npz"), "NumPy arrays")
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("[Content_Types].xml", "<x/>")
    refused(path, "office document")
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("notes.txt", "none")
    refused(path, "zip archive of other things")
    for text in ("{}", "[]", "no json", '{"format": "another"}', "[" * 100_000, '{"a": NaN}'):
        with zipfile.ZipFile(path, "w") as archive:
            archive.writestr("model.json", text)
        refused(path, "another program|is damaged")


def test_cut_off_anywhere(path):
    fitted(line)[0].save(path)
    whole = path.read_bytes()
    for end in np.linspace(0, len(whole) - 1, 50).astype(int):
        path.write_bytes(whole[:end])
        refused(path, "is no model file" if end < 4 else "cut off or")


def archived(path, change):
    """The file with members replaced, as a zip program would."""
    with zipfile.ZipFile(path) as archive:
        members = {info.filename: archive.read(info) for info in archive.infolist()}
        comment = archive.comment
    change(members)
    with zipfile.ZipFile(path, "w") as archive:
        archive.comment = comment
        for name, content in members.items():
            archive.writestr(name, content)


def test_altered_with_a_zip_program(path):
    gp = fitted(line)[0]

    def altered(change, match):
        gp.save(path, full=True)
        archived(path, change)
        refused(path, match)

    name = "data.stats.moments.npy"
    altered(lambda m: m.update({name: m[name][:-8] + bytes(8)}), "checksum")
    altered(lambda m: m.update({name: m[name] + bytes(8)}), "bytes where shape")
    altered(lambda m: m.pop(name), "it lacks data.stats.moments.npy")
    altered(lambda m: m.update(virus=b"!"), "virus does not belong")
    text = lambda m: m["model.json"]  # noqa: E731
    change = lambda m: m.update({"model.json": text(m).replace(b'"cpu"', b'"gpu"')})  # noqa: E731
    altered(change, "cut off or altered")
    newer = lambda m: m.update(  # noqa: E731
        {"model.json": text(m).replace(b'"version":3,"library":"', b'"version":7,"library":"9')}
    )
    altered(newer, "written by asvgp 9.* in format 7; this is .* Upgrade")


def test_arrays_that_claim_too_much(path):
    """No memory is taken on the word of a file."""

    def claiming(dtype, shape, content=bytes(64), compress=False):
        header = model_file._npy_header(dtype, False, tuple(shape))
        entry = {"dtype": dtype, "shape": shape, "fortran": False}
        with zipfile.ZipFile(path, "w") as archive:
            archive.compression = zipfile.ZIP_DEFLATED if compress else zipfile.ZIP_STORED
            archive.writestr("a.npy", header + content)
            entry["crc"] = archive.getinfo("a.npy").CRC
            head = {"format": "asvgp model", "version": 1, "library": "0"}
            text = json.dumps(head | {"arrays": {"a": entry}, "model": {}}).encode()
            archive.compression = zipfile.ZIP_STORED
            archive.writestr("model.json", text)
            archive.comment = model_file._signature(text)

    claiming("<f8", [8])
    refused(path, "contradicts itself")  # an archive in order, if of no model
    for shape in ([10**15], [10**30], [2**62, 4], [-1], ["8"], [True, 8.0], 8, None):
        claiming("<f8", shape if isinstance(shape, list) else [8])
        archived(path, lambda m, s=shape: _claim(m, s))
        _sign(path)
        refused(path, "a.npy is not what was saved")
    for dtype in ("|O", "O", "<f8,<f8", "<U9", "|V8", "<c16", "float64"):
        claiming(dtype, [8])
        refused(path, "do not belong in a model")


def _claim(members, shape):
    content = json.loads(members["model.json"])
    content["arrays"]["a"]["shape"] = shape
    members["model.json"] = json.dumps(content).encode()


def _sign(path):
    with zipfile.ZipFile(path, "a") as archive:
        archive.comment = model_file._signature(archive.read("model.json"))


SEEN = ("state", "_data", "FitData")
STATS = ("shared", "data.stats", "Statistics")
GRID = ("grids", "tuple", 0, "Grid")
FIT = ("state", "_fit_now", "Fit")
POSTERIOR = (*FIT, "posterior", "ChainPosterior")
SEASON, PART = Periodic(4.0, 1.0) + Matern32(3.0), ("parts", "tuple")


@pytest.mark.parametrize(
    "keys, value, match",
    [
        ((*STATS, *GRID, "cells"), 77, "moments of the statistics has shape"),
        ((*STATS, *GRID, "cells"), 10**12, "moments of the statistics has shape"),
        ((*STATS, *GRID, "cells"), "many", "cells is 'many'"),
        ((*STATS, *GRID, "upper"), {"float": "nan"}, "a grid from"),
        ((*STATS, *GRID, "upper"), {"float": "1e5"}, "is no number"),
        ((*STATS, "grids"), None, "NoneType"),
        ((*STATS, "degrees"), {"tuple": [5]}, "has shape"),
        ((*STATS, "moments"), 3.0, "float"),
        ((*STATS, "moments"), {"array": "nowhere"}, "nowhere"),
        ((*STATS, "targets"), {"array": "data.stats.moments"}, "targets of the statistics"),
        ((*STATS, "count"), 1.5, "count is 1.5"),
        ((*STATS, "surprise"), 1, "surprise"),
        (("shared", "data.stats"), {"shared": "data.stats"}, "recursion"),
        ((*SEEN, "single"), "yes", "single is a str"),
        ((*SEEN, "stats"), {"Matern32": {}}, "stats is a Matern32"),
        ((*SEEN, "structure", "Line", "layout", "Layout", "inputs"), {"tuple": [4]}, "column is 4"),
        ((*SEEN, "structure", "Line", "layout", "Layout", "kernel"), {"eval": "1"}, "class 'eval'"),
        ((*FIT, "noise"), -1.0, "noise is -1"),
        ((*FIT, "noise"), "low", "noise is 'low'"),
        ((*FIT, "kernel"), {"SHO": {"period": 2.0}}, "with other hyperparameters"),
        ((*FIT, "kernel", "Matern32", "lengthscale"), 1e308, "lengthscale is 1e.308"),
        ((*POSTERIOR, "kernel", "Matern32", "variance"), 1e308, "variance is 1e.308"),
        ((*FIT, "posterior"), {"tuple": []}, "tuple"),
        ((*POSTERIOR, "degree"), {"tuple": [1]}, "degree is 1"),
        ((*POSTERIOR, "state"), {"dict": [["wings", 2]]}, "unknown parts"),
        ((*POSTERIOR, "stats"), {"shared": "data.stats"}, "coefficients has shape"),
        (("settings", "kernel", "Matern32", "variance"), -2.0, "variance"),
        (("settings", "objective"), "joy", "objective"),
        (("settings", "wings"), 2, "wings"),
        (("state", "n_features_in_"), 0, "n_features_in_ is 0"),
        (("state", "feature_names_in_"), ["a", "b"], "names"),
        (("state", "__class__"), "x", "unknown parts"),
        (("state",), [], "list"),
        (("settings", "kernel"), {"Sum": {"parts": []}, "tuple": []}, "one kind"),
    ],
)
def test_parts_that_contradict_each_other(path, keys, value, match):
    fitted(line)[0].save(path, full=True)

    def change(model):
        inner, key = nested(model, *keys)
        inner[key] = value

    rewrite(path, change)
    refused(path, f"contradicts itself.*{match}")


@pytest.mark.parametrize(
    "kernel, inputs, keys, value, match",
    [
        (Matern32(0.5), 2, ("levels", "tuple", 0, "tuple", 0), 10**7, "level is 10000000"),
        (Matern32(0.5), 2, ("degrees", "tuple", 0, "tuple", 0), 10**7, "degree is 10000000"),
        (Matern32(0.5), 2, ("effects",), 10**12, "other effects"),
        (SEASON, 1, (*PART, 1, "Part", "along", "Along", "level"), 10**7, "level is 10000000"),
        (SEASON, 1, (*PART, 0, "Part", "around", "Around", "count"), 10**9, "phases is 10000000"),
        (SEASON, 1, (*PART, 0, "Part", "around", "Around", "width"), 10**9, "width is 10000000"),
        (SEASON, 1, (*PART, 0, "Part", "around", "Around", "width"), 3, "a season of"),
        (SEASON, 1, (*PART, 0, "Part", "around", "Around", "degree"), 10**7, "power is"),
    ],
)
def test_plans_are_checked_before_anything_is_made_as_large(
    kernel, inputs, keys, value, match, path
):
    """Two to the power of a level of 10**9 takes minutes."""
    X = np.random.default_rng(0).uniform(0.0, 10.0, (60, inputs))
    gp = GPRegressor(kernel, num_basis=9, noise_variance=0.1, optimizer=None)
    gp.fit(X[:, 0] if inputs == 1 else X, np.sin(X[:, 0])).save(path, full=True)
    kind, plan = ("SeriesPosterior", "SeriesPlan") if inputs == 1 else ("GridPosterior", "Plan")

    def change(model):
        inner, key = nested(model, *FIT, "posterior", kind, "plan", plan, *keys)
        inner[key] = value

    rewrite(path, change)
    refused(path, f"contradicts itself.*{match}")


@pytest.mark.parametrize("case", [mixed, additive, sums, line], ids=lambda case: case.__name__)
def test_no_array_may_have_another_shape_or_type(case, path):
    fitted(case)[0].save(path)
    _, arrays = model_file.read(path)
    whole = path.read_bytes()
    for name, array in arrays.items():
        if not array.size:  # nothing that could be wrong
            continue
        for other in (array[..., None], array.astype(np.float32), array[None]):
            path.write_bytes(whole)
            rewrite(path, None, lambda arrays, n=name, o=other: arrays.update({n: o}))
            refused(path, "contradicts itself")


@cache
def small_file(folder) -> bytes:
    path = Path(folder) / "small"
    x = np.linspace(0.0, 1.0, 50)
    gp = GPRegressor(Matern32(0.3) + Constant(), num_basis=9, noise_variance=0.1, optimizer=None)
    gp.fit(x, np.sin(6 * x)).save(path)
    return path.read_bytes()


@settings(
    max_examples=600,
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(data=st.data())
def test_damage_is_noticed_or_harmless(data, tmp_path_factory):
    folder = tmp_path_factory.getbasetemp()
    content = bytearray(small_file(str(folder)))
    for _ in range(data.draw(st.integers(1, 3))):
        # More often in the directory at the end than its size would have it.
        last = len(content) - 1
        place = data.draw(st.one_of(st.integers(0, last), st.integers(max(last - 1200, 0), last)))
        kind = data.draw(st.sampled_from(["flip", "set", "cut", "insert", "remove", "swap"]))
        if kind == "flip":
            content[place] ^= 1 << data.draw(st.integers(0, 7))
        elif kind == "set":
            content[place : place + 4] = data.draw(st.binary(min_size=4, max_size=4))
        elif kind == "cut":
            del content[place:]
        elif kind == "insert":
            content[place:place] = data.draw(st.binary(min_size=1, max_size=40))
        elif kind == "remove":
            del content[place : place + data.draw(st.integers(1, 40))]
        else:
            a, b = content[:place], content[place:]
            content = b + a
        if not content:
            break
    _loads_or_refuses(folder, bytes(content))


def test_every_bit_of_the_directory(tmp_path_factory):
    """Flipped one at a time: names, sizes, places, checksums, flags."""
    folder = tmp_path_factory.getbasetemp()
    whole = small_file(str(folder))
    begin = whole.index(b"PK\x01\x02")
    for place in range(begin, len(whole)):
        content = bytearray(whole)
        content[place] ^= 1 << (place % 8)
        _loads_or_refuses(folder, bytes(content))


def _loads_or_refuses(folder, content):
    path = Path(folder) / "damaged"
    path.write_bytes(content)
    try:
        loaded = asvgp.load(path)
    except ModelFileError:  # and no other error
        return
    (Path(folder) / "whole").write_bytes(small_file(str(folder)))
    expected = asvgp.load(Path(folder) / "whole")
    places = np.linspace(-1.0, 2.0, 30)
    assert same(loaded.predict(places, return_std=True), expected.predict(places, return_std=True))
    assert vars(loaded).keys() == vars(expected).keys()
