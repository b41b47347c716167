"""The covariance of observations at distinct inputs, factored: dense, or by regular lags.

At regular inputs of equal weight the matrix is Toeplitz and costs O(n^2) in place of O(n^3). A
few missing inputs are put back as unknowns without prior: a hole's row tells nothing then.
"""

from __future__ import annotations

import numpy as np
from scipy.linalg import LinAlgError, get_blas_funcs, get_lapack_funcs

from asvgp.basis import Array
from asvgp.linalg.toeplitz import Toeplitz, outer_sums
from asvgp.policies import SERIES
from asvgp.runtime.lazy import cached_property

_POTRF, _POTRI, _POTRS = get_lapack_funcs(("potrf", "potri", "potrs"), dtype=np.float64)
(_TRSM,) = get_blas_funcs(("trsm",), dtype=np.float64)
_REFINEMENTS = 3  # of a solution, at most
_ROUNDING = 1e-12  # of the largest term: a smaller error is not worth a refinement


# Of matrices as small as 1 x 1, the checks of SciPy's functions take longer than the work.


def rooted(matrix: Array) -> tuple[Array, float]:
    """Return the lower root of a symmetric matrix, rubbish above it, and the log determinant."""
    root, failed = _POTRF(matrix, lower=1, clean=0)
    if failed:
        raise LinAlgError(f"A matrix of {len(matrix)} rows is not positive definite.")
    return root, 2.0 * float(np.log(root.diagonal()).sum())


def solve_rooted(root: Array, vectors: Array) -> Array:
    """Return the inverse of a matrix times vectors, by its lower root."""
    return _POTRS(root, vectors, lower=1)[0]


def over_root(vectors: Array, root: Array) -> Array:
    """Return rows, (n, m), times the inverse of the transposed lower root of m x m."""
    return _TRSM(1.0, root, vectors, side=1, lower=1, trans_a=1)


class Lags:
    """Distances between inputs, each distinct one once.

    Examples
    --------
    >>> lags = Lags(np.array([0.0, 1.0, 3.0]), 1.0)
    >>> lags.regular, lags.values.tolist(), lags.holes.tolist()
    (True, [0.0, 1.0, 2.0, 3.0], [2])
    >>> lags.outer_sums(np.ones((3, 1))).round(9).tolist()
    [3.0, 2.0, 2.0, 2.0]
    """

    def __init__(self, x: Array, spacing: float):
        self.spacing = spacing
        gaps = np.diff(x)
        step = float(np.min(gaps)) if len(gaps) else spacing
        # the smallest gap is known to few digits only, its multiples over the span to many
        step = float(x[-1] - x[0]) / max(1.0, np.rint((x[-1] - x[0]) / step)) or spacing
        place = (x - x[0]) / step
        whole = np.rint(place)
        # More steps than pairs would cost more than they save, and two inputs that differ by
        # rounding alone make steps without number.
        few = whole[-1] < max(2, len(x) ** 2)
        self.regular = bool(few and np.all(np.abs(place - whole) < 1e-6))
        if self.regular:
            self.spacing, self.steps = step, whole.astype(np.int64)
            self.values = step * np.arange(int(self.steps[-1]) + 1)
        else:
            self.steps = np.empty(0, np.int64)
            self.values, index = np.unique(np.abs(x[:, None] - x), return_inverse=True)
            self.index = index.reshape(len(x), len(x))

    @cached_property
    def index(self) -> Array:
        """The number of every pair's distance, (n, n)."""
        return np.abs(self.steps[:, None] - self.steps)

    @cached_property
    def holes(self) -> Array:
        """Steps of a regular series without an input."""
        missing = np.ones(len(self.values), bool)
        missing[self.steps] = False
        return np.flatnonzero(missing)

    def matrix(self, values: Array) -> Array:
        """Return the matrix with a value for every distance."""
        return values[self.index]

    def sums(self, matrix: Array) -> Array:
        """Return the sums of a matrix's entries by distance."""
        return np.bincount(self.index.ravel(), matrix.ravel(), minlength=len(self.values))

    def outer_sums(self, vectors: Array) -> Array:
        """Return the sums by distance of ``vectors vectors'``, of (n, columns)."""
        if not self.regular:
            return self.sums(vectors @ vectors.T)
        return outer_sums(self.padded(vectors))

    def padded(self, vectors: Array) -> Array:
        """Return vectors of a regular series, (n, columns), as rows with zeros in its holes."""
        rows = np.zeros((vectors.shape[1], len(self.values)))
        rows[:, self.steps] = vectors.T
        return rows


