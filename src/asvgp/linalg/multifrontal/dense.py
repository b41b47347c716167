"""P as one dense matrix: additive models, whose functions all meet, and small twins."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from scipy.linalg import get_lapack_funcs, solve_triangular

from asvgp.basis import Array
from asvgp.linalg.multifrontal.errors import NotPositiveDefinite

_potrf, _potrs, _potri = get_lapack_funcs(("potrf", "potrs", "potri"), dtype=np.float64)


class DenseFactor:
    """The interface of the multifrontal factors on a dense matrix.

    Parameters
    ----------
    matrix : ndarray of shape (size, size)
        Positive definite; overwritten.
    leaf_index : ndarray of shape (leaves, s)
        Functions on each leaf, -1 for padding; one leaf with all of them by default.

    Examples
    --------
    >>> factor = DenseFactor(np.array([[2.0, 1.0], [1.0, 2.0]]))
    >>> round(factor.log_det, 6) == round(float(np.log(3.0)), 6)
    True
    >>> factor.solve(np.array([3.0, 3.0])).round(9).tolist()
    [1.0, 1.0]

    Raises
    ------
    NotPositiveDefinite
        With the function at which the elimination broke down.
    """

    def __init__(self, matrix: Array, leaf_index: np.ndarray | None = None):
        everything, diagonal = np.arange(len(matrix)), np.diag(matrix)
        if not np.all(diagonal > 0.0):
            raise NotPositiveDefinite(0, 0, everything, int(np.argmin(diagonal > 0.0)))
        self.scale = scale = 1.0 / np.sqrt(diagonal)
        self.index = everything[None] if leaf_index is None else leaf_index
        matrix *= scale[:, None]
        matrix *= scale
        self.root, info = _potrf(matrix, lower=1, clean=1, overwrite_a=1)
        if info:
            raise NotPositiveDefinite(0, 0, everything, int(info) - 1)
        self.log_det = 2.0 * float(np.log(np.diag(self.root)).sum() - np.log(scale).sum())

    @classmethod
    def from_elements(
        cls, size: int, leaf_index: np.ndarray, elements: Callable[[int, int], Array]
    ) -> DenseFactor:
        """Assemble the leaves of a tree."""
        matrix = np.zeros((size, size))
        for number, block in enumerate(elements(0, len(leaf_index))):
            own = leaf_index[number] >= 0
            rows = leaf_index[number][own]
            matrix[np.ix_(rows, rows)] += block[np.ix_(own, own)]
        return cls(matrix, leaf_index)

    def solve(self, right: Array) -> Array:
        """``P^-1 right``."""
        scale = self.scale if right.ndim == 1 else self.scale[:, None]
        return scale * _potrs(self.root, right * scale, lower=1)[0].reshape(right.shape)

    def sample(self, normals: Array) -> Array:
        """Draws with covariance ``P^-1`` from standard normals."""
        scale = self.scale if normals.ndim == 1 else self.scale[:, None]
        return scale * solve_triangular(self.root, normals, lower=True, trans=1)

    def inverse(self) -> Array:
        """``P^-1``."""
        lower = _potri(self.root, lower=1)[0]
        whole = np.tril(lower) + np.tril(lower, -1).T
        return whole * np.outer(self.scale, self.scale)

    def selected_inverse(self, consume: Callable[[int, int, Array], None]) -> None:
        """Pass ``P^-1`` on the functions of each leaf to ``consume(start, stop, blocks)``."""
        whole = self.inverse()
        blocks = whole[self.index[:, :, None], self.index[:, None, :]]
        padding = self.index < 0
        blocks[padding] = 0.0
        blocks.transpose(0, 2, 1)[padding] = 0.0
        consume(0, len(blocks), blocks)

    @property
    def nbytes(self) -> int:
        """Bytes held."""
        return self.root.nbytes
