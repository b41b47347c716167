"""Predictions in kind: columns of means and standard deviations, as the data came."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

import numpy as np

from asvgp.io.convert import arrow

Predict = Callable[[Any], dict[str, np.ndarray]]


def predictor(model, components: bool = False, **options) -> Predict:
    """A function from inputs to named columns: mean and std, and a pair for every component.

    With several outputs a pair for each of them, by the name of the target. Without inputs,
    for None, there are columns of no rows.
    """
    names = model._seen().targets

    def predict(X) -> dict[str, np.ndarray]:
        if X is None or not len(X):
            nothing = np.empty(0 if model._seen().single else (0, len(model.stats_.squares)))
            kernel = model.kernel_
            parts = [(part, nothing, nothing) for part in (*kernel.components, *kernel.effects)]
            found = [nothing, nothing, *([parts] if components else [])]
        else:
            found = model._predict(X, return_std=True, components=components, **options)
        mean, std, *rest = found
        out = _pair("", mean, std, names)
        taken: dict[str, int] = {}
        for part, own_mean, own_std in rest[0] if rest else ():
            out |= _pair(_label(part, taken), own_mean, own_std, names)
        return out

    return predict


def _label(part, taken: dict[str, int]) -> str:
    """What a component's columns are called after: matern32, sho_2, linear(temperature)."""
    name = type(part).__name__.lower()
    dim = getattr(part, "dim", None)
    name = f"{name}({dim})" if isinstance(dim, str) else name
    taken[name] = taken.get(name, 0) + 1
    return name if taken[name] == 1 else f"{name}_{taken[name]}"


def _pair(label: str, mean, std, names) -> dict[str, np.ndarray]:
    ending = f"_{label}" if label else ""
    if mean.ndim == 1:
        return {f"mean{ending}": mean, f"std{ending}": std}
    outputs = names if names is not None else range(mean.shape[1])
    out = {}
    for number, output in enumerate(outputs):
        out[f"mean{ending}_{output}"] = np.ascontiguousarray(mean[:, number])
        out[f"std{ending}_{output}"] = np.ascontiguousarray(std[:, number])
    return out


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
