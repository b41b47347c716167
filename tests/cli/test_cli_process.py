"""The command line as a program of its own: entry points, signals, pipes."""

import os
import signal
import subprocess
import sys
import time
import tomllib
from pathlib import Path

import numpy as np
import pytest

import asvgp
from asvgp import GPRegressor
from tests.cli.command_line import call, power

ROOT = Path(__file__).resolve().parents[2]
PROGRAM = [sys.executable, "-m", "asvgp"]
# The program with progress from the first moment on.
EAGER = """
from asvgp.runtime.progress import Progress
usual = Progress.__init__
def eager(self, mode):
    usual(self, mode)
    self.last = 0.0
Progress.__init__ = eager
from asvgp.cli import main
main()
"""
unix = pytest.mark.skipif(sys.platform == "win32", reason="signals of Unix")


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    path = tmp_path_factory.mktemp("process") / "m.asvgp"
    data = power()
    GPRegressor(num_basis=60).fit(
        data.column("hours").to_numpy(), data.column("power").to_numpy()
    ).save(path)
    return path


def start(arguments, program=PROGRAM) -> subprocess.Popen:
    words = [str(word) for word in (*program, *arguments)]
    return subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def test_the_console_script_is_main():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert project["scripts"]["asvgp"] == "asvgp.cli:main"
    assert any(need.startswith("click") for need in project["optional-dependencies"]["cli"])


def test_main_prints_exact_numbers_and_leaves_with_the_exit_code(model):
    script = [sys.executable, "-c", "from asvgp.cli import main; main()"]
    done = subprocess.run(
        [*script, "predict", model, "--at", "7.25", "-o", "-"], capture_output=True, text=True
    )
    mean, std = asvgp.load(model).predict([7.25], return_std=True)
    assert done.stdout.splitlines()[1] == f"7.25,{float(mean[0])!r},{float(std[0])!r}"
    assert (done.returncode, done.stderr) == (0, "")
    wrong = subprocess.run([*PROGRAM, "fit"], capture_output=True, text=True)
    assert (wrong.returncode, wrong.stderr.partition(" ")[0]) == (2, "Usage:")


def test_without_click_it_says_what_to_install():
    code = "import sys; sys.modules['click'] = None; from asvgp.cli import main; main(['info'])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 2
    assert done.stderr == "asvgp: the command line needs click: pip install 'asvgp[cli]'\n"


def test_help_does_not_wait_for_the_library():
    code = """
import sys
from asvgp.cli.app import app
app.main(["predict", "--help"], standalone_mode=False)
assert not {"numpy", "numba", "pyarrow", "sklearn"} & set(sys.modules)
"""
    subprocess.run([sys.executable, "-c", code], check=True, capture_output=True)


@unix
def test_ctrl_c_in_training_saves_the_best_state(tmp_path):
    rng = np.random.default_rng(0)
    x = rng.uniform(0.0, 1.0, 20_000)
    np.savez(tmp_path / "d.npz", x=x, y=np.sin(40 * x) + 0.1 * rng.standard_normal(20_000))
    output = tmp_path / "m.asvgp"
    program = start(
        [
            *("fit", tmp_path / "d.npz", "--target", "y", "--progress", "-o", output),
            *("--kernel", "matern32 + matern12", "--num-basis", 200_000),
        ],
        [sys.executable, "-c", EAGER],
    )
    assert program.stderr is not None
    seen = ""
    while "training on" not in seen:  # a line that rewrites itself
        letter = program.stderr.read(1)
        assert letter, seen
        seen += letter
    program.send_signal(signal.SIGINT)
    _, rest = program.communicate()
    assert program.returncode == 130, rest
    assert f"interrupted: training; {output} has the best state so far" in rest
    gp = asvgp.load(output)
    assert gp.optimization_.interrupted
    assert abs(gp.predict([0.5])[0] - np.sin(20.0)) < 0.5
    assert sorted(path.name for path in tmp_path.iterdir()) == ["d.npz", "m.asvgp"]


# Two thousand rows at a time, as if from a slow disk.
SLOW = """
import time
from asvgp.sources import blocks
blocks.block_rows = lambda columns: 2000
usual_blocks, usual_ends = blocks.in_blocks, blocks.extremes
def slow(*arguments):
    for block in usual_blocks(*arguments):
        time.sleep(0.05)
        yield block
def slow_ends(*arguments):
    time.sleep(0.1)
    return usual_ends(*arguments)
blocks.in_blocks, blocks.extremes = slow, slow_ends
"""


def interrupted_at(sign: str, arguments, again: bool = False) -> str:
    """What a slow program says that gets Ctrl-C, perhaps twice, once it has shown a sign."""
    program = start(arguments, [sys.executable, "-c", SLOW + EAGER])
    assert program.stderr is not None
    seen = ""
    while sign not in seen:
        letter = program.stderr.read(1)
        assert letter, seen
        seen += letter
    program.send_signal(signal.SIGINT)
    if again:
        while "again to end at once" not in seen:
            seen += program.stderr.read(1)
        program.send_signal(signal.SIGINT)
    _, rest = program.communicate()
    assert program.returncode == 130, seen + rest
    return seen + rest


