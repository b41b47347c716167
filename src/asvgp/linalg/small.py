"""Inverse and determinant of the forms that are left on a single state."""

import numpy as np

from asvgp.basis import Array


def inverse_and_log_det(matrix: Array) -> tuple[Array, float]:
    """Return inverse and log-determinant of a small positive definite matrix, after scaling it."""
    scale = 1.0 / np.sqrt(np.diag(matrix))
    root = np.linalg.cholesky(matrix * scale[:, None] * scale)
    log_det = 2.0 * float(np.log(np.diag(root) / scale).sum())
    half = np.linalg.inv(root) * scale
    return half.T @ half, log_det