class DenseMatrix:
    """A dense matrix, factored."""

    def __init__(self, lags: Lags, values: Array, noise: Array):
        self._lags = lags
        matrix = lags.matrix(values)
        np.einsum("ii->i", matrix)[...] += noise
        try:
            self.root, self.log_det = rooted(matrix)
        except LinAlgError as error:
            raise LinAlgError(
                f"The covariance of y at {len(noise)} inputs, with variances down to "
                f"{noise.min():.3g} for the noise, is not positive definite to working precision."
            ) from error

    def solve(self, vectors: Array) -> Array:
        """Return ``A^-1`` times vectors."""
        return solve_rooted(self.root, vectors)

    @cached_property
    def inverse(self) -> Array:
        """``A^-1``, whole."""
        inverse, _ = _POTRI(self.root, lower=1)
        return np.tril(inverse) + np.tril(inverse, -1).T

    def inverse_sums(self, less: Array, noise: Array) -> tuple[Array, float]:
        """Return sums by distance of ``A^-1 - less less'``, and its trace times the noise."""
        inverse = self.inverse - less @ less.T
        return self._lags.sums(inverse), float(np.diag(inverse) @ noise)


class RegularMatrix:
    """The matrix of regular inputs with equal noise, without any n x n array."""

    def __init__(self, lags: Lags, values: Array, noise: float):
        self._lags, self._holes = lags, lags.holes
        column = values.copy()
        column[0] += noise
        self._whole = Toeplitz(column)
        self.log_det = self._whole.log_det
        if len(self._holes):
            self._at_holes = self._whole.inverse_rows(self._holes)
            self._root, log_det = rooted(self._at_holes[:, self._holes])
            self.log_det += log_det

    def solve(self, vectors: Array) -> Array:
        """Return ``A^-1`` times vectors, refined until that no longer gains.

        Raises
        ------
        numpy.linalg.LinAlgError
            If digits were lost on the way.
        """
        rows = self._lags.padded(vectors)
        out, error, before = self._solve(rows), 0.0, np.inf
        for _ in range(_REFINEMENTS):
            left = rows - self._whole.multiply(out)
            left[:, self._holes] = 0.0
            scale = self._whole.column[0] * float(np.max(np.abs(out), initial=0.0))
            error = float(np.max(np.abs(left), initial=0.0)) / (scale or 1.0)
            if error <= _ROUNDING or not error < 0.5 * before:
                break
            out, before = out + self._solve(left), error
        if not error <= SERIES.regular_residual:
            raise LinAlgError("Durbin's recursion has lost digits.")
        return out[:, self._lags.steps].T

    def _solve(self, rows: Array) -> Array:
        """Return ``A^-1`` times rows that are zero in the holes."""
        out = self._whole.solve(rows)
        if len(self._holes):
            out -= solve_rooted(self._root, out[:, self._holes].T).T @ self._at_holes
            out[:, self._holes] = 0.0
        return out

    def inverse_sums(self, less: Array, noise: Array) -> tuple[Array, float]:
        """Return sums by distance of ``A^-1 - less less'``, and its trace times the noise."""
        rows = [self._lags.padded(less)]
        if len(self._holes):
            # the inverse's rows in the holes, times the inverse of a root
            rows.append(over_root(self._at_holes.T, self._root).T)
        sums = self._whole.inverse_sums(*rows)
        return sums, float(sums[0] * noise[0])


def is_toeplitz(lags: Lags, noise: Array) -> bool:
    """Return True if inputs are regular, but for a few holes, and have equal noise."""
    if not lags.regular or np.ptp(noise) > 1e-12 * noise[0]:
        return False
    return len(lags.values) - len(noise) <= SERIES.most_holes * len(noise)


def solved_matrix(
    lags: Lags, values: Array, noise: Array, right: Array
) -> tuple[DenseMatrix | RegularMatrix, Array]:
    """Return the covariance of y, factored the cheaper way that keeps its digits, and solutions.

    ``values`` are covariances of f by distance, ``noise`` the variances on the diagonal.
    """
    if is_toeplitz(lags, noise):
        try:
            matrix = RegularMatrix(lags, values, float(noise[0]))
            return matrix, matrix.solve(right)
        except LinAlgError:  # the dense matrix keeps more digits
            pass
    dense = DenseMatrix(lags, values, noise)
    return dense, dense.solve(right)
