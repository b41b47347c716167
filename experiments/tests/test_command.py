"""The experiments' command: results files, what is kept of a run that stops, comparisons."""

import importlib
import json
import os
import shutil
import signal
import subprocess
import sys
import time
import types

import numpy as np
import pytest

from experiments import __main__ as command
from experiments import page
from experiments.harness import environments, results
from experiments.harness.compare import TOLERANCE, compare
from experiments.harness.datasets import Missing
from experiments.harness.results import Results
from experiments.paper import table2

# ---------------------------------------------------------------- results


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """Results and figures go to a temporary folder."""
    monkeypatch.setattr(results, "ROOT", tmp_path)
    monkeypatch.setattr(results, "FOLDER", tmp_path / "results")
    monkeypatch.setattr(results, "FIGURES", tmp_path / "images")
    return tmp_path


def some_results(**changes):
    row = {"method": "m", "dataset": "d", "n": 10, "settings": {"M": 5}, "mse": 0.5}
    row |= {"fit_seconds": 1.0, "info": {"a": 1}}
    found = Results("example", "An example")
    found.add(row | changes)
    return found


def test_results_are_written_and_read(folder):
    found = some_results(numbers=[1, 2], left_out=np.zeros(3))
    found.rows[0]["mse"] = np.float64(0.5)
    path = found.save()
    again = results.read("example")
    assert path == folder / "results" / "example.json"
    assert again is not None
    assert again.rows[0]["mse"] == 0.5
    assert "left_out" not in again.rows[0]
    assert again.record["versions"]["numpy"] == np.__version__
    assert results.read("example", full=True) is None
    assert again.where(M=5, method="m") == again.rows
    assert again.where(M=6) == []
    found.rows[0]["mse"] = object()
    with pytest.raises(TypeError, match="object has no place"):
        found.save()
    assert results.read("example") is not None  # the old file is whole


def test_every_row_is_kept_at_once_and_the_old_results_until_the_end(folder):
    some_results(mse=9.0).save()
    found = Results("example", "An example")
    found.begin()
    for number in range(3):
        found.add({"method": "m", "mse": float(number)})
        part = results.unfinished("example")
        assert part is not None
        assert [row["mse"] for row in part.rows] == [*range(number + 1)]
        assert not part.finished
        old = results.read("example")
        assert old is not None
        assert old.finished
        assert old.rows[0]["mse"] == 9.0
    found.save()
    assert [path.name for path in (folder / "results").iterdir()] == ["example.json"]
    new = results.read("example")
    assert new is not None
    assert new.finished
    assert len(new.rows) == 3


def test_the_record_has_the_load_and_the_time(folder, monkeypatch):
    loads = iter([[0.5, 0.4, 0.3], [1.5, 0.6, 0.4], [2.5, 0.7, 0.5]])
    monkeypatch.setattr(results, "load", lambda: next(loads))
    times = iter([100.0, 101.0, 107.26])
    monkeypatch.setattr(results.time, "perf_counter", lambda: next(times))
    found = Results("example", "An example")
    found.begin()
    found.add({"method": "m"})
    found.save()
    again = results.read("example")
    assert again is not None
    assert again.record["load_average"] == {"start": [0.5, 0.4, 0.3], "end": [2.5, 0.7, 0.5]}
    assert again.record["total_seconds"] == 7.3
    assert again.record["versions"]["numpy"] == np.__version__


def test_a_new_run_forgets_the_rows_of_one_that_was_stopped(folder):
    first, second = Results("example", "An example"), Results("example", "An example")
    first.begin()
    first.add({"method": "m"})
    second.begin()
    assert results.unfinished("example") is None


def test_results_that_were_not_begun_write_nothing(folder):
    some_results()
    assert not (folder / "results").exists()


# ---------------------------------------------------------------- comparing


def differences(old, new):
    return [(each.key, each.size > TOLERANCE) for each in compare(old, new)]


def test_compare_leaves_times_aside():
    other = {"fit_seconds": 9.0, "memory_mib": 8.0, "versions": {"a": "2"}, "warnings": ["slow"]}
    assert compare(some_results(), some_results(**other)) == []
    inside = some_results(info={"a": 1, "pass_seconds": 2.0})
    assert compare(some_results(info={"a": 1, "pass_seconds": 1.0}), inside) == []


