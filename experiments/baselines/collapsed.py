"""The collapsed bound of Titsias (2009), its posterior and its training, for any features.

Letters: ``K = Kuu``, ``A = Kuf Kfu`` and ``b = Kuf y`` (sums over the rows), ``s2`` the noise
variance, ``P = K + A / s2``. Then

    bound = log N(y; 0, Kfu K^-1 Kuf + s2 I) - (tr Kff - tr K^-1 A) / (2 s2)

needs nothing of the size of the data once ``A``, ``b``, ``y'y`` and ``tr Kff`` are known.
Everything is float64 on the CPU; gradients are torch's.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from math import log, pi

import numpy as np
import torch
from scipy.optimize import minimize
from torch import Tensor

from experiments.baselines.kuu import Kuu

# Hyperparameters stay within this factor of where they start.
REACH = 1e6


@dataclass(frozen=True)
class Sums:
    """What the bound needs of the data: ``Kuf Kfu``, ``Kuf y``, ``y'y`` and N."""

    outer: Tensor
    cross: Tensor
    square: float
    rows: int

    @classmethod
    def zero(cls, features: int) -> Sums:
        """The sums over no rows."""
        return cls(
            torch.zeros(features, features, dtype=torch.float64),
            torch.zeros(features, dtype=torch.float64),
            0.0,
            0,
        )

    def add(self, Kfu: Tensor, y: Tensor) -> Sums:
        """These sums and those over the given rows; this object's matrices are used up."""
        values = Kfu.numpy()
        # NumPy, not torch, sees that a matrix times its own transpose is half the work.
        self.outer.add_(torch.from_numpy(values.T @ values))
        self.cross.add_(Kfu.T @ y)
        return Sums(self.outer, self.cross, self.square + float(y @ y), self.rows + len(y))


def bound(kuu: Kuu, sums: Sums, trace: Tensor, noise: Tensor) -> Tensor:
    """The collapsed bound; ``trace`` is ``tr Kff``.

    One dense Cholesky factorisation, of ``S^-1 P S^-1``: O(M^3).
    """
    outer, cross, precision = _whitened(kuu, sums, noise)
    return (
        -0.5 * sums.rows * (log(2.0 * pi) + noise.log())
        + 0.5 * kuu.core_logdet()
        - 0.5 * sums.square / noise
        + _GaussianIntegral.apply(precision, cross / noise)
        - 0.5 * (trace - kuu.core_trace(outer)) / noise
    )


class Posterior:
    """Mean and variance of f from the optimal ``q(u)``; factored once."""

    def __init__(self, kuu: Kuu, sums: Sums, noise: Tensor):
        with torch.no_grad():
            _, cross, precision = _whitened(kuu, sums, noise)
            root = torch.linalg.cholesky(precision)
            self._scale = kuu.scale
            self._prior = torch.linalg.cholesky(kuu.core())
            self._root = root
            self._weights = torch.cholesky_solve(cross[:, None], root)[:, 0] / noise

    def predict(self, Kfu: Tensor, kff: Tensor) -> tuple[np.ndarray, np.ndarray]:
        """``Kfu P^-1 b / s2`` and ``kff - Kfu (K^-1 - P^-1) Kuf`` at the rows of ``Kfu``."""
        white = Kfu / self._scale
        prior = torch.linalg.solve_triangular(self._prior, white.T, upper=False)
        left = torch.linalg.solve_triangular(self._root, white.T, upper=False)
        variance = (kff - prior.square().sum(0)) + left.square().sum(0)
        return (white @ self._weights).numpy(), variance.numpy()

    def predict_parts(
        self, parts: Iterable[tuple[Tensor, Tensor]]
    ) -> tuple[np.ndarray, np.ndarray]:
        """`predict` for one part of the rows after another, put together."""
        found = [self.predict(Kfu, kff) for Kfu, kff in parts]
        mean, variance = zip(*found, strict=True) if found else ((np.empty(0),),) * 2
        return np.concatenate(mean), np.concatenate(variance)


def _whitened(kuu: Kuu, sums: Sums, noise: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """``S^-1 A S^-1``, ``S^-1 b`` and ``S^-1 P S^-1``."""
    scale = kuu.scale
    outer = sums.outer / torch.outer(scale, scale)
    return outer, sums.cross / scale, kuu.core() + outer / noise


class _GaussianIntegral(torch.autograd.Function):
    """``c' P^-1 c / 2 - log |P| / 2``.

    Its gradient in closed form needs ``P^-1``; autograd's, through the Cholesky factor, three
    times the work.
    """

    @staticmethod
    def forward(ctx, P, c):
        root = torch.linalg.cholesky(P)
        solution = torch.cholesky_solve(c[:, None], root)[:, 0]
        ctx.save_for_backward(root, solution)
        return 0.5 * c @ solution - root.diagonal().log().sum()

    @staticmethod
    def backward(ctx, *outputs):
        root, solution = ctx.saved_tensors
        inverse = torch.cholesky_inverse(root)
        by_P = -0.5 * (inverse + torch.outer(solution, solution))
        return outputs[0] * by_P, outputs[0] * solution


@dataclass(frozen=True)
class Trained:
    """Where training ended."""

    parameters: np.ndarray
    bound: float
    iterations: int
    converged: bool


def with_gradient(
    function: Callable[[Tensor], Tensor],
) -> Callable[[np.ndarray], tuple[float, np.ndarray]]:
    """``function`` of log parameters, with its gradient by autograd."""

    def value_and_gradient(logs: np.ndarray) -> tuple[float, np.ndarray]:
        tensor = torch.tensor(logs, requires_grad=True)
        value = function(tensor)
        (gradient,) = torch.autograd.grad(value, tensor)
        return value.item(), gradient.numpy()

    return value_and_gradient


def maximise(
    value_and_gradient: Callable[[np.ndarray], tuple[float, np.ndarray]],
    start: np.ndarray,
    rows: int,
    max_iterations: int,
) -> Trained:
    """Maximise a bound over the logarithms of positive parameters by L-BFGS.

    Deterministic: one start, no restarts. Every parameter stays within a factor of `REACH`
    of its start, so data without noise (a constant ``y``, say) end at a limit and not in
    overflow. The bound per row is what L-BFGS sees, so its tolerances mean the same at every
    size. ``max_iterations=0`` only evaluates the bound at the start; a positive limit that is
    reached is no error, but ``converged`` is False.
    """

    def objective(logs: np.ndarray) -> tuple[float, np.ndarray]:
        value, gradient = value_and_gradient(logs)
        if not (np.isfinite(value) and np.isfinite(gradient).all()):
            raise FloatingPointError(
                f"the bound is {value} at the parameters {np.exp(logs)}: "
                "standardise X and y, or give other starting values"
            )
        return -value / rows, -gradient / rows

    logs = np.log(np.asarray(start, dtype=np.float64))
    if max_iterations == 0:
        return Trained(np.exp(logs), -objective(logs)[0] * rows, 0, True)
    found = minimize(
        objective,
        logs,
        jac=True,
        method="L-BFGS-B",
        bounds=[(value - log(REACH), value + log(REACH)) for value in logs],
        options={"maxiter": max_iterations, "ftol": 1e-9, "gtol": 1e-6},
    )
    return Trained(np.exp(found.x), -float(found.fun) * rows, int(found.nit), bool(found.success))
