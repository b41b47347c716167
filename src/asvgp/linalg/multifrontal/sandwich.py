"""K^-1 and K^-1 G K^-1 on the leaves, for two sums of leaf elements K and G.

The trace of K^-1 G changes with K by minus the trace of K^-1 dK K^-1 G. As dK is a sum of leaf
elements too, all derivatives need the same: K^-1 G K^-1 between functions of one leaf. It is the
covariance of x = K^-1 g for g with the covariance G, and is found like the inverse itself. On the
way up eliminating the pivots of a front turns g_b into g_b - W g_p, W = F_bp F_pp^-1, and so

    G_bb := G_bb - W G_pb - (G_bp - W G_pp) W'.

What g_p shares with the rest of the tree passes through the boundary, so that on the way down,
with Z = K^-1, N = K^-1 G K^-1, H = G_bp - W G_pp and Y = Z_bb H,

    Z_bp = -Z_bb W                       Z_pp = F_pp^-1 - W' Z_bp
    N_bp = Y F_pp^-1 - N_bb W            N_pp = F_pp^-1 G_pp F_pp^-1 - X - X' + W' N_bb W

where X = F_pp^-1 Y' W. Nothing is differenced, so no digits are lost beyond those of K^-1.

Fronts are padded and worked on a level at a time; letters: `asvgp.linalg.multifrontal`. The code
works for NumPy and torch arrays alike.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numba
import numpy as np

from asvgp.linalg.multifrontal.errors import NotPositiveDefinite
from asvgp.linalg.multifrontal.symbolic import Level, Tree
from asvgp.runtime.parallel import one_blas_thread


class _Front(NamedTuple):
    """What is kept of the fronts of a level, from the way up to the way down."""

    w: Any  # (boxes, q, p)
    inverse: Any  # F_pp^-1
    g_pp: Any
    h: Any  # (boxes, q, p)


def selected_sandwich(
    tree: Tree, stiffness: Any, gram: Any, move: Callable[[np.ndarray], Any]
) -> tuple[Any, Any]:
    """Return K^-1 and K^-1 G K^-1 on all leaves, (leaves, s, s), zero where there is no function.

    ``stiffness`` and ``gram`` are the elements of K and G, (leaves, s, s); ``move`` copies index
    arrays to where they are. `NotPositiveDefinite` is raised where K has no Cholesky factor.
    """
    with one_blas_thread:  # more would wait for each other on small matrices
        return _walk(tree, stiffness, gram, move)


def _walk(tree: Tree, stiffness: Any, gram: Any, move: Callable) -> tuple[Any, Any]:
    """Go up the tree and down again."""
    fronts: list[_Front] = []
    updates = stiffness, gram
    for number, level in enumerate(tree.levels):
        places = _places(tree, number, move)
        parts = [_assembled(level, places, part) for part in updates]
        missing = move((level.pivots < 0).astype(float))
        front, *updates = _eliminated(level, number, *parts, missing)
        fronts.append(front)
    z = n = updates[0]  # of the root's boundary, which is empty
    for number in reversed(range(len(tree.levels))):
        if number + 1 < len(tree.levels):
            parent = tree.levels[number + 1]
            above = move(parent.scatter.reshape(len(tree.levels[number].rows), -1))
            z, n = (_taken(each, above, 2) for each in (z, n))
        z, n = _inverted(fronts.pop(), z, n)
    leaves = _places(tree, 0, move)[:, 0]
    return _taken(z, leaves, 1), _taken(n, leaves, 1)


def _places(tree: Tree, number: int, move: Callable) -> Any:
    """Return where the rows of parts go in the fronts: (boxes, parts, rows)."""
    level = tree.levels[number]
    if number:
        return move(level.scatter)
    inverse = np.full((len(level.rows), 1, tree.leaf_index.shape[1]), -1, dtype=np.int64)
    boxes, rows = np.nonzero(level.source >= 0)
    inverse[boxes, 0, level.source[boxes, rows]] = rows
    return move(inverse)


def _assembled(level: Level, places: Any, parts: Any) -> Any:
    """Add parts into fronts (boxes, p + q, p + q)."""
    boxes, count, _ = places.shape
    m = level.rows.shape[1]
    front = _zeros(parts, (boxes, m + 1, m + 1))  # the last row takes what is padding
    if isinstance(parts, np.ndarray):
        _add_parts(front, places, parts)
    else:
        box = _range(parts, boxes)[:, None, None]
        for c in range(count):
            at = places[:, c] + (places[:, c] < 0) * (m + 1)
            front[box, at[:, :, None], at[:, None, :]] += parts[c::count]
    return front[:, :m, :m]


@numba.njit(cache=True, nogil=True, error_model="numpy")
def _add_parts(front, places, parts):
    boxes, count, rows = places.shape
    for b in range(boxes):
        for c in range(count):
            at, part = places[b, c], parts[b * count + c]
            for i in range(rows):
                if at[i] >= 0:
                    row, source = front[b, at[i]], part[i]
                    for j in range(rows):
                        row[at[j]] += source[j]  # -1 is the last, which is dropped


def _eliminated(level: Level, number: int, k: Any, g: Any, missing: Any) -> tuple[_Front, Any, Any]:
    """Eliminate the pivots of fronts of K and G; return both on the boundary, too."""
    p = level.p
    diagonal = _range(k, p)
    pivots = k[:, :p, :p]
    pivots[:, diagonal, diagonal] += missing
    lower = _cholesky(pivots, level, number)
    root = _inverse(lower)
    half = k[:, p:, :p] @ _turned(root)
    w = half @ root
    g_pp, g_bp = g[:, :p, :p], g[:, p:, :p]
    h = g_bp - w @ g_pp
    k_bb = k[:, p:, p:] - half @ _turned(half)
    g_bb = g[:, p:, p:] - w @ _turned(g_bp) - h @ _turned(w)
    # A copy, or the whole front would be kept
    return _Front(w, _turned(root) @ root, g_pp + 0.0, h), k_bb, g_bb


def _inverted(front: _Front, z_bb: Any, n_bb: Any) -> tuple[Any, Any]:
    """Return K^-1 and K^-1 G K^-1 on whole fronts, from those on the boundary."""
    w, inverse, g_pp, h = front
    p, q = w.shape[2], w.shape[1]
    z = _zeros(w, (len(w), p + q, p + q))
    n = _zeros(w, (len(w), p + q, p + q))
    z_bp, y, n_w = -(z_bb @ w), z_bb @ h, n_bb @ w
    n_bp = y @ inverse - n_w
    x = inverse @ (_turned(y) @ w)
    for out, bb, bp, pp in (
        (z, z_bb, z_bp, inverse - _turned(w) @ z_bp),
        (n, n_bb, n_bp, inverse @ g_pp @ inverse - x - _turned(x) + _turned(w) @ n_w),
    ):
        out[:, :p, :p], out[:, p:, :p], out[:, :p, p:], out[:, p:, p:] = pp, bp, _turned(bp), bb
    return z, n


def _taken(z: Any, places: Any, share: int) -> Any:
    """Return rows of fronts, (boxes, rows, rows); ``share`` boxes take from the same front."""
    if isinstance(z, np.ndarray):
        out = np.empty((len(places), places.shape[1], places.shape[1]))
        _take_rows(z, places, share, out)
        return out
    there = places >= 0
    at = places * there
    box = _range(z, len(at))[:, None, None] // share
    return z[box, at[:, :, None], at[:, None, :]] * (there[:, :, None] & there[:, None, :])


@numba.njit(cache=True, nogil=True, error_model="numpy")
def _take_rows(z, places, share, out):
    boxes, rows = places.shape
    for b in range(boxes):
        at, front = places[b], z[b // share]
        for i in range(rows):
            if at[i] < 0:
                out[b, i] = 0.0
                continue
            row, target = front[at[i]], out[b, i]
            for j in range(rows):
                target[j] = row[at[j]] if at[j] >= 0 else 0.0


# --- NumPy and torch ---------------------------------------------------------------------


def _zeros(like: Any, shape: tuple[int, ...]) -> Any:
    return np.zeros(shape) if isinstance(like, np.ndarray) else like.new_zeros(shape)


def _range(like: Any, stop: int) -> Any:
    if isinstance(like, np.ndarray):
        return np.arange(stop)
    import torch

    return torch.arange(stop, device=like.device)


def _turned(a: Any) -> Any:
    return a.transpose(0, 2, 1) if isinstance(a, np.ndarray) else a.mT


def _inverse(lower: Any) -> Any:
    if isinstance(lower, np.ndarray):
        return np.linalg.inv(lower)
    import torch

    return torch.linalg.inv(lower)


def _cholesky(pivots: Any, level: Level, number: int) -> Any:
    """Return Cholesky factors, or raise an error that names the first front without one."""
    if isinstance(pivots, np.ndarray):
        try:
            return np.linalg.cholesky(pivots)
        except np.linalg.LinAlgError:
            bad = next(i for i, each in enumerate(pivots) if not _definite(each))
    else:
        import torch

        lower, info = torch.linalg.cholesky_ex(pivots)
        if not info.any():
            return lower
        bad = int(info.nonzero()[0])
    rows = level.pivots[bad]
    raise NotPositiveDefinite(number, bad, rows[rows >= 0])


def _definite(matrix: np.ndarray) -> bool:
    try:
        np.linalg.cholesky(matrix)
    except np.linalg.LinAlgError:
        return False
    return True
