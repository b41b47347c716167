"""Models to disk and back: ``gp.save(path)`` and ``asvgp.load(path)``."""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy
from dataclasses import replace
from inspect import signature
from typing import Any

import numpy as np
from sklearn.exceptions import NotFittedError

from asvgp.basis import Array
from asvgp.data.columns import Features
from asvgp.diagnostics.below_zero import found_below_zero
from asvgp.estimators.classifier import GPClassifier
from asvgp.estimators.cox import CoxProcess
from asvgp.estimators.regressor import GPRegressor
from asvgp.likelihoods import Gaussian
from asvgp.likelihoods.family import Family
from asvgp.policies import SAVING
from asvgp.runtime.memory import as_bytes
from asvgp.saving.consistency import check_model, check_numbers
from asvgp.saving.encoding import Decoder, Encoder, likelihood_from
from asvgp.saving.model_file import ModelFileError, damage, read, write
from asvgp.training.fit import Fit
from asvgp.training.problem import State

SETTINGS = tuple(signature(GPRegressor).parameters)
STATE = ("_data", "_fit_now", "_warm", "n_features_in_")  # and the names of columns

__all__ = ["ModelFileError", "load", "save"]


def save(estimator: GPRegressor, path, full: bool = False, **notes) -> None:
    """Write an estimator to a file; see `GPRegressor.save`.

    Notes are values that JSON can hold, for programs that `read` the file; `load` ignores them.
    """
    encode = Encoder(room=_room([estimator], full))
    model = _encoded(estimator, encode, full) | {"shared": encode.shared} | notes
    write(path, model, encode.arrays)


def save_classifier(classifier: GPClassifier, path: Any, full: bool = False) -> None:
    """Write a classifier to a file: its labels, and the model of every class."""
    models, classes = classifier._models(), classifier.classes_
    if classes.dtype.kind not in "biufU":
        raise TypeError(
            f"A model file can hold labels that are numbers, booleans or text, not {classes.dtype}."
        )
    labels = {"kind": classes.dtype.kind, "values": classes.tolist()}
    _save_parts(classifier, models, path, full, {"classes": labels})


def save_cox(process: CoxProcess, path: Any, full: bool = False) -> None:
    """Write a point process to a file: the model of f, and what was observed."""
    if process.exposure is not None:
        raise TypeError(
            "A model file holds no functions, and exposure is one. Save the model of f alone, "
            "regressor_.save(path): its predictions are intensities."
        )
    model = process._model()
    _save_parts(process, [model], path, full, {"events": process.events_})


def _save_parts(
    estimator: GPClassifier | CoxProcess,
    models: Sequence[GPRegressor],
    path: Any,
    full: bool,
    more: dict[str, Any],
) -> None:
    """Write an estimator that is made of regressors."""
    encode = Encoder(room=_room(models, full))
    own = estimator.get_params(deep=False).items()
    model = {
        "estimator": type(estimator).__name__,
        "settings": {name: encode(value, name) for name, value in own},
        "parts": [_encoded(part, encode, full, f"{number}.") for number, part in enumerate(models)],
        "shared": encode.shared,
    }
    write(path, model | more, encode.arrays)


def _room(models: Sequence[GPRegressor], full: bool) -> float | None:
    """Return the bytes that arrays may take in all; None where all are to be written."""
    own = 0
    for model in models:
        attributes = vars(model)
        if full or "_fit_now" not in attributes:
            return None
        data, stats = attributes["_data"], attributes["_fit_now"].posterior.stats
        own += 8 * stats.count * (data.features.count + data.outputs)  # of the data's columns
    return max(SAVING.most_times_data * own, len(models) * SAVING.always)


def _encoded(
    estimator: GPRegressor, encode: Encoder, full: bool, prefix: str = ""
) -> dict[str, Any]:
    """Return a regressor as JSON; the names of its arrays begin with a prefix."""
    attributes: dict[str, Any] = vars(estimator)
    if "_data" not in attributes:
        raise NotFittedError(
            f"This {type(estimator).__name__} has no data yet: there is nothing to save. Call fit "
            "or partial_fit first."
        )
    for name in attributes.keys() & {"_fit_now", "_warm"}:
        likelihood: Any = attributes[name].likelihood
        if type(likelihood) is not Gaussian and not isinstance(likelihood, Family):
            raise TypeError(
                "A model file can hold a Gaussian likelihood, or one of the library's families, "
                f"only, not {likelihood}."
            )
    if "_warm" in attributes:
        kernel, likelihood = attributes["_warm"]
        noise = likelihood.noise if isinstance(likelihood, Gaussian) else likelihood
        attributes = attributes | {"_warm": (kernel, noise)}
    if "_fit_now" in attributes:
        attributes = attributes | {"_fit_now": _with_findings(estimator)}
    if not full and "_fit_now" in attributes:
        data, stats = attributes["_data"], attributes["_fit_now"].posterior.stats
        attributes = attributes | {"_data": data.compact(stats)}
    settings = {name: encode(attributes[name], prefix + name) for name in SETTINGS}
    state = {
        name: encode(attributes[name], prefix + name.strip("_"))
        for name in STATE
        if name in attributes
    }
    names = attributes.get("feature_names_in_")
    if names is not None:
        state["feature_names_in_"] = [str(name) for name in names]
    return {"settings": settings, "state": state}


