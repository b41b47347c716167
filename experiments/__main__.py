"""Run experiments: ``python -m experiments [NAMES] [--full]``.

python -m experiments                      all of them
python -m experiments table1 figure3       some
python -m experiments --page               only the pages of the documentation, anew
python -m experiments --compare OLD        compare the results with an earlier folder of them
"""

from __future__ import annotations

import argparse
import importlib
import os
import signal
import sys
import time
import traceback
from difflib import get_close_matches
from pathlib import Path

from experiments.harness import results
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
}


def main(arguments: list[str] | None = None) -> int:
    """Run what was asked for; the number of experiments that failed."""
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
        if not any(asked.compare.glob("*.json")):
            parser.error(f"no results (*.json) in {asked.compare}")
        return compare(asked.compare)
    for number in (signal.SIGTERM, signal.SIGHUP):  # so that no method is left running
        signal.signal(number, lambda *_: sys.exit(1))
    failed = 0
    for name in [] if asked.page else asked.names or EXPERIMENTS:
        failed += not run(name, asked.full)
    from experiments.page import write

    write()
    return failed


def run(name: str, full: bool) -> bool:
    """Run one: its results file, its table, its figures. Whether it went well."""
    module = importlib.import_module(EXPERIMENTS[name])
    print(f"{name}: {module.TITLE}", flush=True)
    begin = time.perf_counter()
    found = results.Results(name, module.TITLE, full)
    if full:  # the pages show the results and pictures of the default sizes
        results.FIGURES = results.FOLDER / "full"
    try:
        module.run(found)
        found.record["total_seconds"] = round(time.perf_counter() - begin, 1)
        path = found.save()
        path.with_suffix(".md").write_text(module.table(found))
        results.FIGURES.mkdir(parents=True, exist_ok=True)
        module.figure(found)
    except Missing as error:
        print(f"  / {error}")
        return True  # said, and the rest runs
    except Exception:
        traceback.print_exc()
        print(f"  {name} failed; the rest runs")
        return False
    print(f"  {found.record['total_seconds']} s, {path.relative_to(results.ROOT)}", flush=True)
    return True


def compare(old: Path) -> int:
    """How many experiments have other numbers than before."""
    import json

    differing = 0
    for path in sorted(old.glob("*.json")):
        now = results.read(path.stem)
        if now is None:
            print(f"{path.stem}: not run now")
            differing += 1
            continue
        lines = results.compare(results.Results(**json.loads(path.read_text())), now)
        print(f"{path.stem}: " + ("the same" if not lines else f"{len(lines)} differences"))
        for line in lines[:10]:
            print("  " + line)
        differing += bool(lines)
    return differing


if __name__ == "__main__":
    sys.exit(main())
