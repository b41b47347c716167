"""Run experiments: ``python -m experiments [NAMES] [--full]``.

python -m experiments                      all of them
python -m experiments table1 figure3       some
python -m experiments --page               only the pages of the documentation, anew
python -m experiments --figures            only the figures, from the results there are
python -m experiments --compare OLD        compare the results with an earlier folder of them

Ctrl-C keeps the rows there are, in experiments/results/NAME.part.json, to look at: a new run
begins from the start.
"""

from __future__ import annotations

import argparse
import importlib
import json
import math
import os
import signal
import sys
import time
import traceback
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path

from experiments.harness import results
from experiments.harness.compare import TOLERANCE, compare
from experiments.harness.datasets import Missing

EXPERIMENTS = {
    "figures12": "experiments.paper.figures12",
    "erratum": "experiments.paper.erratum",
    "table1": "experiments.paper.table1",
    "table2": "experiments.paper.table2",
    "figure3": "experiments.paper.figure3",
    "table3": "experiments.paper.table3",
    "figure4": "experiments.paper.figure4",
    "figure6": "experiments.paper.figure6",
    "one_input": "experiments.peers.one_input",
    "several_inputs": "experiments.peers.several_inputs",
    "forecasts": "experiments.forecasting.contest",
}
SHOWN = 20  # differences listed, of an experiment


