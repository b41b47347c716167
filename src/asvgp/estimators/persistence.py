"""Models to disk and back: ``gp.save(path)`` and ``asvgp.load(path)``."""

from __future__ import annotations

from dataclasses import replace
from inspect import signature
from typing import Any

from sklearn.exceptions import NotFittedError

from asvgp.data.columns import Features
from asvgp.estimators.regressor import GPRegressor
from asvgp.likelihoods import Gaussian
from asvgp.likelihoods.family import Family
from asvgp.policies import SAVING
from asvgp.runtime.memory import as_bytes
from asvgp.saving.consistency import check_model, check_numbers
from asvgp.saving.encoding import Decoder, Encoder, likelihood_from
from asvgp.saving.model_file import ModelFileError, damage, read, write
from asvgp.training.problem import State

SETTINGS = tuple(signature(GPRegressor).parameters)
STATE = ("_data", "_fit_now", "_warm", "n_features_in_")  # and the names of columns

__all__ = ["ModelFileError", "load", "save"]


def save(estimator: GPRegressor, path, full: bool = False, **notes) -> None:
    """Write an estimator to a file; see `GPRegressor.save`.

    Notes are values that JSON can hold, for programs that `read` the file; `load` ignores them.
    """
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
    encode = Encoder()
    if not full and "_fit_now" in attributes:
        data, stats = attributes["_data"], attributes["_fit_now"].posterior.stats
        attributes = attributes | {"_data": data.compact(stats)}
        own = 8 * stats.count * (data.features.count + data.outputs)  # of the data's columns
        encode = Encoder(room=max(SAVING.most_times_data * own, SAVING.always))
    settings = {name: encode(attributes[name], name) for name in SETTINGS}
    state = {
        name: encode(attributes[name], name.strip("_")) for name in STATE if name in attributes
    }
    names = attributes.get("feature_names_in_")
    if names is not None:
        state["feature_names_in_"] = [str(name) for name in names]
    model = {"settings": settings, "shared": encode.shared, "state": state} | notes
    write(path, model, encode.arrays)


def load(path: Any, *, memory_limit: float | str | None = None) -> GPRegressor:
    """Load the model that was saved to a file: it predicts the same bits, and can learn on.

    Nothing in the file is executed: it holds arrays and JSON. Small models load in
    milliseconds, large ones about as fast as the disk reads; the factorisation of the posterior
    precision, which predictions do not need, is computed when it is first used.

    Parameters
    ----------
    path : str or path-like
        Written by `GPRegressor.save`, by this version of the library or an older one.
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
        plain = Decoder(arrays)
        settings = {name: plain(node) for name, node in model["settings"].items()}
        estimator = GPRegressor(**settings)
        decode = Decoder(arrays, model["shared"], str(estimator.device))
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
