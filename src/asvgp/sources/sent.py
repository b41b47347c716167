"""Predictions by name, and the model that makes them as another process gets it."""

from __future__ import annotations

from collections.abc import Mapping
from copy import copy
from dataclasses import replace
from functools import cached_property
from threading import Lock
from typing import Any, cast

import numpy as np
from sklearn.base import clone

from asvgp.model.devices import device_for
from asvgp.model.grid import GridEngine
from asvgp.model.plan import Plan
from asvgp.posterior.chain import ChainPosterior
from asvgp.posterior.grid import GridPosterior


class Sent:
    """A fitted model to be sent: settings, hyperparameters, and the statistics it ended on.

    With them goes what predictions read of the posterior, so that whoever receives it has
    nothing to factor and predicts the same bits. All that are as many numbers as there are basis
    functions, a few times over.
    """

    def __init__(self, model):
        settings: Any = clone(model)
        posterior = model._fitted().posterior
        for name in ("n_features_in_", "feature_names_in_"):
            if name in vars(model):
                setattr(settings, name, getattr(model, name))
        data = model._seen()._replace(stats=posterior.stats)
        shape = posterior.plan if isinstance(posterior, GridPosterior) else posterior.degree
        fit = replace(model._fitted(), posterior=None)
        self.state = settings, data, fit, shape, posterior.state

    def __getstate__(self) -> dict[str, Any]:
        return {"state": self.state}

    @property
    def nbytes(self) -> int:
        """Bytes of all arrays, about what has to be sent."""
        return self.state[1].stats.nbytes + _bytes(self.state[4])

    @cached_property
    def model(self) -> Any:
        """The model, ready to predict."""
        settings, data, fit, shape, known = cast(Any, self.state)
        if isinstance(shape, Plan):
            assembly = GridEngine(fit.kernel, shape, data.stats, device_for(settings.device))
            posterior: Any = GridPosterior.restored(fit.kernel, fit.noise, assembly, known)
        else:
            posterior = ChainPosterior.restored(fit.kernel, fit.noise, data.stats, shape, known)
        model: Any = copy(settings)
        model._data, model._fit_now = data, replace(fit, posterior=posterior)
        return model


def _bytes(parts: Any) -> int:
    """Bytes of the arrays among parts of parts."""
    if isinstance(parts, Mapping | list | tuple):
        return sum(map(_bytes, parts.values() if isinstance(parts, Mapping) else parts))
    return getattr(parts, "nbytes", 0)


class Predictor:
    """From inputs to named columns: mean and std, and a pair for every component.

    With several outputs a pair for each of them, by the name of the target. Without inputs,
    for None, there are columns of no rows. It can be called from several threads at once, and
    sent to other processes.
    """

    def __init__(self, model, components: bool = False, **options):
        self.given, self.components, self.options = model, components, options
        self.lock = Lock()

    def __reduce__(self):
        return _received, (self.sent, self.components, self.options)

    @cached_property
    def sent(self) -> Sent:
        """The model as it is sent."""
        return self.given if isinstance(self.given, Sent) else Sent(self.given)

    @property
    def model(self) -> Any:
        """The model that predicts."""
        return self.given.model if isinstance(self.given, Sent) else self.given

    def __call__(self, X) -> dict[str, np.ndarray]:
        """Columns for a chunk's X."""
        with self.lock:  # the work is shared among threads inside
            model = self.model
            names, components = model._seen().targets, self.components
            if X is None or not len(X):
                nothing = np.empty(0 if model._seen().single else (0, len(model.stats_.squares)))
                kernel = model.kernel_
                parts = [(part, nothing, nothing) for part in (*kernel.components, *kernel.effects)]
                found = [nothing, nothing, *([parts] if components else [])]
            else:
                found = model._predict(X, return_std=True, components=components, **self.options)
            mean, std, *rest = found
            out = _pair("", mean, std, names)
            taken: dict[str, int] = {}
            for part, own_mean, own_std in rest[0] if rest else ():
                label = _label(part, taken, model.n_features_in_ > 1)
                out |= _pair(label, own_mean, own_std, names)
            return out


def _received(sent: Sent, components: bool, options: dict[str, Any]) -> Predictor:
    return Predictor(sent, components, **options)


def _label(part, taken: dict[str, int], several: bool) -> str:
    """What a component's columns are called after: matern32, sho_2, linear_temperature."""
    name, dim = type(part).__name__.lower(), getattr(part, "dim", None)
    name = f"{name}_{dim}" if several and dim is not None else name
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