def _with_findings(estimator: GPRegressor) -> Fit:
    """Return a fit with what a summary says of points that a file does not hold."""
    fitted = estimator._fit_now
    words = found_below_zero(estimator._data, fitted)
    if not words:
        return fitted
    report = replace(fitted.report, findings=[*fitted.report.findings, words])
    fitted = copy(fitted)
    vars(fitted)["report"] = report
    return fitted


def load(
    path: Any, *, memory_limit: float | str | None = None
) -> GPRegressor | GPClassifier | CoxProcess:
    """Load the model that was saved to a file: it predicts the same bits, and can learn on.

    Nothing in the file is executed: it holds arrays and JSON. Small models load in
    milliseconds, large ones about as fast as the disk reads; the factorisation of the posterior
    precision, which predictions do not need, is computed when it is first used.

    Parameters
    ----------
    path : str or path-like
        Written by `save` of `GPRegressor`, `GPClassifier` or `CoxProcess`, by this version of the
        library or an older one.
    memory_limit : float or str, optional
        Bytes that the arrays of the file may take, or text such as ``"8 GiB"``. By default a file
        that would take more than half a gibibyte, and more than 64 times its own size, is refused:
        it may have been made to fill the memory of whoever opens it.

    Raises
    ------
    ModelFileError
        A `ValueError` that says whether the file is cut off, damaged, altered, not a model at
        all, or of a newer version.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> import numpy as np
    >>> import asvgp
    >>> x = np.linspace(0, 10, 1000)
    >>> gp = asvgp.GPRegressor(num_basis=50).fit(x, np.sin(x))
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     gp.save(Path(folder) / "sine.asvgp")
    ...     again = asvgp.load(Path(folder) / "sine.asvgp")
    >>> bool(np.all(again.predict(x) == gp.predict(x)))
    True
    """
    model, arrays = read(path, as_bytes(memory_limit))
    with damage(path, "contradicts itself"):
        check_numbers(arrays)
        kind = model.get("estimator", "GPRegressor")
        if kind == "GPRegressor":
            return _decoded(model, model["shared"], arrays)
        if kind not in ("GPClassifier", "CoxProcess"):
            raise ValueError(f"{kind!r} is no estimator of this library")
        plain = Decoder(arrays)
        settings = {name: plain(node) for name, node in model["settings"].items()}
        parts = [_decoded(part, model["shared"], arrays) for part in model["parts"]]
        if kind == "GPClassifier":
            return GPClassifier(**settings)._take(_labels(model["classes"], len(parts)), parts)
        (part,) = parts
        return CoxProcess(**settings)._take(part, model["events"])


def _labels(saved: Any, parts: int) -> Array:
    """Return the labels of a file, checked to be sorted and to have as many models."""
    kind, values = saved["kind"], saved["values"]
    types: dict[str, Any] = {"b": bool, "i": int, "u": int, "f": float, "U": str}
    if not all(type(value) is types[kind] for value in values):
        raise ValueError(f"its labels {values!r:.60} are not of kind {kind!r}")
    labels = np.array(values, dtype=np.uint64 if kind == "u" else None)
    if len(labels) < 2 or len(np.unique(labels)) != len(labels) or list(labels) != sorted(labels):
        raise ValueError(f"its labels {values!r:.60} are not sorted, or not several")
    if parts != (1 if len(labels) == 2 else len(labels)):
        raise ValueError(f"it has {parts} models for {len(labels)} labels")
    return labels


def _decoded(model: Any, shared: Any, arrays: Any) -> GPRegressor:
    """Return the regressor that JSON and arrays describe, checked."""
    plain = Decoder(arrays)
    settings = {name: plain(node) for name, node in model["settings"].items()}
    estimator = GPRegressor(**settings)
    decode = Decoder(arrays, shared, str(estimator.device))
    state = {name: decode(node) for name, node in model["state"].items()}
    if unknown := set(state) - {*STATE, "feature_names_in_"}:
        raise ValueError(f"unknown parts {sorted(unknown)}")
    if "_warm" in state:
        kernel, noise = state["_warm"]
        known: Any = noise if isinstance(noise, Family) else likelihood_from(noise)
        state["_warm"] = State(kernel, known)
    check_model(estimator.get_params(deep=False), state)
    names = state.pop("feature_names_in_", None)
    features = Features(state.pop("n_features_in_"), None if names is None else tuple(names))
    estimator._replace(replace(state.pop("_data"), features=features))
    vars(estimator).update(state)
    return estimator
