"""docs/paper.md and docs/benchmarks.md, from the results files."""

from __future__ import annotations

import importlib

from experiments.__main__ import EXPERIMENTS
from experiments.harness import results

DOCS = results.ROOT / "docs"


def write() -> None:
    """Write both pages from whatever results there are."""
    from experiments.peers.comparison import losses

    for file, package in (("paper.md", "paper"), ("benchmarks.md", "peers")):
        parts = [_INTRODUCTION[package]]
        found = [
            (importlib.import_module(module), known)
            for name, module in EXPERIMENTS.items()
            if f".{package}." in module and (known := results.read(name))
        ]
        if package == "peers":
            parts.append(losses([known for _, known in found]))
        for module, known in found:
            parts.append(f"## {module.TITLE}\n\n{module.table(known)}")
        if found:
            parts.append(_made(found[-1][1]))
        (DOCS / file).write_text("\n".join(parts))


def _made(known: results.Results) -> str:
    r = known.record
    versions = ", ".join(f"{k} {v}" for k, v in r["versions"].items() if v)
    return (
        "## How these figures were made\n\n"
        f"`make experiments` on {r['cores']} cores of an {r['processor']} with "
        f"{r['memory_gib']} GiB; Python {r['python']}, {versions}. The numbers are in "
        "`experiments/results`, one JSON file an experiment, with the seeds; this page is "
        "generated from them.\n"
    )


_INTRODUCTION = {
    "paper": """# The paper's experiments

Every table and figure of *Actually Sparse Variational Gaussian Processes* (Cunningham et al.,
2023), by one command each: `make experiment-table1` and so on, `make experiments` for all. The
paper's numbers stand beside ours.
""",
    "peers": """# Beside other packages

The same data, machine and run; every method in a process of its own, tuned as its documentation
advises (the scripts are in `experiments/methods`). Times begin after the imports and include
what a method compiles. `make peers` installs the peers, `make experiment-one_input` and
`make experiment-several_inputs` run them.
""",
}
