"""Table 1: one-dimensional regression on four data sets."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

from experiments.harness import datasets, process, results
from experiments.harness.process import Method
from experiments.harness.results import Results
from experiments.harness.scores import Array, scores
from experiments.harness.splits import split

TITLE = "Table 1: one-dimensional regression"

SPLITS = 5
READING_SPLITS = 20  # cheap, and five are too few to tell readings apart
# SGPR's by default: it goes through all rows at every step, half a minute to minutes a fit
SGPR_SPLITS = {"air quality": 1, "synthetic": 3, "pressure": 0, "traffic": 1}
PAPERS = {"kernel": "matern32", "degree": 2}  # the library's default degree is higher
NUM_BASIS = {"air quality": 500, "synthetic": 50, "pressure": 700, "traffic": 300}


class Printed(NamedTuple):
    """The paper's cell: MSE in tenths, its ±, NLPD (whose ± is 0.00 throughout)."""

    mse: float
    spread: float
    nlpd: float


PAPER = {
    ("air quality", "SGPR"): Printed(6.43, 0.04, 1.24),
    ("air quality", "VFF"): Printed(6.64, 0.04, 1.25),
    ("air quality", "AS-VGP"): Printed(6.68, 0.04, 1.25),
    ("synthetic", "SGPR"): Printed(0.40, 0.00, -0.16),
    ("synthetic", "VFF"): Printed(0.39, 0.00, -0.15),
    ("synthetic", "AS-VGP"): Printed(0.39, 0.00, -0.15),
    ("pressure", "SGPR"): Printed(0.48, 0.00, 0.10),
    ("pressure", "VFF"): Printed(0.83, 0.00, 0.25),
    ("pressure", "AS-VGP"): Printed(0.84, 0.00, 0.29),
    ("traffic", "SGPR"): Printed(9.96, 0.01, 1.42),
    ("traffic", "VFF"): Printed(10.01, 0.01, 1.42),
    ("traffic", "AS-VGP"): Printed(10.02, 0.01, 1.42),
}
OURS, DEFAULT = "AS-VGP", "asvgp, defaults"


def methods(name: str, full: bool) -> list[tuple[Method, int]]:
    """Methods for a data set, and on how many splits each runs."""
    m = NUM_BASIS[name]
    # VFF's domain must be wider than the data by a few lengthscales, and a wider one needs
    # more frequencies: lengthscales here are hundredths of the range, but for the synthetic.
    margin = 0.2 if name == "synthetic" else 0.02
    sgpr = {"model": "sgpr", "num_inducing": m, "kernel": "matern32", "lengthscale": 0.02}
    sgpr["train_inducing"] = full
    splits = SPLITS if full else SGPR_SPLITS[name]
    return [
        (Method("SGPR", "gpflow_models.py", "gpflow", sgpr), splits),
        (Method("VFF", "vff_models.py", "asvgp", {"features": m, "margin": margin}), SPLITS),
        (Method(OURS, "asvgp_models.py", "asvgp", PAPERS | {"num_basis": m}), SPLITS),
        (Method(DEFAULT, "asvgp_models.py"), SPLITS),
    ]


def run(found: Results) -> None:
    """All methods on all data sets, then what could explain Air Quality's row."""
    limit = 3600.0 if found.full else 240.0
    for name in NUM_BASIS:
        try:
            data = datasets.load(name)
        except datasets.Missing as error:
            for method, _ in methods(name, found.full):
                row = {"method": method.label, "dataset": name, "n": 0, "reason": str(error)}
                found.add(row)
            continue
        for method, number in methods(name, found.full):
            if number == 0:
                row = {"method": method.label, "dataset": name, "n": len(data.y)}
                found.add(row | {"reason": "minutes per fit: FULL=1 runs it"})
            for seed in range(number):
                row = process.run(method, split(data, seed), limit)
                found.add(row)
                if "reason" in row:
                    break  # the other splits would say the same
    try:
        raw = datasets.arrays("air_quality", "UCI 360")
    except datasets.Missing:
        return
    for label, x, y, m in variants(raw):
        found.add(variant(label, x, y, m))


# --- what could explain Air Quality's row ------------------------------------------------


def variants(raw: dict[str, np.ndarray]) -> Iterator[tuple[str, Array, Array, int]]:
    """Readings of "Air Quality, M = 500": other gaps, counts and targets."""
    m = NUM_BASIS["air quality"]
    hour = raw["hour"].astype(float)
    y = raw["c6h6_gt"].astype(float)
    there = y != -200.0
    x, values = hour[there], y[there]
    yield "gaps left out (as above)", x, values, m
    yield "500 knots, so 502 functions", x, values, m + 2
    yield "rows counted, not hours", np.arange(len(x), dtype=float), values, m
    before = np.maximum.accumulate(np.where(there, np.arange(len(y)), 0))
    yield "gaps filled with the value before", hour, y[before], m
    yield "gaps filled by straight lines", hour, np.interp(hour, x, values), m
    yield "gaps filled with the mean", hour, np.where(there, y, values.mean()), m
    yield "gaps kept as −200", hour, y, m
    for column in sorted(set(raw) - {"hour", "c6h6_gt"}):
        other = raw[column].astype(float)
        known = other != -200.0
        yield f"target {column}", hour[known], other[known], m


