"""Sources of data: rows in chunks, read as often as needed.

To add a kind of data, write a file with a function ``open_source(data, roles)`` that returns a
`Source`, or None where the data are not of its kind, and add it to `KINDS`. A source of columns
derives from `asvgp.sources.table.TableSource`; one that counts on workers overrides
`Source.stream`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator
from copy import copy
from importlib import import_module
from os import PathLike
from typing import Any, NamedTuple, Protocol

import numpy as np
from sklearn.utils import _safe_indexing

from asvgp.data.columns import Columns, Gridded
from asvgp.data.inputs import as_rows
from asvgp.kernels import Kernel
from asvgp.sources.convert import library
from asvgp.sources.roles import BESIDE, Roles, check_beside
from asvgp.statistics import Statistics
from asvgp.structures.observed import Beside
from asvgp.times import Zoned

# Tried in this order, each only where what it needs was imported already or the data are files.
KINDS = (
    "asvgp.sources.grids",
    "asvgp.sources.files",
    "asvgp.sources.dask",
    "asvgp.sources.frames",
    "asvgp.sources.arrays",
)


class Chunk(NamedTuple):
    """Rows of X, with what belongs to them as `GPRegressor.fit` has it."""

    X: Any  # named `Columns`, or an array of shape (n,) or (n, columns)
    y: Any = None  # of shape (n,) or (n, outputs); None where only inputs are read
    sample_weight: Any = None  # of shape (n,), a number or None, as those below
    noise_variance: Any = None
    width: Any = None
    exposure: Any = None  # these are for likelihoods that are not Gaussian
    offset: Any = None
    event: Any = None
    trials: Any = None

    @property
    def rows(self) -> int:
        """Number of rows."""
        # some array-likes have no length
        return len(self.X if hasattr(self.X, "__len__") else np.asarray(self.X))

    @property
    def beside(self) -> Beside:
        """What likelihoods other than the Gaussian one take beside y."""
        return Beside(self.exposure, self.offset, self.event, self.trials)

    @property
    def present(self) -> np.ndarray | None:
        """Numbers of the rows with a weight other than zero; None where all are there."""
        if self.sample_weight is None or isinstance(self.X, Gridded) or not len_of(self.X):
            return None
        weights = np.asarray(self.sample_weight)
        wrong = weights.dtype.kind not in "fiub" or weights.shape != (self.rows,)
        if wrong or np.ma.is_masked(self.sample_weight):
            return None  # what is wrong is said when they are read
        keep = np.flatnonzero(weights)
        return None if len(keep) in (0, self.rows) else keep

    def at(self, rows: np.ndarray) -> Chunk:
        """Return the rows with these numbers."""
        return Chunk(*(_rows_of(part, rows) if len_of(part) else part for part in self))

    def part(self, rows: slice) -> Chunk:
        """Return some of the rows."""
        return Chunk(*(part[rows] if len_of(part) else part for part in self))


def _rows_of(part, rows: np.ndarray):
    """Return some rows of a part of a chunk."""
    if isinstance(part, Columns):
        return Columns(part.columns, [_rows_of(array, rows) for array in part.arrays])
    return part[rows] if isinstance(part, Zoned) else _safe_indexing(part, rows)


def len_of(part) -> int:
    """Return the rows of a part of a chunk; zero where one value stands for all rows."""
    return 0 if part is None or isinstance(part, str) or not hasattr(part, "__len__") else len(part)


class Reader(Protocol):
    """Turns blocks of rows into statistics, here or on a worker."""

    @property
    def nbytes(self) -> int:
        """Bytes of the statistics."""
        ...

    def statistics(
        self, blocks: Iterable[Chunk], progress: Callable[[int], None] | None = None, start: int = 0
    ) -> Statistics:
        """Return the statistics of blocks; messages count their rows from ``start``."""
        ...


class Stream(ABC):
    """One reading of a source: its first block, and then the sums over all of it."""

    head: Chunk  # the first rows, ``block_rows`` of them where there are as many
    whole: bool  # True where those are all

    @abstractmethod
    def statistics(
        self, reader: Reader, progress: Callable[[int], None] | None = None
    ) -> Statistics:
        """Return the statistics of all rows, including the head."""

    @abstractmethod
    def blocks(self) -> Iterator[Chunk]:
        """Yield all rows, block by block, the head first."""


class Predict(Protocol):
    """A function that answers a chunk's X by named columns; None stands for no rows."""

    @property
    def targets(self) -> tuple[str, ...] | None:
        """Names of the targets that the model was fitted to."""
        ...

    @property
    def nbytes(self) -> int:
        """Bytes of the model, about what has to be sent to a worker."""
        ...

    def __call__(self, X: Any) -> dict[str, np.ndarray]:
        """Return named columns of predictions at X."""
        ...


