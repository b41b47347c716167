"""Old forms of the parts of a model file, and how they are read.

A part of a file is the name of a class with the values of its fields. Where a class has changed
since a file was written, the function under its old name turns the old fields into the name of
today's class and its fields. Fields that were only added need none: they have their defaults.

=============== ======= =======================================================================
old class       formats difference
=============== ======= =======================================================================
Statistics      1       of one input: ``grid``, ``degree``, ``columns`` and ``products``
FieldStatistics 1       of several inputs; the class is now `Statistics`
Seen            1       now `FitData`; statistics of several inputs had no convention
FitData         all     weights were inverse relative noise variances: they stay what they were
Line            1       it had one ``axis``, now a tuple of ``axes``
Posterior       1       of one input; the class is now `ChainPosterior`
FieldPosterior  1       of several inputs; the class is now `GridPosterior`
=============== ======= =======================================================================

``PointStatistics`` is a second form of today's `Statistics`: see `asvgp.statistics.points`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from asvgp.statistics import Statistics
from asvgp.statistics.points import from_points

Parts = dict[str, Any]


def _one_input(parts: Parts) -> tuple[str, Parts]:
    """Convert statistics of one input, whose columns came before the cells."""
    if "grid" not in parts:  # written in today's form
        return "Statistics", parts
    new = dict(parts)
    grid, degree, targets = new.pop("grid"), new.pop("degree"), new["targets"]
    outputs = len(new["squares"])
    columns, products = new.pop("columns", np.empty(0)), new.pop("products", np.empty(0))
    if not len(columns):
        columns, products = np.empty((0, *targets.shape[1:])), np.empty((outputs, 0))
    new |= {
        "grids": (grid,),
        "degrees": (degree,),
        "smooths": (),
        "linear": len(columns),
        "cross": np.ascontiguousarray(np.moveaxis(columns, 0, -1)),
        "column_gram": products[outputs:],
        "column_targets": products[:outputs],
    }
    return "Statistics", new


def _data_read(parts: Parts) -> tuple[str, Parts]:
    """Add the convention of the weights and times, which follows from the other parts."""
    stats = parts.get("stats")
    if isinstance(stats, Statistics) and not stats.convention:
        convention = parts["structure"].convention("known" if parts["known_noise"] else "ratios")
        parts = parts | {"stats": replace(stats, convention=convention)}
    return _unweighted(parts)


def _unweighted(parts: Parts) -> tuple[str, Parts]:
    """Let weights that are all one count observations: before 0.2 they were inverse variances."""
    stats = parts.get("stats")
    if not isinstance(stats, Statistics) or parts["known_noise"] or stats.counted:
        return "FitData", parts
    if stats.convention == parts["structure"].convention("measures"):
        return "FitData", parts
    if stats.log_weights == 0.0 and stats.weight == stats.count:
        convention = parts["structure"].convention("same")
        parts = parts | {"stats": replace(stats, convention=convention)}
    return "FitData", parts


def _line(parts: Parts) -> tuple[str, Parts]:
    """Convert the structure of one input, which had a single time axis."""
    if "axis" in parts:
        parts = {"layout": parts["layout"], "axes": (parts["axis"],)}
    return "Line", parts


MIGRATIONS: dict[str, Callable[[Parts], tuple[str, Parts]]] = {
    "Statistics": _one_input,
    "PointStatistics": lambda parts: ("Statistics", from_points(parts)),
    "FieldStatistics": lambda parts: ("Statistics", parts),
    "Seen": _data_read,
    "FitData": _unweighted,
    "Line": _line,
    "Posterior": lambda parts: ("ChainPosterior", parts),
    "FieldPosterior": lambda parts: ("GridPosterior", parts),
}