def variant(label: str, x: Array, y: Array, num_basis: int) -> results.Row:
    """Mean scores over the splits, by the library in this process."""
    from asvgp import GPRegressor, Matern32

    data = datasets.Dataset("air quality", x[:, None], y, ("hour",), label)
    settings: dict[str, Any] = {"num_basis": num_basis, "degree": 2, "progress": False}
    rows = []
    for seed in range(READING_SPLITS):
        part = split(data, seed)
        gp = GPRegressor(Matern32(), **settings).fit(part.x, part.y)
        mean, std = gp.predict(part.x_test, return_std=True, include_noise=True)
        rows.append(scores(part.y_test, mean, std))
    found = {"method": "reading", "dataset": "air quality", "reading": label, "n": len(y)}
    for key in ("mse", "nlpd"):
        values = np.array([row[key] for row in rows], dtype=float)
        found |= {key: float(values.mean()), f"{key}_std": float(values.std(ddof=1))}
    return found


# --- the page ----------------------------------------------------------------------------


def table(found: Results) -> str:
    """Ours beside the paper's, the verdicts, the readings of Air Quality."""
    lines = []
    for name, m in NUM_BASIS.items():
        for label in ("SGPR", "VFF", OURS, DEFAULT):
            rows = found.where(dataset=name, method=label)
            good = [r for r in rows if "reason" not in r]
            printed = PAPER.get((name, label))
            size = m if label != DEFAULT else _chosen(good)
            lines.append(
                [
                    f"{name}{'*' if name == 'pressure' else ''}",
                    label,
                    size,
                    len(good),
                    results.summarise([r | {"mse": 10 * r["mse"]} for r in good], "mse", 2),
                    f"{printed.mse:.2f} ± {printed.spread:.2f}" if printed else "",
                    results.summarise(good, "nlpd", 2),
                    f"{printed.nlpd:.2f}" if printed else "",
                    results.seconds(_median(good)),
                ]
            )
    head = ["data", "method", "M", "splits", "MSE (×10⁻¹)", "paper", "NLPD", "paper", "fit, s"]
    parts = [results.table(head, lines), _NOTES]
    parts += [f"/ {reason}\n" for reason in results.reasons(found.rows)]
    parts.append("![Scores beside the paper's](images/experiments/table1.png)\n")
    parts += [_verdicts(found), _readings(found)]
    return "\n".join(parts)


_NOTES = """\\* A stand-in: the paper does not say what its Rainfall data are. Air pressure in
Beijing is as long (43,824 hours) and as smooth; its digits are not the paper's.

SGPR is GPflow's, trained by L-BFGS until it converges. By default it gets fewer splits, where it
is slow, and its inducing inputs stay at quantiles of the data; `FULL=1` gives it all splits and
trains them too. Trained ones would go where the data are rough, which may be why the paper's
SGPR has lower errors on Air Quality and Rainfall. VFF's domain is 2 per cent wider than the data at
either end (synthetic: 20); it runs on one thread. The defaults choose the number of functions
themselves: M is the median over the splits.

Traffic lists 7,629 of its 48,204 hours again, with the same count: many rows held out have a copy
among those to train on. With few functions that hardly matters; with as many as the defaults take,
it does, and their MSE on Traffic must not be read as an error of prediction. Beyond that, the
difference between the defaults and the other rows is that of many thousand functions against a few
hundred, not of methods.
"""


def _verdicts(found: Results) -> str:
    """One sentence for each data set of the paper: where ours lies."""
    words = []
    for name in ("air quality", "synthetic", "traffic"):
        good = [r for r in found.where(dataset=name, method=OURS) if "mse" in r]
        if not good:
            continue
        printed = PAPER[name, OURS]
        mse = 10 * float(np.mean([r["mse"] for r in good]))
        nlpd = float(np.mean([r["nlpd"] for r in good]))
        # In the units of the column, and never finer than its last digit
        reach = max(printed.spread, 0.005)
        wide = _place(mse - printed.mse, 10 * reach)
        words.append(
            f"{name}: MSE {_place(mse - printed.mse, reach)}, "
            f"NLPD {_place(nlpd - printed.nlpd, 0.005)}"
            + ("" if wide == _place(mse - printed.mse, reach) else f" (wide bars: MSE {wide})")
        )
    spreads = [r["mse"] for r in found.where(dataset="traffic", method=OURS) if "mse" in r]
    scale = (
        f" On Traffic the spread of ours is {10 * np.std(spreads, ddof=1):.2f} as the table counts."
        if len(spreads) > 1
        else ""
    )
    return (
        f"**AS-VGP beside the paper's.** {'; '.join(words) or 'No result yet'}. The *wide bars* "
        "are a conjecture of ours, that the paper's ± is one of the MSE itself and not of its "
        "tenths: with 900 test rows even Gaussian errors scatter the MSE by √(2/900) = 4.7 per "
        f"cent from split to split, and 0.04 of 6.68 would be 0.6 per cent.{scale} Our five "
        "splits of Air Quality are lucky ones: over twenty (below) both scores are worse.\n"
    )


