"""Columns of X by their use: inputs of splines, and covariates with a linear effect.

Their number and names are compared by scikit-learn's rules.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import prod
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.utils.validation import check_array

from asvgp.degrees import TURN
from asvgp.kernels import (
    Component,
    EarthMatern,
    JointMatern,
    Kernel,
    Linear,
    Periodic,
    Product,
    Sum,
)
from asvgp.kernels.algebra import renamed, renamed_effect
from asvgp.kernels.matern import of_one_input
from asvgp.runtime.checks import in_rows
from asvgp.runtime.warn import warn

SEPARABLE = 3  # inputs up to which a kernel without dim is a product over them
MOST_INPUTS = 4  # of products together
AS_GIVEN: Any = None  # the dtype that scikit-learn leaves as it is; its stubs know text only
A_GRID = "For a grid, give a tuple of its one-dimensional axes, X=(lat, lon), or a dict of them"


@dataclass(frozen=True, eq=False)
class Gridded:
    """X as the axes of a grid, whose points are all combinations of them.

    Examples
    --------
    >>> Gridded.of((np.arange(3.0), np.arange(4.0))).shape
    (3, 4)
    >>> Gridded.of({"lat": np.arange(3.0), "lon": np.arange(4.0)}).names
    ('lat', 'lon')
    >>> Gridded.of([np.arange(3.0), np.arange(3.0)]) is None
    True
    >>> Gridded((np.arange(2), np.arange(2)), ("lat", "lon")).expanded().to_series(0).tolist()
    [0, 0, 1, 1]
    """

    axes: tuple
    names: tuple[str, ...] | None = None

    @classmethod
    def of(cls, X) -> Gridded | None:
        """Return the grid that a tuple or a dict of one-dimensional arrays stands for, or None."""
        if isinstance(X, Gridded):
            return X
        if isinstance(X, dict) and not sparse.issparse(X) and X:  # a dok_array is a dict, too
            names, X = tuple(map(str, X)), tuple(map(_axis, X.values()))
            if len({*names}) < len(names) or any(np.ndim(axis) != 1 for axis in X):
                raise ValueError(
                    f"X is a dict of arrays of shapes {[np.shape(axis) for axis in X]}: as a grid, "
                    "it holds its one-dimensional axes by name, {'lat': lat, 'lon': lon}; rows by "
                    "name are a data frame."
                )
            return cls(X, names)
        if not isinstance(X, tuple | list) or not X:
            return None
        shapes: list[tuple[int, ...]] = [getattr(x, "shape", ()) for x in X]
        if isinstance(X, tuple) and all(len(shape) == 1 for shape in shapes):
            names = tuple(str(x.name) for x in X if isinstance(getattr(x, "name", None), str))
            named = len({*names}) == len(X)
            return cls(tuple(map(_axis, X)), names if named else None)
        if len(X) > 1 and all(len(shape) == len(X) for shape in shapes) and len({*shapes}) == 1:
            raise ValueError(
                f"X holds {len(X)} arrays of shape {shapes[0]}, as numpy.meshgrid makes them. "
                f"{A_GRID}."
            )
        if len({*shapes}) > 1 and all(len(shape) == 1 for shape in shapes):
            raise ValueError(
                f"X is a list of arrays of lengths {[shape[0] for shape in shapes]}. {A_GRID}."
            )
        return None

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of the grid."""
        return tuple(len(axis) for axis in self.axes)

    def __len__(self) -> int:
        return prod(self.shape)

    @property
    def plain(self):
        """Itself; where there is one axis only, its values as rows."""
        if len(self.axes) != 1:
            return self
        return self.axes[0] if self.names is None else Columns(self.names, self.axes)

    def expanded(self) -> Columns:
        """Return all points one by one, the last axis the fastest."""
        names = range(len(self.axes)) if self.names is None else self.names
        return Columns(map(str, names), spread(self.axes))


def _axis(values):
    """Return an axis without its labels; times in zones keep theirs."""
    if hasattr(values, "dims"):
        return values.values
    return values if hasattr(values, "shape") else np.asarray(values)


