"""Pages of docs that are made from the results files alone, and a table of the README."""

from __future__ import annotations

import importlib
from collections.abc import Iterable, Sequence
from pathlib import Path
from types import ModuleType

from experiments.__main__ import EXPERIMENTS
from experiments.harness import results
from experiments.paper import erratum
from experiments.peers import growth, winners

DOCS = results.ROOT / "docs"
PAGES = {"paper.md": "paper", "benchmarks.md": "peers", "forecasting.md": "forecasting"}
Found = tuple[str, ModuleType, results.Results]


def write(folder: Path = DOCS) -> None:
    """Write the pages from whatever results there are, and the picture of growth with M."""
    for file, package in PAGES.items():
        (folder / file).write_text(text(package), encoding="utf-8")
    if series := results.read("table2"):  # as the section about it
        growth.draw(series, folder / "images" / "experiments")
    page = folder / "erratum.md"
    if page.is_file() and (known := results.read("erratum")):
        old = page.read_text(encoding="utf-8")
        page.write_text(erratum.on_the_page(old, known), encoding="utf-8")
    if peers := beside():
        (folder / "evidence.md").write_text(winners.page(peers), encoding="utf-8")
        readme = folder.parent / "README.md"
        if readme.is_file():
            old = readme.read_text(encoding="utf-8")
            readme.write_text(winners.in_readme(old, peers), encoding="utf-8")


def beside() -> list[results.Results]:
    """The results of this library beside its peers, as far as there are some."""
    return [known for name in ("one_input", "several_inputs") if (known := results.read(name))]


def text(package: str) -> str:
    """The page about the experiments of a package: "paper", "peers" or "forecasting"."""
    found: list[Found] = [
        (name, importlib.import_module(module), known)
        for name, module in EXPERIMENTS.items()
        if f".{package}." in module and (known := results.read(name))
    ]
    parts = [_INTRODUCTION[package]]
    if not found:
        parts.append("There are no results yet: `make experiments` writes them, and this page.")
    elif package == "peers":
        comparison = importlib.import_module("experiments.peers.comparison")
        parts.append(comparison.losses([known for _, _, known in found]))  # where we lose, first
    parts += [f"## {module.TITLE}\n\n{module.table(known)}" for _, module, known in found]
    parts += _only_begun(package)
    if found and package == "peers" and (series := results.read("table2")):
        parts.append(growth.section(series))
    if found:
        parts.append(_made(found))
    return "\n\n".join(part.strip("\n") for part in parts if part) + "\n"


def _only_begun(package: str) -> list[str]:
    """Experiments that have never been finished, of which there are some rows."""
    return [
        f"## {importlib.import_module(module).TITLE}\n\n**Unfinished**: {len(part.rows)} "
        f"row{'s'[: len(part.rows) != 1]} of a run that did not come to its end; "
        f"`make experiment-{name}` runs it again."
        for name, module in EXPERIMENTS.items()
        if f".{package}." in module
        and not results.read(name)
        and (part := results.unfinished(name))
    ]


def _made(found: Sequence[Found]) -> str:
    """Hardware, versions, seeds and times: what it takes to make the page again."""
    records = [known.record for _, _, known in found]
    machines = _each(
        f"{r['cores']} cores of an {r['processor']} with {r['memory_gib']} GiB, Python "
        f"{r['python']}, " + ", ".join(f"{k} {v}" for k, v in r["versions"].items() if v)
        for r in records
    )
    lines = [
        [
            f"`make experiment-{name}`",
            str(len(known.rows)),
            _seeds(known),
            results.seconds(known.record.get("total_seconds"))
            + (", of some methods" if known.record.get("again") else ""),
        ]
        for name, _, known in found
    ]
    total = sum(r.get("total_seconds", 0.0) for r in records)
    peers = _each(
        f"{name} {version}"
        for _, _, known in found
        for row in known.rows
        for name, version in row.get("versions", {}).items()
        if version and name not in records[0]["versions"]
    )
    return "\n\n".join(
        [
            "## How these figures were made",
            "On " + "; and on ".join(machines) + ".",
            *(["Other packages: " + ", ".join(sorted(peers)) + "."] if peers else []),
            results.table(["command", "rows", "seeds", "seconds"], lines).strip(),
            f"Together {_duration(total)}. Every row, its settings and its seed are in "
            "`experiments/results`, one JSON file per experiment; this page is generated from "
            "them. Two runs give the same numbers, times and memory aside: `python -m "
            "experiments --compare OLD` shows what differs from an earlier folder of results.",
        ]
    )


