"""The multifrontal elimination on the CPU against dense twins."""

import gc
import pickle
from weakref import ref

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from asvgp.linalg.multifrontal import Space, symbolic
from asvgp.linalg.multifrontal import plan as plans
from asvgp.linalg.multifrontal.cpu import CpuFactor, Workspace
from asvgp.linalg.multifrontal.errors import NotPositiveDefinite
from asvgp.linalg.multifrontal.fronts import SMALL
from tests.linalg.test_multifrontal_symbolic import FLAT, LONG, assemble, each_example, trees

# four components: fronts beyond every size at which the algorithm changes
LARGE = symbolic((19, 17), (Space((3, 3), (0, 0)),) * 4, 1, (5, 5))
each_number_of_threads = pytest.mark.parametrize("threads", [1, 2, 3])


def slices(elements):
    return lambda start, stop: elements[start:stop]


def inverse_on_leaves(factor):
    """What `selected_inverse` hands out, and whether every leaf came once."""
    num_leaves, s = factor.tree.leaf_index.shape
    inverse, visits = np.empty((num_leaves, s, s)), np.zeros(num_leaves, dtype=int)

    def consume(start, stop, z):
        inverse[start:stop] = z
        visits[start:stop] += 1

    factor.selected_inverse(consume)
    assert np.all(visits == 1)
    return inverse


def check_against_dense(tree, threads, seed):
    elements, total = assemble(tree, seed)
    factor = CpuFactor(tree, slices(elements), threads)
    inverse = np.linalg.inv(total)
    assert factor.log_det == pytest.approx(np.linalg.slogdet(total)[1], rel=1e-11, abs=1e-11)
    rng = np.random.default_rng(seed)
    for shape in [(tree.size,), (tree.size, 1), (tree.size, 4)]:
        b = rng.standard_normal(shape)
        x = factor.solve(b)
        assert x.shape == shape
        np.testing.assert_allclose(x, inverse @ b, atol=1e-11)
    # x = L^-T z: x' P x = z' z for every z, and the covariance is that of N(0, P^-1)
    z = rng.standard_normal(tree.size)
    x = factor.sample(z)
    assert x @ total @ x == pytest.approx(z @ z, rel=1e-11)
    root = factor.sample(np.eye(tree.size))
    np.testing.assert_allclose(root @ root.T, inverse, atol=1e-11)
    np.testing.assert_allclose(root @ z, x, atol=1e-11)
    blocks = inverse_on_leaves(factor)
    for numbers, block in zip(tree.leaf_index, blocks, strict=True):
        there = numbers >= 0
        expected = np.where(there[:, None] & there, inverse[np.ix_(numbers, numbers)], 0.0)
        np.testing.assert_allclose(block, expected, atol=1e-11)


@settings(deadline=None, max_examples=40)
@given(tree=trees(), threads=st.integers(1, 3), seed=st.integers(0, 1000))
def test_random_trees_against_dense(tree, threads, seed):
    check_against_dense(tree, threads, seed)


@each_example
@each_number_of_threads
def test_examples_against_dense(tree, threads):
    check_against_dense(tree, threads, seed=1)


@each_number_of_threads
def test_large_fronts_against_dense(threads):
    rows = [level.rows.shape[1] for level in LARGE.levels]
    assert min(rows) < SMALL < max(rows)
    assert max(level.q for level in LARGE.levels) > SMALL
    assert max(level.p for level in LARGE.levels) > 128
    check_against_dense(LARGE, threads, seed=2)


@settings(deadline=None, max_examples=20)
@given(n=st.integers(1, 60), leaf=st.integers(1, 70), degree=st.integers(0, 3))
def test_flat_grids_against_dense(n, leaf, degree):
    """1 x n cells, down to a tree of a single leaf."""
    tree = symbolic((1, n), (Space((1, degree), (0, 0)),), 1, (1, leaf))
    check_against_dense(tree, threads=2, seed=n)


def test_elements_are_asked_for_once_and_may_have_any_layout():
    elements, _ = assemble(FLAT)
    expected = CpuFactor(FLAT, slices(elements)).log_det
    asked = np.zeros(len(elements), dtype=int)

    def transposed(start, stop):
        asked[start:stop] += 1
        return elements[start:stop].swapaxes(1, 2)

    assert CpuFactor(FLAT, transposed).log_det == pytest.approx(expected, rel=1e-14)
    assert np.all(asked == 1)
    elements.flags.writeable = False
    assert CpuFactor(FLAT, slices(elements)).log_det == expected


def test_repeated_use_changes_nothing():
    elements, _ = assemble(FLAT)
    factor = CpuFactor(FLAT, slices(elements), 2)
    b = np.random.default_rng(0).standard_normal((FLAT.size, 3))
    kept = b.copy()
    first, inverse = factor.solve(b), inverse_on_leaves(factor)
    np.testing.assert_array_equal(factor.solve(b), first)
    np.testing.assert_array_equal(factor.solve(np.asfortranarray(b)), first)
    np.testing.assert_array_equal(inverse_on_leaves(factor), inverse)
    factor.sample(b)
    np.testing.assert_array_equal(b, kept)
    assert factor.solve(b[:, :0]).shape == (FLAT.size, 0)
    assert factor.nbytes >= 8 * FLAT.cost().factor_nonzeros


