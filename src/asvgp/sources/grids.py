"""xarray, NetCDF and Zarr: variables on grids, with coordinates by name.

Where every input is a coordinate along a dimension of its own, blocks stay grids, whose
coordinates are never repeated for every point; otherwise they become rows.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, replace
from glob import glob, has_magic
from itertools import product
from math import ceil, prod
from pathlib import Path
from typing import Any

import numpy as np

from asvgp.data.columns import Columns, Gridded
from asvgp.kernels import Linear
from asvgp.runtime.checks import closest
from asvgp.sources.convert import as_inputs, library
from asvgp.sources.paths import check_distinct, stamps, unreadable
from asvgp.sources.roles import Roles, as_names, check_roles, listed, named_by
from asvgp.sources.source import Chunk, Source, Stream
from asvgp.sources.table import chunk_of
from asvgp.statistics.accumulator import block_rows

ENDINGS = (".nc", ".nc4", ".cdf", ".zarr")


def open_source(data, roles: Roles) -> Source | None:
    """Return a source for xarray objects, NetCDF files and Zarr stores; None for other data."""
    if library(data) == "xarray":
        if hasattr(data, "data_vars"):
            return GridSource(data, roles)
        if hasattr(data, "to_dataset"):
            return _from_array(data, roles)
    paths = grid_files(data)
    return None if paths is None else _from_files(paths, roles)


def _from_array(array, roles: Roles) -> Source:
    """Return a source for a DataArray: it is the target, and its coordinates are inputs."""
    name = "values" if array.name is None else array.name
    if array.name in array.coords:  # a coordinate on its own: good to predict at
        return GridSource(array.coords.to_dataset(), roles, array.dims)
    target = name if roles.target is None else roles.target
    return GridSource(array.to_dataset(name=name), replace(roles, target=target), array.dims)


def grid_files(data) -> list[str] | None:
    """Return the paths of NetCDF files or Zarr stores; None where the data are something else."""
    items = data if isinstance(data, list | tuple) else [data]
    if not items or not all(isinstance(path, str | os.PathLike) for path in items):
        return None
    paths: list[str] = []
    for path in map(os.fspath, items):
        if os.path.isdir(path) and not _is_store(path):
            paths += sorted(str(file) for file in Path(path).iterdir() if _is_grid(str(file)))
        elif not os.path.exists(path) and has_magic(path):
            paths += sorted(filter(_is_grid, glob(path)))
        elif _is_grid(path):
            paths.append(path)
        else:
            return None
    return paths or None


def _is_grid(path: str) -> bool:
    return path.lower().rstrip("/").endswith(ENDINGS) or _is_store(path)


def _is_store(path: str) -> bool:
    """Return True if a folder is a Zarr store, whatever its name."""
    return any(os.path.isfile(os.path.join(path, m)) for m in (".zgroup", "zarr.json"))


def _is_classic(path: str) -> bool:
    """Return True for a NetCDF file of the classic format, which SciPy reads."""
    if not os.path.isfile(path):
        return False
    with open(path, "rb") as file:
        return file.read(4) in (b"CDF\x01", b"CDF\x02")


def _from_files(paths: Sequence[str], roles: Roles) -> Source:
    """Return a source for files, opened by xarray."""
    try:
        import xarray as xr
    except ImportError:
        raise ImportError(
            "Reading NetCDF and Zarr needs xarray: pip install 'asvgp[data]'."
        ) from None
    for path in paths:
        if "://" not in path and not os.path.exists(path):
            raise FileNotFoundError(f"There is no file {path!r} (in {os.getcwd()}).")
    check_distinct(paths)
    zarr = [p for p in paths if _is_store(p) or p.lower().rstrip("/").endswith(".zarr")]
    if zarr and len(zarr) < len(paths):
        raise ValueError("NetCDF files and Zarr stores at once: give one kind.")
    options: dict[str, Any] = {"engine": "zarr"} if zarr else {}
    if all(map(_is_classic, paths)):
        # damaged files of this format crash the C library, and with it the whole process
        options["engine"] = "scipy"
    try:
        if len(paths) == 1:
            data = xr.open_dataset(paths[0], **options)
        else:
            exact = {"data_vars": "minimal", "coords": "minimal", "compat": "override"}
            data = xr.open_mfdataset(paths, combine="by_coords", join="exact", **exact, **options)
    except ImportError as error:
        raise ImportError(
            f"Reading {paths[0]} needs more: {error}. For NetCDF and Zarr pip install "
            "'asvgp[data]', for several files at once 'asvgp[dask]'."
        ) from None
    except Exception as error:  # readers of damaged files fail in many ways
        raise unreadable(paths, error, "Zarr" if zarr else "NetCDF") from error
    return GridSource(data, roles, paths=tuple(paths))


@dataclass(frozen=True)
class Blueprint:
    """All that a worker needs to make a chunk of blocks of variables."""

    roles: Roles
    dims_of: Mapping[str, tuple[str, ...]]  # dimensions of every variable
    dims: tuple[str, ...]  # of the block, in the order of its rows
    gridded: bool  # True where inputs are axes of a grid

    def chunk(self, arrays: Mapping[str, Any], shape: Sequence[int], inputs_only: bool) -> Chunk:
        """Return blocks of variables as rows or as a grid."""
        roles = replace(self.roles, inputs=()) if self.gridded else self.roles
        names, inputs = roles.columns(inputs_only), self.roles.inputs
        rows = {name: self._spread(arrays, name, shape) for name in names}
        chunk = chunk_of(rows, roles, 0, inputs_only)
        if self.gridded:
            axes = tuple(as_inputs(np.asarray(arrays[name]), name) for name in inputs)
            return chunk._replace(X=Gridded(axes, inputs))
        if chunk.y is None:
            return chunk
        return chunk._replace(X=Columns(inputs, _complete(chunk.X.arrays, chunk.y)))

    def _spread(self, arrays: Mapping[str, Any], name: str, shape: Sequence[int]):
        """Return a variable's values in all rows of the block."""
        dims, values = self.dims_of[name], np.ma.asanyarray(arrays[name])
        order = [dims.index(dim) for dim in self.dims if dim in dims]
        whole = [slice(None) if dim in dims else None for dim in self.dims]
        values = values.transpose(order)[tuple(whole)]
        if np.ma.is_masked(values):
            values = np.ma.filled(values.astype(float), np.nan)
        return np.broadcast_to(np.asarray(values), shape).ravel()


