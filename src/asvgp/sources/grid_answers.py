"""Predictions on a grid as a Dataset, computed block by block, or lazily by Dask."""

from __future__ import annotations

from collections.abc import Sequence
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

import numpy as np

from asvgp.data.columns import Columns

if TYPE_CHECKING:
    from asvgp.sources.grids import Blueprint, GridSource

ROWS = 1 << 18  # predicted at once


def answer(source: GridSource, predict):
    """Return a Dataset of predictions on the dimensions of the inputs."""
    import xarray as xr

    names = list(predict(None))
    dims, data = source.outer, source.dataset
    chunked = any(variable.chunks for variable in data.variables.values())
    lazy = chunked or (source.paths and find_spec("dask") is not None)
    arrays = (_lazy if lazy else _whole)(source, predict, dims, names)
    coordinates = {
        name: variable
        for name, variable in data.coords.items()
        if {*variable.dims} <= {*dims} and name not in names
    }
    units = _units(data, names, predict.targets or ())
    variables = {
        name: (dims, values, {"units": units[name]} if name in units else {})
        for name, values in zip(names, arrays, strict=True)
    }
    return xr.Dataset(variables, coordinates, data.attrs)


def _units(data, names: Sequence[str], targets: Sequence[str]) -> dict[str, Any]:
    """Return the units of predictions: those of the target, where the data hold it, too."""
    known = {t: data[t].attrs["units"] for t in targets if t in data and "units" in data[t].attrs}
    if len(targets) == 1:
        return dict.fromkeys(names, known[targets[0]]) if known else {}
    return {n: unit for t, unit in known.items() for n in names if n.endswith(f"_{t}")}


def _whole(source: GridSource, predict, dims: Sequence[str], names: Sequence[str]) -> np.ndarray:
    """Return all predictions, computed block by block."""
    sizes = source.data.sizes
    out = np.empty((len(names), *(sizes[dim] for dim in dims)))
    blueprint = source.blueprint
    for box in source.boxes(ROWS):
        parts, _ = source.arrays(box, inputs_only=True)
        arrays = [parts[name].values for name in source.roles.inputs]
        out[(slice(None), *(box[dim] for dim in dims))] = _predict_block(
            *arrays, blueprint=blueprint, predict=predict, dims=dims, count=len(names)
        )
    return out


def _lazy(source: GridSource, predict, dims: Sequence[str], names: Sequence[str]):
    """Return a Dask array, whose chunks are predicted when they are needed."""
    import dask.array as da

    from asvgp.sources.dask import delayed_once

    data, chunks = source.data, _chunks(source, dims)
    pairs: list[Any] = []
    for name in source.roles.inputs:
        variable = data[name].variable
        lengths: Any = tuple(chunks[dim] for dim in variable.dims)
        array = variable.data if variable.chunks else da.from_array(variable.values)
        pairs += [array.rechunk(lengths), tuple(variable.dims)]
    return da.blockwise(
        _predict_block,
        ("asvgp", *dims),
        *pairs,
        blueprint=source.blueprint,
        dims=tuple(dims),
        # One task of the graph, sent once, not with every block.
        predict=delayed_once(predict),
        count=len(names),
        new_axes={"asvgp": len(names)},
        dtype=float,
        concatenate=True,
        align_arrays=False,
        meta=np.empty((0,) * (len(dims) + 1)),
    )


def _chunks(source: GridSource, dims: Sequence[str]) -> dict[str, tuple[int, ...]]:
    """Return chunks along every dimension: those of the data, or blocks of bounded size."""
    chunks: dict[str, tuple[int, ...]] = {}
    for variable in sorted(source.dataset.variables.values(), key=lambda v: -v.ndim):
        chunks = {**(variable.chunksizes if variable.chunks else {}), **chunks}
    missing = [dim for dim in dims if dim not in chunks]
    for box in source.boxes(ROWS) if missing else ():
        for dim in missing:
            lengths = chunks.get(dim, ())
            if box[dim].start == sum(lengths):
                chunks[dim] = (*lengths, box[dim].stop - box[dim].start)
    return chunks


def _predict_block(
    *arrays, blueprint: Blueprint, predict, dims: Sequence[str], count: int
) -> np.ndarray:
    """Return predictions at inputs, (columns, ...) along ``dims``; NaN where inputs are."""
    named = dict(zip(blueprint.roles.inputs, arrays, strict=True))
    sizes = {
        dim: length
        for name, array in named.items()
        for dim, length in zip(blueprint.dims_of[name], np.shape(array), strict=True)
    }
    shape = tuple(sizes[dim] for dim in blueprint.dims)
    X = blueprint.chunk(named, shape, inputs_only=True).X
    rows = int(np.prod(shape))
    known = np.ones(rows, dtype=bool)
    if isinstance(X, Columns):
        for array in X.arrays:
            known &= ~(np.isnat(array) if array.dtype.kind == "M" else np.isnan(array))
        if not known.all():
            X = Columns(X.columns, [array[known] for array in X.arrays])
    out = np.full((count, rows), np.nan)
    out[:, known] = np.stack(list(predict(X).values()))
    order = [0, *(1 + blueprint.dims.index(dim) for dim in dims)]
    return out.reshape(count, *shape).transpose(order)
