"""Sources whose rows are those of a table with named columns."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from copy import copy
from dataclasses import replace
from typing import Any

import numpy as np

from asvgp.data.columns import Columns
from asvgp.kernels import Kernel
from asvgp.sources.convert import as_inputs, as_numbers, as_widths
from asvgp.sources.roles import Roles, is_column
from asvgp.sources.source import Chunk, Source


class TableSource(Source):
    """A table; subclasses name its columns and read them in batches."""

    def __init__(self, roles: Roles):
        self.roles = roles

    @abstractmethod
    def names(self) -> Sequence[str]:
        """Return the names of all columns."""

    def hidden(self) -> Sequence[str]:
        """Return the names of columns that are used only where they are named."""
        return ()

    @abstractmethod
    def batches(self, names: Sequence[str]) -> Iterator[Mapping[str, Any]]:
        """Yield all rows of the columns named, as arrays of any library."""

    def prepared(self, kernel: Kernel | None, inputs=None) -> TableSource:
        """Return the source with its columns chosen."""
        new = copy(self)
        roles = self.roles if inputs is None else replace(self.roles, inputs=tuple(inputs))
        new.roles = roles.resolved(self.names(), kernel, self.hidden())
        return new

    def chunks(self, inputs_only: bool = False) -> Iterator[Chunk]:
        """Yield all rows."""
        start = 0
        for batch in self.batches(self.roles.columns(inputs_only)):
            chunk = chunk_of(batch, self.roles, start, inputs_only)
            start += chunk.rows
            yield chunk


def chunk_of(batch: Mapping[str, Any], roles: Roles, start: int, inputs_only: bool) -> Chunk:
    """Return columns by their roles, as arrays; ``start`` is the number of the first row."""

    def numbers(name):
        return None if name is None else as_numbers(batch[name], name, start)

    X = Columns(roles.inputs, [as_inputs(batch[name], name, start) for name in roles.inputs])
    width = as_widths(batch[roles.width], start) if is_column(roles.width) else roles.width
    if inputs_only:
        return Chunk(X, width=width)
    y: Any = None
    if len(roles.targets) == 1 and not isinstance(roles.target, list | tuple):
        y = numbers(roles.target)
    elif roles.targets:
        y = np.stack([as_numbers(batch[name], name, start) for name in roles.targets], axis=1)
    beside = {
        name: numbers(value) if isinstance(value, str) else value
        for name, value in roles.beside.items()
    }
    return Chunk(X, y, numbers(roles.weight), numbers(roles.noise_variance), width, **beside)