@pytest.mark.parametrize("shape", [(), (3,), (2 * FLAT.size,), (3, FLAT.size), (FLAT.size, 2, 2)])
def test_wrong_shapes(shape):
    factor = CpuFactor(FLAT, slices(assemble(FLAT)[0]))
    for method in (factor.solve, factor.sample):
        with pytest.raises(ValueError, match="expected shape"):
            method(np.zeros(shape))


@each_number_of_threads
@pytest.mark.parametrize("value", [-1e6, 0.0, np.nan])
def test_not_positive_definite_in_a_leaf(threads, value):
    elements, _ = assemble(FLAT)
    leaves = FLAT.levels[0]
    box = int(np.argmax(leaves.num_pivots))
    place, number = leaves.source[box, 1], leaves.rows[box, 1]
    elements[box, place] = elements[box, :, place] = 0.0
    elements[box, place, place] = value
    with pytest.raises(NotPositiveDefinite, match="level 0") as caught:
        CpuFactor(FLAT, slices(elements), threads)
    error = caught.value
    assert isinstance(error, np.linalg.LinAlgError)
    assert (error.level, error.box, error.failed) == (0, box, number)
    np.testing.assert_array_equal(error.pivots, leaves.rows[box, : leaves.num_pivots[box]])


def test_not_positive_definite_at_the_root():
    elements, _ = assemble(LONG)
    elements[0, -1, -1] -= 1e6  # the last column
    with pytest.raises(NotPositiveDefinite) as caught:
        CpuFactor(LONG, slices(elements))
    assert caught.value.level == len(LONG.levels) - 1
    assert caught.value.failed == LONG.size - 1


@each_number_of_threads
def test_errors_of_the_callbacks_arrive(threads):
    elements, _ = assemble(FLAT)

    def fail(*arguments):
        raise RuntimeError("not today")

    with pytest.raises(RuntimeError, match="not today"):
        CpuFactor(FLAT, fail, threads)
    factor = CpuFactor(FLAT, slices(elements), threads)
    with pytest.raises(RuntimeError, match="not today"):
        factor.selected_inverse(fail)


def test_entries_below_the_smallest_number():
    """A weakly coupled chain, whose inverse falls off below 1e-308, and what is left of it."""
    n = 400
    tree = symbolic((n,), (Space((1,), (0,)),), 0, (2,))
    pair = np.array([[1.0, 1e-3], [1e-3, 1.0]])  # one cell's
    elements = np.zeros((len(tree.leaves), 3, 3))
    elements[:, :2, :2] += pair
    elements[np.diff(tree.leaf_intervals[0]) == 2, 1:, 1:] += pair
    total = np.zeros((n + 1, n + 1))
    for c in range(n):
        total[c : c + 2, c : c + 2] += pair
    factor = CpuFactor(tree, slices(elements), 2)
    b = np.eye(n + 1)[0]
    np.testing.assert_allclose(factor.solve(b), np.linalg.solve(total, b), atol=1e-300)
    assert np.float64(1e-310) * np.float64(0.5) > 0.0  # the setting is not left behind


def test_workspace_is_used_again_but_never_twice_at_once():
    (first, _), (second, _) = assemble(FLAT, 0), assemble(FLAT, 1)
    space = Workspace()
    factor = CpuFactor(FLAT, slices(first), 2, space)
    panels = factor._panels
    log_det, inverse = factor.log_det, inverse_on_leaves(factor)
    other = CpuFactor(FLAT, slices(second), 2, space)
    assert other._panels is not panels
    np.testing.assert_array_equal(inverse_on_leaves(factor), inverse)
    del factor
    gc.collect()
    again = CpuFactor(FLAT, slices(first), 2, space)
    assert again._panels is panels
    assert again.log_det == log_det
    np.testing.assert_array_equal(inverse_on_leaves(again), inverse)


def test_workspaces_are_copied_without_their_memory():
    space, owner = Workspace(), Workspace()  # any object owns
    space.take(7, owner)
    with space.lend(9):
        pass
    assert len(space._taken) == len(space._scratch) == 1
    copied = pickle.loads(pickle.dumps(space))
    assert (copied._taken, copied._scratch) == ([], [])
    with copied.lend(3) as part:
        assert part.size == 3


def test_a_workspace_lets_go_of_what_nobody_uses():
    space, living, dead = Workspace(), Workspace(), Workspace()  # any object owns
    kept, left = space.take(7, living), ref(space.take(7, dead))
    del dead
    gc.collect()
    space.clear()
    assert left() is None
    assert space.take(7, space) is not kept


def test_borrowers_in_turn_share_what_the_largest_takes():
    space = Workspace()
    with space.lend(5) as small, space.lend(9) as large:
        assert (small.size, large.size) == (5, 9)
        assert not np.shares_memory(small, large)
    with space.lend(3) as part:  # of the shorter one
        assert part.size == 3
        assert np.shares_memory(part, small)
    with space.lend(20) as longer, space.lend(4) as other:  # in place of the longer of the two
        assert np.shares_memory(other, small)
        assert longer.size == 20
    assert sorted(map(len, space._scratch)) == [5, 20]
    space.clear()
    with space.lend(4) as fresh:
        assert not np.shares_memory(fresh, small)


def test_plans_go_with_their_trees():
    tree = symbolic.__wrapped__((5, 7), (Space((1, 1), (0, 0)),))
    assert plans.plan(tree) is plans.plan(tree)
    assert tree in plans._plans
    known = len(plans._plans)
    del tree
    gc.collect()
    assert len(plans._plans) == known - 1
