"""Rows of data as a likelihood that is not Gaussian sees them."""

from __future__ import annotations

from math import log
from typing import Any, NamedTuple

import numpy as np

from asvgp.basis import Array
from asvgp.likelihoods.family import BadRows, Family, weighted_mean
from asvgp.policies import SITES
from asvgp.structures.structure import Points, Structure

# for messages
ONE_READ = (
    "Poisson, binomial and logistic models, gamma and exponential ones, and negative binomial and "
    "Weibull ones of known dispersion or shape, without linear effects or smooths of further "
    "columns, need one read only"
)


_LEAST_WEIGHT = 1e-3  # of sites to begin with, relative to the mean weight


class Observed(NamedTuple):
    """Rows with targets, all of them known, and what belongs to them."""

    points: Points
    y: Array
    extra: Array | None = None  # trials of a binomial likelihood, or events of a survival time
    weight: Array | None = None  # how often a row is there
    offset: Array | None = None  # what is added to f


class Beside(NamedTuple):
    """What may come with rows beside weights: one number for all rows, or one for each."""

    exposure: Any = None
    offset: Any = None
    event: Any = None
    trials: Any = None

    def refuse(self) -> None:
        """Raise an error where Gaussian observations came with any of these."""
        for name, value in self._asdict().items():
            if value is not None:
                raise ValueError(
                    f"{name} is for likelihoods that are not Gaussian, such as "
                    "likelihood=Poisson()."
                )

    def read(self, family: Family, rows: int) -> tuple[Array | None, Array | None]:
        """Return what the family takes beside y, and the offset, one for each row or None.

        An exposure is an offset of its logarithm.
        """
        for name in ("exposure", "event", "trials"):
            if getattr(self, name) is not None and name not in family.takes:
                raise ValueError(
                    f"{name} has no meaning for {family!r}"
                    + (f", which takes {_listed(family.takes)}." if family.takes else ".")
                )
        offset = _column(self.offset, "offset", rows)
        if self.exposure is not None:
            exposure = _column(self.exposure, "exposure", rows)
            assert exposure is not None
            if np.any(bad := ~(exposure > 0.0)):
                raise BadRows.of("exposure must contain positive numbers", exposure, bad)
            logs = np.log(exposure)
            offset = logs if offset is None else offset + logs
        if offset is not None and family.inverse_link == "exp":
            most = log(SITES.extreme_units)
            if np.any(bad := np.abs(offset) > most):
                problem = "offset, or the logarithm of exposure, must contain numbers between"
                ends = f"-{most:.0f} and {most:.0f} (choose another unit)"
                raise BadRows.of(f"{problem} {ends}", offset, bad)
        name = "trials" if "trials" in family.takes else "event"
        extra = _column(getattr(self, name), name, rows)
        if name == "trials" and extra is None and "trials" in family.takes:
            extra = np.ones(rows)
        return extra, offset


NOTHING = Beside()


def _column(given: Any, name: str, rows: int) -> Array | None:
    """Return finite numbers, one for each row; None where there are none."""
    if given is None:
        return None
    try:
        values = np.asarray(given, dtype=float)
    except (TypeError, ValueError):
        raise TypeError(f"{name} must hold numbers, got {given!r:.60}.") from None
    if values.shape not in ((), (rows,)):
        raise ValueError(
            f"{name} has shape {values.shape}, but X has {rows} rows: it must be one number, or "
            f"one per row, ({rows},)."
        )
    values = np.ascontiguousarray(np.broadcast_to(values, (rows,)))
    if np.any(bad := ~np.isfinite(values)):
        raise BadRows.of(f"{name} must contain finite numbers", values, bad)
    return values


def _listed(names) -> str:
    return " and ".join(sorted(names))


def positive_sites(family: Family, rows: Observed, f: Array) -> tuple[Array, Array]:
    """Return slopes and weights at f, all of them positive, to begin with."""
    g, w = family.working(rows.y, rows.extra, f if rows.offset is None else f + rows.offset)
    typical = weighted_mean(np.abs(w), rows.weight) if len(w) else 1.0
    return g, np.maximum(w, _LEAST_WEIGHT * typical)


def working_response(family: Family, rows: Observed) -> tuple[Array, Array]:
    """Return pseudo-observations at what every row suggests by itself, and their weights."""
    f = family.start(rows.y, rows.extra, rows.weight, rows.offset)
    g, w = positive_sites(family, rows, f)
    return f + g / w, w if rows.weight is None else w * rows.weight


def sums_suffice(family: Family, structure: Structure[Any], offset: Array | None) -> bool:
    """Return True where sums per cell are all that training needs: the rows are read once.

    They are if the family allows it and f depends on nothing but the inputs that cells are of.
    """
    layout = structure.layout
    beside = {*structure.effect_columns} - {None, *layout.inputs}
    whole = len(layout.used) == len(layout.inputs)
    fits = offset is None or family.offset_in_one_read
    return bool(family.one_read and whole and not beside and fits)
