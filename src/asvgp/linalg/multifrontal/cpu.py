"""Factor, solutions and selected inverse on the CPU.

Letters and the tree: `asvgp.linalg.multifrontal`; how the fronts are kept:
`asvgp.linalg.multifrontal.plan`.

One subtree a thread: they are nearly equal and share nothing below their roots. The fronts
above are shared out level by level. BLAS keeps to one thread throughout: those it would
start for itself do not take denormal numbers as zero (`asvgp.linalg.denormals`).

**Memory.** The factor, 8 bytes a number with whole p x p blocks, plus for each thread and
level two updates of q x q while factoring, or one inverse of (p + q) x (p + q) while
inverting: at 1000 x 1000 cells of degree 2 on two threads 1.86 GB and 0.66 GB. Elements
and blocks of the inverse come and go in chunks of about `CHUNK` numbers. The factor may be
on disk in place of memory: `asvgp.linalg.multifrontal.disk`.

**What bounds the factor.** At 300 x 300 cells of degree 2, on one thread, 60 % of the time is
arithmetic, at two thirds of the rate of large matrix products since most fronts have few
pivots; 31 % is extend-add, some 500 MB read and written at 11 GB/s; 8 % is gathering the
elements. The whole comes to 36 to 38 % of that rate.
"""

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from threading import Lock
from typing import Any
from weakref import ref

import numpy as np

from asvgp.basis import Array
from asvgp.linalg.multifrontal import sandwich, sweeps
from asvgp.linalg.multifrontal.errors import NotPositiveDefinite
from asvgp.linalg.multifrontal.fronts import MANY
from asvgp.linalg.multifrontal.plan import PANEL, PIVOTS, Offset, P, Q, plan
from asvgp.linalg.multifrontal.sweeps import Boxes, Slots
from asvgp.linalg.multifrontal.symbolic import Tree
from asvgp.runtime.parallel import cores, one_blas_thread

CHUNK = 1 << 17  # numbers of the elements asked for at once: they should stay in a cache
_SERIAL = 5e7  # fewer operations are not worth a thread


class Workspace:
    """Memory that one factorisation after another uses: to be kept by whoever needs many.

    Pages fresh from the system have to be cleared by it first, which takes about a third of
    a factorisation's time. What was taken for a factor that is no longer referred to is taken
    again: nothing runs when a factor goes, where Python would drop Ctrl-C.
    """

    def __init__(self) -> None:
        self._taken: list[tuple[ref[Any], Array]] = []  # for whom, and what
        self._scratch: list[Array] = []
        self._lock = Lock()  # threads borrow at the same time

    def __reduce__(self):
        """Pickle without the memory."""
        return type(self), ()

    def take(self, size: int, owner: Any) -> Array:
        """Return an array of that many doubles, of any value, for as long as its owner lives."""
        with self._lock:
            idle = [i for i, (of, a) in enumerate(self._taken) if of() is None and a.size == size]
            values = self._taken.pop(idle[0])[1] if idle else None
        values = self._fresh(size) if values is None else values
        with self._lock:
            self._taken.append((ref(owner), values))
        return values

    def _fresh(self, size: int) -> Array:
        return np.empty(size)

    def clear(self) -> None:
        """Let go of all that is not in use."""
        with self._lock:
            self._taken = [each for each in self._taken if each[0]() is not None]
            self._scratch.clear()

    @contextmanager
    def lend(self, size: int) -> Iterator[Array]:
        """Yield an array of that many doubles for a while, of any value.

        It is part of the smallest one that is long enough. A new one replaces one that is too
        short, so that matrices of several sizes in turn share what the largest takes.
        """
        with self._lock:
            fitting = [each for each in self._scratch if each.size >= size]
            known = min(fitting, key=len) if fitting else None
            old = known if fitting else max(self._scratch, key=len, default=None)
            self._scratch = [each for each in self._scratch if each is not old]
            del old
        values = self._fresh(size) if known is None else known
        try:
            yield values[:size]
        finally:
            with self._lock:
                self._scratch.append(values)


