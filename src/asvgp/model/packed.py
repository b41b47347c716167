"""Symmetric blocks of all leaves, packed: half of each, and none where all is zero.

G of the leaves is read twice per bound, and kept as long as its engine. Whole blocks would be
the largest array of all: functions of degree k live on k more cells than a leaf has along every
input. In gaps between the data, and beyond their ends, G is zero.
"""

from __future__ import annotations

from collections.abc import Callable

import numba
import numpy as np

from asvgp.basis import Array


class PackedBlocks:
    """Symmetric matrices, (count, size, size), of which slices are unpacked on demand.

    ``fill(start, stop, out)`` adds some of them to zeros, and is called for ``step`` at a time.
    """

    def __init__(
        self, count: int, size: int, step: int, fill: Callable[[int, int, Array], None]
    ) -> None:
        self.shape = count, size, size
        self._rows = np.full(count, -1)  # of the packed ones; -1 for zeros
        # Pages that nothing is written to take no memory.
        packed, kept = np.empty((count, size * (size + 1) // 2)), 0
        for start in range(0, count, step):
            stop = min(start + step, count)
            part = np.zeros((stop - start, size, size))
            fill(start, stop, part)
            there = np.flatnonzero(part.any((1, 2)))
            self._rows[start + there] = np.arange(kept, kept + len(there))
            _pack(part, there, packed[kept : kept + len(there)])
            kept += len(there)
        self._packed = packed[:kept]

    def __len__(self) -> int:
        """Return the number of matrices."""
        return self.shape[0]

    @property
    def nbytes(self) -> int:
        """Memory that the matrices take."""
        return self._packed.nbytes + self._rows.nbytes

    def __getitem__(self, where: slice) -> Array:
        """Return copies of some of the matrices, (n, size, size)."""
        rows = self._rows[where]
        out = np.empty((len(rows), *self.shape[1:]))
        _unpack(self._packed, rows, out)
        return out


@numba.njit(cache=True, nogil=True, error_model="numpy")
def _pack(blocks, there, packed):
    """Write the lower halves of some blocks."""
    size = blocks.shape[1]
    for number in range(len(there)):
        block, row, at = blocks[there[number]], packed[number], 0
        for i in range(size):
            for j in range(i + 1):
                row[at] = block[i, j]
                at += 1


@numba.njit(cache=True, nogil=True, error_model="numpy")
def _unpack(packed, rows, out):
    """Write whole blocks."""
    size = out.shape[1]
    for number in range(len(rows)):
        block = out[number]
        if rows[number] < 0:
            block[:] = 0.0
            continue
        row, at = packed[rows[number]], 0
        for i in range(size):
            for j in range(i + 1):
                block[i, j] = row[at]
                block[j, i] = row[at]
                at += 1