@pytest.mark.parametrize(
    "old, new, key, counts",
    [
        ({"mse": 0.5}, {"mse": 0.5 + 1e-9}, "mse", False),
        ({"mse": 0.5}, {"mse": 0.5 + 2e-6}, "mse", True),
        ({"mse": 1e-5}, {"mse": 1e-5 + 1e-9}, "mse", True),  # small numbers count as well
        ({"info": {"noise": 0.1}}, {"info": {"noise": 0.2}}, "info.noise", True),
        ({"lengths": [1.0, 2.0]}, {"lengths": [1.0, 2.5]}, "lengths[1]", True),
        ({"lengths": [1.0]}, {"lengths": [1.0, 2.0]}, "lengths", True),
        ({"steps": 3}, {"steps": 4}, "steps", True),
        ({"nlpd": None}, {"nlpd": 1.0}, "nlpd", True),
        ({"nlpd": float("nan")}, {"nlpd": 1.0}, "nlpd", True),
        ({"iterate": 1.0}, {"iterate": 2.0}, "iterate", True),
        ({}, {"reason": "late"}, "reason", True),
    ],
)
def test_compare_sees_every_number(old, new, key, counts):
    assert differences(some_results(**old), some_results(**new)) == [(key, counts)]


def test_compare_is_not_disturbed_by_rounding_of_zero_nor_by_nan():
    old, new = {"error": 1e-16, "nlpd": float("nan")}, {"error": -3e-16, "nlpd": float("nan")}
    assert compare(some_results(**old), some_results(**new)) == []


def test_compare_matches_rows_by_what_they_are():
    old, new = some_results(seed=1), some_results(seed=2)
    old.add(new.rows[0] | {"mse": 0.25})
    new.add(old.rows[0])
    (found,) = compare(old, new)  # in another order, and one value is another
    assert (
        str(found) == 'row 0, m, d, n = 10, seed = 2, {"M": 5}: mse 0.25 -> 0.5, relative 5.0e-01'
    )
    new.add(old.rows[0] | {"method": "other"})
    first, second = compare(old, new)
    assert str(first) == 'row 2, other, d, n = 10, seed = 1, {"M": 5}: the row absent -> there'
    assert second == found
    assert "the row there -> absent" in str(compare(new, old)[0])


def test_compare_tells_rows_of_one_name_apart_by_their_order():
    old, new = some_results(), some_results()
    old.add(old.rows[0] | {"mse": 1.0})
    new.add(old.rows[0] | {"mse": 2.0})
    (found,) = compare(old, new)
    assert str(found).startswith("row 1, m, d")
    assert (found.old, found.new, found.size) == (1.0, 2.0, 0.5)


def test_cells_of_tables():
    rows = [{"a": 1.0}, {"a": 3.0}, {"method": "m", "dataset": "d", "n": 5, "reason": "late"}]
    assert results.summarise(rows, "a", 1) == "2.0 ± 1.4"
    assert results.summarise(rows[:1], "a") == "1.000"
    assert results.summarise(rows[2:], "a") == "/"
    assert results.reasons([*rows, rows[2]]) == ["m, d (N = 5): late"]
    assert results.table(["a", "b"], [["x", 1]]) == "| a | b |\n| --- | ---: |\n| x | 1 |\n"
    assert [results.seconds(v) for v in (None, 0.123, 12.6)] == ["/", "0.12", "13"]
    assert results.describe(rows[2]).endswith("d: / late")


def test_a_long_reason_is_shown_whole_once(capsys):
    found = results.Results("example", "")
    reason = "made_up.npz is missing: " + "where to get it, " * 9
    for dataset in ("a", "b"):
        found.add({"method": "m", "dataset": dataset, "n": 0, "reason": reason})
    first, second = capsys.readouterr().out.splitlines()
    assert first.endswith(reason.rstrip()) or first.endswith(reason)
    assert "made_up.npz is missing" in second
    assert second.endswith("… (as above)")
    assert len(second) < len(first)
    assert [row["reason"] for row in found.rows] == [reason, reason]  # kept whole