class CpuFactor:
    """P = sum of leaf elements, factored; letters in `asvgp.linalg.multifrontal`.

    ``elements(start, stop)`` returns the elements of these leaves, (stop - start, s, s), of which
    only rows and columns of functions that are there are read; it is called once for every
    chunk of leaves, from several threads at once. By default there is one thread per core, but
    one for small matrices. Memory comes from ``workspace`` and goes back to it, that of the factor
    from ``panels`` if given (`asvgp.linalg.multifrontal.disk`). ``log_det`` is the logarithm of
    the determinant. `NotPositiveDefinite` says where the elimination broke down.
    """

    def __init__(
        self,
        tree: Tree,
        elements: Callable[[int, int], Array],
        threads: int | None = None,
        workspace: Workspace | None = None,
        panels: Workspace | None = None,
    ) -> None:
        if threads is None:
            threads = cores() if tree.factor_flops > _SERIAL else 1
        self.tree, self.threads = tree, threads
        # as many subtrees as threads, or, where that is no power of two, a few for each
        depth = threads.bit_length() - 1
        depth += 2 if threads > 2**depth else 0
        self._top = max(len(tree.levels) - 1 - depth, 0)
        self._plan = plan(tree)
        self._updates, *updates = self._slots(2, self._plan.largest_q**2)
        self._inverses, *inverses = self._slots(1, self._plan.largest_m**2)
        # The same arrays do for both: a workspace would keep those of either size.
        self._own_size, self._shared_size = map(max, updates, inverses)
        self._workspace = workspace or Workspace()
        panels = panels or self._workspace
        self._panels = panels.take(int(self._plan.fronts.table[-1, PANEL]), self)
        self.log_det = self._factor(elements)

    @property
    def nbytes(self) -> int:
        """Memory, or disk, the factor takes."""
        return self._panels.nbytes

    def solve(self, b: Array) -> Array:
        """Solve P x = b, for one right-hand side (size,) or several (size, r)."""
        y = self._columns(b)[self._plan.order]
        self._solve_half(sweeps.forward, True, y)
        self._solve_half(sweeps.backward, False, y)
        return self._numbered(y, b)

    def sample(self, z: Array) -> Array:
        """Return x = L^-T z, of covariance P^-1 if z, (size,) or (size, r), is standard normal.

        The entries of z are in the order of elimination, those of x in that of the numbers.
        """
        y = self._columns(z).copy()
        self._solve_half(sweeps.backward, False, y)
        return self._numbered(y, z)

    def selected_inverse(self, consume: Callable[[int, int, Array], None]) -> None:
        """Pass P^-1 on all pairs of functions alive on a leaf to ``consume``, in chunks.

        ``consume(start, stop, z)`` gets z (stop - start, s, s), in the order of
        ``tree.leaf_index`` and zero where there is no function. z is overwritten afterwards.
        There are calls from several threads at once, on leaves that differ.
        """
        s, work_size = self.tree.leaf_index.shape[1], MANY * int(self._plan.largest_m.max())

        def step(boxes: Boxes, own: Array, shared: Array) -> None:
            z = np.empty((self._chunk if boxes.level == 0 else 0, s, s))
            # Little, for which the workspace would lend what another thread is about to need
            memory = z, self._panels, own, shared, np.empty(work_size)
            for part in self._chunks(boxes):
                sweeps.selected_inverse(self._plan.fronts, self._inverses, *part, *memory)
                if part.level == 0:
                    consume(part.start, part.stop, z[: part.stop - part.start])

        self._walk(step, self._own_size, self._shared_size, up=False)

    def selected_sandwich(self, gram: Array) -> tuple[Array, Array]:
        """Return P^-1 and P^-1 G P^-1 on all pairs of functions alive on a leaf, (leaves, s, s).

        ``gram`` are the elements of G, of the same shape. Both are in the order of
        ``tree.leaf_index`` and zero where there is no function.
        """
        fronts, table = self._plan.fronts, self._plan.fronts.table[:-1]
        gram = np.ascontiguousarray(gram, dtype=np.float64)
        inverse, between = np.empty_like(gram), np.empty_like(gram)
        room = int((table[:, P] * (table[:, P] + table[:, Q])).max())
        nothing = gram[:0]

        def carry(boxes: Boxes, own: Array, shared: Array) -> None:
            elements = gram[boxes.start : boxes.stop] if boxes.level == 0 else nothing
            memory = elements, self._panels, carried, own, shared, np.empty(room)
            sandwich.carry(fronts, self._updates, *boxes, *memory)

        def invert(boxes: Boxes, own: Array, shared: Array) -> None:
            leaves = slice(boxes.start, boxes.stop) if boxes.level == 0 else slice(0)
            memory = self._panels, carried, own.reshape(2, -1), shared.reshape(2, -1)
            blocks = inverse[leaves], between[leaves]
            sandwich.invert_both(fronts, self._inverses, *boxes, *blocks, *memory, np.empty(room))

        with self._workspace.lend(self._panels.size) as carried:
            self._walk(carry, self._own_size, self._shared_size, up=True)
            self._walk(invert, 2 * self._own_size, 2 * self._shared_size, up=False)
        return inverse, between

    # --- phases -----------------------------------------------------------------------

    def _factor(self, elements: Callable[[int, int], Array]) -> float:
        """Fill the panels; return the logarithm of the determinant."""
        logs, nothing = np.empty(self._plan.fronts.level_start[-1]), np.empty((0, 0, 0))

        def step(boxes: Boxes, own: Array, shared: Array) -> None:
            for part in self._chunks(boxes):
                block = nothing
                if part.level == 0:
                    block = np.ascontiguousarray(elements(part.start, part.stop), dtype=np.float64)
                memory = block, self._panels, logs, own, shared
                self._check(sweeps.factor(self._plan.fronts, self._updates, *part, *memory))

        self._walk(step, self._own_size, self._shared_size, up=True)
        return 2.0 * float(logs.sum())

    def _check(self, failure: tuple[int, int]) -> None:
        front, pivot = failure
        if front < 0:
            return
        level_start, table = self._plan.fronts.level_start, self._plan.fronts.table
        level = int(np.searchsorted(level_start, front, "right")) - 1
        pivots = self._plan.order[slice(*table[front : front + 2, PIVOTS])]
        box = front - int(level_start[level])
        raise NotPositiveDefinite(level, box, pivots, int(pivots[pivot]))

    def _solve_half(self, sweep: Callable, up: bool, y: Array) -> None:
        """Do one half of a solution, in place."""
        slots, *sizes = self._slots(2 if up else 1, self._plan.largest_m * y.shape[1])

        def step(boxes: Boxes, own: Array, shared: Array) -> None:
            sweep(self._plan.fronts, slots, *boxes, y, self._panels, own, shared)

        self._walk(step, *sizes, up=up)

    # --- subtrees and threads ---------------------------------------------------------

    def _walk(
        self, step: Callable[[Boxes, Array, Array], None], own_size: int, shared_size: int, up: bool
    ) -> None:
        """Call ``step(boxes, own, shared)`` for the subtrees, and level by level for what is above.

        ``own`` and ``shared`` are memory for the results below and above the roots of subtrees.
        """
        top, above = self._top, range(self._top + 1, len(self.tree.levels))
        with one_blas_thread, self._workspace.lend(shared_size) as shared:

            def subtree(box: int) -> None:
                with self._workspace.lend(own_size) as own:
                    step(Boxes(0, box << top, (box + 1) << top, top), own, shared)

            def single(level: int, box: int) -> None:
                step(Boxes(level, box, box + 1, level), shared, shared)

            if up:
                self._each(top, subtree)
            for level in above if up else reversed(above):
                self._each(level, partial(single, level))
            if not up:
                self._each(top, subtree)

    def _each(self, level: int, work: Callable[[int], None]) -> None:
        """Do the work for every box of a level, on all threads."""
        boxes = range(len(self.tree.levels[level].rows))
        if self.threads == 1 or len(boxes) == 1:
            for box in boxes:
                work(box)
            return
        # not the package's pool: the callbacks may wait for that one
        with ThreadPoolExecutor(self.threads) as pool:
            list(pool.map(work, boxes))

    @property
    def _chunk(self) -> int:
        """Leaves in a chunk."""
        num_leaves, s = self.tree.leaf_index.shape
        return min(max(CHUNK // s**2, 1), num_leaves)

    def _chunks(self, boxes: Boxes) -> Iterator[Boxes]:
        for start in range(boxes.start, boxes.stop, self._chunk):
            yield boxes._replace(start=start, stop=min(start + self._chunk, boxes.stop))

    def _slots(self, kept: int, size: Offset) -> tuple[Slots, int, int]:
        """Make room for ``size[l]`` numbers of ``kept`` boxes per level, of all in the shared part.

        The sizes of a thread's own part and of the shared one are returned with the slots.
        """
        counts = np.diff(self._plan.fronts.level_start)
        counts[: self._top] = kept
        ends = np.cumsum(counts * size)
        starts = ends - counts * size
        own_size = int(starts[self._top])
        starts[self._top :] -= own_size
        slots = Slots(self._top, np.stack([starts, counts, size], axis=1))
        return slots, own_size, int(ends[-1]) - own_size

    def _columns(self, values: Array) -> Array:
        """Return values as contiguous doubles (size, r)."""
        if np.ndim(values) not in (1, 2) or len(values) != self.tree.size:
            shape, size = np.shape(values), self.tree.size
            raise ValueError(f"expected shape ({size},) or ({size}, r), got {shape}")
        return np.ascontiguousarray(values, dtype=np.float64).reshape(self.tree.size, -1)

    def _numbered(self, y: Array, like: Array) -> Array:
        """Return rows in the order of elimination in that of the functions' numbers."""
        x = np.empty_like(y)
        x[self._plan.order] = y
        return x.reshape(np.shape(like))
