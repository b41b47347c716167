"""The record of a resolution that was trained, for any number of inputs."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Level:
    """Result of training on one resolution, with bounds on the log evidence in nats."""

    num_basis: int | tuple[int, ...]  # functions of each component; or along every input
    spacing: float | tuple[float, ...]  # distance between knots, along every input
    elbo: float
    upper_bound: float  # NaN where it is not computed
    missed_share: float  # of the prior variance at the data, by the splines
