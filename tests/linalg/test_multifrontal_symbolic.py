"""The symbolic phase against brute force, and a reference elimination on top of it.

`factorise`, `solve` and `selected_inverse` are the numeric phases in their plainest form:
what the fast ones must agree with.
"""

from itertools import product
from math import prod

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from asvgp.linalg.multifrontal import Space, symbolic
from asvgp.linalg.multifrontal.dissection import bisect
from asvgp.linalg.multifrontal.symbolic import default_leaf

# --- the reference: whole levels of padded fronts --------------------------------------


def factorise(tree, elements):
    """L_pp (B, p, p) and L_bp (B, q, p) of every level, from elements (L, s, s)."""
    factors, updates = [], np.empty(0)
    for level in tree.levels:
        num_boxes, m = level.rows.shape
        fronts = np.zeros((num_boxes, m, m))
        for b in range(num_boxes):
            fronts[b] += np.diag(level.rows[b] < 0)  # identity on the padding
            if level is tree.levels[0]:
                extend_add(fronts[b], np.arange(m), elements[b], level.source[b])
            for c, place in enumerate(level.scatter[b]):
                extend_add(fronts[b], place, updates[2 * b + c], np.arange(place.size))
        p = level.p
        lower = np.linalg.cholesky(fronts[:, :p, :p])
        below = np.linalg.solve(lower, fronts[:, :p, p:]).swapaxes(1, 2)
        updates = fronts[:, p:, p:] - below @ below.swapaxes(1, 2)
        factors.append((lower, below))
    return factors


def extend_add(front, place, part, take):
    """Add rows and columns ``take`` of a part to rows and columns ``place`` of a front."""
    there = (take >= 0) & (place >= 0)
    front[np.ix_(place[there], place[there])] += part[np.ix_(take[there], take[there])]


def log_determinant(factors):
    """The padding has ones on its diagonal and adds nothing."""
    return 2.0 * sum(np.log(np.diagonal(lower, 0, 1, 2)).sum() for lower, _ in factors)


def solve(tree, factors, rhs):
    """P^-1 rhs: forward from the leaves to the root, back from the root to the leaves."""
    x = np.append(rhs, 0.0)  # the padding, number -1, reads and writes a last entry: always 0
    steps = list(zip(tree.levels, factors, strict=True))
    for level, (lower, below) in steps:
        for b, (pivots, boundary) in enumerate(zip(level.pivots, level.boundary, strict=True)):
            x[pivots] = np.linalg.solve(lower[b], x[pivots])
            x[boundary] -= below[b] @ x[pivots]
    for level, (lower, below) in reversed(steps):
        for b, (pivots, boundary) in enumerate(zip(level.pivots, level.boundary, strict=True)):
            x[pivots] = np.linalg.solve(lower[b].T, x[pivots] - below[b].T @ x[boundary])
    return x[:-1]


