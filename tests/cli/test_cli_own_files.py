"""Files are neither replaced by what is made of them nor counted twice."""

from __future__ import annotations

import os
import shutil

import pytest

from asvgp import scan
from tests.cli.command_line import call, power, refused, write

FIT = ("--target", "power", "--input", "hours", "--num-basis", "40", "--fixed", "--noise", "0.01")


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    folder = tmp_path_factory.mktemp("own")
    data = write(power(200), folder / "a.csv")
    call("fit", data, *FIT, "--domain", "0,100", "-o", folder / "m.asvgp")
    return folder


@pytest.fixture
def folder(made, tmp_path):
    shutil.copytree(made, tmp_path, dirs_exist_ok=True)
    return tmp_path


def kept(folder, *arguments) -> None:
    assert "would replace it" in refused(folder, *arguments, code=2)


def test_data_are_not_replaced(folder):
    a, m = folder / "a.csv", folder / "m.asvgp"
    link, pattern = folder / "link.csv", folder / "*.csv"
    os.symlink(a, link)
    (folder / "sub").mkdir()
    kept(folder, "fit", a, *FIT, "-o", a)
    kept(folder, "fit", a, *FIT, "-o", link)
    kept(folder, "predict", m, a, "-o", a)
    kept(folder, "predict", m, pattern, "-o", folder / "sub" / ".." / "a.csv")
    kept(folder, "update", m, a, "-o", a)


def test_models_are_not_replaced_but_by_update(folder):
    a, m = folder / "a.csv", folder / "m.asvgp"
    for name in ("x.csv", "x.png", "x.html"):  # a model may be called anything
        shutil.copy(m, folder / name)
    kept(folder, "predict", folder / "x.csv", "--at", "1", "-o", folder / "x.csv")
    kept(folder, "plot", folder / "x.png", "-o", folder / "x.png")
    kept(folder, "report", folder / "x.html", "-o", folder / "x.html")
    kept(folder, "merge", m, folder / "x.csv", "-o", m)
    before = m.read_bytes()
    call("update", m, a)
    assert m.read_bytes() != before


def test_other_files_are_replaced(folder):
    m, a, out = folder / "m.asvgp", folder / "a.csv", folder / "out.csv"
    out.write_text("before")
    call("predict", m, a, "-o", out)
    assert out.read_text() != "before"
    call("fit", a, *FIT, "-o", m)
    (folder / "data").mkdir()
    shutil.copy(a, folder / "data" / "a.csv")
    call("fit", folder / "data", *FIT, "-o", folder / "data" / "m.asvgp")
    call("fit", folder / "data", *FIT, "-o", folder / "data" / "m.asvgp")


def test_nothing_counts_twice(folder):
    a, m = folder / "a.csv", folder / "m.asvgp"
    os.symlink(a, folder / "b.csv")
    assert "a.csv is given twice: its" in refused(folder, "fit", a, a, *FIT, "-o", folder / "o")
    said = refused(folder, "fit", folder / "*.csv", *FIT, "-o", folder / "o")
    assert "b.csv is given twice, the other time as" in said
    assert "twice" in refused(folder, "update", m, a, a)
    assert "twice" in refused(folder, "merge", m, m, "-o", folder / "o")
    with pytest.raises(ValueError, match="twice"):
        scan([a, folder / "b.csv"], "power")
    shutil.copy(a, folder / "c.csv")  # of the same content, but another file
    scan([a, folder / "c.csv"], "power")
