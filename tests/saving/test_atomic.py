"""Files that are written whole or not at all."""

import os
import signal
import socket
import stat
import subprocess
import sys
import threading
import time
from contextlib import suppress

import pytest

import asvgp
from asvgp.saving.atomic import replacing
from tests.cli.command_line import call
from tests.saving.saved import fitted, line, same

posix = pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="there are no pipes with names")


@pytest.fixture
def pipe(tmp_path):
    """A pipe, and a function that returns what was written to it."""
    path, read = tmp_path / "pipe.csv", []
    os.mkfifo(path)
    reader = threading.Thread(target=lambda: read.append(path.read_bytes()), daemon=True)
    reader.start()

    def contents():
        reader.join(20.0)
        return read[0]

    return path, contents


@posix
def test_a_pipe_is_written_to(pipe, tmp_path):
    path, contents = pipe
    gp, X, _, _ = fitted(line)
    gp.save(path)
    copied = tmp_path / "copied.asvgp"
    copied.write_bytes(contents())
    assert stat.S_ISFIFO(path.stat().st_mode)
    assert sorted(os.listdir(tmp_path)) == ["copied.asvgp", "pipe.csv"]
    assert same(asvgp.load(copied).predict(X), gp.predict(X))


@posix
def test_commands_write_to_a_pipe(pipe, tmp_path):
    path, contents = pipe
    fitted(line)[0].save(tmp_path / "model.asvgp")
    at = ["predict", tmp_path / "model.asvgp", "--at", "0:1:0.5"]
    call(*at, "-o", path)
    call(*at, "-o", tmp_path / "file.csv")
    assert stat.S_ISFIFO(path.stat().st_mode)
    assert contents() == (tmp_path / "file.csv").read_bytes()


@posix
def test_nothing_reaches_a_pipe_before_all_is_there(pipe):
    path, contents = pipe
    with suppress(ZeroDivisionError), replacing(path) as stream:
        stream.write(b"half")
        raise ZeroDivisionError
    with open(path, "wb"):  # lets the reader end
        pass
    assert contents() == b""


@pytest.fixture
def device(monkeypatch, request):
    """A device of this machine, which must not suffer whatever a test does."""
    if not os.path.exists(request.param):
        pytest.skip(f"there is no {request.param}")
    monkeypatch.setattr(os, "replace", lambda *_: pytest.fail("a device was replaced"))
    monkeypatch.setattr(os, "chmod", lambda *_, **__: pytest.fail("a device was changed"))
    yield request.param
    assert stat.S_ISCHR(os.stat(request.param).st_mode)


@pytest.mark.parametrize("device", ["/dev/null"], indirect=True)
def test_a_device_stays_a_device(device, tmp_path):
    link = tmp_path / "null"
    link.symlink_to(device)
    with replacing(link) as stream:
        stream.write(b"gone")
    assert link.is_symlink()


@pytest.mark.parametrize("device", ["/dev/full"], indirect=True)
def test_a_device_that_cannot_take_it(device):
    with pytest.raises(OSError, match="No space left"), replacing(device) as stream:
        stream.write(b"too much")


@posix
def test_a_socket_is_refused(tmp_path):
    path = tmp_path / "socket"
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(path))
        with pytest.raises(OSError, match="to a file, not to a disk or a socket"):
            fitted(line)[0].save(path)
        assert stat.S_ISSOCK(path.stat().st_mode)


def test_links_lead_to_the_file(tmp_path):
    file, link = tmp_path / "file", tmp_path / "link"
    file.write_bytes(b"old")
    link.symlink_to(file)
    with replacing(link) as stream:
        stream.write(b"new")
    assert (file.read_bytes(), link.is_symlink()) == (b"new", True)


# ---------------------------------------------------------------- after a kill

WRITER = """
import sys, time
from asvgp.saving.atomic import replacing
with replacing(sys.argv[1]) as stream:
    stream.write(b"half")
    stream.flush()
    print("writing", flush=True)
    time.sleep(60)
"""


@pytest.fixture
def writer(tmp_path):
    """A process that is in the middle of writing a file."""
    command = [sys.executable, "-c", WRITER, str(tmp_path / "file")]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    assert process.stdout.readline() == "writing\n"
    yield process
    process.kill()
    process.communicate()


def write(path, data: bytes = b"new"):
    with replacing(path) as stream:
        stream.write(data)


def aged(folder) -> list[str]:
    """Make all files an hour older; return their names."""
    for file in folder.iterdir():
        os.utime(file, (time.time() - 3600.0,) * 2)
    return sorted(os.listdir(folder))


@posix
def test_what_a_killed_writer_leaves_is_deleted_later(writer, tmp_path):
    writer.send_signal(signal.SIGKILL)
    writer.wait()
    write(tmp_path / "file")
    (left,) = set(os.listdir(tmp_path)) - {"file"}  # too young to be sure of
    aged(tmp_path)
    write(tmp_path / "other")
    assert sorted(os.listdir(tmp_path)) == [left, "file", "other"]
    write(tmp_path / "file", b"newer")
    assert sorted(os.listdir(tmp_path)) == ["file", "other"]
    assert (tmp_path / "file").read_bytes() == b"newer"


@posix
def test_what_a_living_writer_writes_stays(writer, tmp_path):
    (temporary,) = aged(tmp_path)
    write(tmp_path / "file")
    assert sorted(os.listdir(tmp_path)) == [temporary, "file"]


@posix
def test_files_of_other_names_stay(tmp_path):
    target = tmp_path / "fi.le"
    names = {
        ".fi.le.tmp",
        ".fi.le.0123456789ab",
        ".fi.le.0123456789AB.tmp",
        ".fixle.0123456789ab.tmp",
    }
    for name in names:
        (tmp_path / name).touch()
    (tmp_path / ".fi.le.00112233aabb.tmp").mkdir()
    (tmp_path / ".fi.le.aabbccddeeff.tmp").symlink_to(tmp_path / ".fi.le.tmp")
    before = aged(tmp_path)
    write(target)
    assert sorted(os.listdir(tmp_path)) == sorted([*before, "fi.le"])


def test_a_folder_that_does_not_exist_is_named(tmp_path):
    folder = tmp_path / "nowhere" / "deep"
    with pytest.raises(FileNotFoundError, match=r"there is no folder .*deep\. Make it") as caught:
        fitted(line)[0].save(folder / "g.asvgp")
    assert caught.value.filename == str(folder / "g.asvgp")
    assert ".tmp" not in str(caught.value)
    assert not list(tmp_path.iterdir())
