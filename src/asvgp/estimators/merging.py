"""Checks that the data of two models can be added."""

from __future__ import annotations

from asvgp.kernels import Kernel
from asvgp.structures.fit_data import FitData


def check_same_choice(mine: Kernel, theirs: Kernel) -> None:
    """Check that the same kernel was chosen from the data of two models."""
    if mine != theirs:
        raise ValueError(
            f"The kernels of the models were chosen from their data, and differ: {mine!r} and "
            f"{theirs!r}. Give both models the same kernel, or add the data of the second to the "
            "first with partial_fit."
        )


def check_mergeable(mine: FitData, theirs: FitData) -> None:
    """Check that the statistics of two models mean the same, so that they add."""
    if (mine.known_noise, mine.scaled) != (theirs.known_noise, theirs.scaled):
        raise ValueError(
            "The noise variances of observations were given to one of the models, and not, or "
            "with another noise_scale, to the other: their statistics do not add."
        )
    if mine.structure.columns != theirs.structure.columns:
        raise ValueError(
            "The models use different columns of X: "
            f"{mine.layout.given!r} and {theirs.layout.given!r}."
        )
    if mine.transforms != theirs.transforms:
        first, second = (" or ".join(map(str, data.transforms)) for data in (mine, theirs))
        raise ValueError(
            f"One of the models is of {first} and the other of {second}: their statistics do not "
            "add. Give both the same transform."
        )
    for one, other in zip(mine.structure.axes, theirs.structure.axes, strict=True):
        if one == other:
            continue
        if one is None or other is None:
            raise ValueError("One of the models is of times and the other of numbers.")
        if one.tz != other.tz:
            raise ValueError(
                f"The models' times are in different zones, {one.tz} and {other.tz}. Bring the "
                "data to one of them."
            )
        raise ValueError(
            f"The models count time from different origins, {one.origin} and {other.origin}: the "
            "first times they saw. Fit the second with partial_fit on the first instead."
        )