def spread(axes: Sequence) -> list:
    """Return the coordinates of all points of a grid, one array for each of its axes."""
    return [wide.ravel() for wide in np.meshgrid(*axes, indexing="ij")]


class Columns:
    """Named columns, each an array or `asvgp.times.Zoned`: the simplest form of the rows of X.

    Examples
    --------
    >>> rows = Columns(("time", "load"), (np.arange(3), np.ones(3)))
    >>> rows.shape, Table(rows).names, rows[1:].to_series(0).tolist()
    ((3, 2), ['time', 'load'], [1, 2])
    """

    ndim = 2

    def __init__(self, names, arrays):
        self.columns, self.arrays = tuple(names), tuple(arrays)

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and columns."""
        return len(self), len(self.arrays)

    def to_series(self, number: int):
        """Return one column."""
        return self.arrays[number]

    def __len__(self) -> int:
        return len(self.arrays[0])

    def __getitem__(self, rows: slice) -> Columns:
        return Columns(self.columns, [array[rows] for array in self.arrays])


class Table:
    """X as columns, in whatever form it came; nothing is copied.

    Examples
    --------
    >>> table = Table(np.array([[1.0, 2.0], [3.0, 4.0]]))
    >>> table.width, table.names, table.column(1).tolist()
    (2, None, [2.0, 4.0])
    """

    def __init__(self, X):
        self.values: Any = X
        self.frame = hasattr(X, "columns")
        if isinstance(X, Gridded):
            self.width = len(X.axes)
            self.names = None if X.names is None else list(X.names)
            return
        if sparse.issparse(X):
            check_array(X)  # refuses, in scikit-learn's words
        if np.ma.is_masked(X):
            masked = np.ma.getmaskarray(X).reshape(len(X), -1).any(axis=1)
            raise ValueError(f"X is masked in {in_rows(masked)}. Drop those rows.")
        if not hasattr(X, "shape"):
            X = np.asarray(X)
        ndim = len(X.shape)
        if ndim == 0:
            raise ValueError(f"X must be rows, of shape (n,) or (n, columns), got {X!r}: say [x].")
        if ndim > 1 and not self.frame:
            X = check_array(X, dtype=AS_GIVEN, ensure_all_finite=False)
        self.values = X
        self.width = int(self.values.shape[1]) if ndim > 1 else 1
        self.names = [str(name) for name in self.values.columns] if self.frame else None

    @classmethod
    def of(cls, X) -> Table:
        """Return X as a table; a table is returned as it is."""
        return X if isinstance(X, Table) else cls(X)

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of X; of axes, that of the grid."""
        return self.values.shape

    def __len__(self) -> int:
        return len(self.values)

    def column_name(self, number: int) -> str:
        """Return what messages call a column."""
        if self.names is None and self.width == 1:
            return "X"
        return f"column {repr(self.names[number]) if self.names else number} of X"

    def column(self, number: int):
        """Return one column in the type it came in; of gridded data, an axis."""
        if isinstance(self.values, Gridded):
            return self.values.axes[number]
        if self.frame:
            frame = self.values
            return frame.iloc[:, number] if hasattr(frame, "iloc") else frame.to_series(number)
        return self.values if getattr(self.values, "ndim", 1) == 1 else self.values[:, number]


