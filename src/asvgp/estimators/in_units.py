"""Answers in the units of y, from a posterior on the scale of a transform of y.

Values at single places are the transform's own affair (`asvgp.data.transforms`). Here is what
takes more: integrals, whose moments are sums over places of the moments of y there, sample paths,
and leave-one-out predictions.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product
from typing import Any

import numpy as np

from asvgp.basis import Array
from asvgp.data.transforms import Transform
from asvgp.policies import TRANSFORM
from asvgp.posterior.leave_one_out import LeaveOneOut
from asvgp.posterior.posterior import LinePoints
from asvgp.structures.structure import Structure

_AT_ONCE = 1 << 18  # places


@dataclass(frozen=True)
class PathOfY:
    """A sample path in the units of y: ``path`` is that on the scale of the transform."""

    path: Any
    transform: Transform

    def __call__(self, *places) -> Array:
        """Return y at places, as ``path`` takes them."""
        return self.transform.inverse(np.asarray(self.path(*places)))


def left_out(found: LeaveOneOut, y: Array, transform: Transform) -> LeaveOneOut:
    """Return leave-one-out predictions of y, given those of the transformed and y itself.

    The standardised residuals stay those of the transform's scale, where they are normal.
    """
    if transform.identity:
        return found
    y = np.asarray(y, dtype=float).T
    mean, variance = transform.moments(found.mean, found.std**2)
    density = transform.log_density(y, found.log_density)
    return LeaveOneOut(mean, np.sqrt(variance), y - mean, found.z, density)


class Integrals:
    """Integrals, or averages, of y over boxes between two corners, by quadrature.

    The mean is the sum of the means of y at the nodes, the covariance that of its covariances;
    both are exact but for the quadrature. Every axis of a box has panels with Gauss-Legendre
    nodes, halved until the means settle.
    """

    def __init__(
        self,
        structure: Structure[Any],
        posterior: Any,
        transform: Transform,
        lower: Any,
        upper: Any,
        average: bool,
    ):
        layout = structure.layout
        if {*layout.linear} - {*layout.over}:
            raise ValueError(
                f"An integral of y depends on the columns with linear effects, as the model is of "
                f"{transform}: there is no leaving them out. Sum predictions over rows of X."
            )
        self.structure, self.posterior, self.transform = structure, posterior, transform
        self.low, self.high = np.broadcast_arrays(
            corner(structure, lower), corner(structure, upper)
        )
        self.volumes = np.ones(len(self.low))
        if not average:
            self.volumes = np.prod(self.high - self.low, axis=1)
        self.panels, self.mean = self._settled()

    @property
    def inputs(self) -> int:
        """Number of inputs."""
        return self.low.shape[1]

    def _settled(self) -> tuple[int, Array]:
        """Return the number of panels along every axis, and the means (outputs, boxes)."""
        panels, mean = 1, self._means(1)
        while (2 * panels * TRANSFORM.panel_nodes) ** self.inputs <= TRANSFORM.most_nodes:
            before, panels = mean, 2 * panels
            mean = self._means(panels)
            if np.all(np.abs(mean - before) <= TRANSFORM.settled_mean * np.abs(mean)):
                break
        return panels, mean

    def _means(self, panels: int) -> Array:
        nodes, weights = _rule(panels, self.inputs)
        step, parts = max(1, _AT_ONCE // len(weights)), []
        for begin in range(0, len(self.low), step):
            points = self._points(nodes, slice(begin, begin + step))
            mean, variance = self.structure.predict(self.posterior, points)
            y, _ = self.transform.moments(mean, np.broadcast_to(variance, mean.shape))
            parts.append(y.reshape(len(y), -1, len(weights)) @ weights)
        return self.volumes * np.concatenate(parts, axis=1)

    def variance(self, limit: float | None) -> Array:
        """Return the variances of the integrals, (outputs, boxes)."""
        boxes = [self._covariance(slice(i, i + 1), limit) for i in range(len(self.low))]
        return np.concatenate([box[:, 0] for box in boxes], axis=1)

    def covariance(self, limit: float | None) -> Array:
        """Return the covariances of the integrals, (outputs, boxes, boxes)."""
        return self._covariance(slice(None), limit)

    def _covariance(self, which: slice, limit: float | None) -> Array:
        boxes, panels = len(self.low[which]), self.panels
        least = boxes * TRANSFORM.panel_nodes**self.inputs
        if least > TRANSFORM.most_joint_nodes:
            raise ValueError(
                f"The covariance of {boxes} integrals of y needs that of y at {least:,} places, "
                f"and the limit is {TRANSFORM.most_joint_nodes:,}: ask for fewer at once, or for "
                "return_std."
            )
        while boxes * (panels * TRANSFORM.panel_nodes) ** self.inputs > TRANSFORM.most_joint_nodes:
            panels //= 2
        nodes, weights = _rule(panels, self.inputs)
        points = self._points(nodes, which)
        mean, _ = self.structure.predict(self.posterior, points, variance=False)
        latent = self.structure.covariance(self.posterior, points, limit=limit)
        scale = np.multiply.outer(self.volumes[which], weights)
        out = np.empty((len(mean), boxes, boxes))
        for number, centre in enumerate(mean):
            table = self.transform.covariance(centre, latent)
            table = table.reshape(boxes, len(weights), boxes, len(weights))
            out[number] = np.einsum("ia,iajb,jb->ij", scale, table, scale, optimize=True)
        return out

    def _points(self, nodes: Array, which: slice) -> Any:
        """Return the nodes of some boxes as points, box by box."""
        low, high = self.low[which, None], self.high[which, None]
        places = (low + nodes * (high - low)).reshape(-1, self.inputs)
        columns = dict(zip(self.structure.layout.over, places.T.copy(), strict=True))
        return self.structure.points_at(columns)


def corner(structure: Structure[Any], places: Any) -> Array:
    """Return corners as numbers, (boxes, inputs)."""
    if isinstance(places, LinePoints):
        return np.asarray(places.x, dtype=float)[:, None]
    layout, table = structure.layout, np.column_stack([places.main, places.smooths])
    return table[:, [layout.used.index(column) for column in layout.over]]


def _rule(panels: int, inputs: int) -> tuple[Array, Array]:
    """Return the nodes (n, inputs) in the unit box, and weights that add up to one."""
    nodes, weights = np.polynomial.legendre.leggauss(TRANSFORM.panel_nodes)
    along = ((np.arange(panels)[:, None] + 0.5 * (1.0 + nodes)) / panels).ravel()
    each = np.tile(0.5 * weights / panels, panels)
    return (
        np.array(list(product(along, repeat=inputs))),
        np.prod(list(product(each, repeat=inputs)), axis=1),
    )