@pytest.fixture
def slow_fit(tmp_path):
    rng = np.random.default_rng(0)
    x = rng.uniform(0.0, 1.0, 60_000)
    y = np.sin(20 * x) + 0.1 * rng.standard_normal(60_000)
    lines = np.stack([x, y], axis=1)
    np.savetxt(tmp_path / "d.csv", lines, delimiter=",", header="x,y", comments="")
    output = tmp_path / "m.asvgp"
    words = ["fit", tmp_path / "d.csv", "--target", "y", "--num-basis", 40, "--progress"]
    return [*words, "-o", output], output, x, y


@unix
def test_ctrl_c_in_the_pass_leaves_all_rows_summed_so_far(slow_fit):
    arguments, output, x, y = slow_fit
    said = interrupted_at("pass over the data: 2,000", [*arguments, "--domain", "0,1"])
    partial = Path(f"{output}.partial")
    rows = asvgp.load(partial).stats_.count
    assert 2000 <= rows < 60_000
    assert rows % 2000 == 0
    assert f"interrupted: {rows:,} rows were summed and are in {partial}; the same" in said
    assert f"there is no {output}" in said
    call(*arguments, "--domain", "0,1", "--resume")
    gp, twin = asvgp.load(output), GPRegressor(num_basis=40, domain=(0, 1)).fit(x, y)
    assert gp.stats_.count == 60_000
    assert gp.elbo_ == pytest.approx(twin.elbo_, rel=1e-9)
    assert not partial.exists()


@unix
def test_a_second_ctrl_c_does_not_wait(slow_fit):
    arguments, output, _, _ = slow_fit
    said = interrupted_at("pass over the data: 2,000", [*arguments, "--domain", "0,1"], again=True)
    assert "Ctrl-C: ending with the rows that are being read" in said
    assert ("were summed and are in" in said) == Path(f"{output}.partial").exists()
    assert ("no rows had been summed yet" in said) != Path(f"{output}.partial").exists()


# Checkpoints at every block: those of a minute, for a test that has seconds.
OFTEN = """
from asvgp.cli import checkpoint
checkpoint.EVERY, checkpoint.TO_DISK, checkpoint.SHARE = -1.0, 0.0, 1e9
"""


@unix
def test_a_pass_that_is_killed_again_and_again_ends_as_if_it_had_not_been(slow_fit):
    arguments, output, x, y = slow_fit
    arguments += ["--domain", "0,1"]
    partial, rows, rng = Path(f"{output}.partial"), [0], np.random.default_rng(0)
    for delay in rng.uniform(0.1, 0.4, 3):
        program = start(
            [*arguments, *(["--resume"] if rows[-1] else [])],
            [sys.executable, "-c", SLOW + OFTEN + EAGER],
        )
        before = partial.stat().st_mtime_ns if partial.exists() else 0
        while not partial.exists() or partial.stat().st_mtime_ns == before:
            assert program.poll() is None, program.communicate()
            time.sleep(0.01)
        time.sleep(delay)
        program.kill()
        program.communicate()
        assert not output.exists()
        rows.append(asvgp.load(partial).stats_.count)
    assert rows == sorted(set(rows))  # every run came further than the one before
    assert rows[-1] < 60_000
    call(*arguments, "--resume")
    gp, twin = asvgp.load(output), GPRegressor(num_basis=40, domain=(0, 1)).fit(x, y)
    assert gp.stats_.count == 60_000
    assert gp.elbo_ == pytest.approx(twin.elbo_, rel=1e-9)
    # What a killed writer left has a hidden name, and goes when it is old enough.
    left = sorted(path.name for path in output.parent.iterdir() if path.name[0] != ".")
    assert left == ["d.csv", "m.asvgp"]


@unix
def test_ctrl_c_before_anything_is_summed_says_so(slow_fit):
    arguments, output, _, _ = slow_fit
    said = interrupted_at("range of the data", arguments)
    assert "interrupted: no rows had been summed yet, so nothing was saved" in said
    assert [path.name for path in output.parent.iterdir()] == ["d.csv"]


@unix
def test_a_pipe_that_is_closed_ends_it_quietly(model):
    program = start(["predict", model, "--at", "0:500:0.001", "-o", "-"])
    assert program.stdout is not None
    assert program.stderr is not None
    assert program.stdout.readline() == '"x","mean","std"\n'
    program.stdout.close()
    assert program.stderr.read() == ""
    program.stderr.close()
    assert program.wait() == 141


@unix
def test_a_request_to_end_leaves_no_half_written_file(model, tmp_path):
    program = start(
        ["predict", model, "--at", "0:500:0.0001", "--progress", "-o", tmp_path / "out.csv"]
    )
    assert program.stderr is not None
    while not any(path.stat().st_size for path in tmp_path.iterdir()):
        assert program.poll() is None
        time.sleep(0.01)
    os.kill(program.pid, signal.SIGTERM)
    program.communicate()
    assert program.returncode == 143
    assert list(tmp_path.iterdir()) == []
