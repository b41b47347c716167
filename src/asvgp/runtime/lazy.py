"""Attributes that are computed when they are first asked for.

Before Python 3.12 `functools.cached_property` holds a lock, one for all instances of a class, while
it computes. A process that is forked meanwhile inherits the lock but not the thread that would
release it, and waits for ever; and threads that fit models at once wait for each other. This one
has no lock, as from 3.12 on: two threads may compute a value at once, and the first is kept.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING or sys.version_info >= (3, 12):
    from functools import cached_property
else:

    class cached_property:
        """A property whose value is computed once and kept in the instance's dictionary.

        Examples
        --------
        >>> class Square:
        ...     side = 3.0
        ...
        ...     @cached_property
        ...     def area(self):
        ...         print("computed")
        ...         return self.side**2
        >>> square = Square()
        >>> square.area, square.area
        computed
        (9.0, 9.0)
        """

        def __init__(self, function: Callable[[Any], Any]):
            self.func, self.attrname, self.__doc__ = function, None, function.__doc__

        def __set_name__(self, owner: type, name: str) -> None:
            self.attrname = name

        def __get__(self, instance: Any, owner: type | None = None) -> Any:
            if instance is None:
                return self
            values, missing = instance.__dict__, object()
            known = values.get(self.attrname, missing)
            if known is not missing:
                return known
            return values.setdefault(self.attrname, self.func(instance))


__all__ = ["cached_property"]
