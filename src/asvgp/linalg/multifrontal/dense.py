"""P as one dense matrix: additive models, whose functions all meet."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from scipy.linalg import get_lapack_funcs, solve_triangular

from asvgp.basis import Array
from asvgp.linalg.multifrontal.errors import NotPositiveDefinite

_potrf, _potrs, _potri = get_lapack_funcs(("potrf", "potrs", "potri"), dtype=np.float64)


class DenseFactor:
    """The interface of the multifrontal factors on a dense matrix.

    The ``matrix`` is overwritten; `NotPositiveDefinite` names the function that broke it.

    Examples
    --------
    >>> factor = DenseFactor(np.array([[2.0, 1.0], [1.0, 2.0]]))
    >>> round(factor.log_det, 6) == round(float(np.log(3.0)), 6)
    True
    >>> factor.solve(np.array([3.0, 3.0])).round(9).tolist()
    [1.0, 1.0]
    """

    def __init__(self, matrix: Array):
        everything, diagonal = np.arange(len(matrix)), np.diag(matrix)
        if not np.all(diagonal > 0.0):
            raise NotPositiveDefinite(0, 0, everything, int(np.argmin(diagonal > 0.0)))
        self.scale = scale = 1.0 / np.sqrt(diagonal)
        matrix *= scale[:, None]
        matrix *= scale
        self.root, info = _potrf(matrix, lower=1, clean=1, overwrite_a=1)
        if info:
            raise NotPositiveDefinite(0, 0, everything, int(info) - 1)
        self.log_det = 2.0 * float(np.log(np.diag(self.root)).sum() - np.log(scale).sum())

    @classmethod
    def of_rows(cls, rows: Array) -> DenseFactor:
        """Factor ``rows.T @ rows`` without forming it, which keeps twice as many digits."""
        out, size = cls.__new__(cls), rows.shape[1]
        root = np.linalg.qr(rows, mode="r")
        sign = np.sign(np.diag(root))
        if len(sign) < size or not np.all(np.abs(sign) > 0.0):
            failed = int(np.argmin(np.append(np.abs(sign) > 0.0, False)))
            raise NotPositiveDefinite(0, 0, np.arange(size), failed)
        out.scale, out.root = np.ones(size), np.asfortranarray((sign[:, None] * root).T)
        out.log_det = 2.0 * float(np.log(np.diag(out.root)).sum())
        return out

    def solve(self, right: Array) -> Array:
        """Return ``P^-1 right``."""
        scale = self.scale if right.ndim == 1 else self.scale[:, None]
        return scale * _potrs(self.root, right * scale, lower=1)[0].reshape(right.shape)

    def sample(self, normals: Array) -> Array:
        """Return draws with covariance ``P^-1`` from standard normals."""
        scale = self.scale if normals.ndim == 1 else self.scale[:, None]
        return scale * solve_triangular(self.root, normals, lower=True, trans=1)

    def inverse(self) -> Array:
        """Return ``P^-1``."""
        lower = _potri(self.root, lower=1)[0]
        whole = np.tril(lower) + np.tril(lower, -1).T
        return whole * np.outer(self.scale, self.scale)

    def selected_inverse(self, consume: Callable[[int, int, Array], None]) -> None:
        """Pass ``P^-1`` to ``consume(start, stop, blocks)``, as that of one leaf."""
        consume(0, 1, self.inverse()[None])

    @property
    def nbytes(self) -> int:
        """Bytes held."""
        return self.root.nbytes
