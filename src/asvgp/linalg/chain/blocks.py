"""A chain of states that are coupled from knot to knot by the same quadratic form.

The energy of states ``x_0, ..., x_m`` is ``x_0' B x_0 + sum_j [x_j, x_{j+1}]' S [x_j, x_{j+1}]``,
its matrix is K. Eliminating from the end, ``D_j = S_22 + J_{j+1}`` with
``J_j = S_11 - S_12 D_j^-1 S_21`` and ``J_m = 0``. Then ``log|K| = log|B + J_0| + sum_j log|D_j|``,
and the covariances follow from the start: ``C_{j+1} = A_j C_j A_j' + D_j^-1`` with
``A_j = -D_j^-1 S_21``. Tangents of everything run along.

A process that hardly changes on a cell makes S enormous and J next to nothing, a difference of
which no digit would be left. So S comes as a root R with ``R'R = S``, and J is a sum of squares,
``J_j = E' E + A_j' J_{j+1} A_j`` with the small ``E = R_1 + R_2 A_j``: errors of ``A_j`` count
twice, and J is never negative.
"""

import numba
import numpy as np

from asvgp.basis import Array


def chain_of_blocks(
    root: Array, d_root: Array, start: Array, d_start: Array, cells: int
) -> tuple[float, Array, Array, Array]:
    """Return ``log|K|``, its derivatives, and K^-1 on the pairs of states of every cell.

    ``root`` is R, (2n, 2n), ``start`` is B, (n, n); arrays that begin with ``d_`` have one more
    leading axis for parameters. The inverse is (cells, 2n, 2n), its derivatives
    (parameters, cells, 2n, 2n).
    """
    n, parameters = len(start), len(d_root)
    form, d_form = root.T @ root, d_root.transpose(0, 2, 1) @ root
    d_form = d_form + d_form.transpose(0, 2, 1)
    gain, pivot = np.empty((cells, n, n)), np.empty((cells, n, n))
    d_gain, d_pivot = np.empty((2, parameters, cells, n, n))
    message, d_message = np.zeros((n, n)), np.zeros((parameters, n, n))
    work, d_log = np.empty((6, n, n)), np.zeros(parameters)
    tables = gain, pivot, d_gain, d_pivot
    forms = form, d_form, np.ascontiguousarray(root), np.ascontiguousarray(d_root)
    log_det = _backward(*forms, message, d_message, *tables, work, d_log)
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
def _backward(
    form, d_form, root, d_root, message, d_message, gain, pivot, d_gain, d_pivot, work, d_log
):
    cells, n = gain.shape[0], message.shape[0]
    total, cross, product, other, carried = work[0], work[1], work[2], work[3], work[4]
    rows = root.shape[0]
    left, d_left = np.empty((rows, n)), np.empty((rows, n))
    log_det = 0.0
    for j in range(cells - 1, -1, -1):
        for a in range(n):
            for b in range(n):
                total[a, b] = form[n + a, n + b] + message[a, b]
                cross[a, b] = -form[n + a, b]
        log_det += _invert(total, product, pivot[j])
        _multiply(pivot[j], cross, gain[j])
        _at_gain(root, gain[j], left)
        for p in range(d_form.shape[0]):
            # d(D^-1) = -D^-1 dD D^-1, dA = -D^-1 (dS_21 + dD A)
            for a in range(n):
                for b in range(n):
                    total[a, b] = d_form[p, n + a, n + b] + d_message[p, a, b]
                    d_log[p] += pivot[j, a, b] * total[a, b]
                    other[a, b] = -d_form[p, n + a, b]
            _multiply(total, gain[j], product)
            for a in range(n):
                for b in range(n):
                    other[a, b] -= product[a, b]
            _multiply(pivot[j], other, d_gain[p, j])
            _multiply(total, pivot[j], product)
            _multiply(pivot[j], product, d_pivot[p, j])
            for a in range(n):
                for b in range(n):
                    change = d_pivot[p, j, a, b]
                    d_pivot[p, j, a, b] = -change
            # dJ = F' E + E' F + A' dJ A with F = dR_1 + dR_2 A; as J is least at A, dA is not in it
            _at_gain(d_root[p], gain[j], d_left)
            _multiply(d_message[p], gain[j], carried)
            for a in range(n):
                for b in range(n):
                    value = 0.0
                    for k in range(rows):
                        value += d_left[k, a] * left[k, b] + left[k, a] * d_left[k, b]
                    for k in range(n):
                        value += gain[j, k, a] * carried[k, b]
                    other[a, b] = value
            for a in range(n):
                for b in range(n):
                    d_message[p, a, b] = 0.5 * (other[a, b] + other[b, a])
        _multiply(message, gain[j], carried)
        for a in range(n):
            for b in range(n):
                value = 0.0
                for k in range(rows):
                    value += left[k, a] * left[k, b]
                for k in range(n):
                    value += gain[j, k, a] * carried[k, b]
                other[a, b] = value
        for a in range(n):
            for b in range(n):
                message[a, b] = 0.5 * (other[a, b] + other[b, a])
    return log_det


@numba.njit(cache=True, nogil=True, error_model="numpy")
def _at_gain(root, gain, out):
    """Write ``R_1 + R_2 A``: a root of the energy of a first state, the second one following it."""
    n = gain.shape[0]
    for i in range(root.shape[0]):
        for a in range(n):
            value = root[i, a]
            for k in range(n):
                value += root[i, n + k] * gain[k, a]
            out[i, a] = value


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
