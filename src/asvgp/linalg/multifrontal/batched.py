"""The numeric phases of the multifrontal elimination in batches, for a GPU.

All fronts of a chunk (a whole level, where memory allows) have one shape, so each step is
one call on a batch: gather, Cholesky, triangular solve, matrix product. The layout is
described in `asvgp.linalg.multifrontal`, the chunks in `asvgp.linalg.multifrontal.chunks`.

A front is held in two pieces, of which only the lower triangles count: its *panel* of
p columns, which becomes [L_pp; L_bp] in place and is kept, and its block F_bb, which becomes
the update U and is dropped as soon as the parent's front is built.
"""

from collections.abc import Callable, Iterator
from math import isfinite

import torch
from torch import Tensor

from asvgp.linalg.multifrontal.chunks import Chunk, chunks
from asvgp.linalg.multifrontal.errors import NotPositiveDefinite
from asvgp.linalg.multifrontal.gather import gather
from asvgp.linalg.multifrontal.symbolic import Tree

# Larger triangles in a batch are halved, to become matrix products: when they are factored,
# and when they are inverted.
FACTOR_BASE, INVERSE_BASE = 64, 512
# Products with a triangle, or whose result is symmetric, are made in strips of so many rows
# that leave out what is zero or known.
STRIP = 512


