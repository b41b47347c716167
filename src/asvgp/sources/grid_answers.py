"""Predictions on a grid as a Dataset, block by block or when they are asked for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

import numpy as np

from asvgp.data.columns import Columns

if TYPE_CHECKING:
    from asvgp.sources.grids import Blueprint, GridSource

ROWS = 1 << 18  # predicted at once


def answer(source: GridSource, predict):
    """A Dataset of all that is predicted, on the dimensions that inputs have."""
    import xarray as xr

    names = list(predict(None))
    dims = source.outer
    given = source.given
    lazy = any(v.chunks for v in given.variables.values()) or (source.paths and _has_dask())
    found = _lazy(source, predict, dims, names) if lazy else _whole(source, predict, dims, names)
    coordinates = {
        name: variable
        for name, variable in given.coords.items()
        if {*variable.dims} <= {*dims} and name not in names
    }
    units = _units(given, names, predict.targets or ())
    variables = {
        name: (dims, values, {"units": units[name]} if name in units else {})
        for name, values in zip(names, found, strict=True)
    }
    return xr.Dataset(variables, coordinates, given.attrs)


def _units(given, names: Sequence[str], targets: Sequence[str]) -> dict[str, Any]:
    """Units of predictions: those of the target, where the data hold it, too."""
    known: dict[str, str] = {
        t: given[t].attrs["units"] for t in targets if t in given and "units" in given[t].attrs
    }
    if len(targets) == 1:
        return dict.fromkeys(names, known[targets[0]]) if known else {}
    return {n: unit for t, unit in known.items() for n in names if n.endswith(f"_{t}")}


def _has_dask() -> bool:
    return find_spec("dask") is not None


def _whole(source: GridSource, predict, dims: Sequence[str], names: Sequence[str]) -> np.ndarray:
    """All at once, computed block by block."""
    sizes = source.data.sizes
    out = np.empty((len(names), *(sizes[dim] for dim in dims)))
    blueprint = source.blueprint
    for box in source.boxes(ROWS):
        parts, _ = source.arrays(box, inputs_only=True)
        arrays = {name: part.values for name, part in parts.items()}
        out[(slice(None), *(box[dim] for dim in dims))] = predict_block(
            blueprint, arrays, predict, dims, len(names)
        )
    return out


def _lazy(source: GridSource, predict, dims: Sequence[str], names: Sequence[str]):
    """A Dask array, a chunk of which is predicted when it is asked for."""
    import dask.array as da

    from asvgp.sources.dask import delayed_once

    data, chunks = source.data, _chunks(source, dims)
    pairs: list[Any] = []
    own: Any
    for name in source.inputs:
        variable = data[name].variable
        own = tuple(chunks[dim] for dim in variable.dims)
        array = variable.data
        array = array.rechunk(own) if variable.chunks else da.from_array(variable.values, own)
        pairs += [array, tuple(variable.dims)]
    return da.blockwise(
        _block,
        ("asvgp", *dims),
        *pairs,
        blueprint=source.blueprint,
        dims=tuple(dims),
        # By its key, which is one task of the graph: sent once, not with every block.
        predict=delayed_once(predict),
        count=len(names),
        new_axes={"asvgp": len(names)},
        dtype=float,
        concatenate=True,
        align_arrays=False,
        meta=np.empty((0,) * (len(dims) + 1)),
    )


def _chunks(source: GridSource, dims: Sequence[str]) -> dict[str, tuple[int, ...]]:
    """Chunks along every dimension: those of the data, or blocks of bounded size."""
    found: dict[str, tuple[int, ...]] = {}
    for variable in sorted(source.given.variables.values(), key=lambda v: -v.ndim):
        for dim, own in (variable.chunksizes if variable.chunks else {}).items():
            found.setdefault(dim, own)
    missing = [dim for dim in dims if dim not in found]
    for box in source.boxes(ROWS) if missing else ():
        for dim in missing:
            own = found.get(dim, ())
            if box[dim].start == sum(own):
                found[dim] = (*own, box[dim].stop - box[dim].start)
    return found


def _block(*arrays, blueprint: Blueprint, dims, predict, count: int) -> np.ndarray:
    """One chunk of the answer."""
    named = dict(zip(blueprint.roles.inputs, arrays, strict=True))
    return predict_block(blueprint, named, predict, dims, count)


def predict_block(
    blueprint: Blueprint, arrays: Mapping[str, Any], predict, dims: Sequence[str], count: int
) -> np.ndarray:
    """Predictions at a block of inputs, (columns, ...) along ``dims``; NaN where inputs are."""
    sizes = {
        dim: length
        for name in blueprint.roles.inputs
        for dim, length in zip(blueprint.dims_of[name], np.shape(arrays[name]), strict=True)
    }
    shape = tuple(sizes[dim] for dim in blueprint.dims)
    X = blueprint.chunk(arrays, shape, inputs_only=True).X
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