@dataclass(frozen=True)
class Layout:
    """The parts of a kernel matched to the columns of X."""

    kernel: Kernel  # with columns as numbers, and kernels that name none spelt out
    given: Kernel  # as the user gave it
    names: tuple[str, ...] | None  # of the columns of X
    inputs: tuple[int, ...]  # main block: all that products are over, or the only input there is
    smooths: tuple[int, ...]  # numbers of the terms over a column outside the main block
    linear: tuple[int, ...]  # columns of linear effects in the statistics: not of the only input
    around: tuple[int, ...] = ()  # longitudes, of kernels on the sphere, that the data go round

    @property
    def single(self) -> bool:
        """True where all processes are over one input: then K and P are chains."""
        return len(self.inputs) == 1 and not self.smooths

    @property
    def input(self) -> int:
        """The column of the only input."""
        return self.inputs[0]

    @property
    def intervals(self) -> int | None:
        """The column along which y may be averaged over intervals: that of an only input."""
        return self.input if self.single else None

    @property
    def used(self) -> tuple[int, ...]:
        """Column of every axis of the main block, then of every smooth: some more than once."""
        over = (self.kernel.components[number].factors[0].dim for number in self.smooths)
        return (*self.inputs, *over)

    @property
    def over(self) -> tuple[int, ...]:
        """Columns that processes are over, each once, in increasing order."""
        return tuple(sorted(set(self.used)))

    @property
    def periods(self) -> tuple[float | None, ...]:
        """Period of every column of ``used`` that is a circle; None for the others.

        An only input is none: along it, components of other kinds go on beside periodic ones.

        Examples
        --------
        >>> from asvgp import Matern32, Periodic
        >>> kernel = Periodic(360.0, dim=0) * Matern32(dim=1)
        >>> match(kernel, Table(np.zeros((5, 2)))).periods
        (360.0, None)
        """
        found: list[float | None] = [None] * len(self.used)
        if self.single:
            return tuple(found)
        for number, part in enumerate(self.kernel.components):
            for factor in part.factors:
                if isinstance(factor, Periodic):
                    found[self.place(number, factor)] = factor.period
        for column in self.around:
            found[self.used.index(column)] = TURN
        return tuple(found)

    @property
    def degrees(self) -> tuple[tuple[int, int], ...]:
        """Columns of longitude and latitude of every kernel on the sphere."""
        factors = (factor for part in self.kernel.components for factor in part.factors)
        pairs: list[Any] = [factor.dim for factor in factors if isinstance(factor, EarthMatern)]
        return tuple(dict.fromkeys(pairs))

    def place(self, number: int, factor: Component) -> int:
        """Return the place in ``used`` of a factor of a term."""
        if number in self.smooths:
            return len(self.inputs) + self.smooths.index(number)
        return self.inputs.index(factor.dim)

    def relabelled(self, kernel: Kernel) -> Kernel:
        """Return a kernel with columns by name, where they have one."""
        if self.single and kernel.components[0].factors[0].dim is None:
            pairs = zip(kernel.components, self.given.components, strict=True)
            parts = tuple(_over(part, [f.dim for f in given.factors]) for part, given in pairs)
            effects = self.given.effects
        else:
            parts = tuple(renamed(part, self.names) for part in kernel.components)
            effects = tuple(renamed_effect(e, self.names) for e in kernel.effects)
        return Sum(parts, effects) if isinstance(kernel, Sum) else parts[0]


