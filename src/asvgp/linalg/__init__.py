"""Linear algebra of a chain of cells: the one description of how things lie in memory.

On a uniform grid with knot spacing 1 ("knot units") a spline of degree ``k`` is, on
every cell, a polynomial in the local coordinate ``s`` in [0, 1]. Instead of B-spline
coefficients we carry its Taylor coefficients at the left knot,

    f(s) = sum_i v_i s**i,      v = (x_0, ..., x_{k-1}, e),

where ``x`` (the *state*) is shared with the neighbouring cell and ``e`` (the
*innovation*, the coefficient of ``s**k``) is the cell's own. Continuity of ``k - 1``
derivatives reads ``x_next = shift @ v`` with ``shift[i, j] = binomial(j, i)``, so
``(x at the first knot, e_0, ..., e_{n-1})`` is a basis of the M = n + k splines, as the
B-splines are, and every quadratic form that is a sum over cells is a *chain*:

    prior      K = boundary(x_0) + sum_c element(v_c)
    data       G = sum_c G_c(v_c),  G_c = sum of w m m' over the observations m'v_c
    posterior  P = K + G / noise

Why not B-spline coefficients? A slowly varying function is a tiny difference of large
B-spline coefficients, and the condition number of K grows like (lengthscale / h)**(2k).
Taylor coefficients are the derivatives themselves: K is then graded by *columns*, which
neither Cholesky nor QR notices, and log-determinants stay good to a dozen digits at
lengthscale / h = 10**4, where a banded Cholesky of the B-spline Gram matrix breaks down.

A sum of S processes is a chain too: the components' states are joined,

    v = (x of component 1, ..., x of component S, e of component 1, ..., e of component S),

n = sum of the degrees states and S innovations per cell; only the data couple them. What
follows is written for that; a single kernel is the case n = k, S = 1.

Letters and shapes, used in every function of this layer (all float64, C-contiguous):

=============== ===================== ==================================================
``markers``     S tuples of zeros     as long as the degrees, which their *types* carry so that
                                      a cell's algebra is compiled without loops (`unrolled`)
``shift``       (n, n + S)            Taylor shift of all components to the next knot
``power``       (n + S,) int          the power of s that a coefficient multiplies
``element``     (n + S, n + S)        one cell's part of K
``boundary``    (n, n)                the left end's part of K
``moments``     (cells, columns)      the distinct entries of G_c, cell by cell
``pair``        (n + S, n + S) uint32 the column of ``moments`` that multiplies two coefficients
``targets``     (cells, k + 1)        sum of w y m_j, j = 0 .. k
``gain``        (cells, S, n + S - 1) innovation number i of cell c, given the state and the
``rho``         (cells, S)            innovations before it, has precision rho[c, i] and
``offset``      (cells, S)            mean offset[c, i] - gain[c, i, : n + i] @ v[: n + i]
``coef``        (cells, n + S)        Taylor coefficients v_c
``cov``         (cells, n + S, n + S) covariance of v_c: the selected inverse, cell by cell
=============== ===================== ==================================================

An observation of f at s is ``m'v`` with ``m_j = s**j``, so that G_c is a Hankel matrix and
has 2k + 1 distinct entries, ``moments[c, j]`` the sum of ``w s**j``. An average of f over
part of a cell has for ``m_j`` the mean of ``s**j`` there; then moments are the upper
triangle of G_c. All that the functions here know of the difference is the table ``pair``.

Elimination runs from the last cell to the first, marginals from the first to the last;
the factor ``(gain, rho)`` is therefore a generative Markov chain for the coefficients.
Determinants are in these coordinates; they differ from the B-spline ones by a constant
that depends on n and k alone (`asvgp.basis.log_jacobian`).
"""
