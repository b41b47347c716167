"""A chain of states that are coupled from knot to knot by the same quadratic form.

The energy of states ``x_0, ..., x_m`` is ``x_0' B x_0 + sum_j [x_j, x_{j+1}]' S [x_j, x_{j+1}]``,
its matrix is K. Eliminating from the end, ``D_j = S_22 + J_{j+1}`` with
``J_j = S_11 - S_12 D_j^-1 S_21`` and ``J_m = 0``. Then ``log|K| = log|B + J_0| + sum_j log|D_j|``,
and the covariances follow from the start: ``C_{j+1} = A_j C_j A_j' + D_j^-1`` with
``A_j = -D_j^-1 S_21``. Tangents of everything run along.
"""

import numba
import numpy as np

from asvgp.basis import Array


def chain_of_blocks(
    form: Array, d_form: Array, start: Array, d_start: Array, cells: int
) -> tuple[float, Array, Array, Array]:
    """Return ``log|K|``, its derivatives, and K^-1 on the pairs of states of every cell.

    ``form`` is S, (2n, 2n), ``start`` is B, (n, n); arrays that begin with ``d_`` have one more
    leading axis for parameters. The inverse is (cells, 2n, 2n), its derivatives
    (parameters, cells, 2n, 2n).
    """
    n, parameters = len(start), len(d_form)
    gain, pivot = np.empty((cells, n, n)), np.empty((cells, n, n))
    d_gain, d_pivot = np.empty((2, parameters, cells, n, n))
    message, d_message = np.zeros((n, n)), np.zeros((parameters, n, n))
    work, d_log = np.empty((6, n, n)), np.zeros(parameters)
    tables = gain, pivot, d_gain, d_pivot
    log_det = _backward(form, d_form, message, d_message, *tables, work, d_log)
    first = start + message
    if not np.all(np.diag(first) > 0.0):  # also where a pivot on the way was not positive
        raise np.linalg.LinAlgError("The chain is not positive definite.")
    scale = 1.0 / np.sqrt(np.diag(first))
    root = np.linalg.cholesky(first * scale[:, None] * scale)
    half = np.linalg.inv(root) * scale
    covariance = half.T @ half
    d_first = d_start + d_message
    log_det += 2.0 * float(np.log(np.diag(root) / scale).sum())
    d_log += np.sum(covariance * d_first, axis=(1, 2))
    d_covariance = -covariance @ d_first @ covariance
    out, d_out = np.empty((cells, 2 * n, 2 * n)), np.empty((parameters, cells, 2 * n, 2 * n))
    _forward(covariance, d_covariance, *tables, work, out, d_out)
    return log_det, d_log, out, d_out


@numba.njit(cache=True, nogil=True, error_model="numpy")
def _multiply(a, b, out):
    n = a.shape[0]
    for i in range(n):
        for j in range(n):
            total = 0.0
            for k in range(n):
                total += a[i, k] * b[k, j]
            out[i, j] = total


@numba.njit(cache=True, nogil=True, error_model="numpy")
def _invert(a, work, out):
    """Write the inverse of a positive definite matrix; return the logarithm of its determinant."""
    n = a.shape[0]
    log_det = 0.0
    for i in range(n):  # Cholesky factor in ``work``
        for j in range(i + 1):
            total = a[i, j]
            for k in range(j):
                total -= work[i, k] * work[j, k]
            if i == j:
                work[i, i] = np.sqrt(total)
                log_det += np.log(total)
            else:
                work[i, j] = total / work[j, j]
    for column in range(n):
        for i in range(n):
            total = 1.0 if i == column else 0.0
            for k in range(i):
                total -= work[i, k] * out[k, column]
            out[i, column] = total / work[i, i]
        for i in range(n - 1, -1, -1):
            total = out[i, column]
            for k in range(i + 1, n):
                total -= work[k, i] * out[k, column]
            out[i, column] = total / work[i, i]
    return log_det