def match(kernel: Kernel, table: Table, whole: bool = True) -> Layout:
    """Find the columns that the parts of a kernel speak of: all of them, if it is the ``whole``.

    Examples
    --------
    >>> from asvgp import Linear, Matern32
    >>> match(Matern32(dim=1) + Linear(0), Table(np.zeros((5, 2)))).linear
    (0,)
    >>> layout = match(Matern32(dim=0) * Matern32(dim=1) + Matern32(dim=2), Table(np.zeros((5, 3))))
    >>> layout.inputs, layout.smooths
    ((0, 1), (1,))
    """
    slopes = [
        _find(e, table) for e in kernel.effects if isinstance(e, Linear) and e.dim is not None
    ]
    free = [column for column in range(table.width) if column not in slopes]
    parts = tuple(new for part in kernel.components for new in _spelt_out(part, table, free))
    over = [tuple(process.dim for process in part.along) for part in parts]
    several = {column for columns in over if len(columns) > 1 for column in columns}
    if len({*several, *(column for columns in over for column in columns)}) == 1:
        several = {over[0][0]}
    if len(several) > MOST_INPUTS:
        raise ValueError(
            f"The products of {kernel!r} are over {len(several)} inputs together "
            f"({_named(several, table)}): splines on a grid in so many would not fit anywhere, the "
            f"limit is {MOST_INPUTS}. Add terms of single inputs instead of multiplying, or give "
            "some columns linear effects."
        )
    inputs = tuple(sorted(several))
    smooths = tuple(i for i, columns in enumerate(over) if columns[0] not in several)
    smoothed = {over[number][0] for number in smooths}
    only = inputs[0] if len(inputs) == 1 and not smooths else None
    numbers = []
    for effect in kernel.effects:
        number = None
        if isinstance(effect, Linear):
            if effect.dim is None and only is None:
                raise ValueError(f"{effect!r}: say which of {table.width} columns it is of.")
            number = only if effect.dim is None else _find(effect, table)
        if number in numbers:
            raise ValueError(f"{effect!r} is in the kernel twice: {kernel!r}.")
        numbers.append(number)
    linear = tuple(n for n in numbers if n is not None and n != only)
    unused = set(range(table.width)) - {*several, *smoothed, *linear}
    if unused and whole:
        first = min(unused)
        name = table.names[first] if table.names else first
        raise ValueError(
            f"{len(unused)} of {table.width} columns of X have neither a kernel nor an effect: "
            f"{_named(unused, table)}. Add one, for example + Linear({name!r}) or + Matern32(dim="
            f"{name!r}), or drop them."
        )
    if table.width == 1:  # no need to speak of the only column
        parts = tuple(_over(part, [None] * len(part.factors)) for part in parts)
        numbers = [None] * len(numbers)
    names = None if table.names is None else tuple(table.names)
    if not isinstance(kernel, Sum) and len(parts) == 1:
        return Layout(parts[0], kernel, names, inputs, smooths, linear)
    effects = tuple(
        replace(effect, dim=number) if isinstance(effect, Linear) else effect
        for effect, number in zip(kernel.effects, numbers, strict=True)
    )
    return Layout(Sum(parts, effects), kernel, names, inputs, smooths, linear)


def _spelt_out(part, table: Table, free: list[int]) -> list:
    """Return a term with numbers for columns; one that names none is over all of them.

    Up to `SEPARABLE` inputs it is their product, with one lengthscale per input; beyond, their
    sum.
    """
    if isinstance(part, Product):
        if part.inputs == (None,) and len(free) < 2:
            return [part.over([free[0] if free else 0] * len(part.factors))]
        return [part.over([_find(factor, table) for factor in part.factors])]
    if _dim(part) is not None:
        return [part.replace(dim=_find(part, table))]
    if isinstance(part, JointMatern):
        return [_joint(part, free)]
    if len(free) < 2:
        return [part.replace(dim=free[0] if free else 0)]
    copies = [part.replace(dim=column) for column in free]
    if len(free) > SEPARABLE:
        return copies
    bounds = {name: pair for name, pair in part.bounds.items() if name != "variance"}
    rest = [copy.replace(variance=1.0, bounds=bounds) for copy in copies[1:]]
    return [Product.of([copies[0], *rest])]


def _joint(part: JointMatern, free: list[int]) -> Component:
    """Return a joint kernel that names no columns over all of them."""
    if len(free) < 2:
        return of_one_input(part, free[0] if free else 0)
    if len(free) > 3:
        raise ValueError(
            f"{part!r} is over all of {len(free)} columns, but a joint kernel is over two or "
            "three: name them, dim=(0, 1), and give the others a kernel of their own."
        )
    return part.replace(dim=tuple(free))


def _over(part: Component | Product, dims: Sequence[int | str | None]) -> Component | Product:
    """Return a term over other inputs, one per factor."""
    return part.over(dims) if isinstance(part, Product) else part.replace(dim=dims[0])


def _dim(part) -> int | str | None:
    return getattr(part, "dim", None)


