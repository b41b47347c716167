"""Settings of an estimator, parsed and checked once from its constructor's arguments."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from numbers import Real
from typing import Any, Literal

import numpy as np

from asvgp.data.response import Response
from asvgp.data.transforms import IDENTITY, Transform, parse_transform
from asvgp.kernels import Kernel, Matern32
from asvgp.likelihoods import Gaussian
from asvgp.likelihoods.family import Family
from asvgp.model.devices import device_for
from asvgp.policies import LINE
from asvgp.runtime.memory import as_bytes
from asvgp.times import as_duration
from asvgp.training.optimise import LBFGS

Auto = Literal["auto"]
NumBasis = Auto | int | Sequence[int]
Domain = Sequence[Any] | None  # a pair of numbers or times, or one pair per input


@dataclass(frozen=True)
class Settings:
    """Arguments of an estimator's constructor, checked.

    Examples
    --------
    >>> settings = Settings.parse(Matern32(), num_basis="auto", memory_limit="1 KiB")
    >>> settings.num_basis, settings.memory_limit, settings.degrees(Matern32())
    (None, 1024.0, (3,))
    >>> Settings.parse(Matern32(), degree=7)
    Traceback (most recent call last):
    ValueError: degree must be None or an integer from 2 (for Matern32(lengthscale=1.0, ...
    """

    kernel: Kernel | None = None  # None where it is chosen from the data
    num_basis: int | tuple[int, ...] | None = None  # None where it is chosen from the data
    noise_variance: float | None = None  # None where its start is chosen from the data
    domain: tuple[Any, ...] | None = None  # as given: its ends may be numbers or times
    degree: int | None = None  # None for the default of every kernel
    objective: str = "auto"  # or "elbo", "evidence"
    optimizer: LBFGS | None = field(default_factory=LBFGS)  # None: hyperparameters stay as given
    device: str = "cpu"
    progress: str | bool = "auto"
    memory_limit: float | None = None  # in bytes
    transforms: tuple[Transform, ...] = (IDENTITY,)  # of y; several to choose from
    noise_scale: float | None = 1.0  # factor of given noise variances; None: it is estimated
    max_time: float | None = None  # in seconds
    spacing: tuple[float, ...] = ()  # of the finest automatic cells, where a choice has told it

    @classmethod
    def parse(
        cls,
        kernel: Kernel | None,
        *,
        num_basis: Any = "auto",
        noise_variance: Any = "auto",
        domain: Any = None,
        degree: Any = None,
        objective: Any = "auto",
        optimizer: Any = "lbfgs",
        device: Any = "cpu",
        progress: Any = "auto",
        memory_limit: Any = None,
        transform: Any = None,
        noise_scale: Any = 1.0,
        likelihood: Any = None,
        max_time: Any = None,
    ) -> Settings:
        """Check the arguments before any work begins, and return them as settings."""
        if kernel is not None:
            _check_kernel(kernel)
        if objective not in ("auto", "elbo", "evidence"):
            raise ValueError(f"objective must be 'auto', 'elbo' or 'evidence', got {objective!r}.")
        if not (optimizer is None or optimizer == "lbfgs" or isinstance(optimizer, LBFGS)):
            raise ValueError(f"optimizer must be 'lbfgs', LBFGS(...) or None, got {optimizer!r}.")
        if not (degree is None or _is_integer(degree)):
            raise ValueError(f"degree must be None or an integer, got {degree!r}.")
        if not (isinstance(device, str) and (device in ("cpu", "torch") or device[:4] == "cuda")):
            raise ValueError(f"device must be 'cpu' or 'cuda', got {device!r}.")
        if device != "cpu":
            device_for(device)
        if not (progress == "auto" or isinstance(progress, bool)):
            raise ValueError(f"progress must be 'auto', True or False, got {progress!r}.")
        transforms = parse_transform(transform)
        if len(transforms) > 1 and optimizer is None:
            raise ValueError(
                "transform='auto' compares trained models, and optimizer=None keeps the "
                "hyperparameters, which are on the scale of one transform: name it."
            )
        if not (likelihood is None or isinstance(likelihood, Gaussian)):
            transforms = (_response(likelihood, transform, noise_variance, objective),)
        elif isinstance(likelihood, Gaussian) and noise_variance == "auto":
            noise_variance = likelihood.noise if likelihood != Gaussian() else "auto"
        settings = cls(
            kernel,
            _num_basis(num_basis),
            _positive(noise_variance, "noise_variance"),
            _domain(domain),
            None if degree is None else int(degree),
            objective,
            LBFGS() if optimizer == "lbfgs" else optimizer,
            device,
            progress,
            as_bytes(memory_limit),
            transforms,
            _positive(noise_scale, "noise_scale"),
            _seconds(max_time),
        )
        settings.degrees(Matern32() if kernel is None else kernel)  # by default, with a degree
        return settings

    def with_kernel(self, kernel: Kernel, spacing: tuple[float, ...] = ()) -> Settings:
        """Return the settings with a kernel in place of none, and with its finest cells."""
        self.degrees(kernel)
        return replace(self, kernel=kernel, spacing=spacing)

    @property
    def chosen(self) -> Kernel:
        """The kernel, which must have been chosen by now."""
        assert self.kernel is not None
        return self.kernel

    @property
    def family(self) -> Family | None:
        """The likelihood, where it is not Gaussian."""
        first = self.transforms[0]
        return first.likelihood if isinstance(first, Response) else None

    @property
    def automatic(self) -> bool:
        """True where the number of basis functions is chosen from the data."""
        return self.num_basis is None

    @property
    def trained(self) -> bool:
        """True where hyperparameters are trained."""
        return self.optimizer is not None

    @property
    def domain_known(self) -> bool:
        """True where the user gave the domain of every input."""
        return self.domain is not None and not any(part is None for part in self.domain)

    def degrees(self, kernel: Kernel) -> tuple[int, ...]:
        """Return the spline degree of every factor of every component of a kernel.

        A process of order p is in the span of splines of degree p + 1 and higher.
        """
        factors = [factor for part in kernel.components for factor in part.along]
        defaults = tuple(factor.default_degree for factor in factors)
        least = max(factor.least_degree for factor in factors)
        needed, most = max(defaults) if self.degree is None else least, LINE.most_degree
        if needed > most:
            raise ValueError(
                f"{kernel!r} needs splines of degree {needed}, but the highest is {most}: "
                f"use a rougher kernel{f', or degree={most}' if least <= most else ''}."
            )
        if self.degree is None:
            return defaults
        if not least <= self.degree <= most:
            raise ValueError(
                f"degree must be None or an integer from {least} (for {kernel!r}) to {most}, "
                f"got {self.degree!r}."
            )
        return (self.degree,) * len(factors)


def _response(likelihood: Any, transform: Any, noise_variance: Any, objective: str) -> Response:
    """Return the response of a likelihood that is not Gaussian, if the rest goes with it."""
    if not isinstance(likelihood, Family):
        called = isinstance(likelihood, type) and issubclass(likelihood, Family)
        example = f"{likelihood.__name__}()" if called else "Poisson() or Gaussian()"
        given = likelihood.__name__ if called else repr(likelihood)
        raise TypeError(f"likelihood must be an instance such as {example}, not {given}.")
    if transform is not None:
        raise ValueError(f"transform is for Gaussian noise, and the likelihood is {likelihood!r}.")
    if noise_variance != "auto":
        raise ValueError(
            f"noise_variance is that of Gaussian noise, and the likelihood is {likelihood!r}."
        )
    if objective == "evidence":
        raise ValueError(
            "objective='evidence' is for Gaussian noise; other likelihoods are trained by the "
            "lower bound, 'elbo'."
        )
    return Response(family=likelihood)


def _check_kernel(kernel: Any) -> None:
    if isinstance(kernel, type) and issubclass(kernel, Kernel):
        raise TypeError(f"kernel must be an instance: {kernel.__name__}(), not {kernel.__name__}.")
    if not isinstance(kernel, Kernel):
        raise TypeError(f"kernel must be an asvgp kernel such as Matern32(), got {kernel!r}.")
    if not kernel.components:
        raise ValueError(
            f"kernel={kernel!r} has fixed effects only: add a process, such as Matern32()."
        )


def _num_basis(given: Any) -> int | tuple[int, ...] | None:
    if isinstance(given, str) and given == "auto":
        return None
    several = np.ndim(given) == 1
    counts = tuple(given) if several else (given,)
    if not counts or not all(map(_is_integer, counts)):
        kind = ValueError if isinstance(given, str) else TypeError
        raise kind(
            f"num_basis must be 'auto', an integer, or one integer per input, got {given!r}."
        )
    return tuple(map(int, counts)) if several else int(counts[0])


def _positive(given: Any, name: str) -> float | None:
    """Return a positive number; None for "auto"."""
    if isinstance(given, str) and given == "auto":
        return None
    number = isinstance(given, Real) and not isinstance(given, bool)
    if not (number and np.isfinite(float(given)) and float(given) > 0.0):
        raise ValueError(f"{name} must be 'auto' or a positive number, got {given!r}.")
    return float(given)


def _seconds(given: Any) -> float | None:
    """Return a time in seconds; None for no limit."""
    if given is None:
        return None
    seconds = None
    if not isinstance(given, bool):
        with suppress(TypeError, ValueError):
            seconds = as_duration(given)
        with suppress(TypeError, ValueError):
            seconds = float(given) if seconds is None else seconds
    if seconds is None or not seconds > 0.0:
        raise ValueError(
            "max_time must be None, a number of seconds, or a duration such as '10 minutes', got "
            f"{given!r}."
        )
    return float(seconds)


def _domain(given: Any) -> tuple[Any, ...] | None:
    if given is None:
        return None
    if isinstance(given, str) or not hasattr(given, "__len__") or len(given) == 0:
        raise ValueError(
            f"domain must be None, a pair (a, b), or one pair per input, got {given!r}."
        )
    return tuple(given)


def _is_integer(value: Any) -> bool:
    return isinstance(value, int | np.integer) and not isinstance(value, bool)
