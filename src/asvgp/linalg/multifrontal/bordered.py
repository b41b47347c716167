"""A factored matrix with a few dense columns and rows around it."""

from collections.abc import Callable

import numpy as np

from asvgp.basis import Array
from asvgp.linalg.multifrontal.cpu import CpuFactor
from asvgp.linalg.multifrontal.dense import DenseFactor


def root_of(matrix: Array) -> Array:
    """Return rows A with A^T A = ``matrix``, (..., n, n), which has no negative eigenvalues.

    Examples
    --------
    >>> rows = root_of(np.array([[2.0, 1.0], [1.0, 2.0]]))
    >>> (rows.T @ rows).round(9).tolist()
    [[2.0, 1.0], [1.0, 2.0]]
    """
    values, vectors = np.linalg.eigh(matrix)
    return np.sqrt(np.maximum(values, 0.0))[..., :, None] * np.swapaxes(vectors, -1, -2)


class BorderedFactor:
    """The matrix [[P, C], [C^T, D + A^T A]], with the interface of P's factor.

    [[P, C], [C^T, D]] has no negative eigenvalues, and neither has S = D - C^T W with W = P^-1 C,
    so that S + A^T A is factored by rows. W is refined by residuals, for which ``multiply``
    returns P times values.
    """

    def __init__(
        self,
        main: CpuFactor,
        cross: Array,
        corner: Array,
        rows: Array,
        multiply: Callable[[Array], Array],
    ) -> None:
        self.main, self.size = main, len(cross)
        self._bent = main.solve(cross)
        self._bent += main.solve(cross - multiply(self._bent))
        left = corner - cross.T @ self._bent
        self._corner = DenseFactor.of_rows(np.append(rows, root_of(left), axis=0))
        self._cross = cross
        self.log_det = main.log_det + self._corner.log_det

    @property
    def nbytes(self) -> int:
        """Bytes held."""
        return self.main.nbytes + self._bent.nbytes + self._cross.nbytes + self._corner.nbytes

    def solve(self, b: Array) -> Array:
        """Return the inverse times one right-hand side (size,) or several (size, r)."""
        inner = self.main.solve(b[: self.size])
        outer = self._corner.solve(b[self.size :] - self._cross.T @ inner)
        return np.concatenate([inner - self._bent @ outer, outer])

    def sample(self, z: Array) -> Array:
        """Return draws whose covariance is the inverse, from standard normals."""
        outer = self._corner.sample(z[self.size :])
        return np.concatenate([self.main.sample(z[: self.size]) - self._bent @ outer, outer])

    def selected_inverse(self, consume: Callable[[int, int, Array], None]) -> None:
        """Pass the inverse on the functions of each leaf to ``consume(start, stop, blocks)``."""
        index, inverse = self.main.tree.leaf_index, self._corner.inverse()
        bent = np.append(self._bent, np.zeros((1, len(inverse))), axis=0)  # -1: no function

        def extended(start: int, stop: int, blocks: Array) -> None:
            local = bent[index[start:stop]]
            own, columns = blocks.shape[1], len(inverse)
            out = np.empty((stop - start, own + columns, own + columns))
            cross = -local @ inverse
            out[:, :own, :own] = blocks - cross @ local.transpose(0, 2, 1)
            out[:, :own, own:], out[:, own:, :own] = cross, cross.transpose(0, 2, 1)
            out[:, own:, own:] = inverse
            consume(start, stop, out)

        self.main.selected_inverse(extended)
