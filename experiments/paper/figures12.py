"""Figures 1 and 2: the sparse matrices, and the splines."""

from __future__ import annotations

import numpy as np

from experiments.harness import results
from experiments.harness.results import Results
from experiments.harness.scores import Array
from experiments.paper.erratum import design, gram

TITLE = "Figures 1 and 2: the sparse matrices and the splines"

CELLS, N, LENGTHSCALE = 22, 60, 0.2
DEGREES = 1, 2, 3


def matrices(cells: int, n: int, lengthscale: float) -> dict[str, Array]:
    """Kuu, Kuf and Kuf Kfu for Matérn-3/2 on [0, 1], observations in order."""
    x = np.sort(np.random.default_rng(0).uniform(0.0, 1.0, n))
    kfu = design(x, cells)
    kuu = gram("exact", lengthscale, cells)
    return {"Kuu": kuu, "Kuf": kfu.T, "Kuf Kfu": kfu.T @ kfu}


def run(found: Results) -> None:
    """Count what is not zero."""
    for name, matrix in matrices(CELLS, N, LENGTHSCALE).items():
        i, j = np.nonzero(matrix)
        row = {"method": name, "cells": CELLS, "n": N, "lengthscale": LENGTHSCALE}
        row |= {"rows": len(matrix), "columns": matrix.shape[1], "nonzeros": len(i)}
        if matrix.shape[0] == matrix.shape[1]:
            row["bandwidth"] = int(np.max(np.abs(i - j)))
        found.add(row)
    for degree in DEGREES:
        x = np.linspace(0.0, 1.0, 1001)
        values = design(x, 10, degree=degree)
        middle = values[:, values.shape[1] // 2] > 0.0
        overlaps = int(np.sum((values[middle] > 0.0).any(axis=0))) - 1
        row = {"method": f"splines of degree {degree}", "degree": degree, "cells": 10}
        found.add(row | {"functions": values.shape[1], "overlaps": overlaps})


def table(found: Results) -> str:
    """What is not zero, and the pictures."""
    lines = [
        [
            r["method"],
            f"{r['rows']} × {r['columns']}",
            f"{r['nonzeros']:,}",
            f"{r['nonzeros'] / (r['rows'] * r['columns']):.0%}",
            r.get("bandwidth", ""),
        ]
        for r in found.rows
        if "nonzeros" in r
    ]
    splines = [[r["degree"], r["overlaps"]] for r in found.rows if "overlaps" in r]
    return "\n".join(
        [
            results.table(["matrix", "size", "non-zeros", "share", "diagonals beside"], lines),
            "![The sparse matrices](images/experiments/figures12_matrices.png)\n",
            results.table(["degree", "others that a spline overlaps"], splines),
            "![B-splines of degree 1, 2, 3](images/experiments/figures12_splines.png)\n",
            "As in the paper, but for Kuu near its corners, which has the exact boundary terms: "
            "see the erratum below.\n",
        ]
    )


def figure(found: Results) -> None:
    """Both pictures, from the sizes in the rows."""
    from matplotlib.colors import TwoSlopeNorm
    from matplotlib.figure import Figure

    first = next(r for r in found.rows if "nonzeros" in r)
    picture = Figure(figsize=(10.0, 2.9), layout="compressed")
    shown = matrices(first["cells"], first["n"], first["lengthscale"])
    widths = [m.shape[1] / len(m) for m in shown.values()]
    axes = picture.subplots(1, 3, width_ratios=widths)
    for axis, (name, matrix) in zip(axes, shown.items(), strict=True):
        reach = float(np.abs(matrix).max())
        empty = np.ma.masked_equal(matrix, 0.0)
        axis.imshow(empty, cmap="RdBu_r", norm=TwoSlopeNorm(0.0, -reach, reach), aspect="equal")
        axis.set(title=name, ylabel="number of the function")
        axis.set_xlabel("number of the " + ("observation" if name == "Kuf" else "function"))
    picture.suptitle("white: zero; red: positive; blue: negative", fontsize="small")
    picture.savefig(results.FIGURES / "figures12_matrices.png", dpi=120)

    rows = [r for r in found.rows if "overlaps" in r]
    picture = Figure(figsize=(10.0, 2.6), layout="constrained")
    x = np.linspace(0.0, 1.0, 1001)
    axes = picture.subplots(1, len(rows), sharey=True)
    axes[0].set_ylabel("value of the spline")
    for axis, row in zip(axes, rows, strict=True):
        values = design(x, row["cells"], degree=row["degree"])
        for m, column in enumerate(values.T):
            middle = m == values.shape[1] // 2
            there = column > 0.0
            axis.plot(x[there], column[there], "C3" if middle else "C0", lw=2 if middle else 0.9)
        axis.set(title=f"degree {row['degree']}", xlabel="x")
        axis.set_xticks(np.linspace(0.0, 1.0, row["cells"] + 1), minor=True)
        axis.grid(which="minor", alpha=0.25)
    picture.savefig(results.FIGURES / "figures12_splines.png", dpi=120)
