"""Prior covariances of features, ``Kuu``, by their structure.

Every class writes ``K = S C S`` with ``S`` a diagonal *scale* and ``C`` a *core*. The scale
takes the many powers of ten between low and high frequencies, so the core has eigenvalues of
at least 1 and of moderate size: nothing here needs jitter.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce
from math import prod

import torch
from torch import Tensor


@dataclass(frozen=True)
class DiagonalPlusLowRank:
    """``K = diag(d) + U U'``, so ``C = I + W W'`` with ``W = U / sqrt(d)``.

    ``U`` has r columns, few or none; determinant and inverse need r x r matrices only
    (Woodbury). Blocks on a diagonal are again of this form, see `stack`.
    """

    diagonal: Tensor
    factor: Tensor

    @classmethod
    def stack(cls, blocks: Sequence[DiagonalPlusLowRank]) -> DiagonalPlusLowRank:
        """The block-diagonal matrix of the ``blocks``."""
        return cls(
            torch.cat([block.diagonal for block in blocks]),
            torch.block_diag(*(block.factor for block in blocks)),
        )

    def __len__(self) -> int:
        return len(self.diagonal)

    @property
    def scale(self) -> Tensor:
        """The diagonal of ``S``."""
        return self.diagonal.sqrt()

    def core(self) -> Tensor:
        """``C``, dense."""
        W = self._whitened()
        return torch.eye(len(W), dtype=W.dtype) + W @ W.T

    def core_logdet(self) -> Tensor:
        """``log |C| = log |I + W'W|``."""
        return 2.0 * self._small_root().diagonal().log().sum()

    def core_inverse(self) -> Tensor:
        """``C^-1 = I - W (I + W'W)^-1 W'``, dense."""
        W = self._whitened()
        return torch.eye(len(W), dtype=W.dtype) - W @ torch.cholesky_solve(W.T, self._small_root())

    def core_trace(self, outer: Tensor) -> Tensor:
        """``tr(C^-1 outer)``."""
        W = self._whitened()
        return outer.trace() - torch.cholesky_solve(W.T @ outer @ W, self._small_root()).trace()

    def _whitened(self) -> Tensor:
        return self.factor / self.scale[:, None]

    def _small_root(self) -> Tensor:
        W = self._whitened()
        return torch.linalg.cholesky(torch.eye(W.shape[1], dtype=W.dtype) + W.T @ W)


@dataclass(frozen=True)
class Kronecker:
    """``K = K_1 x ... x K_D``; the last factor's index runs fastest."""

    factors: tuple[DiagonalPlusLowRank, ...]

    def __len__(self) -> int:
        return prod(len(factor) for factor in self.factors)

    @property
    def scale(self) -> Tensor:
        """The diagonal of ``S``."""
        return reduce(torch.kron, [factor.scale for factor in self.factors])

    def core(self) -> Tensor:
        """``C``, dense."""
        return reduce(torch.kron, [factor.core() for factor in self.factors])

    def core_logdet(self) -> Tensor:
        """``log |C|``: every factor's, as often as it is repeated."""
        return torch.stack(
            [factor.core_logdet() * (len(self) // len(factor)) for factor in self.factors]
        ).sum()

    def core_inverse(self) -> Tensor:
        """``C^-1``, dense."""
        return reduce(torch.kron, [factor.core_inverse() for factor in self.factors])

    def core_trace(self, outer: Tensor) -> Tensor:
        """``tr(C^-1 outer)``, one factor contracted after the other."""
        left = outer
        for factor in self.factors:
            m = len(factor)
            rest = len(left) // m
            blocks = left.reshape(m, rest, m, rest)
            left = torch.einsum("ij,iajb->ab", factor.core_inverse(), blocks)
        return left.squeeze()


Kuu = DiagonalPlusLowRank | Kronecker
