"""Packed blocks of leaves against whole ones."""

import numpy as np
import pytest

from asvgp.model.packed import PackedBlocks


@pytest.mark.parametrize("step", [1, 3, 100])
def test_slices_are_those_of_whole_blocks(step):
    rng = np.random.default_rng(0)
    whole = rng.standard_normal((8, 5, 5))
    whole = whole + whole.transpose(0, 2, 1)
    whole[[0, 4, 5, 7]] = 0.0

    def fill(start, stop, out):
        out += whole[start:stop]

    packed = PackedBlocks(8, 5, step, fill)
    assert len(packed) == 8
    for part in (slice(None), slice(0, 3), slice(4, 6), slice(6, 100), slice(3, 3)):
        np.testing.assert_array_equal(packed[part], whole[part])
    # Half of each block that is not zero, and a number per block.
    assert packed.nbytes == 8 * (4 * 15 + 8)


def test_slices_are_copies():
    packed = PackedBlocks(2, 3, 2, lambda start, stop, out: out.fill(1.0))
    packed[:][:] = 5.0
    np.testing.assert_array_equal(packed[:], np.ones((2, 3, 3)))