def test_the_record_has_the_threads(monkeypatch):
    monkeypatch.setenv("OMP_NUM_THREADS", "3")
    assert results.record()["omp_num_threads"] == "3"
    monkeypatch.delenv("OMP_NUM_THREADS")
    assert results.record()["omp_num_threads"] is None


# ---------------------------------------------------------------- the command


@pytest.fixture
def experiment(folder, monkeypatch):
    """One experiment, whose score can be set, and no pages."""
    module = types.ModuleType("an_experiment")

    def run(found):
        found.add({"method": "m", "mse": module.score if found.full is False else 0.0})

    parts = {
        "TITLE": "An example",
        "score": 1.0,
        "run": run,
        "table": lambda found: f"mse {found.rows[0]['mse']}\n",
        "figure": lambda found: (results.FIGURES / "example.png").write_bytes(b""),
    }
    vars(module).update(parts)
    real = importlib.import_module
    modules = {"an_experiment": module}
    monkeypatch.setattr(command, "EXPERIMENTS", {"example": "an_experiment"})
    monkeypatch.setattr(
        command.importlib, "import_module", lambda name: modules.get(name) or real(name)
    )
    written = []
    monkeypatch.setattr(page, "write", lambda: written.append(1))
    monkeypatch.delenv("FULL", raising=False)
    made = types.SimpleNamespace(module=module, written=written, folder=folder)

    def another(name, **parts):
        """One more experiment, with parts of its own."""
        modules[name] = types.ModuleType(name)
        vars(modules[name]).update(vars(module) | parts)
        command.EXPERIMENTS[name] = name

    made.another = another
    return made


def test_the_command_writes_results_table_and_figure(experiment, capsys):
    assert command.main(["example"]) == 0
    assert (experiment.folder / "results" / "example.md").read_text() == "mse 1.0\n"
    assert (experiment.folder / "images" / "example.png").exists()
    assert experiment.written == [1]
    assert "example: An example" in capsys.readouterr().out


def test_full_results_lie_apart(experiment, monkeypatch):
    monkeypatch.setenv("FULL", "1")
    command.main([])
    assert json.loads((experiment.folder / "results/full/example.json").read_text())["full"]


def test_pages_alone(experiment):
    command.main(["--page"])
    assert experiment.written == [1]
    assert not (experiment.folder / "results").exists()


def test_missing_data_do_not_stop_the_rest(experiment, capsys):
    def run(found):
        raise Missing("nowhere to be found")

    experiment.module.run = run
    assert command.main(["example"]) == 0
    assert "/ nowhere to be found" in capsys.readouterr().out
    assert experiment.written == [1]
    assert results.read("example") is None


def test_a_download_that_fails_becomes_rows_and_the_rest_runs(tmp_path, monkeypatch):
    monkeypatch.setenv("ASVGP_SOURCE", (tmp_path / "nothing").as_uri() + "/")
    monkeypatch.setenv("ASVGP_CACHE", str(tmp_path / "cache"))
    monkeypatch.delenv("ASVGP_DATA", raising=False)
    found = Results("table2", table2.TITLE)
    table2.run(found)
    for name, words in (("household", "235/individual+household"), ("seismogram", "RESIF")):
        rows = found.where(dataset=name)
        assert len(rows) >= 2
        assert all(words in row["reason"] and "ASVGP_DATA" in row["reason"] for row in rows)
    assert "https://archive.ics.uci.edu/dataset/235" in table2.table(found)


def test_one_that_fails_does_not_stop_the_others(experiment, capsys):
    def fail(found):
        found.add({"method": "m", "mse": 1.0})
        raise ValueError("not like this")

    experiment.another("broken", run=fail)
    experiment.another("unpainted", figure=fail)
    experiment.another("last")
    assert command.main([]) == 2
    said = capsys.readouterr()
    assert "ValueError: not like this" in said.err
    assert "failed after" in said.out
    assert "1 row in results/broken.part.json" in said.out
    assert results.read("broken") is None
    assert results.read("unpainted") is not None  # its rows were all there
    assert results.read("last") is not None
    assert experiment.written == [1]