def _complete(columns: Sequence, y) -> list:
    """Replace inputs that are missing where the target is, too, by one that is not."""
    absent = np.isnan(y) if y.ndim == 1 else np.isnan(y).any(axis=1)

    def filled(column):
        lost = absent & (np.isnat(column) if column.dtype.kind == "M" else np.isnan(column))
        return np.where(lost, column[np.argmin(lost)], column) if lost.any() else column

    return [filled(column) for column in columns]


class GridSource(Source):
    """Variables of a Dataset on one grid.

    ``dims`` is the order of the dimensions in answers, where that is known; ``paths`` are those of
    the files that it was read from.
    """

    def __init__(self, data, roles: Roles, dims: Sequence[str] = (), paths: Sequence[str] = ()):
        self.dataset, self.data, self.roles = data, data, roles
        self.preferred, self.paths = tuple(dims), tuple(paths)
        self.dims: tuple[str, ...] = ()  # in the order of rows
        self.outer: tuple[str, ...] = ()  # in the order of the data
        self.gridded = False

    def prepared(self, kernel, inputs=None) -> GridSource:
        """Return the source with variables chosen, without dimensions that nothing varies along."""
        new, data = copy(self), self.data
        inputs = self.roles.inputs if inputs is None else inputs
        for name in self.roles.targets:
            if name in data.coords:
                raise ValueError(
                    f"{name!r} is a coordinate, and cannot be the target; the variables are "
                    f"{listed(data.data_vars)}."
                )
            if name not in data.data_vars:
                raise ValueError(self._unknown(name))
        targets = [data[name] for name in self.roles.targets]
        dims = tuple(dict.fromkeys(dim for variable in targets for dim in variable.dims))
        chosen = self._inputs(kernel, dims) if inputs is None else as_names(inputs)
        if not chosen:
            raise ValueError(f"Name the target: the variables are {listed(data.data_vars)}.")
        new.roles = roles = replace(self.roles, inputs=tuple(chosen))
        names = roles.columns()
        for name in names:
            if name not in data.variables:
                raise ValueError(self._unknown(name, kernel is not None and name in chosen))
        _check_inputs(data, chosen, self.roles.targets)
        over = {dim for name in chosen for dim in data[name].dims}
        dims = dims or self._dims_of_inputs(chosen)
        everything = tuple(dict.fromkeys([*dims, *(d for n in names for d in data[n].dims)]))
        if idle := [dim for dim in everything if dim not in over or dim not in dims]:
            _check_idle(idle, data.sizes, dims, self.roles.target)
            data = data.isel(dict.fromkeys(idle, 0), drop=True)
        new.data = data[list(names)]
        new.dims = new.outer = tuple(dim for dim in dims if dim not in idle)
        along = [data[name].dims[0] for name in chosen if len(data[name].dims) == 1]
        new.gridded = 1 < len(chosen) == len(along) == len({*along}) == len(new.dims)
        if new.gridded:
            new.dims = tuple(along)
        new.rows = prod(data.sizes[dim] for dim in new.dims)
        new.spread = any(data[name].chunks for name in names)  # where there are Dask arrays
        return new

    def _inputs(self, kernel, dims: Sequence[str]) -> list[str]:
        """Return the inputs that the kernel names, or else the coordinates along dimensions."""
        wanted = named_by(kernel)
        along = [dim for dim in dims if self.data.sizes[dim] > 1] or list(dims[:1])
        if wanted is not None:
            return [*(d for d in dims if d in wanted), *(n for n in wanted if n not in dims)]
        effects = () if kernel is None else kernel.effects
        slopes = [e.dim for e in effects if isinstance(e, Linear) and isinstance(e.dim, str)]
        return list(dict.fromkeys([*along, *slopes]))

    def _dims_of_inputs(self, inputs: Sequence[str]) -> tuple[str, ...]:
        """Return the dimensions of an answer, in the order of the data."""
        over = tuple(dict.fromkeys(d for name in inputs for d in self.data[name].dims))
        orders = [self.preferred, *(v.dims for v in self.data.data_vars.values()), over]
        return next(tuple(d for d in order if d in over) for order in orders if {*over} <= {*order})

    def _unknown(self, name, by_kernel: bool = False) -> str:
        """Say that no variable has a name, and which there are."""
        names = [str(n) for n in (*self.data.data_vars, *self.data.coords)]
        hint = closest(name, names, 0.5)
        if name in self.data.dims:
            return (
                f"Dimension {name!r} has no coordinate to be an input: give it one, for example "
                f"data.assign_coords({name}=range({self.data.sizes[name]}))."
            )
        begin = "The kernel is over" if by_kernel else "There is no variable or coordinate"
        return f"{begin} {name!r}; there are {listed(names)}.{hint}"

    # ------------------------------------------------------------ reading

    @property
    def blueprint(self) -> Blueprint:
        """Instructions for making chunks of blocks."""
        dims_of = {str(name): tuple(v.dims) for name, v in self.data.variables.items()}
        return Blueprint(self.roles, dims_of, self.dims, self.gridded)

    def boxes(self, rows: int | None = None) -> list[dict[str, slice]]:
        """Return slices of the dimensions, of at most ``rows`` points together."""
        if rows is None:
            rows = block_rows(len(self.roles.inputs) + max(1, len(self.roles.targets)))
        # In the order and the chunks of a variable, whatever the order of the inputs is.
        names = (*self.roles.targets, *self.dataset.data_vars)
        like = next((v for v in map(self.dataset.get, names) if {*self.dims} <= {*v.dims}), None)
        order = [dim for dim in (self.outer if like is None else like.dims) if dim in self.dims]
        shape = [self.data.sizes[dim] for dim in order]
        chunks = [1 if like is None else _chunk(like, dim) for dim in order]
        lengths = box_lengths(shape, chunks, rows)
        return [dict(zip(order, box, strict=True)) for box in boxes(shape, lengths)]

    def arrays(self, box: Mapping[str, slice], inputs_only: bool) -> tuple[dict, tuple[int, ...]]:
        """Return blocks of the variables, as they lie in the Dataset, and the shape of all."""
        parts = {n: self.data[n].variable for n in self.roles.columns(inputs_only)}
        parts = {n: v.isel({d: box[d] for d in v.dims}) for n, v in parts.items()}
        return parts, tuple(box[dim].stop - box[dim].start for dim in self.dims)

    def chunks(self, inputs_only: bool = False) -> Iterator[Chunk]:
        """Yield all rows, in blocks."""
        blueprint = self.blueprint
        for box in self.boxes():
            parts, shape = self.arrays(box, inputs_only)
            yield blueprint.chunk({n: v.values for n, v in parts.items()}, shape, inputs_only)

    def stream(self) -> Stream:
        """Return a new reading, on Dask's workers where there are Dask arrays."""
        if not self.rows:
            raise ValueError("There are no data: 0 rows.")
        if not self.spread:
            return super().stream()
        from asvgp.sources.dask import grid_stream

        return grid_stream(self)

    def mapped(self, work, join):
        """Read all rows once more, on Dask's workers where there are Dask arrays."""
        if not self.spread:
            return super().mapped(work, join)
        from asvgp.sources.dask import grid_stream

        return grid_stream(self).mapped(work, join)

    def ranges(self):
        """Return the ends of coordinates, and of variables that Dask can reduce."""
        import xarray as xr

        variables = {name: self.data[name].variable for name in self.roles.inputs}
        if not all(variable.ndim <= 1 or variable.chunks for variable in variables.values()):
            return None
        low = {f"min {name}": variable.min() for name, variable in variables.items()}
        high = {f"max {name}": variable.max() for name, variable in variables.items()}
        ends = xr.Dataset(low | high).compute()  # both at once, where it takes work
        pairs = [[ends[f"{end} {name}"].values for end in ("min", "max")] for name in variables]
        return Columns(variables, map(np.array, pairs))

    def fingerprint(self) -> object:
        """Return the sizes, and when files were written."""
        return dict(self.data.sizes), stamps(self.paths)

    def answer(self, predict):
        """Return a Dataset on the same coordinates, lazily where the data are lazy."""
        from asvgp.sources.grid_answers import answer

        return answer(self, predict)


