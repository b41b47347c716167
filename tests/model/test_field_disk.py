"""Factors that do not fit in memory go to disk, or the refusal says why not."""

from __future__ import annotations

import errno
import gc
import os
import re
import tempfile
import weakref

import numpy as np
import pytest

from asvgp import GPRegressor, Matern12
from asvgp.basis import Grid
from asvgp.linalg.multifrontal import disk
from asvgp.model import memory
from asvgp.model.devices import Cpu
from asvgp.model.memory import MemoryBudget, NotEnoughMemory, plan_need
from asvgp.model.plan import Plan
from asvgp.runtime.memory import in_words

KERNEL = Matern12(0.5, dim=0) * Matern12(0.4, dim=1) * Matern12(0.6, dim=2)
CELLS = 11
PLAN = Plan((0, 1, 2), (Grid(0.0, 1.0, CELLS),) * 3, (1, 1, 1), (0,), ((1, 1, 1),), ((0, 0, 0),))
NEED = plan_need(PLAN, KERNEL)
LIMIT = 0.5 * (NEED.rest + NEED.memory)  # for all but the factors


def data():
    rng = np.random.default_rng(0)
    X = rng.uniform(0.0, 1.0, (500, 3))
    return X, np.sin(5 * X[:, 0]) * X[:, 1] + X[:, 2] + 0.1 * rng.standard_normal(500)


def model(**settings) -> GPRegressor:
    return GPRegressor(KERNEL, num_basis=CELLS + 1, **settings)


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    return tmp_path


@pytest.fixture
def files(folder, monkeypatch):
    """Every array on disk, weakly."""
    found, mapped = [], disk.mapped

    def watched(size):
        found.append(weakref.ref(values := mapped(size)))
        return values

    monkeypatch.setattr(disk, "mapped", watched)
    return found


# ---------------------------------------------------------------- the same results


@pytest.mark.parametrize("settings", [{"optimizer": None, "noise_variance": 0.01}, {}])
def test_a_factor_on_disk_gives_the_same_bits(settings, files, folder):
    X, y = data()
    plain = model(**settings).fit(X, y)
    assert not files
    spilled = model(memory_limit=LIMIT, **settings).fit(X, y)
    assert files
    assert spilled.kernel_ == plain.kernel_
    assert spilled.elbo_ == plain.elbo_
    assert spilled.evidence_upper_bound_ == plain.evidence_upper_bound_
    for answer in (
        lambda gp: gp.predict(X, return_std=True),
        lambda gp: gp.predict(X[:9], return_cov=True)[1],
        lambda gp: gp.sample_y(X[:9], random_state=0),
    ):
        np.testing.assert_array_equal(answer(spilled), answer(plain))
    words = re.sub(r"\s+", " ", str(spilled.summary()))
    size = spilled.posterior_.factored.solution.factor.nbytes
    assert f"the factor, {in_words(size)}, goes to disk" in words
    assert "disk" not in str(plain.summary())
    # Nothing of them is to be seen, and nothing is left.
    assert list(folder.iterdir()) == []
    del spilled
    gc.collect()
    assert [one for one in files if one() is not None] == []
    assert list(folder.iterdir()) == []


def test_one_factorisation_after_another_uses_the_same_files(files):
    X, y = data()
    gp = model(memory_limit=LIMIT).fit(X, y)
    assert gp.optimization_.evaluations > 5
    assert gp.evidence_upper_bound_ >= gp.elbo_  # which holds a second factor
    assert len(files) == 2
    assert sum(8 * one().size for one in files) == NEED.disk


# ---------------------------------------------------------------- what is said


def test_what_goes_to_disk_is_announced():
    said: list[str] = []
    MemoryBudget(LIMIT, Cpu(), said.append).require(PLAN, KERNEL)
    (text,) = said
    assert f"{in_words(NEED.rest)} of {in_words(LIMIT)}" in text
    assert text.endswith(f"the factor, {in_words(NEED.disk / 2)}, goes to disk")


@pytest.mark.parametrize(
    "free, words",
    [
        (0.0, "there is no temporary folder on disk: set TMPDIR to one"),
        (NEED.disk - 1.0, "free some, or set TMPDIR to a folder with more"),
    ],
)
def test_without_disk_it_is_refused_with_both_figures(free, words, monkeypatch):
    monkeypatch.setattr(memory, "free_disk", lambda: free)
    X, y = data()
    gp = model(memory_limit=LIMIT, optimizer=None, noise_variance=0.01)
    with pytest.raises(NotEnoughMemory, match=words) as caught:
        gp.fit(X, y)
    text = str(caught.value)
    assert f"needs about {in_words(NEED.memory)}, and memory_limit is {in_words(LIMIT)}" in text
    assert f"it would be {in_words(NEED.rest)}, and {in_words(NEED.disk)} of disk" in text
    assert free == 0.0 or f"{tempfile.gettempdir()} has {in_words(free)} free" in text
    counts = re.search(r"num_basis=\((\d+), (\d+), (\d+)\) would fit", text)
    assert counts is not None
    gp.set_params(num_basis=tuple(map(int, counts.groups()))).fit(X, y)
    monkeypatch.setattr(memory, "free_disk", lambda: NEED.disk)
    gp.set_params(num_basis=CELLS + 1).fit(X, y)  # just enough


def test_what_does_not_fit_even_so_is_refused(files):
    X, y = data()
    with pytest.raises(NotEnoughMemory, match="With the factors on disk it would be") as caught:
        model(memory_limit=0.99 * NEED.rest).fit(X, y)
    assert "TMPDIR" not in str(caught.value)
    assert not files


def test_automatic_grids_stay_in_memory(files):
    X, y = data()
    with pytest.warns(UserWarning, match="not refined further"):
        gp = GPRegressor(KERNEL, memory_limit=1e6).fit(X, y)
    assert not files
    assert memory.plan_need(gp.posterior_.plan, gp._fit_now.kernel).memory <= 1e6  # pyright: ignore[reportAttributeAccessIssue]


# ---------------------------------------------------------------- files


def test_a_disk_that_is_full_is_told_with_what_to_change(folder, monkeypatch):
    def full(file, start, size):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "posix_fallocate", full, raising=False)
    X, y = data()
    with pytest.raises(OSError, match="raise memory_limit"):
        model(memory_limit=LIMIT, optimizer=None, noise_variance=0.01).fit(X, y)
