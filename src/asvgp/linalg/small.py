"""A few numbers: inverse and determinant of the forms left on a single state."""

import numpy as np

from asvgp.basis import Array


def symmetric_inverse(matrix: Array) -> Array:
    """Inverse of a small positive definite matrix, equilibrated first."""
    scale = 1.0 / np.sqrt(np.diag(matrix))
    root = np.linalg.inv(np.linalg.cholesky(matrix * np.outer(scale, scale))) * scale
    return root.T @ root


def log_det(matrix: Array) -> float:
    """Log-determinant of a small positive definite matrix, equilibrated first."""
    scale = 1.0 / np.sqrt(np.diag(matrix))
    root = np.linalg.cholesky(matrix * np.outer(scale, scale))
    return 2.0 * float(np.sum(np.log(np.diag(root) / scale)))
