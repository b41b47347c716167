"""Spherical harmonics in any dimension, without coordinates.

Letters: d is the dimension of the space, so the sphere is S^(d-1); n a degree; ``P_n`` the
Gegenbauer polynomial of that dimension with ``P_n(1) = 1`` (Chebyshev's for d = 2, Legendre's
for d = 3). Averages over the sphere are uniform with total mass 1, so that for harmonics
``Y_j`` orthonormal under it the addition theorem reads

    sum_j Y_j(x) Y_j(v) = N P_n(x . v),        N = multiplicity(d, n).

The right-hand side is the reproducing kernel of the harmonics of degree n. So for points
``v_1 ... v_N`` in general position (a fundamental system) the functions ``N P_n(v_i . x)`` span
them, and a Cholesky factor of their Gram matrix orthonormalises them.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from math import comb

import numpy as np
import torch
from scipy.linalg import get_lapack_funcs, solve_triangular
from torch import Tensor


def multiplicity(d: int, n: int) -> int:
    """The number of linearly independent harmonics of degree n."""
    return 1 if n == 0 else (2 * n + d - 2) * comb(n + d - 3, n - 1) // n


def gegenbauer(d: int, n: int, t: Tensor) -> Tensor:
    """``P_n(t)`` by its three-term recurrence, in place: no gradient passes through."""
    before, now = torch.ones_like(t), t.clone()
    if n == 0:
        return before
    for k in range(1, n):
        before.mul_(-k / (k + d - 2)).addcmul_(t, now, value=(2 * k + d - 2) / (k + d - 2))
        before, now = now, before
    return now


def gegenbauer_derivative(d: int, n: int, t: Tensor) -> Tensor:
    """``P_n'(t)``, which is a Gegenbauer polynomial in two dimensions more."""
    if n == 0:
        return torch.zeros_like(t)
    return gegenbauer(d + 2, n - 1, t).mul_(n * (n + d - 2) / (d - 1))


def funk_hecke(shape: Callable[[np.ndarray], np.ndarray], d: int, max_degree: int) -> np.ndarray:
    """Eigenvalues, degree by degree, of the zonal kernel ``shape(angle)``.

    The mean over the sphere of ``shape * P_n``, by Gauss-Legendre quadrature in the angle:
    there the kernels at hand are smooth, while in its cosine they have a root at 1. Mercer:
    ``shape(angle) = sum_n eigenvalue_n N P_n(cos angle)``.
    """
    nodes, weights = np.polynomial.legendre.leggauss(200 + 2 * max_degree)
    angle = 0.5 * np.pi * (nodes + 1.0)
    weights = weights * np.sin(angle) ** (d - 2)
    weights /= weights.sum()
    cosine = torch.tensor(np.cos(angle))
    values = weights * shape(angle)
    return np.array([values @ gegenbauer(d, n, cosine).numpy() for n in range(max_degree + 1)])


@lru_cache(maxsize=64)
def fundamental_system(d: int, n: int, count: int) -> tuple[np.ndarray, np.ndarray]:
    """Points V and a lower-triangular T: ``T P_n(V x)`` are orthonormal harmonics.

    ``count`` of them, at most the multiplicity. Points are taken one after the other out of a
    fixed pool of random ones, always the one least explained by those before it (a pivoted
    Cholesky factorisation of the Gram matrix), which keeps T well conditioned.
    """
    total = multiplicity(d, n)
    pool = np.random.default_rng(n).standard_normal((min(4 * count, count + 2000) + 20, d))
    pool /= np.linalg.norm(pool, axis=1, keepdims=True)
    gram = total * gegenbauer(d, n, torch.tensor(pool @ pool.T)).numpy()
    (pivoted_cholesky,) = get_lapack_funcs(("pstrf",), (gram,))
    _, pivots, _, _ = pivoted_cholesky(gram, lower=1)
    chosen = pivots[:count] - 1
    root = np.linalg.cholesky(gram[np.ix_(chosen, chosen)])
    return pool[chosen], total * solve_triangular(root, np.eye(count), lower=True)


class Harmonics:
    """The first orthonormal spherical harmonics of the given degrees.

    Parameters
    ----------
    d : int
        Dimension of the space.
    counts : dict
        How many harmonics of each degree.
    """

    def __init__(self, d: int, counts: dict[int, int]):
        self.d = d
        self.degrees = np.repeat(list(counts), list(counts.values()))
        self._systems = []
        blocks = []
        for n, count in counts.items():
            points, transform = fundamental_system(d, n, count)
            self._systems.append((n, torch.tensor(points.T.copy())))
            blocks.append(torch.tensor(transform))
        self.transform = torch.block_diag(*blocks)

    def __len__(self) -> int:
        return len(self.degrees)

    def zonal(self, x: Tensor) -> Tensor:
        """``P_n(V x)`` for unit vectors in the rows of ``x``: not yet orthonormal."""
        return torch.cat([_Zonal.apply(x @ V, self.d, n) for n, V in self._systems], dim=1)

    def __call__(self, x: Tensor) -> Tensor:
        """The harmonics at unit vectors in the rows of ``x``."""
        return self.zonal(x) @ self.transform.T


class _Zonal(torch.autograd.Function):
    """``gegenbauer`` with its gradient."""

    @staticmethod
    def forward(ctx, t, d, n):
        ctx.save_for_backward(t)
        ctx.d, ctx.n = d, n
        return gegenbauer(d, n, t)

    @staticmethod
    def backward(ctx, *outputs):
        (t,) = ctx.saved_tensors
        return gegenbauer_derivative(ctx.d, ctx.n, t).mul_(outputs[0]), None, None
