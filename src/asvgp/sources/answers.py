"""Predictions in kind: columns of means and standard deviations, as the data came."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from os import PathLike

import numpy as np

from asvgp.data.columns import Columns
from asvgp.runtime.progress import Progress
from asvgp.sources.blocks import joined
from asvgp.sources.convert import arrow, library
from asvgp.sources.source import Chunk, Predict, Source, open_source


def source_to_predict(X, named: bool, inputs=None) -> Source | None:
    """Return the source of inputs that X stands for, to be answered in kind; None for arrays.

    A frame or a list of paths is one only where the model is ``named``, fitted to a source:
    others answer arrays, as scikit-learn does.
    """
    items = X if named and isinstance(X, list | tuple) else [X]
    paths = len(items) > 0 and all(isinstance(item, str | PathLike) for item in items)
    if not (paths or isinstance(X, Source) or is_lazy(X) or (named and is_frame(X))):
        return None
    return open_source(X).inputs_only(inputs)


def is_frame(X) -> bool:
    """Return True if X has named columns, or named coordinates."""
    named = hasattr(X, "columns") or (hasattr(X, "coords") and hasattr(X, "dims"))
    return named and not isinstance(X, Columns)


def is_lazy(X) -> bool:
    """Return True if X is read when needed, or is Arrow's, which scikit-learn does not know."""
    kind = type(X).__name__
    return (
        isinstance(X, Iterator)
        or library(X) in ("pyarrow", "dask")
        or (library(X) == "xarray" and kind == "Dataset")
        or kind == "LazyFrame"
        or (callable(X) and not hasattr(X, "shape"))
    )


def in_memory(source: Source, progress: Progress, inputs_only: bool = False) -> Chunk:
    """Return all rows of a source at once, read with progress."""
    chunks, advance = [], progress.passing(source.rows, "reading")
    try:
        for chunk in source.chunks(inputs_only):
            chunks.append(chunk)
            advance(chunk.rows)
    finally:
        progress.close()
    return joined(chunks)


def collected(predict: Predict, chunks: Iterable) -> dict[str, np.ndarray]:
    """Return all answers at once."""
    parts = [predict(chunk.X) for chunk in chunks] or [predict(None)]
    return {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}


def as_batches(predict: Predict, chunks: Iterator):
    """Return a reader of Arrow record batches, one for every chunk, made when it is read."""
    pa = arrow()
    schema = pa.record_batch(predict(None)).schema
    batches = (pa.record_batch(predict(chunk.X)) for chunk in chunks if chunk.rows)
    return pa.RecordBatchReader.from_batches(schema, batches)
