"""Predictions by name, and the model that makes them in a form that other processes can get."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from threading import Lock
from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.base import clone

from asvgp.data.columns import Columns
from asvgp.kernels import JointMatern, Product
from asvgp.likelihoods.family import Family
from asvgp.likelihoods.gaussian import band_factor
from asvgp.runtime.lazy import cached_property
from asvgp.saving.encoding import bytes_of
from asvgp.training.fit import Fit, no_upper_bound

if TYPE_CHECKING:
    from asvgp.estimators.predict import PredictMixin


class PortableModel:
    """A fitted model to be sent: settings, hyperparameters, and the statistics it ended on.

    With them goes what predictions read of the posterior, so that whoever receives it has
    nothing to factor and predicts the same bits. All that are as many numbers as there are basis
    functions, a few times over.
    """

    def __init__(self, model: PredictMixin):
        fitted, data = model._fitted(), model._fit_data()
        posterior: Any = fitted.posterior
        self.estimator: Any = clone(model)
        self.data = data.compact(posterior.stats)
        # The upper bound is computed by the posterior, which is not sent.
        self.fit = {
            part.name: getattr(fitted, part.name)
            for part in fields(fitted)
            if part.init and part.name not in ("posterior", "upper_bound")
        }
        self.kind, self.parts = type(posterior), posterior.parts

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in vars(self).items() if name != "model"}

    @property
    def nbytes(self) -> int:
        """Bytes of all arrays, about what has to be sent."""
        return self.data.stats.nbytes + bytes_of(self.parts[-1])

    @cached_property
    def model(self) -> Any:
        """The model, ready to predict."""
        model: Any = clone(self.estimator)
        posterior = self.kind.restored(*self.parts, device=model.device)
        model._replace(self.data)
        family = isinstance(self.fit["likelihood"], Family)
        bound = no_upper_bound if family else posterior.upper_bound
        model._fit_now = Fit(posterior=posterior, upper_bound=bound, **self.fit)
        return model


class Predictor:
    """From inputs to named columns: mean and std, and a pair for every component.

    With a ``level``, the ends of central bands of that probability follow them, lower and upper.
    Options are those of ``predict``; an exposure, offset or trials that is a text is the name of a
    column of X.

    With several outputs a pair for each of them, by the name of the target. Without inputs,
    for None, there are columns of no rows. It can be called from several threads at once, and
    sent to other processes.
    """

    def __init__(
        self,
        model: PredictMixin | PortableModel,
        components: bool = False,
        level: float | None = None,
        **options,
    ):
        self.given, self.components, self.options = model, components, options
        self.level, self.lock = level, Lock()

    def __reduce__(self):
        return _received, (self.portable, self.components, self.level, self.options)

    @cached_property
    def portable(self) -> PortableModel:
        """The model as it is sent."""
        return self.given if isinstance(self.given, PortableModel) else PortableModel(self.given)

    @property
    def nbytes(self) -> int:
        """Bytes of the model, about what has to be sent."""
        return self.portable.nbytes

    @property
    def model(self) -> Any:
        """The model that predicts."""
        return self.given.model if isinstance(self.given, PortableModel) else self.given

    @property
    def targets(self) -> tuple[str, ...] | None:
        """Names of the targets that the model was fitted to."""
        return self.model._fit_data().targets

    def __call__(self, X) -> dict[str, np.ndarray]:
        """Return columns of predictions at X."""
        with self.lock:  # the work is shared among threads inside
            model, components = self.model, self.components
            data = model._fit_data()
            X, options = without_beside(X, self.options, data.features.names)
            if X is None or not len(X):
                nothing = np.empty(0 if data.single else (0, data.outputs))
                kernel = model.kernel_
                parts = [(part, nothing, nothing) for part in (*kernel.components, *kernel.effects)]
                predictions = [nothing, nothing, *([parts] if components else [])]
            else:
                predictions = model._predict(X, return_std=True, components=components, **options)
            mean, std, *rest = predictions
            found = {"mean": mean, "std": std}
            if self.level is not None:
                ends, noise = (mean, mean), {**options}
                noise.pop("derivative", None)
                if len(mean):
                    ends = model._ends(X, band_factor(self.level), mean, std, **noise)
                found |= zip(("lower", "upper"), ends, strict=True)
            columns = _named("", found, data.targets)
            taken: dict[str, int] = {}
            for part, part_mean, part_std in rest[0] if rest else ():
                label = label_of(part, taken, model.n_features_in_ > 1)
                found = {"mean": part_mean, "std": part_std}
                if self.level is not None:
                    half = band_factor(self.level) * part_std
                    found |= {"lower": part_mean - half, "upper": part_mean + half}
                columns |= _named(label, found, data.targets)
            return columns


def without_beside(
    X: Any, options: Mapping[str, Any], known: tuple[str, ...] | None
) -> tuple[Any, dict[str, Any]]:
    """Return X without columns that options name, and options with these in place of names.

    Columns that are ``known`` as inputs of the model stay in X.
    """
    named = {key: options.get(key) for key in ("exposure", "offset", "trials")}
    named = {key: name for key, name in named.items() if isinstance(name, str)}
    if not named or not isinstance(X, Columns):
        return X, {**options}
    columns = dict(zip(X.columns, X.arrays, strict=True))
    for key, name in named.items():
        if name not in columns:
            raise ValueError(f"There is no column {name!r}, which is to be the {key}.")
    kept = [name for name in columns if name not in named.values() or name in (known or ())]
    inputs = Columns(kept, [columns[name] for name in kept])
    return inputs, {**options, **{key: columns[name] for key, name in named.items()}}


def _received(model: PortableModel, components: bool, level, options: dict[str, Any]) -> Predictor:
    return Predictor(model, components, level, **options)


def label_of(part, taken: dict[str, int], several: bool) -> str:
    """Return the ending of a component's columns: matern32, sho_2, linear_temperature.

    A product over one input is called by its factors, periodic_matern32.
    """
    name, dim = type(part).__name__.lower(), getattr(part, "dim", None)
    if isinstance(part, JointMatern):
        name, dim = part.written_name.lower(), "_".join(map(str, part.dim or ()))
    if isinstance(part, Product) and len(part.inputs) == 1:
        name = "_".join(type(factor).__name__.lower() for factor in part.factors)
    name = f"{name}_{dim}" if several and dim is not None else name
    taken[name] = taken.get(name, 0) + 1
    return name if taken[name] == 1 else f"{name}_{taken[name]}"


def _named(label: str, found: Mapping[str, Any], names) -> dict[str, np.ndarray]:
    """Return arrays as columns, with several outputs one after the other for each of them."""
    ending, (first, *_) = f"_{label}" if label else "", found.values()
    if first.ndim == 1:
        return {f"{name}{ending}": values for name, values in found.items()}
    outputs = names if names is not None else range(first.shape[1])
    return {
        f"{name}{ending}_{output}": np.ascontiguousarray(values[:, number])
        for number, output in enumerate(outputs)
        for name, values in found.items()
    }
