"""The record of a resolution that was trained, for any number of inputs."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Level:
    """Result of training on one resolution.

    Attributes
    ----------
    num_basis : int or tuple of int
        Number of basis functions of each component; with several inputs, along every input.
    spacing : float or tuple of float
        Distance between knots, along every input.
    elbo, upper_bound : float
        Bounds on the log evidence in nats; NaN for an upper bound that is not computed.
    missed_share : float
        Share of the prior variance at the data that the splines miss.
    """

    num_basis: int | tuple[int, ...]
    spacing: float | tuple[float, ...]
    elbo: float
    upper_bound: float
    missed_share: float