def _chunk(variable, dim: str) -> int:
    """Return the length of a variable's chunks along a dimension; one where it has none."""
    if variable.chunks:
        return max(variable.chunksizes[dim])
    preferred = variable.encoding.get("preferred_chunks") or {}
    return int(preferred.get(dim, 1))


def _check_inputs(data, inputs: Sequence[str], targets: Sequence[str]) -> None:
    """Check that inputs are numbers or times of the common calendar."""
    check_roles(inputs, targets)
    for name in inputs:
        variable = data[name]
        if variable.dtype.kind != "O":
            continue
        first: Any = variable.values.ravel()[0] if variable.size else None
        if hasattr(first, "calendar"):
            align = ', align_on="year"' if first.calendar == "360_day" else ""
            raise ValueError(
                f"{name!r} is in the calendar {first.calendar!r}, in which durations differ from "
                f'the usual ones. Convert it, data.convert_calendar("standard"{align}), or '
                f"count in one of its units: data.assign_coords({name}=cftime.date2num("
                f'data.{name}, "days since {first.year}-01-01", "{first.calendar}")).'
            )


def _check_idle(idle, sizes, dims, target) -> None:
    """Check that dimensions along which no input, or no target, varies have length one."""
    for dim in idle:
        if sizes[dim] == 1:
            continue
        if dim not in dims:
            raise ValueError(
                f"An input or weight varies along {dim!r} (length {sizes[dim]}), which the target "
                f"{target!r} does not: choose one, data.isel({dim}=0)."
            )
        shown = ", ".join(map(repr, dims))
        raise ValueError(
            f"{target!r} has dimensions {shown}, but no input varies along {dim!r} (length "
            f"{sizes[dim]}). Choose one, data.isel({dim}=0), average over it, "
            f"data.mean({dim!r}), or give the kernel a factor, * Matern32(dim={dim!r})."
        )