class Work(Protocol):
    """What is done with blocks of rows, here or on a worker."""

    @property
    def nbytes(self) -> int:
        """Bytes that have to be sent to a worker."""
        ...

    def __call__(self, blocks: Iterable[Chunk], /) -> Any:
        """Return what blocks give; None where that is nothing."""
        ...


class Source(ABC):
    """Rows that can be read in chunks."""

    roles: Roles  # names of columns by their use
    rows: int | None = None  # their number, where it is known without reading them
    again: bool = True  # True where they can be read more than once
    ahead: bool = False  # True where another thread may read the next block while one is in work
    spread: bool = False  # True where blocks lie in several places, which work on them
    gridded: bool = False  # True where rows are points of a grid, on which gaps are nothing unusual
    watch: Callable[[Stream], Stream] | None = None  # changes every stream that is opened

    def with_roles(self, roles: Roles) -> Source:
        """Return the same data with columns for other uses."""
        new = copy(self)
        new.roles = roles
        return new

    @abstractmethod
    def prepared(self, kernel: Kernel | None, inputs: Any = None) -> Source:
        """Return the source with its columns chosen: ``inputs``, or those that a kernel names."""

    def inputs_only(self, inputs: Any = None) -> Source:
        """Return the source of inputs alone, for predictions."""
        roles = Roles(inputs=self.roles.inputs, width=None)
        return self.with_roles(roles).prepared(None, inputs)

    @property
    def inputs(self) -> tuple[str, ...] | None:
        """Names of the inputs, once columns are chosen; None where these have none."""
        return self.roles.inputs

    @property
    def target_names(self) -> tuple[str, ...] | None:
        """Names of the targets, none for arrays; None where inputs have no names."""
        return None if self.inputs is None else tuple(map(str, self.roles.targets))

    @abstractmethod
    def chunks(self, inputs_only: bool = False) -> Iterator[Chunk]:
        """Yield all rows from the first, in chunks of any length that fits in memory."""

    def ranges(self) -> Columns | np.ndarray | None:
        """Return the smallest and the largest of every input, in two rows, if known unread."""
        return None

    def fingerprint(self) -> object:
        """Return a value that stays equal as long as the data do."""
        return None

    def open(self) -> Stream:
        """Start to read."""
        stream = self.stream()
        return stream if self.watch is None else self.watch(stream)

    def stream(self) -> Stream:
        """Return a new reading, in this process."""
        from asvgp.sources.blocks import BlockStream

        return BlockStream(self)

    def blocks(self) -> Iterator[Chunk]:
        """Yield all rows from the first, in blocks that are read ahead where that is possible."""
        from asvgp.sources.blocks import blocks_of

        return blocks_of(self)

    def mapped(self, work: Work, join: Callable[[Any, Any], Any]) -> Any:
        """Read all rows once more; return what work on their blocks gives.

        Where the data are ``spread``, every place works on its blocks, and the results of two are
        joined to one. None stands for no rows.
        """
        return work(self.blocks())

    def survey(
        self, progress: Callable[[int], None] | None = None, along: int | None = 0
    ) -> tuple[Any, int | None]:
        """Return the outermost inputs, in two rows, and the number of rows if it was counted.

        Where `ranges` does not know, it takes a pass over the inputs. Intervals that y is
        averaged over lie along one input, given by its number.
        """
        from asvgp.sources.blocks import outermost

        ends = self.ranges() if self.roles.width is None else None
        return (ends, self.rows) if ends is not None else outermost(self, progress, along)

    def answer(self, predict: Predict) -> Any:
        """Return predictions in kind, from a function that answers X by named columns.

        By default an iterator of dictionaries of arrays, one per chunk.
        """
        return (predict(chunk.X) for chunk in self.chunks(inputs_only=True))


def open_source(data, roles: Roles | None = None) -> Source:
    """Return the source for data of any kind; raise an error where none knows them."""
    roles = Roles() if roles is None else roles
    if isinstance(data, Source):
        return data
    for kind in KINDS:
        source = import_module(kind).open_source(data, roles)
        if source is not None:
            return source
    raise TypeError(
        f"There is no way to read rows from {type(data).__name__}. Give a path, a data frame, an "
        "Arrow table, arrays, an iterable of chunks (X, y), or a function that returns one."
    )


