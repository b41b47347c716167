"""The factor of P from square roots of its leaf elements: half as many digits are lost.

If E = A^T A are the leaf elements, then with [R_pp R_pb; 0 R_bb] the triangular factor of A, the
rows [R_pp R_pb] are those of the panel that a Cholesky factorisation of the front would make, and
R_bb is a square root of its Schur complement. A front above stacks those of its children. Nothing
is ever squared, so that what is left of the digits is what the condition number of A costs, the
square root of that of P. It takes several times as long as the elimination of P itself.
"""

from collections.abc import Callable

import numpy as np
from scipy.linalg import get_lapack_funcs

from asvgp.basis import Array
from asvgp.linalg.multifrontal.cpu import CpuFactor
from asvgp.linalg.multifrontal.plan import PANEL, ROWS, RUNS, P, Q
from asvgp.linalg.multifrontal.sweeps import Boxes

_geqrf, _geqrf_work = get_lapack_funcs(("geqrf", "geqrf_lwork"), dtype=np.float64)


class RootFactor(CpuFactor):
    """P = sum of A^T A over the leaves, factored.

    ``elements(start, stop)`` returns roots A of these leaves, (stop - start, rows, s), with no
    fewer rows than columns; all else is as in `CpuFactor`. There must be no global columns, whose
    elements have no roots leaf by leaf.
    """

    def _factor(self, elements: Callable[[int, int], Array]) -> float:
        """Fill the panels; return the logarithm of the determinant."""
        logs = np.empty(self._plan.fronts.level_start[-1])

        def step(boxes: Boxes, own: Array, shared: Array) -> None:
            for part in self._chunks(boxes):
                roots = elements(part.start, part.stop) if part.level == 0 else None
                for each in range(part.start, part.stop):
                    root = None if roots is None else roots[each - part.start]
                    self._climb(part, each, root, logs, own, shared)

        self._walk(step, self._own_size, self._shared_size, up=True)
        return 2.0 * float(logs.sum())

    def _climb(
        self, part: Boxes, box: int, root: Array | None, logs: Array, own: Array, shared: Array
    ) -> None:
        """Triangularise the front of a box, and those above that become complete."""
        fronts = self._plan.fronts
        for level in range(part.level, part.limit + 1):
            front = int(fronts.level_start[level]) + box
            if level == 0:
                assert root is not None
                places = fronts.leaf_places[slice(*fronts.table[front : front + 2, ROWS])]
                stack = root[:, places.astype(np.int64)]
            else:
                stack = self._stacked(level, box, own, shared)
            logs[front] = self._triangularise(level, box, front, stack, own, shared)
            if box % 2 == 0:
                break
            box //= 2

    def _stacked(self, level: int, box: int, own: Array, shared: Array) -> Array:
        """Return the children's roots one above the other, in the columns of the front."""
        fronts, below = self._plan.fronts, int(self._plan.fronts.level_start[level - 1])
        children = [below + 2 * box, below + 2 * box + 1]
        front = int(fronts.level_start[level]) + box
        sizes = fronts.table[children, Q]
        stack = np.zeros((sizes.sum(), fronts.table[front, P] + fronts.table[front, Q]), order="F")
        top = 0
        for number, (child, size) in enumerate(zip(children, sizes, strict=True)):
            root = self._slot(level - 1, 2 * box + number, own, shared)[: size**2]
            root = root.reshape(size, size)
            for first, to, count in fronts.runs[slice(*fronts.table[child : child + 2, RUNS])]:
                stack[top : top + size, to : to + count] = root[:, first : first + count]
            top += size
        return stack

    def _triangularise(
        self, level: int, box: int, front: int, stack: Array, own: Array, shared: Array
    ) -> float:
        """Write a front's panel and its root of the Schur complement; return log |R_pp|."""
        table = self._plan.fronts.table
        p, q = int(table[front, P]), int(table[front, Q])
        m = p + q
        if m == 0:
            return 0.0
        work = int(_geqrf_work(*stack.shape)[0].real)
        factor = np.triu(_geqrf(stack, lwork=work, overwrite_a=1)[0][:m])
        diagonal = np.diagonal(factor)[:p]
        if not np.all(np.abs(diagonal) > 0.0):  # nor NaN
            self._check((front, int(np.argmin(np.abs(diagonal) > 0.0))))
        factor[:p] *= np.sign(diagonal)[:, None]
        begin = int(table[front, PANEL])
        self._panels[begin : begin + p * m] = factor[:p].ravel()
        self._slot(level, box, own, shared)[: q * q] = factor[p:, p:].ravel()
        return float(np.log(np.diagonal(factor)[:p]).sum())

    def _slot(self, level: int, box: int, own: Array, shared: Array) -> Array:
        """Return a box's slot, and what follows it."""
        start, kept, size = self._updates.table[level]
        values = shared if level >= self._updates.top else own
        return values[start + box % kept * size :]