def _place(difference: float, reach: float) -> str:
    if difference < -reach:
        return f"better by {-difference:.2f}"
    if difference <= reach:
        return "inside the paper's error bars"
    return f"outside the paper's error bars by {difference - reach:.2f}"


def _readings(found: Results) -> str:
    rows = found.where(method="reading")
    if not rows:
        return ""
    lines = [
        [
            r["reading"],
            f"{r['n']:,}",
            f"{10 * r['mse']:.2f} ± {10 * r['mse_std']:.2f}",
            f"{r['nlpd']:.3f} ± {r['nlpd_std']:.3f}",
        ]
        for r in rows
    ]
    text = """### Which Air Quality?

The paper names neither the target nor what was done about missing values. AS-VGP, 500 functions,
twenty splits, for every reading of it that we could think of (paper: 6.68 and 1.25):

"""
    printed = PAPER["air quality", OURS]
    low, high = printed.mse - 10 * printed.spread, printed.mse + 10 * printed.spread
    inside = [r["reading"] for r in rows if low <= 10 * r["mse"] <= high]
    after = (
        f"\nMSE inside the paper's error bars ({low:.2f} to {high:.2f}): "
        f"{'; '.join(inside) or 'none'}. The count of M and of the rows does not matter. Rows "
        "filled in lie on their neighbours' line and are easy to predict, which lowers the MSE. "
        f"With {len(rows)} readings tried, that some agree is no proof that one of them is the "
        "paper's: compare their NLPD as well. The row of the table above, benzene with its gaps "
        "left out, was chosen before and is kept.\n"
    )
    head = ["reading", "N", "MSE (×10⁻¹)", "NLPD"]
    return text + results.table(head, lines) + after


def _chosen(rows: list[results.Row]) -> str:
    sizes = [r["info"]["num_basis"] for r in rows if "info" in r]
    return f"{int(np.median(sizes)):,}" if sizes else "/"


def _median(rows: list[results.Row]) -> float | None:
    times = [r["fit_seconds"] for r in rows]
    return float(np.median(times)) if times else None


def figure(found: Results) -> None:
    """MSE and NLPD of all methods, filled: ours; hollow: the paper's."""
    from matplotlib.figure import Figure
    from matplotlib.lines import Line2D

    picture = Figure(figsize=(9.0, 3.6), layout="constrained")
    axes = picture.subplots(1, 2)
    labels, markers = ["SGPR", "VFF", OURS, DEFAULT], "s^oD"
    for axis, key, factor in zip(axes, ("mse", "nlpd"), (10.0, 1.0), strict=True):
        for i, label in enumerate(labels):
            for j, name in enumerate(NUM_BASIS):
                at = j + 0.18 * (i - 1.5)
                printed = PAPER.get((name, label))
                if printed:
                    value = printed.mse if key == "mse" else printed.nlpd
                    style = {"mfc": "none", "color": f"C{i}", "ms": 12, "zorder": 3}
                    axis.plot(at, value, markers[i], **style)
                values = [
                    factor * r[key] for r in found.where(dataset=name, method=label) if key in r
                ]
                if values:
                    spread = np.std(values, ddof=1) if len(values) > 1 else 0.0
                    mean, style = np.mean(values), {"fmt": markers[i], "ms": 5.5, "capsize": 3}
                    axis.errorbar(at, mean, spread, color=f"C{i}", **style)
        names = ["pressure\n(paper: rainfall)" if n == "pressure" else n for n in NUM_BASIS]
        axis.set_xticks(range(len(NUM_BASIS)), names)
        axis.set_ylabel("MSE (×10⁻¹)" if key == "mse" else "NLPD")
        axis.grid(axis="y", alpha=0.3)
    axes[0].set_yscale("log")
    marks = [Line2D([], [], ls="", marker=m, color=f"C{i}") for i, m in enumerate(markers)]
    title = "filled: ours, hollow: the paper's"
    axes[0].legend(marks, labels, frameon=False, title=title, fontsize="small")
    picture.savefig(results.FIGURES / "table1.png", dpi=120)