def scan(
    data: Any,
    target: Any = None,
    inputs: Any = None,
    *,
    weight: Any = None,
    noise_variance: Any = None,
    width: Any = None,
    exposure: Any = None,
    offset: Any = None,
    event: Any = None,
    trials: Any = None,
) -> Source:
    """Open data of any size to be fitted or predicted, read in chunks.

    Nothing is read before it is needed, and never more than a block of a few million rows is
    held.

    Parameters
    ----------
    data : path, folder, glob or list of them; table, frame, array; iterable or function
        Parquet, CSV, Feather and NumPy files; pyarrow tables, datasets and readers; pandas,
        polars (lazy, too) and everything else with the Arrow stream interface;
        arrays, memory-mapped or structured; an iterable of chunks, or a function without
        arguments that returns a new one: then two passes are possible. A chunk is a frame, a
        dictionary of arrays, or a tuple (X, y) or (X, y, weight). NetCDF files, Zarr stores and
        xarray objects, whose columns are variables and coordinates; Dask frames and arrays,
        which are summed where they are computed.
    target : str, int or list of str, optional
        The column of y; a number where columns have none. A list for several outputs.
    inputs : str or list of str, optional
        The columns of X; by default those that the kernel names, or else all others.
    weight, noise_variance, width : str, optional
        Columns of what `GPRegressor.fit` calls ``sample_weight``, ``noise_variance`` and
        ``width``. The width may be one number or duration.
    exposure, offset, event, trials : str or number, optional
        Columns of what `GPRegressor.fit` calls so, or one number for all rows; of an array,
        whose columns have numbers, an int is a column.

    Returns
    -------
    Source

    Examples
    --------
    >>> import numpy as np
    >>> from asvgp import GPRegressor, scan
    >>> x = np.linspace(0, 10, 1000)
    >>> parts = lambda: ((x[i::4], np.sin(x[i::4])) for i in range(4))
    >>> gp = GPRegressor(num_basis=50).fit(scan(parts))
    >>> gp.stats_.count
    1000
    """
    beside = dict(zip(BESIDE, (exposure, offset, event, trials), strict=True))
    for name, value in beside.items():
        check_beside(name, value)
    return open_source(data, Roles(target, inputs, weight, noise_variance, width, **beside))


def source_for(X, y=None, sample_weight=None, noise_variance=None, width=None, *beside) -> Source:
    """Return the source that arguments of `GPRegressor.fit` stand for.

    ``beside`` are exposure, offset, event and trials, as far as they are given. Arrays are a source
    of one block; see `is_source` for what else there is.
    """
    further = dict(zip(BESIDE, beside, strict=False))
    if isinstance(X, Source):
        names = {"target": y, "weight": sample_weight, "noise_variance": noise_variance}
        for name, value in names.items():
            if not (value is None or isinstance(value, str | int | list)):
                raise TypeError(
                    f"{name} must be the name of a column where X is a source, not "
                    f"{type(value).__name__}."
                )
        for name, value in further.items():
            check_beside(name, value)
        return X.with_roles(X.roles.with_(**names, width=width, **further))
    if _has_columns(X, y):
        return scan(
            X, y, weight=sample_weight, noise_variance=noise_variance, width=width, **further
        )
    if library(X) == "dask":
        from asvgp.sources.dask import dask_source

        return dask_source(X, Roles(width=width), y, sample_weight, noise_variance, **further)
    from asvgp.sources.arrays import RowsSource

    X, y, sample_weight, noise_variance, *beside = as_rows(
        X, y, sample_weight, noise_variance, *beside
    )
    return RowsSource(Chunk(X, y, sample_weight, noise_variance, width, *beside))


def is_source(X, y=None) -> bool:
    """Return True if X is read in chunks: a source, a path, of Dask, or with y among columns."""
    return isinstance(X, Source) or _has_columns(X, y) or library(X) == "dask"


def _has_columns(X, y) -> bool:
    """Return True if X is to be scanned for the columns of both inputs and target."""
    if isinstance(X, str | PathLike):
        return True
    if y is None:  # X, or chunks of it, may hold y, too
        gridded = hasattr(X, "coords") and hasattr(X, "dims")
        return gridded or isinstance(X, Iterator) or (callable(X) and not hasattr(X, "shape"))
    if isinstance(y, list | tuple) and isinstance(X, np.ndarray) and X.dtype.names is None:
        return False  # words, not names: these columns have none
    names = y if isinstance(y, list | tuple) else [y]
    return len(names) > 0 and all(isinstance(name, str) for name in names)