def selected_inverse(tree, factors):
    """P^-1 on the rows of every leaf's front (L, p + q, p + q), from the root down."""
    parent, z = tree.levels[-1], np.empty(0)
    for level, (lower, below) in zip(reversed(tree.levels), reversed(factors), strict=True):
        z_bb = np.zeros((len(level.rows), level.q, level.q))
        for b in range(len(z_bb)) if level.q else ():  # rows of the parent's inverse
            place = np.arange(level.q)
            extend_add(z_bb[b], place, z[b // 2], parent.scatter[b // 2, b % 2])
        inverse = np.linalg.inv(lower)
        w = below @ inverse
        z_bp = -z_bb @ w
        z_pp = inverse.swapaxes(1, 2) @ inverse - w.swapaxes(1, 2) @ z_bp
        parent, z = level, np.block([[z_pp, z_bp.swapaxes(1, 2)], [z_bp, z_bb]])
    return z


# --- brute force -----------------------------------------------------------------------


def supports(tree):
    """(lower, upper) edges of the support of every function: two arrays (size, D).

    Around a circle, lower ones may be negative.
    """
    lower, upper = [], []
    for space in tree.spaces:
        inputs = []
        sides = zip(space.degrees, space.levels, tree.cells, strict=True)
        for d, (degree, level, n) in enumerate(sides):
            if degree is None:
                inputs.append([(0, n)])
                continue
            width = 2**level
            if d in space.circles:
                spans = [((i - degree) * width, (i + 1) * width) for i in range(n // width)]
                inputs.append(spans)
                continue
            count = -(-n // width) + degree
            inputs.append(
                [(max(0, (i - degree) * width), min(n, (i + 1) * width)) for i in range(count)]
            )
        for spans in product(*inputs):
            lower.append([span[0] for span in spans])
            upper.append([span[1] for span in spans])
    for _ in range(tree.columns):
        lower.append([0] * len(tree.cells))
        upper.append(list(tree.cells))
    return np.array(lower), np.array(upper)


def leaf_boxes(tree):
    """(lower, upper) edges of every leaf: two arrays (L, D)."""
    edges = tree.leaf_intervals
    lower = [edges[d][tree.leaves[:, d]] for d in range(len(edges))]
    upper = [edges[d][tree.leaves[:, d] + 1] for d in range(len(edges))]
    return np.stack(lower, axis=1), np.stack(upper, axis=1)


def alive_on_leaves(tree):
    """(L, size): is the function alive on the leaf?"""
    (lower, upper), (first, last) = supports(tree), leaf_boxes(tree)
    turns = [
        (lower + turn < last[:, None]) & (upper + turn > first[:, None])
        for turn in (0, np.array(tree.cells))
    ]
    return np.all(turns[0] | turns[1], axis=2)


def present(numbers):
    return numbers[numbers >= 0]


@st.composite
def trees(draw):
    num_inputs = draw(st.integers(1, 4))
    longest = {1: 40, 2: 13, 3: 6, 4: 3}[num_inputs]
    cells = tuple(draw(st.integers(1, longest)) for _ in range(num_inputs))
    degree = st.none() | st.integers(0, 3 if num_inputs < 3 else 2)
    circles = draw(st.sets(st.integers(0, num_inputs - 1), max_size=2 if num_inputs < 3 else 1))
    cells = tuple(
        draw(st.sampled_from([6, 8, 12, 15])) if d in circles else n for d, n in enumerate(cells)
    )
    level = [  # that divides the circle into enough cells
        st.integers(0, 3) if d not in circles else st.integers(0, int(n == 12))
        for d, n in enumerate(cells)
    ]
    space = st.builds(
        Space, st.tuples(*[degree] * num_inputs), st.tuples(*level), st.just(tuple(circles))
    )
    spaces = tuple(draw(st.lists(space, min_size=1, max_size=3)))
    leaf = draw(st.none() | st.tuples(*[st.integers(1, 5)] * num_inputs))
    return symbolic(cells, spaces, draw(st.integers(0, 2)), leaf)


LONG = symbolic((1, 97), (Space((1, 2), (0, 0)), Space((None, 3), (0, 3))), 2)
FLAT = symbolic((31, 29), (Space((2, 2), (0, 0)),), 0, (3, 3))
COARSE = symbolic((40, 24), (Space((1, 1), (0, 0)), Space((2, 3), (2, 1))), 1, (4, 4))
SOLID = symbolic((9, 7, 8), (Space((1, 1, 2), (0, 0, 0)), Space((None, 1, 1), (0, 1, 0))), 1)
SINGLE = symbolic((3, 3), (Space((2, 2), (0, 0)),), 1)
RING = symbolic((24, 7), (Space((2, 1), (0, 0), (0,)), Space((3, None), (1, 0), (0,))), 1, (3, 3))
TORUS = symbolic((8, 16), (Space((2, 3), (0, 0), (0, 1)), Space((1, 2), (1, 1), (0, 1))))
EXAMPLES = [LONG, FLAT, COARSE, SOLID, SINGLE, RING, TORUS]
each_example = pytest.mark.parametrize(
    "tree", EXAMPLES, ids=["long", "flat", "coarse", "solid", "single", "ring", "torus"]
)


# --- the tree --------------------------------------------------------------------------


@given(n=st.integers(1, 5000), leaf=st.integers(1, 40))
def test_bisection_is_balanced_and_never_empty(n, leaf):
    nested = bisect(n, leaf, {1})
    lengths = np.array([n])
    for t, edges in enumerate(nested):
        lengths = np.diff(edges)
        assert len(lengths) == 2**t
        assert edges[0] == 0
        assert edges[-1] == n
        assert lengths.min() >= 1
        assert lengths.max() - lengths.min() <= 1
        assert t == 0 or set(nested[t - 1]) <= set(edges)
    assert lengths.max() <= max(leaf, 1 + (lengths.min() == 1))


def test_splits_prefer_coarse_knots():
    nested = bisect(1000, 4, {1, 8})
    for edges in nested[1:3]:
        assert not np.any(edges[:-1] % 8)
    for edges in nested:
        assert np.diff(edges).max() <= 1.2 * 1000 / (len(edges) - 1) + 1


@settings(deadline=None, max_examples=60)
@given(tree=trees())
def test_leaves_tile_the_grid_and_know_what_is_alive(tree):
    lower, upper = leaf_boxes(tree)
    assert np.all(lower < upper)
    assert np.prod(upper - lower, axis=1).sum() == prod(tree.cells)
    assert len({tuple(leaf) for leaf in tree.leaves.tolist()}) == len(tree.leaves)
    alive = alive_on_leaves(tree)
    assert tree.size == alive.shape[1]
    for numbers, expected in zip(tree.leaf_index, alive, strict=True):
        np.testing.assert_array_equal(np.sort(present(numbers)), np.flatnonzero(expected))


@each_example
def test_leaves_by_their_intervals(tree):
    shape = [len(edges) - 1 for edges in tree.leaf_intervals]
    assert tree.leaf_numbers.shape == tuple(shape)
    for number, leaf in enumerate(tree.leaves):
        assert tree.leaf_numbers[tuple(leaf)] == number


@each_example
def test_a_leaf_block_is_a_tensor_product_of_padded_ranges(tree):
    for leaf, numbers in zip(tree.leaves, tree.leaf_index, strict=True):
        start = position = 0
        for space, ranges in zip(tree.spaces, tree.leaf_ranges, strict=True):
            counts = space.counts(tree.cells)
            for local in product(*(range(r.length) for r in ranges)):
                first = [r.first[i] for r, i in zip(ranges, leaf, strict=True)]
                count = [r.count[i] for r, i in zip(ranges, leaf, strict=True)]
                expected = -1
                if np.all(np.less(local, count)):
                    expected = start + np.ravel_multi_index(np.add(first, local), counts, "wrap")
                assert numbers[position] == expected
                position += 1
            start += prod(counts)
        assert numbers[position:].tolist() == list(range(start, tree.size))


# --- the fronts ------------------------------------------------------------------------


@settings(deadline=None, max_examples=100)
@given(tree=trees())
def test_fronts_against_sets(tree):
    alive = alive_on_leaves(tree)
    eliminated = np.zeros(tree.size, dtype=int)
    for level in tree.levels:
        num_boxes = len(level.rows)
        here = alive.reshape(num_boxes, -1, tree.size)  # a box is a range of leaves
        before = eliminated.copy()
        for b in range(num_boxes):
            inside = here[b].any(axis=0)
            elsewhere = np.delete(here, b, axis=0).any(axis=(0, 1))
            pivots, boundary = present(level.pivots[b]), present(level.boundary[b])
            if num_boxes == 1:
                elsewhere[:] = False
            np.testing.assert_array_equal(
                pivots, np.flatnonzero(inside & ~elsewhere & ~(before > 0))
            )
            np.testing.assert_array_equal(np.sort(boundary), np.flatnonzero(inside & elsewhere))
            eliminated[pivots] += 1
            # the counts are those of leading rows
            assert pivots.size == level.num_pivots[b]
            assert boundary.size == level.num_boundary[b]
            assert np.all(level.pivots[b, pivots.size :] == -1)
            assert np.all(level.boundary[b, boundary.size :] == -1)
        assert level.p == level.num_pivots.max()
        assert level.q == level.num_boundary.max()
    assert np.all(eliminated == 1)
    assert tree.levels[-1].q == 0
    columns = np.arange(tree.size - tree.columns, tree.size)
    assert set(columns) <= set(tree.levels[-1].pivots[0])


@settings(deadline=None, max_examples=100)
@given(tree=trees())
def test_rows_come_from_the_leaf_and_go_to_the_parent(tree):
    leaves = tree.levels[0]
    assert leaves.scatter.shape == (len(tree.leaves), 0, 0)
    for rows, source, numbers in zip(leaves.rows, leaves.source, tree.leaf_index, strict=True):
        np.testing.assert_array_equal(source >= 0, rows >= 0)
        np.testing.assert_array_equal(numbers[present(source)], present(rows))
        assert np.unique(present(source)).size == present(numbers).size
    for child, parent in zip(tree.levels, tree.levels[1:], strict=False):
        assert parent.source.shape == (len(parent.rows), 0)
        assert parent.scatter.shape == (len(parent.rows), 2, child.q)
        for b, c in product(range(len(parent.rows)), range(2)):
            boundary, scatter = child.boundary[2 * b + c], parent.scatter[b, c]
            np.testing.assert_array_equal(scatter >= 0, boundary >= 0)
            np.testing.assert_array_equal(parent.rows[b, present(scatter)], present(boundary))
            assert np.all(np.diff(present(scatter)) > 0)
            summed = parent.num_summed[b, c]
            assert np.all(scatter[:summed] < parent.num_pivots[b])
            assert np.all(present(scatter[summed:]) >= parent.p)


def test_extend_add_is_nearly_block_copies():
    tree = symbolic((64, 64), (Space((2, 2), (0, 0)),), 0, (4, 4))
    for parent in tree.levels[1:]:
        runs = 1 + np.count_nonzero(np.diff(parent.scatter, axis=2) > 1, axis=2)
        rows = np.count_nonzero(parent.scatter >= 0, axis=2)
        assert runs.max() <= 8
        assert rows.mean() / runs.mean() >= 6
    np.testing.assert_array_equal(tree.levels[-1].scatter[0, 0], tree.levels[-1].scatter[0, 1])


def test_trees_are_kept_and_cannot_be_changed():
    arguments = (16, 16), (Space((2, 2), (0, 0)),), 1
    tree = symbolic(*arguments)
    assert symbolic(*arguments) is tree
    for array in (tree.leaf_index, tree.levels[0].pivots, tree.levels[1].scatter):
        assert array.dtype == np.int32
        with pytest.raises(ValueError, match="read-only"):
            array[:] = 0
    with pytest.raises(ValueError, match="read-only"):
        tree.leaf_ranges[0][0].first[:] = 0


@pytest.mark.parametrize(("cells", "level"), [(5, 0), (10, 1), (15, 1)])
def test_circles_of_too_few_cells(cells, level):
    with pytest.raises(ValueError, match="around a circle"):
        symbolic((cells, 4), (Space((3, 1), (level, 0), (0,)),))


def test_too_many_functions():
    with pytest.raises(ValueError, match="32-bit"):
        symbolic((1 << 16, 1 << 16), (Space((1, 1), (0, 0)),))


# --- the numbers -----------------------------------------------------------------------


def assemble(tree, seed=0):
    """Random positive definite elements, nan where a leaf has no function; and their sum."""
    rng = np.random.default_rng(seed)
    num_leaves, s = tree.leaf_index.shape
    elements = np.full((num_leaves, s, s), np.nan)
    total = np.zeros((tree.size, tree.size))
    for numbers, element in zip(tree.leaf_index, elements, strict=True):
        alive = np.flatnonzero(numbers >= 0)
        half = rng.standard_normal((alive.size, alive.size))
        element[np.ix_(alive, alive)] = half @ half.T / alive.size + np.eye(alive.size)
        extend_add(total, numbers, element, np.arange(s))
    return elements, total


@settings(deadline=None, max_examples=25)
@given(tree=trees() | st.sampled_from(EXAMPLES), seed=st.integers(0, 1000))
def test_reference_elimination_against_dense(tree, seed):
    elements, total = assemble(tree, seed)
    factors = factorise(tree, elements)
    assert log_determinant(factors) == pytest.approx(np.linalg.slogdet(total)[1], rel=1e-12)
    rhs = np.random.default_rng(seed).standard_normal(tree.size)
    np.testing.assert_allclose(solve(tree, factors, rhs), np.linalg.solve(total, rhs), atol=1e-11)
    inverse = np.linalg.inv(total)
    for rows, z in zip(tree.levels[0].rows, selected_inverse(tree, factors), strict=True):
        there = rows >= 0
        expected = inverse[np.ix_(rows[there], rows[there])]
        np.testing.assert_allclose(z[np.ix_(there, there)], expected, atol=1e-11)


def test_default_leaves_are_no_narrower_than_the_degree():
    assert default_leaf((Space((2, 9), (0, 0)), Space((1, None), (0, 0)))) == (4, 9)
    assert default_leaf((Space((2,) * 5, (0,) * 5),)) == (2,) * 5


def test_costs_of_a_chain():
    """Eight linear cells in pairs: see the example of `symbolic`."""
    tree = symbolic((8,), (Space((1,), (0,)),), 0, (2,))
    fronts = [(2, 1), (1, 2), (1, 2), (2, 1), (1, 1), (1, 1), (1, 0)]  # p, q
    cost = tree.cost()
    assert cost.factor_nonzeros == sum(p * (p + 1) // 2 + p * q for p, q in fronts)
    assert tree.factor_flops == pytest.approx(
        sum(p**3 / 3 + p**2 * q + p * q**2 for p, q in fronts)
    )
    assert cost.inverse_flops == pytest.approx(2 * tree.factor_flops)
    # leaves 4 x 3^2; then factor 2 x 6 + 2 x 3, updates 1 + 4 + 4 + 1, fronts 2 x 2^2
    assert cost.factor_peak == max(36, 18 + 10 + 8, 22 + 2 + 1)
    assert cost.inverse_peak == 23 + 36 + 8
    padded = tree.cost(padded=True)
    assert padded.factor_nonzeros == 4 * (3 + 4) + 2 * (1 + 1) + 1
    assert all(bare <= full for bare, full in zip(cost, padded, strict=True))
