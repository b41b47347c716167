"""Fronts in batches: the index arrays of a `Tree`, cut into chunks, on a device.

A chunk holds neighbouring boxes of one level, whose fronts are one batch of p pivots and q
boundary rows (the largest counts in the chunk, or among its siblings: less than those of
the whole level). Chunks form a tree of their own: the *parts* of a chunk hold exactly the
children of its boxes. A level whose fronts take little memory is one chunk; where they take
much, the numeric phases go depth first, a chunk with everything below it at a time, so that
only the factor itself is ever held for all boxes.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import torch
from torch import Tensor

from asvgp.linalg.multifrontal.symbolic import Index, Tree

LIMIT = 1 << 27  # entries of a chunk's fronts: 1 GiB keeps every device busy


@dataclass(frozen=True, eq=False)
class Chunk:
    """Boxes ``start`` to ``stop`` (n of them) of a level.

    Attributes
    ----------
    level, start, stop, p, q : int
    rows : (n, p + q) tensor of int64
        Functions of the fronts' rows; the padding has the number ``size`` of the tree.
    missing : (n, p) tensor of float64
        Ones at pivots that are padding.
    take : (n, C, p + q) tensor of int32
        Which row of each of C parts goes to a row of the front (-1: none). The parts are
        the boundaries of C = 2 children, or C = 1 element of a leaf.
    place : (n, 1, q) tensor of int32
        Row of the parent's front of every boundary row.
    leaf_place : (n, 1, s) tensor of int32
        Leaves only: row of the front of every function in the leaf's block.
    parts : tuple of Chunk
        The children's chunks, in the order of their boxes; all have the same q.
    """

    level: int
    start: int
    stop: int
    p: int
    q: int
    rows: Tensor
    missing: Tensor
    take: Tensor
    place: Tensor
    leaf_place: Tensor
    parts: tuple["Chunk", ...]

    @property
    def n(self) -> int:
        """Number of boxes."""
        return self.stop - self.start

    def __iter__(self) -> Iterator["Chunk"]:
        """All chunks below and this one, children before their parents."""
        for part in self.parts:
            yield from part
        yield self


@lru_cache(maxsize=8)
def chunks(tree: Tree, device: torch.device, limit: int = LIMIT) -> Chunk:
    """The chunk of the root, with all others below it; kept for later calls."""
    (root,) = _cut(tree, device, limit, len(tree.levels) - 1, 0, 1, 0)
    return root


def _cut(
    tree: Tree, device: torch.device, limit: int, depth: int, start: int, stop: int, above: int
) -> tuple[Chunk, ...]:
    """Chunks of the boxes from start to stop; ``above`` is the p of their parents' chunk."""
    level = tree.levels[depth]
    q = int(level.num_boundary[start:stop].max())
    entries = (level.p + q) ** 2 + (0 if depth else tree.leaf_index.shape[1] ** 2)
    width = min(limit // max(entries, 1) or 1, stop - start)
    width -= width % 2 if width > 1 else 0  # siblings are together or alone
    result = []
    for a in range(start, stop, width):
        b = min(a + width, stop)
        p = int(level.num_pivots[a:b].max())
        # front rows of this chunk among the level's padded ones
        own = np.r_[:p, level.p : level.p + q]
        if depth:
            take = _invert(level.scatter[a:b], level.rows.shape[1])
            leaf_place = np.empty((b - a, 1, 0), dtype=np.int32)
        else:
            take = level.source[a:b, None]
            leaf_place = _invert(take[:, :, own], tree.leaf_index.shape[1])
        place = np.empty((b - a, 1, 0), dtype=np.int32)
        if q:
            parent = tree.levels[depth + 1]
            place = parent.scatter.reshape(len(level.rows), 1, -1)[a:b, :, :q]
            place = np.where(place < parent.p, place, place - parent.p + above)
        rows = level.rows[a:b, own].astype(np.int64)
        arrays = (
            np.where(rows < 0, tree.size, rows),
            (rows[:, :p] < 0).astype(float),
            take[:, :, own],
            place,
            leaf_place,
        )
        parts = _cut(tree, device, limit, depth - 1, 2 * a, 2 * b, p) if depth else ()
        tensors = [torch.from_numpy(np.ascontiguousarray(each)).to(device) for each in arrays]
        result.append(Chunk(depth, a, b, p, q, *tensors, parts))
    return tuple(result)


def _invert(places: Index, size: int) -> Index:
    """Which entry of a map (last axis) goes to each of ``size`` places; -1 where none does."""
    inverse = np.full((*places.shape[:-1], size + 1), -1, dtype=np.int32)
    entries = np.arange(places.shape[-1], dtype=np.int32)
    np.put_along_axis(inverse, np.where(places < 0, size, places), entries, axis=-1)
    return inverse[..., :-1]
