"""Fronts in batches: the index arrays of a `Tree`, cut into chunks, on a device.

A chunk holds neighbouring boxes of one level, whose fronts are one batch of p pivots and q
boundary rows (the largest counts in the chunk, or among its siblings, rounded up). Chunks
form a tree of their own: the *parts* of a chunk hold exactly the children of its boxes. A
level whose fronts take little memory is one chunk; where they take much, the numeric phases
go depth first, a chunk with everything below it at a time, so that only the factor itself
is ever held for all boxes.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from asvgp.linalg.multifrontal.symbolic import Index, Tree

# Part of a GPU's memory that a chunk's fronts may take: larger chunks keep it busier.
SHARE = 1 / 32
# p and q are multiples of it: matrix products of odd sizes lose a quarter of their speed.
ALIGN = 4


@dataclass(frozen=True, eq=False)
class Chunk:
    """Boxes ``start`` to ``stop`` (n of them) of a level; -1 in the maps stands for no row."""

    level: int
    start: int
    stop: int
    p: int
    q: int
    parts: tuple["Chunk", ...]  # the children's chunks, in their order; all have the same q
    rows: Tensor  # (n, p + q) int64: functions of the fronts' rows, ``size`` for padding
    missing: Tensor  # (n, p) float64: ones at pivots that are padding
    take: Tensor  # (n, C, p + q) int32: row of each child's boundary (C = 2) or of the element
    place: Tensor  # (n, 1, q) int32: row of the parent's front of every boundary row
    leaf_place: Tensor  # (n, 1, s) int32, leaves only: row of the front of every function

    @property
    def n(self) -> int:
        """Number of boxes."""
        return self.stop - self.start

    def __iter__(self) -> Iterator["Chunk"]:
        """Yield the chunks below and this one, children before their parents."""
        for part in self.parts:
            yield from part
        yield self


@lru_cache(maxsize=8)
def chunks(tree: Tree, device: torch.device, limit: int | None = None) -> Chunk:
    """Return the chunk of the root, with all others below it; kept for later calls.

    A chunk's fronts have at most ``limit`` entries, unless a single front has more; by default
    what takes a small part of a GPU's memory, or 1 GiB.
    """
    if limit is None:
        limit = 1 << 27
        if device.type == "cuda":
            limit = int(SHARE * torch.cuda.get_device_properties(device).total_memory / 8)
    (root,) = _cut(tree, device, limit, len(tree.levels) - 1, 0, 1, 0)
    return root


def _cut(
    tree: Tree, device: torch.device, limit: int, number: int, start: int, stop: int, above: int
) -> tuple[Chunk, ...]:
    """Return chunks of the boxes from start to stop; ``above`` is the p of their parents' chunk."""
    level = tree.levels[number]
    boundary = _aligned(level.num_boundary[start:stop])
    entries = (level.p + boundary.size) ** 2 + (0 if number else tree.leaf_index.shape[1] ** 2)
    width = min(limit // max(entries, 1) or 1, stop - start)
    width -= width % 2 if width > 1 else 0  # siblings are together or alone
    result = []
    for a in range(start, stop, width):
        b = min(a + width, stop)
        pivots = _aligned(level.num_pivots[a:b])
        arrays = _arrays(tree, number, slice(a, b), pivots, boundary, above)
        tensors = {
            name: torch.from_numpy(np.ascontiguousarray(each)).to(device)
            for name, each in arrays.items()
        }
        parts = _cut(tree, device, limit, number - 1, 2 * a, 2 * b, pivots.size) if number else ()
        result.append(Chunk(number, a, b, pivots.size, boundary.size, parts, **tensors))
    return tuple(result)


def _arrays(
    tree: Tree, number: int, boxes: slice, pivots: Index, boundary: Index, above: int
) -> dict[str, NDArray]:
    """Return the arrays of a chunk with these of its level's pivots and boundary rows."""
    level, s = tree.levels[number], tree.leaf_index.shape[1]
    own = np.append(pivots, np.where(boundary < 0, -1, level.p + boundary))
    rows = _pick(level.rows[boxes], own)
    place = leaf_place = np.empty((len(rows), 1, 0), dtype=np.int32)
    if number:
        take = _pick(_invert(level.scatter[boxes], level.rows.shape[1]), own)
    else:
        take = _pick(level.source[boxes, None], own)
        leaf_place = _invert(take, s)
    if boundary.size:
        parent = tree.levels[number + 1]
        place = _pick(parent.scatter.reshape(len(level.rows), 1, -1)[boxes], boundary)
        place = np.where(place < parent.p, place, place - parent.p + above)
    return {
        "rows": np.where(rows < 0, tree.size, rows).astype(np.int64),
        "missing": (rows[:, : pivots.size] < 0).astype(float),
        "take": take,
        "place": place.astype(np.int32),
        "leaf_place": leaf_place,
    }


def _aligned(counts: Index) -> Index:
    """Return 0, 1, ... for the largest count, then -1 up to a multiple of `ALIGN`."""
    count = int(counts.max())
    numbers = np.arange(count, dtype=np.int32)
    return np.pad(numbers, (0, -count % ALIGN), constant_values=-1)


def _pick(array: Index, columns: Index) -> Index:
    """Return columns of an array (last axis); -1 gives a column of -1."""
    return np.where(columns < 0, np.int32(-1), array[..., columns])


def _invert(places: Index, size: int) -> Index:
    """Return the entry of a map (last axis) that goes to each of ``size`` places, or -1."""
    inverse = np.full((*places.shape[:-1], size + 1), -1, dtype=np.int32)
    entries = np.arange(places.shape[-1], dtype=np.int32)
    np.put_along_axis(inverse, np.where(places < 0, size, places), entries, axis=-1)
    return inverse[..., :-1]
