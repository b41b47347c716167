"""The share of a joint kernel's variance that splines miss on equal cells without end.

On such cells K and the products of functions are diagonal in the frequencies of the coefficients,
and the share is a mean of the ratios of their eigenvalues: no matrix is needed. It is the share
amid the data; at their edges more may be missed.
"""

from __future__ import annotations

from functools import lru_cache, reduce
from math import ceil, pi, sqrt

import numpy as np

from asvgp.basis import Array, bspline_coefficients, operator_gram
from asvgp.kernels import AlongJoint, JointMatern


def missed_share(process: AlongJoint, decay: float, degree: int) -> float:
    """Return the share that is missed where all inputs have as many cells per decay length.

    ``decay`` is the decay length in cells.

    Examples
    --------
    >>> from asvgp import Matern
    >>> along = Matern(1, 1.0, dim=(0, 1)).along[0]
    >>> [float(f"{missed_share(along, decay, 3):.2g}") for decay in (2.0, 4.0, 8.0)]
    [0.024, 0.0061, 0.0016]
    """
    inputs, length = process.inputs, decay * sqrt(2.0 * process.nu)
    joint = JointMatern(nu=process.nu, lengthscale=length, dim=tuple(range(inputs)))
    return missed_shares(joint, (1.0,) * inputs, (degree,) * inputs)[0]


@lru_cache(maxsize=1024)
def missed_shares(
    process: JointMatern, spacings: tuple[float, ...], degrees: tuple[int, ...]
) -> tuple[float, Array]:
    """Return the share that is missed on cells of some widths, and its derivatives.

    Derivatives are by the logarithms of all parameters but the variance.
    """
    coefficients, slopes = process.stencil(spacings)
    turned = process.rotation is not None
    mass, mean, tables = [], [], []
    for along, spacing, degree in zip(process.along, spacings, degrees, strict=True):
        omega, weights = _frequencies(along.decay / spacing, degree, process.inputs, turned)
        tables.append(_symbols(process.alpha, degree, omega, turned))
        mass.append(np.real(tables[-1][0]))
        mean.append(weights)
    weights = reduce(np.multiply.outer, mean) * reduce(np.multiply.outer, mass)

    def symbol(of: Array) -> Array:
        for table in tables:
            of = np.tensordot(of, table, axes=(0, 0))
        return np.real(of)

    value = symbol(coefficients)
    share = max(1.0 - float(np.sum(weights / value)), 0.0)
    weights = weights / value**2
    return share, np.array([float(np.sum(weights * symbol(slope))) for slope in slopes])


def _frequencies(decay: float, degree: int, inputs: int, turned: bool) -> tuple[Array, Array]:
    """Return frequencies, denser where they are low, and weights that sum up to one.

    The process has most of its variance at low ones. Without a rotation the positive ones do.
    """
    count = 2 * ceil(8.0 * max(decay, 1.0) + 4 * degree)
    nodes, weights = np.polynomial.legendre.leggauss(min(count, 96 if inputs == 2 else 40))
    t = 0.5 * (nodes + 1.0)
    omega, weights = pi * t**2, weights * t
    if turned:
        return np.concatenate([-omega, omega]), 0.5 * np.concatenate([weights, weights])
    return omega, weights


def _symbols(alpha: int, degree: int, omega: Array, turned: bool) -> Array:
    """Return the tables of K along an input at frequencies, (powers, frequencies)."""
    gram, basis = operator_gram(alpha, degree), bspline_coefficients(degree)
    out = []
    for power in range(0, 2 * alpha + 1, 1 if turned else 2):
        element = basis @ gram[(power + 1) // 2, power // 2] @ basis.T
        if power % 2:
            element = 0.5 * (element - element.T)
        lags = range(-degree, degree + 1)
        waves = [np.trace(element, lag) * np.exp(1j * lag * omega) for lag in lags]
        out.append(np.sum(waves, axis=0))
    return np.stack(out)
