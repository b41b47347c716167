"""Factors by square roots, dense ones and bordered ones against dense matrices."""

import numpy as np
import pytest

from asvgp.linalg.multifrontal import Space, symbolic
from asvgp.linalg.multifrontal.bordered import BorderedFactor, root_of
from asvgp.linalg.multifrontal.cpu import CpuFactor
from asvgp.linalg.multifrontal.dense import DenseFactor
from asvgp.linalg.multifrontal.errors import NotPositiveDefinite
from asvgp.linalg.multifrontal.roots import RootFactor
from tests.linalg.test_multifrontal_cpu import inverse_on_leaves, slices
from tests.linalg.test_multifrontal_symbolic import FLAT, TORUS, assemble

TREES = {
    "plane": symbolic((9, 8), (Space((2, 3), (0, 0)),), 0, (3, 3)),
    "two components": symbolic(
        (8, 8), (Space((1, 2), (0, 0)), Space((2, None), (1, 0))), 0, (4, 4)
    ),
    "nothing to pass on": symbolic((4, 4), (Space((0, 0), (0, 0)),), 0, (2, 2)),
    "one leaf": symbolic((3, 3), (Space((2, 2), (0, 0)),), 0, (4, 4)),
    "torus": TORUS,
}
each_tree = pytest.mark.parametrize("tree", TREES.values(), ids=TREES.keys())


@pytest.fixture
def rng():
    return np.random.default_rng(5)


def rows_of(tree, rng, scale=lambda shape: np.ones(shape)):
    """Rows A of every leaf, nan at functions that are not there, and all of them as one matrix."""
    index = tree.leaf_index
    leaves, s = index.shape
    roots, stack = rng.standard_normal((leaves, s + 2, s)), np.zeros((leaves, s + 2, tree.size))
    roots *= scale(roots.shape)
    for numbers, root, part in zip(index, roots, stack, strict=True):
        root[:, numbers < 0] = np.nan
        part[:, numbers[numbers >= 0]] = root[:, numbers >= 0]
    return roots, stack.reshape(-1, tree.size)


def blocks_of(tree, inverse, columns=0):
    """The inverse on the functions of every leaf, zero where there is none, and on the columns."""
    padded = np.insert(inverse, tree.size, 0.0, axis=0)
    padded = np.insert(padded, tree.size, 0.0, axis=1)
    own = np.where(tree.leaf_index < 0, tree.size, tree.leaf_index)
    last = np.broadcast_to(tree.size + 1 + np.arange(columns), (len(own), columns))
    places = np.append(own, last, axis=1)
    return padded[places[:, :, None], places[:, None, :]]


def check(factor, matrix, rng, atol=1e-10):
    """Compare all that a factor does with a dense matrix, but its selected inverse."""
    inverse = np.linalg.inv(matrix)
    assert factor.log_det == pytest.approx(np.linalg.slogdet(matrix)[1], rel=1e-10)
    for shape in [(len(matrix),), (len(matrix), 3)]:
        b = rng.standard_normal(shape)
        kept, x = b.copy(), factor.solve(b)
        assert x.shape == shape
        np.testing.assert_allclose(x, inverse @ b, atol=atol)
        np.testing.assert_array_equal(b, kept)
    root = factor.sample(np.eye(len(matrix)))
    np.testing.assert_allclose(root @ root.T, inverse, atol=atol)
    z = rng.standard_normal(len(matrix))
    np.testing.assert_allclose(factor.sample(z), root @ z, atol=atol)


@each_tree
@pytest.mark.parametrize("threads", [1, 2])
def test_roots_of_leaves_against_dense(tree, threads, rng):
    roots, stack = rows_of(tree, rng)
    factor = RootFactor(tree, slices(roots), threads)
    matrix = stack.T @ stack
    check(factor, matrix, rng)
    expected = blocks_of(tree, np.linalg.inv(matrix))
    np.testing.assert_allclose(inverse_on_leaves(factor), expected, atol=1e-10)
    assert factor.nbytes >= 8 * tree.cost().factor_nonzeros


def test_roots_lose_half_as_many_digits(rng):
    """A matrix of condition 1e20, which has no Cholesky factor in double precision."""
    tree = TREES["plane"]
    fade = np.geomspace(1.0, 1e-10, tree.leaf_index.shape[1] + 2)
    roots, stack = rows_of(tree, rng, lambda shape: np.broadcast_to(fade[:, None], shape))
    factor = RootFactor(tree, slices(roots))
    upper = np.linalg.qr(stack, mode="r")
    assert factor.log_det == pytest.approx(2.0 * np.log(np.abs(np.diag(upper))).sum(), rel=1e-9)
    b = rng.standard_normal(tree.size)
    x = np.linalg.solve(upper, np.linalg.solve(upper.T, b))
    np.testing.assert_allclose(factor.solve(b), x, atol=1e-4 * np.abs(x).max())