def test_a_module_that_cannot_be_imported_is_one_that_fails(experiment, capsys):
    command.EXPERIMENTS["absent"] = "experiments.paper.nothing_of_that_name"
    experiment.another("last")
    assert command.main([]) == 1
    assert "ModuleNotFoundError" in capsys.readouterr().err
    assert results.read("last") is not None


def test_pages_that_cannot_be_written_are_a_failure(experiment, monkeypatch, capsys):
    def fail():
        raise ValueError("no such column")

    monkeypatch.setattr(page, "write", fail)
    assert command.main(["example"]) == 1
    assert "no such column" in capsys.readouterr().err
    assert results.read("example") is not None


def test_the_end_has_a_table(experiment, capsys, monkeypatch):
    def run(found):
        found.add({"method": "m", "mse": 1.0})
        found.add({"method": "peer", "dataset": "d", "n": 3, "reason": "late"})

    experiment.another("other", run=run)
    command.main([])
    lines = [line.split() for line in capsys.readouterr().out.splitlines()[-4:]]
    assert lines[0] == ["experiment", "seconds", "rows", "/"]
    assert [line[0] for line in lines[1:]] == ["example", "other", "total"]
    assert [line[2:] for line in lines[1:]] == [
        ["1", "0", "finished"],
        ["2", "1", "finished"],
        ["3", "1"],
    ]
    assert float(lines[3][1]) >= float(lines[2][1]) >= 0.0
    command.main(["example"])
    assert "total" not in capsys.readouterr().out


# ---------------------------------------------------------------- stopping


def test_ctrl_c_keeps_the_rows_and_says_how_to_go_on(experiment, capsys):
    def run(found):
        found.add({"method": "m", "mse": 2.0})
        raise KeyboardInterrupt

    command.main(["example"])
    experiment.another("stopped", run=run)
    experiment.another("never")
    assert command.main(["example", "stopped", "never"]) == 130
    said = capsys.readouterr()
    assert said.err == ""
    assert "stopped: 1 row in results/stopped.part.json, unfinished" in said.out
    assert "To run it again, from the start" in said.out
    assert ": python -m experiments stopped\n" in said.out
    assert "Not begun: never" in said.out
    assert "Run before: example" in said.out
    assert results.read("never") is None
    assert results.read("stopped") is None
    assert experiment.written == [1]  # of the first run alone


def test_ctrl_c_before_the_first_row(experiment, capsys):
    def run(found):
        raise KeyboardInterrupt

    experiment.module.run = run
    assert command.main(["example", "--full"]) == 130
    said = capsys.readouterr().out
    assert "example: no rows yet" in said
    assert "python -m experiments example --full" in said


STOPPED = """
import signal, sys, types
from pathlib import Path
import numpy as np
from experiments import __main__ as command
from experiments.harness import process, results
from experiments.harness.splits import Split

signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background ignores it
folder = Path(sys.argv[1])
results.ROOT, results.FOLDER, process.METHODS = folder, folder / "results", folder

def run(found):
    found.add({"method": "quick", "mse": 1.0})
    x = np.zeros((2, 1))
    part = Split("d", 0, x, x[:, 0], x, x[:, 0])
    found.add(process.run(process.Method("slow", "slow.py"), part, 600.0))

sys.modules["slow"] = types.SimpleNamespace(TITLE="Slow", run=run)
command.EXPERIMENTS.clear()
command.EXPERIMENTS["slow"] = "slow"
sys.exit(command.main(["slow"]))
"""
SLOW = """
import os, subprocess, sys, time
from pathlib import Path
child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
note = Path(__file__).with_name("pids.new")
note.write_text(f"{os.getpid()} {child.pid}")
note.replace(note.with_suffix(""))
time.sleep(600)
"""


def alive(pid):
    """Whether a process runs; one that has ended and waits to be fetched does not."""
    try:
        with open(f"/proc/{pid}/stat") as file:
            return file.read().rsplit(")", 1)[1].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