def _find(part, table: Table, dim: Any = None) -> Any:
    """Return the number of the column that a part names; of a joint kernel those of several."""
    dim = _dim(part) if dim is None else dim
    if isinstance(dim, tuple):
        return tuple(_find(part, table, each) for each in dim)
    if isinstance(dim, str):
        if table.names is None:
            raise ValueError(
                f"{part!r} names a column, but X has no column names: give the column number "
                "instead."
            )
        if table.names.count(dim) != 1:
            times = table.names.count(dim)
            raise ValueError(
                f"{part!r}: X has {times or 'no'} column{'s' * (times > 1)} {dim!r}; its columns "
                f"are {', '.join(map(repr, table.names))}."
            )
        return table.names.index(dim)
    if isinstance(dim, bool) or not isinstance(dim, int | np.integer):
        raise TypeError(f"{part!r}: dim must be the number or the name of a column of X.")
    if not -table.width <= dim < table.width:
        raise ValueError(f"{part!r}: X has {table.width} column{'s' * (table.width > 1)}.")
    return int(dim) % table.width


def _named(numbers, table: Table) -> str:
    return ", ".join(repr(table.names[i]) if table.names else str(i) for i in sorted(numbers))


_SHOWN = 5  # names in a message


@dataclass(frozen=True)
class Features:
    """Columns of the first X, as an estimator's ``n_features_in_`` and ``feature_names_in_``.

    Examples
    --------
    >>> import numpy as np
    >>> features = Features.of(Table(np.zeros((5, 2))))
    >>> features.check(Table(np.zeros((5, 3))))
    Traceback (most recent call last):
    ValueError: X has 3 features, but GPRegressor is expecting 2 features as input.
    """

    count: int
    names: tuple[str, ...] | None = None  # None where columns have none, or others than text
    owner: str = "GPRegressor"  # the estimator's class in messages

    @classmethod
    def of(cls, table: Table) -> Features:
        """Return the number and the names of a table's columns."""
        return cls(table.width, _names(table))

    def check(self, table: Table) -> None:
        """Check that another table has as many columns, of the same names.

        Names on one side only are worth a warning, as in scikit-learn; rows of a source, axes of
        a grid and a single column given as a vector need none.
        """
        if table.width != self.count:
            shape = "Reshape your data to (n, columns): " if len(table.shape) == 1 else ""
            names, which = _names(table), ""
            if names is not None and self.names is not None:
                which = "\n" + _difference(self.names, names).rstrip("\n")
            raise ValueError(
                f"{shape}X has {table.width} features, but {self.owner} is expecting {self.count} "
                f"features as input.{which}"
            )
        names = _names(table)
        if names is not None and self.names is not None:
            if names != self.names:
                raise ValueError(_difference(self.names, names))
            return
        of_source = isinstance(table.values, Columns | Gridded)
        if names == self.names or of_source or len(table.shape) == 1:
            return
        if names is None:
            message = f"X does not have valid feature names, but {self.owner} was fitted with "
        else:
            message = f"X has feature names, but {self.owner} was fitted without "
        warn(message + "feature names")


def _names(table: Table) -> tuple[str, ...] | None:
    """Return the names of columns, where all of them are text."""
    if not table.frame:
        return None if table.names is None else tuple(table.names)
    given: list[Any] = list(table.values.columns)
    text = [isinstance(name, str) for name in given]
    if any(text) and not all(text):
        kinds = sorted({type(name).__qualname__ for name in given})
        raise TypeError(
            "Feature names are only supported if all input features have string names, but your "
            f"input has {kinds} as feature name / column name types. Convert them all to strings, "
            "for example by X.columns = X.columns.astype(str)."
        )
    return tuple(map(str, given)) if given and all(text) else None


def _difference(known: tuple[str, ...], names: tuple[str, ...]) -> str:
    """Say how the names of columns differ from those of the first X."""
    message = "The feature names should match those that were passed during fit.\n"
    unseen, missing = sorted({*names} - {*known}), sorted({*known} - {*names})
    for title, some in (
        ("Feature names unseen at fit time:\n", unseen),
        ("Feature names seen at fit time, yet now missing:\n", missing),
    ):
        if some:
            shown = [f"- {name}\n" for name in some[:_SHOWN]]
            message += title + "".join(shown) + ("- ...\n" if len(some) > _SHOWN else "")
    if not unseen and not missing:
        message += "Feature names must be in the same order as they were in fit.\n"
    return message