def main(arguments: list[str] | None = None) -> int:
    """Do what was asked for; the exit status, 0 if all went well."""
    parser = argparse.ArgumentParser(prog="python -m experiments", description=__doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("names", nargs="*", metavar="NAME", default=[], help=", ".join(EXPERIMENTS))
    parser.add_argument(
        "--full",
        action="store_true",
        default=os.environ.get("FULL", "0") not in ("", "0"),
        help="full sizes, as FULL=1 does",
    )
    parser.add_argument("--page", action="store_true", help="only write the pages")
    parser.add_argument("--figures", action="store_true", help="only draw the figures")
    parser.add_argument(
        "--methods",
        nargs="+",
        default=[],
        metavar="WORD",
        help="of peers, run only methods with these words in their names; keep the other rows",
    )
    parser.add_argument("--compare", metavar="OLD", type=Path, help="folder of earlier results")
    asked = parser.parse_args(arguments)
    for name in asked.names:
        if name not in EXPERIMENTS:
            near = get_close_matches(name, EXPERIMENTS, 1)
            hint = (
                f": did you mean {near[0]!r}?" if near else f"; there are {', '.join(EXPERIMENTS)}"
            )
            parser.error(f"there is no experiment {name!r}{hint}")
    if asked.compare:
        olds = [p for p in sorted(asked.compare.glob("*.json")) if not p.match("*.part.json")]
        olds = [p for p in olds if not asked.names or p.stem in asked.names]
        if not olds:
            parser.error(f"no results (*.json) in {asked.compare}")
        return sum(not same(path, asked.full) for path in olds)
    if asked.figures:
        return draw(asked.names or list(EXPERIMENTS))
    names = [] if asked.page else asked.names or list(EXPERIMENTS)
    return run_all(names, asked.full, asked.methods)


def draw(names: Sequence[str]) -> int:
    """Draw the figures of experiments again, from the results that there are; the exit status."""
    for name in names:
        if known := results.read(name):
            with safe_colours():
                importlib.import_module(EXPERIMENTS[name]).figure(known)
    return 0


@contextmanager
def safe_colours() -> Iterator[None]:
    """Let C0, C1, ... be colours that everyone can tell apart (Okabe and Ito)."""
    import matplotlib
    from cycler import cycler

    colours = "#0072B2", "#E69F00", "#009E73", "#D55E00", "#CC79A7", "#56B4E9", "#000000"
    with matplotlib.rc_context({"axes.prop_cycle": cycler(color=colours)}):
        yield


# ---------------------------------------------------------------- running


@dataclass(frozen=True)
class Outcome:
    """How an experiment went: a line of the table at the end."""

    name: str
    state: str  # "finished", or why not
    seconds: float
    rows: int
    without: int  # rows without a result


def run_all(names: Sequence[str], full: bool, methods: Sequence[str] = ()) -> int:
    """Run experiments, one after the other, then write the pages; the number that failed.

    One that fails does not stop the others. Ctrl-C stops everything, and loses no row.
    """
    done: list[Outcome] = []
    try:
        with stoppable():
            for name in names:
                done.append(run(name, full, methods))
            failed = sum(outcome.state == "failed" for outcome in done)
            failed += not write_pages()
    except KeyboardInterrupt as stop:
        print(stopped([outcome.name for outcome in done], names, full), flush=True)
        return 128 + (stop.args[0] if stop.args else signal.SIGINT)  # as a shell has it
    if len(done) > 1:
        print(overview(done))
    return failed


@contextmanager
def stoppable() -> Iterator[None]:
    """Let the signals that end a program do what Ctrl-C does: no method is left running."""

    def stop(number: int, _: object) -> None:
        raise KeyboardInterrupt(number)

    signals = [signal.SIGTERM, signal.SIGHUP]
    signals = [each for each in signals if signal.getsignal(each) != signal.SIG_IGN]  # nohup
    before = {number: signal.signal(number, stop) for number in signals}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def run(name: str, full: bool, methods: Sequence[str] = ()) -> Outcome:
    """Run one: its results file, its table, its figures."""
    begin = time.perf_counter()
    found = results.Results(name, name, full)
    found.record |= {"again": list(methods)} if methods else {}
    state = "finished"
    try:
        module = importlib.import_module(EXPERIMENTS[name])
        found.title = module.TITLE
        print(f"{name}: {found.title}", flush=True)
        found.begin()
        if full:  # the pages show the results and pictures of the default sizes
            results.FIGURES = results.FOLDER / "full"
        module.run(found)
        path = found.save()
        path.with_suffix(".md").write_text(module.table(found))
        results.FIGURES.mkdir(parents=True, exist_ok=True)
        with safe_colours():
            module.figure(found)
    except Missing as error:
        found.add({"method": name, "dataset": "", "n": 0, "reason": str(error)})
        state = "data missing"  # said, and the rest runs
    except Exception:
        traceback.print_exc()
        state = "failed"
    seconds = time.perf_counter() - begin
    print(f"  {state} after {seconds:.1f} s; {kept(found)}", flush=True)
    return Outcome(name, state, seconds, len(found.rows), sum("reason" in r for r in found.rows))


def kept(found: results.Results) -> str:
    """How many rows, and where they are."""
    path = found.path if found.finished else found.part
    if not found.rows or not path.exists():
        return "no rows"
    number = f"{len(found.rows)} row{'s'[: len(found.rows) != 1]}"
    return f"{number} in {path.relative_to(results.ROOT)}"


def stopped(done: Sequence[str], names: Sequence[str], full: bool) -> str:
    """What to say after Ctrl-C: what is kept, and how to go on."""
    left = names[len(done) :]
    command = "python -m experiments"
    lines = ["", "Stopped."]
    if left:
        found = results.unfinished(left[0], full)
        rows = "no rows yet" if found is None else f"{kept(found)}, unfinished"
        lines.append(f"  {left[0]}: {rows}; results of an earlier run are as they were.")
        again = f"{command} {left[0]}{' --full' if full else ''}"
        lines.append(f"  To run it again, from the start (rows kept are to look at): {again}")
    if len(left) > 1:
        lines.append(f"  Not begun: {' '.join(left[1:])}")
    if done:
        lines.append(f"  Run before: {' '.join(done)}; for the pages: {command} --page")
    return "\n".join(lines)


def overview(done: Sequence[Outcome]) -> str:
    """A table of what was run, for the terminal."""
    total = Outcome(
        "total",
        "",
        sum(outcome.seconds for outcome in done),
        sum(outcome.rows for outcome in done),
        sum(outcome.without for outcome in done),
    )
    lines = [f"\n{'experiment':<16}{'seconds':>9}{'rows':>7}{'/':>6}"]
    for each in (*done, total):
        line = f"{each.name:<16}{each.seconds:>9.1f}{each.rows:>7}{each.without:>6}  {each.state}"
        lines.append(line.rstrip())
    return "\n".join(lines)


def write_pages() -> bool:
    """Write the pages of the documentation; whether it went well."""
    from experiments.page import write

    try:
        write()
    except Exception:
        traceback.print_exc()
        print("the pages could not be written; the results are")
        return False
    return True


# ---------------------------------------------------------------- comparing


def same(path: Path, full: bool) -> bool:
    """Whether an experiment has the numbers of an earlier results file; what differs is shown."""
    name, now = path.stem, results.read(path.stem, full)
    if now is None:
        print(f"{name}: not run now")
        return False
    try:
        old = results.Results(**json.loads(path.read_text()))
    except (ValueError, TypeError) as error:
        print(f"{name}: {path} is no results file ({error})")
        return False
    if old.full != now.full:
        print(f"{name}: they are of different sizes, one full and one not")
        return False
    found = compare(old, now)
    large = [each for each in found if each.size > TOLERANCE]
    sizes = [each.size for each in found if math.isfinite(each.size)]
    most = f"largest relative difference {max(sizes):.1e}" if sizes else "no number differs"
    verdict = "the same" if not large else f"{len(large)} difference{'s'[: len(large) != 1]}"
    print(f"{name}: {verdict} in {len(now.rows)} rows; {most}")
    for each in large[:SHOWN]:
        print(f"  {each}")
    if len(large) > SHOWN:
        print(f"  and {len(large) - SHOWN} more")
    return not large


if __name__ == "__main__":
    sys.exit(main())
