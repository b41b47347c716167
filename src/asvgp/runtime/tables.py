"""A cache for functions whose results are arrays, bounded by their bytes and not by their number.

Tables of a period or of a cell are small as a rule and wanted again and again, but a wide cell has
one of a hundred megabytes. Such a one is never kept: the model that needs it keeps it itself.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from functools import wraps
from threading import Lock
from typing import ParamSpec

import numpy as np

from asvgp.policies import MEMORY

P = ParamSpec("P")
Table = np.ndarray


def cached_tables(function: Callable[P, Table]) -> Callable[P, Table]:
    """Keep the arrays that a function has returned last, as many as `MEMORY.tables` bytes hold.

    Examples
    --------
    >>> @cached_tables
    ... def ones(count):
    ...     return np.ones(count)
    >>> ones(3) is ones(3), ones(10**7) is ones(10**7)
    (True, False)
    """
    kept: OrderedDict[tuple, Table] = OrderedDict()
    lock = Lock()

    @wraps(function)
    def table(*args: P.args, **kwargs: P.kwargs) -> Table:
        key = (*args, *sorted(kwargs.items()))
        with lock:
            if key in kept:
                kept.move_to_end(key)
                return kept[key]
        made = function(*args, **kwargs)
        if made.nbytes <= MEMORY.tables:
            with lock:
                kept[key] = made
                while sum(each.nbytes for each in kept.values()) > MEMORY.tables:
                    kept.popitem(last=False)
        return made

    return table