def box_lengths(shape: Sequence[int], chunks: Sequence[int], size: int) -> tuple[int, ...]:
    """Return the lengths of boxes of at most ``size`` values: whole chunks where these fit.

    They grow from the last dimension on, which lies together in memory; without chunks they
    are slabs along the first.

    Examples
    --------
    >>> box_lengths((744, 33, 49), (1, 1, 1), 100_000)
    (61, 33, 49)
    >>> box_lengths((8760, 720, 1440), (8760, 10, 10), 4_000_000)
    (8760, 10, 40)
    >>> box_lengths((4, 1000, 1000), (1, 1000, 1000), 500_000)
    (1, 500, 1000)
    """
    lengths = [max(1, min(chunk, n)) for chunk, n in zip(chunks, shape, strict=True)]
    for d in range(len(lengths)):
        while prod(lengths) > size and lengths[d] > 1:
            lengths[d] = ceil(lengths[d] / 2)
    for d in reversed(range(len(lengths))):
        times = max(1, size // prod(lengths))
        lengths[d] = max(1, min(shape[d], lengths[d] * times))
    return tuple(lengths)


def boxes(shape: Sequence[int], lengths: Sequence[int]) -> Iterator[tuple[slice, ...]]:
    """Yield all boxes; the last dimension varies fastest.

    Examples
    --------
    >>> len(list(boxes((10, 4), (3, 4))))
    4
    """
    along = (
        [slice(begin, min(begin + length, n)) for begin in range(0, n, length)]
        for n, length in zip(shape, lengths, strict=True)
    )
    yield from product(*along)
