"""The choice of a transform of y by the evidence.

The sums of all candidates are kept beside each other in the one pass over the data, as further
outputs: what depends on X alone is shared. Each is then trained on the coarsest resolution of its
schedule, and the one with the highest bound for y itself is fitted; training goes on from there.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from asvgp.data.response import Response
from asvgp.data.transforms import IDENTITY, Transform
from asvgp.sources.source import Chunk
from asvgp.structures.fit_data import FitData
from asvgp.training.problem import State

Train = Callable[[FitData], tuple[State, float]]
_AS_IT_IS = "y as it is: "


def possible_transforms(
    transforms: tuple[Transform, ...], block: Chunk
) -> tuple[tuple[Transform, ...], str]:
    """Return the transforms that the first rows allow, and why others are left out.

    Raise an error where the user has named one that is not possible.
    """
    if all(transform.identity or isinstance(transform, Response) for transform in transforms):
        return transforms, ""
    beside = None
    if block.width is not None:
        beside = "averages over intervals (width)", "an average of y is none of"
    elif block.noise_variance is not None:
        beside = "known noise variances (noise_variance)", "variances of y are none of"
    if beside is not None:
        what, but = beside
        if len(transforms) == 1:
            raise ValueError(
                f"The data came with {what}, and {but} {transforms[0]}: leave out the transform, "
                "or transform y, and what belongs to it, before."
            )
        return (IDENTITY,), f"{_AS_IT_IS}the data came with {what}"
    if len(transforms) > 1 and block.y is not None:
        y = np.ma.asarray(block.y)
        if y.dtype.kind in "fiub" and (below := int(np.ma.sum(y <= 0))):
            return (IDENTITY,), f"{_AS_IT_IS}{_values(below)} zero or negative"
    return transforms, ""


def chosen_transform(data: FitData, train: Train) -> tuple[FitData, State | None]:
    """Return the data with the transform of the highest bound, and what it was trained to.

    ``train`` returns the state and the objective that one transform reaches on coarse cells.
    """
    if len(data.transforms) == 1:
        return data, None
    found: dict[int, tuple[State, float]] = {}
    sums = data.stats.log_jacobian.reshape(len(data.transforms), -1)
    for number in range(len(data.transforms)):
        if np.all(np.isfinite(sums[number])):
            found[number] = train(data.chosen(number, ""))
    best = max(found, key=lambda number: found[number][1])
    others = [
        f"{found[number][1]:.6g} of {transform}" if number in found else f"no {transform}"
        for number, transform in enumerate(data.transforms)
        if number != best
    ]
    why = f"{data.transforms[best]}, chosen by the evidence: {found[best][1]:.6g} on coarse cells, "
    why += f"beside {', '.join(others)}"
    if len(found) == 1:
        why = f"{_AS_IT_IS}there are values that are zero or negative"
    return data.chosen(best, why), found[best][0]


def _values(count: int) -> str:
    return "one value is" if count == 1 else f"{count:,} values are"