@pytest.mark.parametrize("value", [0.0, np.nan])
def test_a_function_without_rows_is_named(value, rng):
    roots, _ = rows_of(FLAT, rng)
    leaves = FLAT.levels[0]
    box = int(np.argmax(leaves.num_pivots))
    roots[box, :, leaves.source[box, 1]] = value
    with pytest.raises(NotPositiveDefinite, match=f"level 0, box {box}, ") as caught:
        RootFactor(FLAT, slices(roots))
    if value == 0.0:  # NaN spreads to all
        assert caught.value.failed == leaves.rows[box, 1]


@pytest.mark.parametrize("make", [lambda rows: DenseFactor(rows.T @ rows), DenseFactor.of_rows])
def test_dense_factors(make, rng):
    rows = rng.standard_normal((9, 6)) * 10.0 ** rng.uniform(-2.0, 2.0, 6)
    matrix, seen = rows.T @ rows, []
    factor, inverse = make(rows), np.linalg.inv(matrix)
    largest = np.abs(inverse).max()
    check(factor, matrix, rng, atol=1e-9 * largest)
    np.testing.assert_allclose(factor.inverse(), inverse, atol=1e-10 * largest)
    factor.selected_inverse(lambda *given: seen.append(given))
    ((start, stop, (block,)),) = seen
    assert (start, stop) == (0, 1)
    np.testing.assert_array_equal(block, factor.inverse())
    assert factor.nbytes == matrix.nbytes


def test_rows_keep_digits_that_their_squares_lose(rng):
    rows = rng.standard_normal((8, 5))
    rows[:, 4] = rows[:, 3] + 1e-9 * rng.standard_normal(8)
    upper = np.linalg.qr(rows, mode="r")
    expected = 2.0 * np.log(np.abs(np.diag(upper))).sum()
    assert DenseFactor.of_rows(rows).log_det == pytest.approx(expected, abs=1e-5)


@pytest.mark.parametrize("value", [-1.0, 0.0, np.nan])
def test_a_diagonal_that_is_not_positive_is_named(value):
    matrix = np.eye(5)
    matrix[2, 2] = value
    with pytest.raises(NotPositiveDefinite, match="Function 2 broke it"):
        DenseFactor(matrix)


def test_a_pivot_that_breaks_a_dense_factor_late_is_named():
    matrix = np.eye(5)
    matrix[1, 3] = matrix[3, 1] = 2.0
    with pytest.raises(NotPositiveDefinite, match="Function 3 broke it") as caught:
        DenseFactor(matrix)
    assert caught.value.failed == 3


@pytest.mark.parametrize("rows, failed", [(np.eye(2, 4), 2), (np.diag([1.0, 0.0, 1.0]), 1)])
def test_rows_that_determine_no_factor_are_named(rows, failed):
    with pytest.raises(NotPositiveDefinite) as caught:
        DenseFactor.of_rows(rows)
    assert caught.value.failed == failed


@pytest.mark.parametrize("rank", [1, 3])
def test_roots_of_matrices_without_negative_eigenvalues(rank, rng):
    half = rng.standard_normal((2, 4, rank))
    matrices = half @ half.swapaxes(1, 2)
    rows = root_of(matrices)
    np.testing.assert_allclose(rows.swapaxes(1, 2) @ rows, matrices, atol=1e-12)


@pytest.mark.parametrize("by_roots", [False, True])
@pytest.mark.parametrize("tree", [TREES["plane"], TREES["two components"]], ids=["one", "two"])
def test_factors_with_columns_around_them(tree, by_roots, rng):
    if by_roots:
        roots, stack = rows_of(tree, rng)
        main, matrix = RootFactor(tree, slices(roots)), stack.T @ stack
    else:
        elements, matrix = assemble(tree)
        main = CpuFactor(tree, slices(elements))
    turn, half = rng.standard_normal((tree.size, 3)), rng.standard_normal((2, 3))
    cross, rows = matrix @ turn, rng.standard_normal((4, 3))
    corner = turn.T @ cross + half.T @ half
    factor = BorderedFactor(main, cross, corner, rows, matrix.__matmul__)
    whole = np.block([[matrix, cross], [cross.T, corner + rows.T @ rows]])
    check(factor, whole, rng, atol=1e-9)
    found = np.empty((len(tree.leaves), *[tree.leaf_index.shape[1] + 3] * 2))

    def consume(start, stop, blocks):
        found[start:stop] = blocks

    factor.selected_inverse(consume)
    np.testing.assert_allclose(found, blocks_of(tree, np.linalg.inv(whole), 3), atol=1e-9)
    assert factor.nbytes == main.nbytes + 2 * cross.nbytes + 8 * 3 * 3


def test_columns_are_refined_by_residuals(rng):
    """A factor of another matrix nearby: the error of what it solves is squared."""
    tree = TREES["plane"]
    elements, matrix = assemble(tree)
    main = CpuFactor(tree, lambda start, stop: (1.0 + 1e-5) * elements[start:stop])
    cross, corner = rng.standard_normal((tree.size, 2)), 100.0 * np.eye(2)
    factor = BorderedFactor(main, cross, corner, np.eye(2), matrix.__matmul__)
    schur = corner + np.eye(2) - cross.T @ np.linalg.solve(matrix, cross)
    difference = factor.log_det - main.log_det - np.linalg.slogdet(schur)[1]
    assert abs(difference) < 1e-8
