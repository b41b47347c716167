"""Places and masses of few atoms in a box, from the moments of their measure."""

import numba
import numpy as np

_SWEEPS = 40  # of Jacobi's rotations: six or seven are usual
_NOTHING = 1e-16  # [entries, of multiplications by inputs in [0, 1]] below their rounding


@numba.njit(cache=True, nogil=True, error_model="numpy")
def orthonormal(moments, flat, tolerance, work):
    """Write orthonormal polynomials, without any that depends on those before; returns how many.

    ``flat`` are the places of their powers among the moments.
    """
    most = flat.shape[0]
    basis, products = work[0], work[1, 0]
    rank = 0
    for i in range(most):
        row = basis[rank]
        row[:] = 0.0
        row[i] = 1.0
        for again in range(3):  # Gram and Schmidt, twice; then the square
            for j in range(i + 1):
                products[j] = 0.0
                for m in range(i + 1):
                    products[j] += row[m] * moments[flat[j] + flat[m]] / moments[0]
            for a in range(rank if again < 2 else 0):
                total = 0.0
                for j in range(i):
                    total += basis[a, j] * products[j]
                for j in range(i):
                    row[j] -= total * basis[a, j]
        total = 0.0
        for j in range(i + 1):
            total += row[j] * products[j]
        if total > tolerance:
            for j in range(i + 1):
                row[j] /= np.sqrt(total)
            rank += 1
    return rank


@numba.njit(cache=True, nogil=True, error_model="numpy")
def atoms_of(rank, moments, flat, strides, slant, work, points, masses):
    """Write the rule that is exact for as many atoms as there are orthonormal polynomials.

    Where the measure has so few atoms, multiplications by the inputs are matrices that commute, in
    the basis of these polynomials, and the atoms are their eigenvalues. They are diagonalised
    together as one sum of them, which tells atoms apart that differ in it. Masses are positive in
    any case, and points inside the cell: they are means.
    """
    most, inputs = flat.shape[0], strides.shape[0]
    basis, products, matrix, vectors = work[0], work[1], work[2], work[3]
    matrix[:rank, :rank] = 0.0
    for k in range(inputs):
        for a in range(rank):
            for j in range(most):
                total = 0.0
                for m in range(most):
                    total += basis[a, m] * moments[flat[j] + flat[m] + strides[k]]
                products[a, j] = total / moments[0]
        for a in range(rank):
            for c in range(rank):
                total = 0.0
                for j in range(most):
                    total += products[a, j] * basis[c, j]
                work[4 + k, a, c] = total
                matrix[a, c] += total * slant**k
    _diagonalise(rank, matrix, vectors)
    for i in range(rank):
        masses[i] = vectors[0, i] ** 2
        for k in range(inputs):
            total = 0.0
            for a in range(rank):
                for c in range(rank):
                    total += vectors[a, i] * work[4 + k, a, c] * vectors[c, i]
            points[i, k] = min(max(total, 0.0), 1.0)


@numba.njit(cache=True, nogil=True, error_model="numpy")
def _diagonalise(n, matrix, vectors):
    """Write the eigenvectors of a small symmetric matrix, by Jacobi's rotations."""
    for i in range(n):
        for j in range(n):
            vectors[i, j] = 1.0 if i == j else 0.0
    for _ in range(_SWEEPS):
        rotated = False
        for p in range(n):
            for q in range(p + 1, n):
                if abs(matrix[p, q]) < _NOTHING:
                    continue
                rotated = True
                ratio = (matrix[q, q] - matrix[p, p]) / (2.0 * matrix[p, q])
                tangent = 1.0 / (abs(ratio) + np.sqrt(ratio * ratio + 1.0))
                if ratio < 0.0:
                    tangent = -tangent
                cosine = 1.0 / np.sqrt(tangent * tangent + 1.0)
                sine = tangent * cosine
                for i in range(n):
                    x, y = matrix[i, p], matrix[i, q]
                    matrix[i, p], matrix[i, q] = cosine * x - sine * y, sine * x + cosine * y
                for i in range(n):
                    x, y = matrix[p, i], matrix[q, i]
                    matrix[p, i], matrix[q, i] = cosine * x - sine * y, sine * x + cosine * y
                for i in range(n):
                    x, y = vectors[i, p], vectors[i, q]
                    vectors[i, p], vectors[i, q] = cosine * x - sine * y, sine * x + cosine * y
        if not rotated:
            break
