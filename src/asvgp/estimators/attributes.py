"""Attributes of a fitted estimator, which end in an underscore as scikit-learn has them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import replace
from typing import Any, NamedTuple, cast

import numpy as np

from asvgp.basis import Array
from asvgp.data.response import Response
from asvgp.data.transforms import Transform
from asvgp.kernels import Kernel
from asvgp.likelihoods import Family, Gaussian, Heteroscedastic
from asvgp.posterior.posterior import Posterior
from asvgp.statistics import Statistics
from asvgp.structures.fit_data import FitData
from asvgp.training.fit import Fit
from asvgp.training.optimise import Report
from asvgp.training.problem import Level


class EffectEstimate(NamedTuple):
    """A fixed effect: its coefficient and the standard deviation of the coefficient."""

    name: str
    estimate: float | Array
    std: float


class AttributesMixin(ABC):
    """The part of `GPRegressor` that tells what was learnt."""

    @abstractmethod
    def _fitted(self) -> Fit:
        """Return the model of the data so far, trained if it has not been yet."""

    @abstractmethod
    def _fit_data(self) -> FitData:
        """Return the data so far."""

    @property
    def kernel_(self) -> Kernel:
        """The kernel with trained hyperparameters; scales are durations where X holds times."""
        data = self._fit_data()
        return data.structure.labelled(self._fitted().kernel)

    @property
    def objective_(self) -> str:
        """The objective of training, "elbo" or "evidence": as given, or as it was chosen."""
        given: str = self.objective  # pyright: ignore[reportAttributeAccessIssue]
        if self._fit_data().family is not None:
            return "elbo"
        return self._fit_data().objective if given == "auto" else given

    @property
    def effects_(self) -> list[EffectEstimate]:
        """The fixed effects: coefficients per unit of their column, per second for times."""
        data, posterior = self._fit_data(), self._fitted().posterior
        beta, covariance, _ = data.structure.effects(posterior, None, 0)
        errors = np.sqrt(np.diag(covariance))
        timed = data.structure.timed_effects()
        names = [
            effect.name + (" per second" if number in timed else "")
            for number, effect in enumerate(self.kernel_.effects)
        ]
        return [
            EffectEstimate(name, float(value[0]) if data.single else value, float(error))
            for name, value, error in zip(names, beta, errors, strict=True)
        ]

    @property
    def noise_variance_(self) -> float:
        """Noise variance of an observation of weight one, where the noise is Gaussian."""
        likelihood = self._fitted().likelihood
        if isinstance(likelihood, Family):
            raise AttributeError(
                f"The likelihood is {likelihood!r}, which has no noise variance; likelihood_ has "
                "its parameters."
            )
        return likelihood.noise

    @property
    def likelihood_(self) -> Gaussian | Family:
        """The likelihood with trained parameters; ``Gaussian(noise=...)`` for Gaussian noise."""
        fitted = self._fitted()
        likelihood = cast(Gaussian | Family, fitted.likelihood)
        if isinstance(likelihood, Heteroscedastic) and likelihood.kernel is not None:
            labelled = fitted.noise_process.structure.labelled(likelihood.kernel)
            return replace(likelihood, kernel=labelled)
        return likelihood

    @property
    def transform_(self) -> Transform:
        """The transform of y: as given, or chosen by the evidence.

        Where the likelihood is not Gaussian, it is the mean of y given f, as trained.
        """
        trained, transform = self._fitted().likelihood, self._fit_data().transform
        return replace(transform, family=trained) if isinstance(transform, Response) else transform

    @property
    def elbo_(self) -> float:
        """Lower bound on the log evidence."""
        return self._fitted().elbo

    @property
    def evidence_(self) -> float:
        """Log evidence of the spline field itself, without a price on missed variance."""
        return self._fitted().evidence

    @property
    def time_origin_(self) -> Any:
        """The time that seconds are counted from, in paths; None where X holds numbers."""
        axis = self._fit_data().axis
        return None if axis is None else axis.origin

    @property
    def evidence_upper_bound_(self) -> float:
        """Upper bound on the log evidence; NaN where the likelihood is not Gaussian."""
        return self._fitted().upper

    @property
    def num_basis_(self) -> int | tuple[int, ...]:
        """Number of basis functions of each component, along every input if several."""
        return self._fit_data().structure.num_basis(self._fitted().posterior)

    @property
    def domain_(self) -> tuple[Any, ...]:
        """The interval of the splines; with several inputs one per input."""
        return self._fit_data().domain

    @property
    def stats_(self) -> Statistics:
        """Sufficient statistics of all data so far.

        While there is a transform to choose, all of them are outputs beside each other.
        """
        return self._fit_data().stats

    @property
    def posterior_(self) -> Posterior[Any]:
        """The factored posterior."""
        return self._fitted().posterior

    @property
    def optimization_(self) -> Report:
        """How training went."""
        return self._fitted().report

    @property
    def resolution_(self) -> list[Level]:
        """Bounds and hyperparameters that were reached on every resolution that was tried."""
        return self._fitted().resolution

    @property
    def timings_(self) -> dict[str, float]:
        """Seconds per stage."""
        return {"pass": self._fit_data().seconds, **self._fitted().timings}
