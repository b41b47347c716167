"""Predictions in kind: columns of means and standard deviations, as the data came."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from os import PathLike
from typing import Any

import numpy as np

from asvgp.data.columns import Columns, Gridded, Table
from asvgp.runtime.progress import Progress
from asvgp.sources.blocks import joined
from asvgp.sources.convert import arrow
from asvgp.sources.source import Chunk, Source, open_source, source_for

Predict = Callable[[Any], dict[str, np.ndarray]]


def source_to_predict(model, X) -> Source | None:
    """The source of inputs that X stands for, to be answered in kind; None for arrays.

    A frame is one only to a model that was fitted to a source: others answer arrays, as
    scikit-learn does.
    """
    named = model._seen().targets is not None
    if not (isinstance(X, Source | str | PathLike) or is_lazy(X) or (named and is_frame(X))):
        return None
    return open_source(X).inputs_only(input_names(model))


def is_frame(X) -> bool:
    """Whether X has named columns, or named coordinates."""
    named = hasattr(X, "columns") or (hasattr(X, "coords") and hasattr(X, "dims"))
    return named and not isinstance(X, Columns)


def is_lazy(X) -> bool:
    """Whether X is read when it is needed, or is Arrow's, which scikit-learn does not know."""
    kind = type(X)
    origin = kind.__module__.partition(".")[0]
    return (
        isinstance(X, Iterator)
        or origin in ("pyarrow", "dask")
        or (origin == "xarray" and kind.__name__ == "Dataset")
        or kind.__name__ == "LazyFrame"
        or (callable(X) and not hasattr(X, "shape"))
    )


def rows_of(model, X, y=None, sample_weight=None, noise_variance=None, width=None) -> tuple:
    """Arguments of `GPRegressor.fit` as rows in memory: those of a source are read."""
    source = source_for(X, y, sample_weight, noise_variance, width)
    if source is None:
        if (own := source_to_predict(model, X)) is not None:
            X = _in_memory(model, own, inputs_only=True).X
        return with_names(model, X), y, sample_weight, noise_variance, width
    return tuple(_in_memory(model, source.prepared(model.kernel, input_names(model))))


def _in_memory(model, source: Source, inputs_only: bool = False) -> Chunk:
    """All rows of a source at once, read with the progress that a model shows."""
    progress, found = Progress(model.progress), []
    advance = progress.passing(source.rows, "reading")
    try:
        for chunk in source.chunks(inputs_only):
            found.append(chunk)
            advance(chunk.rows)
    finally:
        progress.close()
    return joined(found)


def with_names(model, X):
    """Arrays under the names of the columns of a source that the model was fitted to."""
    seen, names = vars(model).get("_data"), input_names(model)
    if seen is None or seen.targets is None or names is None or hasattr(X, "columns"):
        return X
    if isinstance(X, Gridded | Mapping | tuple):
        return X
    table = Table(X)
    if table.width != len(names):
        return X  # which scikit-learn's own words say best
    return Columns(names, [np.asarray(table.column(i)) for i in range(table.width)])


def input_names(model) -> list[str] | None:
    """Names of the columns that a model was fitted to."""
    names = vars(model).get("feature_names_in_")
    return None if names is None else list(names)


def score_of(model, source: Source) -> float:
    """Coefficient of determination of predictions of a source, read once."""
    sums, centre = 0.0, None
    for chunk in source.prepared(model.kernel, input_names(model)).chunks():
        if chunk.y is None:
            raise ValueError("Name the target: score compares predictions with it.")
        y = np.asarray(chunk.y, dtype=float).reshape(chunk.rows, -1)
        mean = model._predict(chunk.X).reshape(y.shape)
        known = ~np.isnan(y).any(axis=1)
        weight = 1.0 if chunk.sample_weight is None else chunk.sample_weight[known, None]
        y, mean = y[known], mean[known]
        if centre is None and len(y):
            centre = y.mean(axis=0)
        parts = (np.ones_like(y), y - centre, (y - centre) ** 2, (y - mean) ** 2)
        sums = sums + np.array([np.sum(weight * part, axis=0) for part in parts])
    total, first, second, missed = np.broadcast_to(sums, (4, np.size(sums) // 4 or 1))
    if not np.all(total > 0.0):
        raise ValueError("There are no rows with a target to compare with.")
    return float(np.mean(1.0 - missed / (second - first**2 / total)))


def collected(predict: Predict, chunks: Iterable) -> dict[str, np.ndarray]:
    """All answers at once."""
    parts = [predict(chunk.X) for chunk in chunks] or [predict(None)]
    return {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}


def as_table(predict: Predict, chunks: Iterable):
    """An Arrow table."""
    return arrow().table(collected(predict, chunks))


def as_batches(predict: Predict, chunks: Iterator):
    """A reader of Arrow record batches, one for every chunk, made when it is read."""
    pa = arrow()
    schema = pa.record_batch(predict(None)).schema
    batches = (pa.record_batch(predict(chunk.X)) for chunk in chunks if chunk.rows)
    return pa.RecordBatchReader.from_batches(schema, batches)