@numba.njit(cache=True, nogil=True, error_model="numpy")
def _backward(form, d_form, message, d_message, gain, pivot, d_gain, d_pivot, work, d_log):
    cells, n = gain.shape[0], message.shape[0]
    total, cross, product, other = work[0], work[1], work[2], work[3]
    log_det = 0.0
    for j in range(cells - 1, -1, -1):
        for a in range(n):
            for b in range(n):
                total[a, b] = form[n + a, n + b] + message[a, b]
                cross[a, b] = form[n + a, b]
        log_det += _invert(total, product, pivot[j])
        _multiply(pivot[j], cross, gain[j])
        for p in range(d_form.shape[0]):
            # d(D^-1) = -D^-1 dD D^-1, d(D^-1 S_21) = d(D^-1) S_21 + D^-1 dS_21
            for a in range(n):
                for b in range(n):
                    total[a, b] = d_form[p, n + a, n + b] + d_message[p, a, b]
                    d_log[p] += pivot[j, a, b] * total[a, b]
                    other[a, b] = d_form[p, n + a, b]
            # dJ = dS_11 - dS_12 A - A' dS_21 + A' dD A, with A = D^-1 S_21
            _multiply(total, gain[j], product)
            for a in range(n):
                for b in range(n):
                    other[a, b] -= product[a, b]
            _multiply(pivot[j], other, d_gain[p, j])
            for a in range(n):
                for b in range(n):
                    value = d_form[p, a, b]
                    for k in range(n):
                        value -= form[a, n + k] * d_gain[p, j, k, b]
                        value -= d_form[p, a, n + k] * gain[j, k, b]
                    d_message[p, a, b] = value
            _multiply(total, pivot[j], product)
            _multiply(pivot[j], product, d_pivot[p, j])
            for a in range(n):
                for b in range(n):
                    d_pivot[p, j, a, b] = -d_pivot[p, j, a, b]
                    gain_sign = d_gain[p, j, a, b]
                    d_gain[p, j, a, b] = -gain_sign
        for a in range(n):
            for b in range(n):
                value = form[a, b]
                for k in range(n):
                    value -= form[a, n + k] * gain[j, k, b]
                message[a, b] = value
        for a in range(n):
            for b in range(a):
                mean = 0.5 * (message[a, b] + message[b, a])
                message[a, b] = mean
                message[b, a] = mean
        for a in range(n):
            for b in range(n):
                gain[j, a, b] = -gain[j, a, b]
    return log_det


@numba.njit(cache=True, nogil=True, error_model="numpy")
def _forward(covariance, d_covariance, gain, pivot, d_gain, d_pivot, work, out, d_out):
    cells, n = gain.shape[0], covariance.shape[0]
    shared, d_shared, following = work[0], work[1], work[2]
    for j in range(cells):
        _multiply(gain[j], covariance, shared)  # Cov(x_{j+1}, x_j)
        for a in range(n):
            for b in range(n):
                value = pivot[j, a, b]
                for k in range(n):
                    value += shared[a, k] * gain[j, b, k]
                following[a, b] = value
                out[j, a, b] = covariance[a, b]
                out[j, n + a, b] = shared[a, b]
                out[j, b, n + a] = shared[a, b]
                out[j, n + a, n + b] = value
        for p in range(d_covariance.shape[0]):
            for a in range(n):
                for b in range(n):
                    value = 0.0
                    for k in range(n):
                        value += d_gain[p, j, a, k] * covariance[k, b]
                        value += gain[j, a, k] * d_covariance[p, k, b]
                    d_shared[a, b] = value
            for a in range(n):
                for b in range(n):
                    d_out[p, j, a, b] = d_covariance[p, a, b]
                    d_out[p, j, n + a, b] = d_shared[a, b]
                    d_out[p, j, b, n + a] = d_shared[a, b]
            for a in range(n):
                for b in range(n):
                    value = d_pivot[p, j, a, b]
                    for k in range(n):
                        value += d_shared[a, k] * gain[j, b, k] + shared[a, k] * d_gain[p, j, b, k]
                    d_covariance[p, a, b] = value
                    d_out[p, j, n + a, n + b] = value
        for a in range(n):
            for b in range(n):
                covariance[a, b] = following[a, b]