def _each(lines: Iterable[str]) -> list[str]:
    """Every line once, in order."""
    return list(dict.fromkeys(lines))


def _seeds(known: results.Results) -> str:
    seeds = sorted({row["seed"] for row in known.rows if "seed" in row})
    if not seeds:
        return "–"
    if len(seeds) > 1 and seeds == list(range(seeds[0], seeds[-1] + 1)):
        return f"{seeds[0]} to {seeds[-1]}"
    return ", ".join(str(seed) for seed in seeds)


def _duration(seconds: float) -> str:
    return f"{seconds:.0f} s" if seconds < 120.0 else f"{seconds / 60.0:.0f} minutes"


_INTRODUCTION = {
    "paper": """# The paper's experiments

Every table and figure of *Actually Sparse Variational Gaussian Processes* (Cunningham et al.,
2023), by one command each: `make experiment-table1` and so on, `make experiments` for all. The
paper's numbers stand beside ours, with a sentence on why they differ. Sizes are chosen so that
all of them together take less than an hour on two cores; `FULL=1` runs the paper's. A "/" is a
row without a result, and the reason is given. Every data set is also run with the library's
default settings, where no number is chosen by hand.
""",
    "peers": """# Comparison with other packages

All methods get the same rows. Each runs in a process of its own and is set up as its documentation
advises (the scripts are in `experiments/methods`), so that a row of the tables takes about a minute
at most.

Some things to know before you read the numbers:

- **Times** begin after the imports. They include what a method compiles, but not what Numba has
  stored on disk in an earlier run. Our first fit on a machine compiles for longer; that time is
  given below.
- **Splits.** In the last run, a method that takes less than 20 seconds for a row was run on three
  random splits of the data. Methods of earlier runs have one split, and the tables say so.
- **Choices.** The limits on the work of our default for several inputs were chosen with the first
  split in view. The other two splits were run only afterwards.
- **Several runs.** The tables hold rows of more than one run; each section says which.

`make peers` installs the other packages. `make experiment-one_input` and
`make experiment-several_inputs` run them. A
"/" is a row without a result, and the reason is given.
""",
    "forecasting": """# Forecasts of real series

Six series, each forecast from five origins in its last tenth (48 hours ahead from at most 1,008
hours of history; carbon dioxide 52 weeks ahead from all of it), and once for the last tenth of its
last year (of carbon dioxide: of the whole). Nothing after an origin is known to anybody. *asvgp,
defaults* is `GPRegressor(None).fit(time, y).forecast(...)`: it is told nothing about the series
but its times. *Written kernel* has the kernel that a person would write for it. The others are told
the seasons, and follow their documentation otherwise (the scripts are
`experiments/methods/*_forecasts.py`); Prophet finds the seasons itself. AutoARIMA gets the last
1,008 steps, because its time grows fast with them; statsforecast's methods get missing values
interpolated. mgcv is not part of this comparison.

The MASE is the mean absolute error divided by that of the seasonal naive forecast over the history;
the CRPS is that of the whole predictive distribution, from its quantiles, divided by the same. Of
the values to come, 80 and 95 in a hundred should lie inside the bands. Each method runs in a
process of its own, once on a few rows before its time is taken; it has two minutes for the origins
of a series, and a "/" is one without a result. Two things to know: the default kernel was designed
with these six series in view, none was kept aside for a last check; and the machine was doing other
work during this run, so that seconds are more than they would be on an idle one.
""",
}