@pytest.mark.skipif(not os.path.exists("/proc/self/stat"), reason="looks at /proc")
@pytest.mark.parametrize("number, status", [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_signal_stops_the_methods_as_well(tmp_path, number, status):
    (tmp_path / "slow.py").write_text(SLOW)
    root = environments.ROOT
    path = os.pathsep.join([str(root), str(root / "src")])
    child = subprocess.Popen(
        [sys.executable, "-c", STOPPED, str(tmp_path)],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env=os.environ | {"PYTHONPATH": path},
    )
    try:
        until = time.monotonic() + 60.0
        while not (tmp_path / "pids").exists() and time.monotonic() < until:
            time.sleep(0.05)
        pids = [int(pid) for pid in (tmp_path / "pids").read_text().split()]
        assert all(map(alive, pids))
        child.send_signal(number)
        said, _ = child.communicate(timeout=60.0)
    finally:
        child.kill()
    assert child.returncode == status
    assert "Traceback" not in said
    assert "slow: 1 row in results/slow.part.json, unfinished" in said
    kept = json.loads((tmp_path / "results/slow.part.json").read_text())
    assert [row["method"] for row in kept["rows"]] == ["quick"]
    assert kept["record"]["finished"] is False
    while any(map(alive, pids)) and time.monotonic() < until:
        time.sleep(0.05)
    assert not any(map(alive, pids))


# ---------------------------------------------------------------- pages


def test_the_page_says_what_is_unfinished(folder, monkeypatch):
    monkeypatch.setattr(page, "EXPERIMENTS", {"figures12": "experiments.paper.figures12"})
    found = Results("figures12", "Figures 1 and 2")
    found.begin()
    found.add({"method": "Kuu", "n": 1})
    text = page.text("paper")
    assert "**Unfinished**: 1 row of a run" in text
    assert "make experiment-figures12" in text
    found.save()
    module = importlib.import_module("experiments.paper.figures12")
    monkeypatch.setattr(module, "table", lambda found: "the table\n")
    assert "Unfinished" not in page.text("paper")
    assert "the table" in page.text("paper")


# ---------------------------------------------------------------- comparing, by the command


def test_the_command_compares_with_earlier_results(experiment, capsys):
    command.main(["example"])
    old = experiment.folder / "old"
    shutil.copytree(experiment.folder / "results", old)
    assert command.main(["--compare", str(old)]) == 0
    assert "example: the same in 1 rows; no number differs" in capsys.readouterr().out
    experiment.module.score = 1.0 + 1e-8
    command.main(["example"])
    assert command.main(["--compare", str(old)]) == 0
    assert "largest relative difference 1.0e-08" in capsys.readouterr().out
    experiment.module.score = 2.0
    command.main(["example"])
    assert command.main(["--compare", str(old)]) == 1
    said = capsys.readouterr().out
    assert "example: 1 difference in 1 rows; largest relative difference 5.0e-01" in said
    assert "  row 0, m: mse 1.0 -> 2.0, relative 5.0e-01" in said


def test_comparing_leaves_no_experiment_out(experiment, capsys):
    old = experiment.folder / "old"
    old.mkdir()
    with pytest.raises(SystemExit):
        command.main(["--compare", str(old)])
    command.main(["example"])
    text = (experiment.folder / "results/example.json").read_text()
    (old / "example.json").write_text(text)
    (old / "gone.json").write_text(text)
    (old / "other.part.json").write_text("{")  # rows of a run that was stopped: not results
    assert command.main(["--compare", str(old)]) == 1
    assert "gone: not run now" in capsys.readouterr().out
    assert command.main(["--compare", str(old), "example"]) == 0
    (old / "example.json").write_text("[1]")
    assert command.main(["--compare", str(old), "example"]) == 1
    assert "is no results file" in capsys.readouterr().out
    (old / "example.json").write_text(text.replace('"full": false', '"full": true'))
    assert command.main(["--compare", str(old), "example"]) == 1
    assert "of different sizes" in capsys.readouterr().out


def test_an_unknown_experiment_is_refused(experiment, capsys):
    with pytest.raises(SystemExit):
        command.main(["table9"])
    assert "table9" in capsys.readouterr().err