class BatchedFactor:
    """Cholesky factor of a sum of leaf elements, on a device of torch.

    ``elements(start, stop)`` is the (stop - start, s, s) float64 tensor, on the device, of the
    elements of these leaves, symmetric; called for one range of leaves after another. Entries at
    padding are ignored, whatever they are. ``log_det`` is the logarithm of the determinant.
    `NotPositiveDefinite` is raised if the pivots of some front have no Cholesky factor.
    """

    def __init__(
        self,
        tree: Tree,
        elements: Callable[[int, int], Tensor],
        device: str | torch.device = "cuda",
    ) -> None:
        self.tree, self.device = tree, torch.device(device)
        self._elements = elements
        self._root = chunks(tree, self.device)
        self._panels: dict[Chunk, Tensor] = {}
        self._log_dets: dict[Chunk, Tensor] = {}  # nan where the elimination failed
        self._eliminate(self._root, self._empty(1, 0, 0))
        del self._elements
        # the host waits for the device here and nowhere before
        self.log_det = float(torch.stack([each.sum() for each in self._log_dets.values()]).sum())
        if not isfinite(self.log_det):
            raise self._failure()
        del self._log_dets

    @property
    def nbytes(self) -> int:
        """Memory of the factor."""
        return sum(panel.nbytes for panel in self._panels.values())

    def solve(self, b: Tensor) -> Tensor:
        """Return P^-1 b for a (size,) or (size, r) tensor on the device.

        Contributions to one entry are added in no fixed order on a GPU: the last digit may
        change from call to call.
        """
        x = self._padded(b)
        for chunk, lower, below in self._blocks():
            pivots, boundary = chunk.rows[:, : chunk.p], chunk.rows[:, chunk.p :]
            y = torch.linalg.solve_triangular(lower, x[pivots], upper=False)
            x[pivots] = y
            x.index_add_(0, boundary.flatten(), (below @ y).flatten(0, 1), alpha=-1)
        return self._backward(x).view(b.shape)

    def sample(self, z: Tensor) -> Tensor:
        """Return L^-T z, of covariance P^-1 if z, (size,) or (size, r), is white noise."""
        return self._backward(self._padded(z)).view(z.shape)

    def selected_inverse(self, consume: Callable[[int, int, Tensor], None]) -> None:
        """Pass P^-1 on all pairs of functions alive on a leaf to ``consume``, in ranges of leaves.

        ``consume(start, stop, z)`` is given the (stop - start, s, s) tensor of these leaves in
        the layout of the elements, zero at padding.
        """
        # Z of a chunk stays as long as chunks below it wait for it
        waiting = [(self._root, self._empty(1, 0, 0))]
        while waiting:
            chunk, parents = waiting.pop()
            z = self._invert(chunk, parents)
            waiting += [
                (part, z[part.start // 2 - chunk.start :]) for part in reversed(chunk.parts)
            ]
            if chunk.level == 0:
                place = chunk.leaf_place
                block = self._empty(chunk.n, place.shape[2], place.shape[2])
                consume(chunk.start, chunk.stop, gather(z, place, place, block))

    def selected_sandwich(self, gram: Tensor) -> tuple[Tensor, Tensor]:
        """Return P^-1 and P^-1 G P^-1 on all pairs of functions alive on a leaf, (leaves, s, s).

        ``gram`` are the elements of G, symmetric. The equations are those of
        `asvgp.linalg.multifrontal.sandwich`.
        """
        carried: dict[Chunk, tuple[Tensor, Tensor]] = {}
        self._carry(self._root, gram, self._empty(1, 0, 0), carried)
        inverse, between = torch.empty_like(gram), torch.empty_like(gram)
        nothing = self._empty(1, 0, 0)
        waiting = [(self._root, nothing, nothing)]
        while waiting:
            chunk, z, n = waiting.pop()
            z, n = self._invert_both(chunk, z, n, *carried.pop(chunk))
            for part in reversed(chunk.parts):
                first = part.start // 2 - chunk.start
                waiting.append((part, z[first:], n[first:]))
            if chunk.level == 0:
                leaves, place = slice(chunk.start, chunk.stop), chunk.leaf_place
                gather(z, place, place, inverse[leaves])
                gather(n, place, place, between[leaves])
        return inverse, between

    # --- factorisation -----------------------------------------------------------------

    def _eliminate(self, chunk: Chunk, update: Tensor) -> None:
        """Factor a chunk's fronts and everything below; U (n, q, q) goes to ``update``."""
        parts = self._below(chunk)
        p, boundary = chunk.p, chunk.take[:, :, chunk.p :]
        panel = self._empty(chunk.n, p + chunk.q, p)
        gather(parts, chunk.take, chunk.take[:, :, :p], panel)
        gather(parts, boundary, boundary, update)
        del parts
        panel.diagonal(dim1=1, dim2=2).add_(chunk.missing)
        info = factor_panel(panel)
        subtract_square(update, panel[:, p:])
        log_dets = 2.0 * panel.diagonal(dim1=1, dim2=2).log().sum(dim=1)
        self._panels[chunk] = panel
        self._log_dets[chunk] = log_dets.masked_fill_(info != 0, torch.nan)

    def _below(self, chunk: Chunk) -> Tensor:
        """Return the parts of a chunk's fronts: leaf elements, or the children's updates."""
        if chunk.level == 0:
            elements = self._elements(chunk.start, chunk.stop)
            s = self.tree.leaf_index.shape[1]
            if elements.shape != (chunk.n, s, s) or elements.dtype != torch.float64:
                raise ValueError(
                    f"The elements of leaves {chunk.start} to {chunk.stop} are "
                    f"{tuple(elements.shape)}, {elements.dtype}, "
                    f"but should be {(chunk.n, s, s)}, torch.float64."
                )
            return elements
        q = chunk.parts[0].q
        updates = self._empty(2 * chunk.n, q, q)
        for part in chunk.parts:
            self._eliminate(part, updates[part.start - 2 * chunk.start :][: part.n])
        return updates

    def _failure(self) -> NotPositiveDefinite:
        """Return the first front that failed: children come before their parents."""
        for chunk, log_dets in self._log_dets.items():
            failed = (~log_dets.isfinite()).nonzero()
            if len(failed):
                level, box = chunk.level, chunk.start + int(failed[0])
                pivots = self.tree.levels[level].pivots[box]
                roots = self._panels[chunk][int(failed[0])].diagonal()
                wrong = (~(roots > 0.0)).nonzero()  # where the libraries stopped
                first = int(pivots[int(wrong[0])]) if len(wrong) else None
                return NotPositiveDefinite(level, box, pivots[pivots >= 0], first)
        raise AssertionError("finite terms, infinite sum")

    # --- selected inversion ------------------------------------------------------------

    def _invert(self, chunk: Chunk, parents: Tensor) -> Tensor:
        """Compute Z on a chunk's fronts, from Z on the parents' fronts, the first box's first.

        With W = L_bp L_pp^-1: Z_bp = -Z_bb W and Z_pp = L_pp^-T L_pp^-1 - W^T Z_bp. Missing
        pivots get ones, but no child and no leaf takes those.
        """
        p, q = chunk.p, chunk.q
        panel = self._panels[chunk]
        z = self._empty(chunk.n, p + q, p + q)
        z_pp, z_bp, z_bb = z[:, :p, :p], z[:, p:, :p], z[:, p:, p:]
        gather(parents, chunk.place, chunk.place, z_bb, share=2)
        inverse = invert_lower(panel[:, :p])
        w = self._empty(chunk.n, q, p)
        for a, b in strips(p):
            torch.bmm(panel[:, p:, a:], inverse[:, a:, a:b], out=w[:, :, a:b])
        torch.baddbmm(z_bp, z_bb, w, beta=0, alpha=-1, out=z_bp)
        z[:, :p, p:] = z_bp.mT
        for a, b in strips(p):
            strip = z_pp[:, a:b, :b]
            torch.bmm(inverse[:, a:, a:b].mT, inverse[:, a:, :b], out=strip)
            strip.baddbmm_(w[:, :, a:b].mT, z_bp[:, :, :b], alpha=-1)
            z_pp[:, :a, a:b] = strip[:, :, :a].mT
        return z

    # --- sandwiches --------------------------------------------------------------------

    def _carry(
        self, chunk: Chunk, gram: Tensor, update: Tensor, carried: dict[Chunk, tuple]
    ) -> None:
        """Carry G through the elimination of a chunk and everything below it.

        C_pp and C_pb are added to ``carried``, and G on the boundary goes to ``update``.
        """
        if chunk.level == 0:
            parts = gram[chunk.start : chunk.stop]
        else:
            q = chunk.parts[0].q
            parts = self._empty(2 * chunk.n, q, q)
            for part in chunk.parts:
                self._carry(part, gram, parts[part.start - 2 * chunk.start :][: part.n], carried)
        p, boundary = chunk.p, chunk.take[:, :, chunk.p :]
        lower, below = self._panels[chunk].split([p, chunk.q], dim=1)
        rows = self._empty(chunk.n, p, p + chunk.q)
        gather(parts, chunk.take[:, :, :p], chunk.take, rows)
        gather(parts, boundary, boundary, update)
        del parts
        rows = torch.linalg.solve_triangular(lower, rows, upper=False)
        c_pp = torch.linalg.solve_triangular(lower, rows[:, :, :p].mT, upper=False)
        change = c_pp @ below.mT
        product = below @ (rows[:, :, p:] - 0.5 * change)
        update -= product + product.mT
        carried[chunk] = c_pp, rows[:, :, p:] - change

    def _invert_both(
        self, chunk: Chunk, z_parents: Tensor, n_parents: Tensor, c_pp: Tensor, c_pb: Tensor
    ) -> tuple[Tensor, Tensor]:
        """Compute Z and N on a chunk's fronts, from those on the parents' fronts."""
        p, q = chunk.p, chunk.q
        lower, below = self._panels[chunk].split([p, q], dim=1)
        inverse = invert_lower(lower)  # R^-T
        w, e = inverse.mT @ below.mT, inverse.mT @ c_pb
        z, n = (self._empty(chunk.n, p + q, p + q) for _ in range(2))
        z_bb, n_bb = z[:, p:, p:], n[:, p:, p:]
        gather(z_parents, chunk.place, chunk.place, z_bb, share=2)
        gather(n_parents, chunk.place, chunk.place, n_bb, share=2)
        z_pb, n_pb = -(w @ z_bb), e @ z_bb - w @ n_bb
        z[:, :p, :p] = inverse.mT @ inverse - z_pb @ w.mT
        n[:, :p, :p] = inverse.mT @ c_pp @ inverse - n_pb @ w.mT + z_pb @ e.mT
        for whole, part in ((z, z_pb), (n, n_pb)):
            whole[:, :p, p:], whole[:, p:, :p] = part, part.mT
        return z, n

    # --- vectors -----------------------------------------------------------------------

    def _backward(self, x: Tensor) -> Tensor:
        """Return L^-T x, computed in place, without the entry of the padding."""
        for chunk, lower, below in reversed(list(self._blocks())):
            pivots, boundary = chunk.rows[:, : chunk.p], chunk.rows[:, chunk.p :]
            y = x[pivots] - below.mT @ x[boundary]
            x[pivots] = torch.linalg.solve_triangular(lower.mT, y, upper=True)
        return x[:-1]

    def _blocks(self) -> Iterator[tuple[Chunk, Tensor, Tensor]]:
        """Yield chunks with their L_pp and L_bp, children before their parents."""
        for chunk in self._root:
            if chunk.p:
                panel = self._panels[chunk]
                yield chunk, panel[:, : chunk.p], panel[:, chunk.p :]

    def _padded(self, b: Tensor) -> Tensor:
        """Return a copy (size + 1, r): the padding reads and writes the last entry, always 0."""
        b = b.reshape(self.tree.size, -1)
        return torch.cat([b, b.new_zeros(1, b.shape[1])])

    def _empty(self, *shape: int) -> Tensor:
        return torch.empty(shape, dtype=torch.float64, device=self.device)


def factor_panel(panel: Tensor) -> Tensor:
    """Turn [F_pp; F_bp] (n, p + q, p) into [L_pp; L_bp]; returns (n,), not 0 where that failed.

    The upper triangle of F_pp is not read; that of L_pp becomes zero. A single matrix is
    left to the libraries, whose batched routines are for small ones.
    """
    n, _, p = panel.shape
    if p == 0:
        return torch.zeros(n, dtype=torch.int32, device=panel.device)
    if n == 1 or p <= FACTOR_BASE:
        lower, info = torch.linalg.cholesky_ex(panel[:, :p])
        panel[:, :p] = lower
        below = panel[:, p:]
        if n > 1:  # products are far quicker than solutions in batches
            below.copy_(below @ invert_lower(lower).mT)
        elif below.shape[1]:
            below.copy_(torch.linalg.solve_triangular(lower, below.mT, upper=False).mT)
        return info
    half = _half(p, FACTOR_BASE)
    left, right = panel[:, half:, :half], panel[:, half:, half:]
    info = factor_panel(panel[:, :, :half])
    right.baddbmm_(left, left[:, : p - half].mT, alpha=-1)
    panel[:, :half, half:] = 0.0
    return info | factor_panel(right)


def invert_lower(lower: Tensor) -> Tensor:
    """Return the inverses of lower triangular matrices (n, p, p)."""
    p = lower.shape[1]
    if p <= INVERSE_BASE:
        identity = torch.eye(p, dtype=lower.dtype, device=lower.device)
        return torch.linalg.solve_triangular(lower, identity.expand_as(lower), upper=False)
    half = _half(p, INVERSE_BASE)
    inverse = torch.zeros_like(lower)
    inverse[:, :half, :half] = first = invert_lower(lower[:, :half, :half])
    inverse[:, half:, half:] = second = invert_lower(lower[:, half:, half:])
    torch.bmm(second, lower[:, half:, :half] @ first, out=inverse[:, half:, :half]).neg_()
    return inverse


def subtract_square(block: Tensor, factor: Tensor) -> None:
    """Subtract A A^T, A (n, q, p), from blocks (n, q, q), at least in the lower triangle."""
    for a, b in strips(block.shape[1]):
        block[:, a:b, :b].baddbmm_(factor[:, a:b], factor[:, :b].mT, alpha=-1)


def strips(size: int) -> Iterator[tuple[int, int]]:
    """Yield consecutive ranges (start, stop) of at most `STRIP` of ``size`` rows."""
    for start in range(0, size, STRIP):
        yield start, min(start + STRIP, size)


def _half(p: int, base: int) -> int:
    """Return about one half, a multiple of the base."""
    return -(-p // (2 * base)) * base
