"""Fixed effects: an intercept and linear columns, which add to kernels."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from numbers import Real
from typing import Any

import numpy as np

from asvgp.kernels.base import Kernel
from asvgp.runtime.arguments import NamingClass


@dataclass(frozen=True, repr=False)
class Effect(ABC, metaclass=NamingClass):
    """A coefficient times a known column, estimated jointly with everything else.

    ``variance`` is the variance of the coefficient's normal prior. None stands for a prior so
    wide that it has no influence (a million times what the data suggest).
    """

    variance: float | None = field(default=None, kw_only=True)

    def __post_init__(self) -> None:
        value = self.variance
        if value is None:
            return
        if not isinstance(value, Real) or not (np.isfinite(float(value)) and float(value) > 0.0):
            raise ValueError(
                f"{type(self).__name__}: variance must be None (wide) or positive and finite, got "
                f"{value!r}."
            )
        object.__setattr__(self, "variance", float(value))

    @property
    @abstractmethod
    def name(self) -> str:
        """Name of the effect in tables."""

    def __add__(self, other: Any) -> Kernel:
        from asvgp.kernels.algebra import Sum

        if isinstance(other, Effect):
            return Sum((), (self, other))
        if isinstance(other, Kernel):
            return Sum(other.components, (self, *other.effects))
        return NotImplemented

    def __repr__(self) -> str:
        parts = [repr(dim)] if (dim := getattr(self, "dim", None)) is not None else []
        if self.variance is not None:
            parts.append(f"variance={self.variance:g}")
        return f"{type(self).__name__}({', '.join(parts)})"


@dataclass(frozen=True, repr=False)
class Constant(Effect):
    """An intercept. With it, y need not be centred, and forecasts return to the intercept.

    Parameters
    ----------
    variance : float, optional
        Prior variance of the intercept. By default it is so large that it has no influence.

    Examples
    --------
    >>> import numpy as np
    >>> from asvgp import Constant, GPRegressor, Matern32
    >>> rng = np.random.default_rng(0)
    >>> x = rng.uniform(0, 100, 5000)
    >>> y = 20.0 + np.sin(x) + 0.1 * rng.standard_normal(5000)
    >>> gp = GPRegressor(Matern32() + Constant()).fit(x, y)
    >>> gp.predict([1e6]).round(1)  # far away
    array([20.])
    >>> gp.effects_[0].name
    'intercept'
    """

    @property
    def name(self) -> str:
        """Name of the effect in tables."""
        return "intercept"


@dataclass(frozen=True, repr=False)
class Linear(Effect):
    """A linear effect: a coefficient times one column of X.

    Parameters
    ----------
    dim : int or str, optional
        The column, by number or by name. It may be left out if X has only one column.
    variance : float, optional
        Prior variance of the coefficient. By default it is so large that it has no influence.

    Examples
    --------
    >>> import numpy as np
    >>> from asvgp import GPRegressor, Linear, Matern32
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(0, 100, (5000, 2))
    >>> y = np.sin(X[:, 0]) + 3.0 * X[:, 1] + 0.1 * rng.standard_normal(5000)
    >>> gp = GPRegressor(Matern32(dim=0) + Linear(1)).fit(X, y)
    >>> slope = gp.effects_[0]
    >>> bool(abs(slope.estimate - 3.0) < 4 * slope.std < 0.001)
    True
    """

    dim: int | str | None = None

    @property
    def name(self) -> str:
        """Name of the effect in tables."""
        if self.dim is None:
            return "slope"
        return f"slope of {'column ' * isinstance(self.dim, int)}{self.dim!r}"
