"""Errors of the numeric phases of `asvgp.linalg.multifrontal`."""

import numpy as np
from numpy.typing import NDArray


class NotPositiveDefinite(np.linalg.LinAlgError):
    """The pivots of front ``box`` of a ``level`` (0: the leaves) have no Cholesky factor.

    ``failed`` is the function at which the elimination broke down, where that is known.
    """

    def __init__(
        self, level: int, box: int, pivots: NDArray[np.integer], failed: int | None = None
    ) -> None:
        self.level, self.box, self.pivots, self.failed = level, box, pivots, failed
        functions = ", ".join(str(number) for number in pivots[:6])
        if len(pivots) > 6:
            functions += f", ... ({len(pivots)} in all)"
        super().__init__(
            f"The matrix is not positive definite: elimination failed at level {level}, "
            f"box {box}, functions {functions}."
            + ("" if failed is None else f" Function {failed} broke it.")
        )

    def __reduce__(self):
        return type(self), (self.level, self.box, self.pivots, self.failed)
