"""Factors in temporary files: room is taken first, and given back with the last array."""

import errno
import os
import tempfile
import weakref

import numpy as np
import pytest

from asvgp.linalg.multifrontal import disk
from asvgp.linalg.multifrontal.cpu import CpuFactor
from tests.linalg.test_multifrontal_cpu import slices
from tests.linalg.test_multifrontal_symbolic import FLAT, assemble


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    return tmp_path


def test_factors_on_disk_are_those_in_memory(folder):
    elements, _ = assemble(FLAT)
    space, b = disk.DiskSpace(), np.arange(float(FLAT.size))
    known = CpuFactor(FLAT, slices(elements))
    factor = CpuFactor(FLAT, slices(elements), panels=space)
    assert factor.log_det == known.log_det
    np.testing.assert_array_equal(factor.solve(b), known.solve(b))
    assert factor.nbytes == known.nbytes == 8 * factor._panels.size
    assert not factor._panels.flags.owndata  # but mapped


def test_files_are_taken_again_and_those_of_another_size_let_go(folder):
    space = disk.DiskSpace()
    first, second = Owner(), Owner()
    values = space.take(100, first)
    assert space.take(100, second) is not values
    del first
    third = Owner()
    assert space.take(100, third) is values
    found = weakref.ref(values)
    del third, values
    assert found() is not None
    assert space.take(200, second).size == 200
    assert found() is None


class Owner:
    """Something that memory is taken for."""


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EDQUOT, errno.EFBIG])
def test_a_disk_that_is_full_is_an_error_before_anything_is_written(folder, monkeypatch, code):
    def full(file, start, size):
        raise OSError(code, "No space left on device")

    monkeypatch.setattr(os, "posix_fallocate", full, raising=False)
    with pytest.raises(OSError, match=r"0.0745 GiB does not fit on disk.*set TMPDIR") as caught:
        disk.mapped(10**7)
    assert caught.value.errno == code
    assert str(folder) in str(caught.value)


def test_other_errors_of_files_are_not_said_to_be_a_full_disk(folder, monkeypatch):
    def broken(file, start, size):
        raise OSError(errno.EIO, "Input/output error")

    monkeypatch.setattr(os, "posix_fallocate", broken, raising=False)
    with pytest.raises(OSError, match="Input/output error"):
        disk.mapped(3)


def test_room_is_taken_where_the_system_cannot_reserve_it(folder, monkeypatch):
    monkeypatch.delattr(os, "posix_fallocate", raising=False)
    monkeypatch.setattr(disk, "_BLOCK", 1000)
    with (folder / "file").open("wb") as file:
        disk._reserve(file.fileno(), 12_345)
        assert os.fstat(file.fileno()).st_size == 12_345
        assert os.fstat(file.fileno()).st_blocks * 512 >= 12_345
    values = disk.mapped(1001)
    values[:] = np.arange(1001.0)
    assert values.sum() == 500_500.0
    assert len(disk.mapped(0)) == 0


def test_a_folder_in_memory_is_no_disk(folder):
    device = os.stat(folder).st_dev
    number = f"{os.major(device)}:{os.minor(device)}"
    mounts = folder / "mountinfo"
    others = "23 30 0:999999 / /run rw - tmpfs tmpfs rw\n"
    mounts.write_text(f"{others}24 30 {number} / /tmp rw shared:11 - ext4 /dev/vda rw\n")
    assert disk.free_disk(mounts) > 0.0
    mounts.write_text(f"{others}24 30 {number} / /tmp rw,nosuid shared:11 - tmpfs tmpfs rw\n")
    assert disk.free_disk(mounts) == 0.0
    assert disk.free_disk(folder / "nowhere") > 0.0


def test_without_a_temporary_folder_there_is_no_disk(monkeypatch):
    def nowhere():
        raise FileNotFoundError

    monkeypatch.setattr(tempfile, "gettempdir", nowhere)
    assert disk.free_disk() == 0.0
