"""The scikit-learn estimator: it orchestrates, and holds no mathematics."""

from __future__ import annotations

import time
from dataclasses import replace
from typing import Any, Literal, Self

import numpy as np
from sklearn.base import BaseEstimator, MultiOutputMixin, RegressorMixin
from sklearn.exceptions import ConvergenceWarning, NotFittedError

from asvgp.data.settings import Domain, NumBasis, Settings
from asvgp.estimators.forecast import ForecastMixin
from asvgp.estimators.ingest import Addition, Forgetter, absorb, check_sums
from asvgp.estimators.merging import check_mergeable, check_same_choice
from asvgp.estimators.trained import trained
from asvgp.kernels import Kernel
from asvgp.likelihoods import Gaussian
from asvgp.likelihoods.family import Family
from asvgp.runtime.arguments import NamingEstimator
from asvgp.runtime.interrupts import plain_interrupts
from asvgp.runtime.progress import Progress
from asvgp.runtime.warn import warn
from asvgp.sources.source import source_for
from asvgp.structures.fit_data import FitData
from asvgp.training.fit import Fit
from asvgp.training.optimise import LBFGS
from asvgp.training.problem import State


class _Setting:
    """A parameter under the name of a method of scikit-learn, which would take it for that.

    It is kept as others are, and `get_params` knows it, but there is no attribute.
    """

    def __set_name__(self, owner: type, name: str) -> None:
        self.name = name

    def __get__(self, instance: Any, owner: type) -> Any:
        raise AttributeError(
            f"{owner.__name__} has no method {self.name!r}. The parameter is "
            f"get_params()[{self.name!r}], and what it led to {self.name}_."
        )

    def __set__(self, instance: Any, value: Any) -> None:
        vars(instance)[self.name] = value


class GPRegressor(
    ForecastMixin, MultiOutputMixin, RegressorMixin, BaseEstimator, metaclass=NamingEstimator
):
    """Gaussian process regression with sparse B-splines, for any number of observations.

    A fit reads the data once. After that, the cost depends on the number of basis functions and
    not on the number of observations. The prior mean is zero, unless the kernel has a `Constant`;
    the default kernel has one.

    Parameters
    ----------
    kernel : Kernel or None, default=None
        The covariance function. Its hyperparameters are one of the starting points of training;
        with ``optimizer=None`` they are used as given.

        None chooses a kernel from the data. For one input this is ``Matern32() + Constant()``,
        plus the seasons and the trend that the series shows. (For times, a day, a week and a year
        are tried; for numbers, the peaks of the periodogram. Seasons are not looked for if
        ``num_basis``, ``degree`` or ``width`` is given.) For two or three inputs it is a constant,
        linear trends where the data show them, and one or two Matérn kernels or products of them,
        chosen by their evidence on a sample of the rows (see docs/fields.md). For more inputs it is
        ``Matern32() + Constant()``. The choice is made from all rows of arrays, from the first
        block of a stream, and from the first portion of ``partial_fit``. Data that are added later
        do not change it. ``kernel_`` and `summary` show what was chosen.
    num_basis : "auto", int or a sequence of int
        Number of B-splines. With several inputs, one number for all of them or one number per
        input, in the order of the columns. "auto" increases the number until the bound stops
        improving.
    noise_variance : "auto" or float
        Starting value of the noise variance. It stays fixed with ``optimizer=None``.
    domain : None, (float, float) or a sequence of such pairs
        Interval that the splines cover; by default the range of X. With several inputs, one pair
        per input in the order of the columns, or None for an input whose range is that of X. For
        a column that a kernel is periodic over, the pair must span one period.
    degree : None or int
        Spline degree, at most 6. The default is 1 for Matern12, and otherwise one more than the
        smallest degree that the kernel allows (3 for Matern32, 4 for Matern52, 5 for Matern72).
    objective : {"auto", "elbo", "evidence"}
        What training maximises. "elbo" is a lower bound on the evidence of the exact process.
        "evidence" is the evidence of the model whose prior is made of the splines themselves (the
        bound without its trace term). "auto" is "elbo", except where a kernel over several inputs
        is chosen from the data and a tight bound would need too many splines. ``objective_`` shows
        which was used.
    optimizer : "lbfgs", LBFGS or None
        `LBFGS` holds the settings of the optimiser. None keeps all hyperparameters as given.
    device : {"cpu", "cuda"}
        Device that factorises the matrices of models with several inputs. "cuda" needs PyTorch and
        a GPU.
    progress : {"auto", True, False}
        Whether to show progress on standard error if work takes more than two seconds. "auto"
        shows it on a terminal.
    memory_limit : None, float or str
        Memory that a model of several inputs may use, in bytes or as a string such as "8 GiB".
        None is four fifths of the memory of the machine or of the GPU. ``num_basis="auto"`` keeps
        to this limit. If a given ``num_basis`` needs more, the factorised matrix is written to a
        temporary file (in the folder TMPDIR) if that is enough; otherwise an error is raised
        before the work begins.
    transform : None, "auto", "log", "sqrt" or float
        Transform of y, for positive data that vary more where their level is high. The model is
        then for log y, or for the Box-Cox transform ``(y**p - 1) / p`` with a power p between 0
        (the logarithm) and 1 (y itself). "auto" takes y or log y, whichever has the higher
        evidence on a coarse grid, and takes y if there are zeros or negative values. The choice is
        made when the model is first trained; data that are added later do not change it.

        All predictions are in the units of y. Hyperparameters, effects, components and weights are
        on the transformed scale, and so is the prior mean of zero: add ``Constant()`` to a kernel
        that has none.
    noise_scale : "auto" or float
        Factor that multiplies the noise variances given to `fit`. "auto" estimates it, which helps
        if only the ratios of the variances are known. ``noise_variance_`` is the result.
    likelihood : None or a likelihood
        Distribution of y given f, such as `Poisson`, `NegativeBinomial`, `Bernoulli` or `StudentT`
        (see docs/likelihoods.md). None is Gaussian noise. With another likelihood, f is for example
        the logarithm of a rate or the logit of a probability. Its prior mean is zero: add
        ``Constant()`` to a kernel that has none. All predictions are in the units of y.
    max_time : None, float or str
        Time that `fit` may take, approximately, in seconds or as text such as "10 minutes". When it
        is over, training ends with the best result so far, and a warning says how far it had come.
        Reading the data and a single evaluation of the bound are not interrupted.

    Attributes
    ----------
    kernel_ : Kernel
        The kernel with its trained hyperparameters.
    noise_variance_ : float
        Variance of Gaussian noise. Other likelihoods do not have it.
    likelihood_ : Gaussian or another likelihood
        The likelihood with its trained parameters.
    transform_ : Transform
        The transform of y. ``transform_.power`` is 1 for y itself and 0 for log y.
    elbo_, evidence_upper_bound_ : float
        Lower and upper bound on the log evidence of the exact Gaussian process. Both are for y
        itself, so models with different transforms can be compared. The upper bound is NaN if the
        likelihood is not Gaussian.
    num_basis_ : int, or tuple of int
        Number of basis functions. With several inputs, one number per input, which is that of the
        finest term.
    domain_ : tuple of float, or tuple of such pairs
        Interval that the splines cover. With several inputs, one pair per input. Times are in the
        time zone of the data.
    stats_ : Statistics
        Sums over all data so far. They can be added, subtracted and coarsened.
    posterior_ : Posterior
        The posterior of the basis functions.
    resolution_ : list of Level
        The bounds that were reached with every number of basis functions that was tried.
    optimization_ : Report
        Report on training. Print it to read it.
    timings_ : dict
        Seconds per stage.

    Examples
    --------
    >>> import numpy as np
    >>> from asvgp import GPRegressor, Matern52
    >>> rng = np.random.default_rng(0)
    >>> x = rng.uniform(0, 10, 100_000)
    >>> y = np.sin(x) + 0.1 * rng.standard_normal(100_000)
    >>> gp = GPRegressor(Matern52()).fit(x, y)
    >>> mean, std = gp.predict([5.0, 12.0], return_std=True)
    >>> bool(abs(mean[0] - np.sin(5.0)) < 4 * std[0])
    True
    >>> round(gp.noise_variance_, 3)
    0.01
    >>> gp.elbo_ <= gp.evidence_upper_bound_
    True
    """

    transform = _Setting()

    def __init__(
        self,
        kernel: Kernel | None = None,
        *,
        num_basis: NumBasis = "auto",
        noise_variance: Literal["auto"] | float = "auto",
        domain: Domain = None,
        degree: int | None = None,
        objective: Literal["auto", "elbo", "evidence"] = "auto",
        optimizer: Literal["lbfgs"] | LBFGS | None = "lbfgs",
        device: str = "cpu",
        progress: Literal["auto"] | bool = "auto",
        memory_limit: float | str | None = None,
        transform: Literal["auto", "log", "sqrt"] | float | None = None,
        noise_scale: Literal["auto"] | float = 1.0,
        likelihood: Family | Gaussian | None = None,
        max_time: float | str | None = None,
    ) -> None:
        self.kernel = kernel
        self.num_basis = num_basis
        self.noise_variance = noise_variance
        self.domain = domain
        self.degree = degree
        self.objective = objective
        self.optimizer = optimizer
        self.device = device
        self.progress = progress
        self.memory_limit = memory_limit
        self.transform = transform
        self.noise_scale = noise_scale
        self.likelihood = likelihood
        self.max_time = max_time

    def fit(
        self,
        X: Any,
        y: Any = None,
        sample_weight: Any = None,
        noise_variance: Any = None,
        width: Any = None,
        *,
        exposure: Any = None,
        offset: Any = None,
        event: Any = None,
        trials: Any = None,
    ) -> Self:
        """Fit to data, forgetting what was fitted before.

        Parameters
        ----------
        X : array-like of shape (n,) or (n, columns), axes of a grid, or source
            The inputs: numbers or times, in any order. For data on a grid, give its axes as a tuple
            of one-dimensional arrays, or as a dict, ``{"lat": lat, "lon": lon}``. A source is
            anything that `asvgp.scan` reads or returns, such as a path, a data frame or an iterable
            of chunks. It is read block by block.
        y : array-like of shape (n,) or (n, outputs), or names of columns
            The observations. NaN means that a value is missing; there is a warning unless X is a
            grid. Several outputs share X, the kernel and the noise. If X is a grid, y has its
            shape, plus a last axis if there are several outputs. If X is a source, give the name of
            a column or a list of names; ``sample_weight`` and the other arguments are then names,
            too.
        sample_weight : array-like of shape (n,), optional
            How often each row counts. A weight multiplies the log density of its row, so a row of
            weight two counts twice and a row of weight zero is ignored.
        noise_variance : array-like of shape (n,), optional
            Noise variance of each observation, if you know it. It is not estimated then, except
            for a common factor if ``noise_scale="auto"``.
        width : number, duration or array-like of shape (n,), optional
            For observations that are averages: observation i is the average of f over
            ``[X[i], X[i] + width[i]]``, or f itself where the width is zero. Give a duration
            ("1 hour" or a timedelta) if X holds times. No knot may lie inside an interval;
            ``num_basis="auto"`` takes care of this.
        exposure : number or array-like of shape (n,), optional
            For counts and waiting times: the factor of the rate, such as the hours in which events
            were counted. If X is a source, this and the arguments below are names of columns, or
            one number for all rows.
        offset : number or array-like of shape (n,), optional
            A known number that is added to f, for any likelihood that is not Gaussian.
        event : array-like of shape (n,), optional
            For waiting times: 1 where the event was observed, 0 where the time is censored.
        trials : number or array-like of shape (n,), optional
            For binomial counts: the number of trials.

        Returns
        -------
        GPRegressor
            The fitted estimator itself.

        Examples
        --------
        >>> from asvgp import GPRegressor, Matern32
        >>> gp = GPRegressor(Matern32(2.0), num_basis=20, noise_variance=0.1, optimizer=None)
        >>> gp.fit([0, 1, 2, 3], [0.0, 1.0, 0.5, -0.5]).num_basis_
        20
        """
        settings, begin = self._settings(), time.perf_counter()
        beside = exposure, offset, event, trials
        added = self._add(settings, None, X, y, sample_weight, noise_variance, width, *beside)
        data, fitted = trained(settings, added.data, fresh=added, begin=begin)
        for name in ("_fit_now", "_warm"):  # nothing is kept of an earlier fit
            vars(self).pop(name, None)
        self._replace(data)
        self._fit_now = fitted
        self._announce(fitted)
        return self

    def partial_fit(
        self,
        X: Any,
        y: Any = None,
        sample_weight: Any = None,
        noise_variance: Any = None,
        width: Any = None,
        *,
        exposure: Any = None,
        offset: Any = None,
        event: Any = None,
        trials: Any = None,
    ) -> Self:
        """Add data to the model. Training waits until a result is needed.

        The result does not depend on the order of the data or on how they are divided into
        portions. If new inputs lie outside the domain, it grows by whole intervals between knots.
        The parameters are those of `fit`.

        Examples
        --------
        >>> import numpy as np
        >>> from asvgp import GPRegressor
        >>> x = np.linspace(0, 10, 1000)
        >>> gp = GPRegressor(num_basis=100)
        >>> for part in np.split(x, 4):
        ...     _ = gp.partial_fit(part, np.sin(part))
        >>> gp.stats_.count
        1000
        """
        rows = X, y, sample_weight, noise_variance, width, exposure, offset, event, trials
        added = self._add(self._settings(), vars(self).get("_data"), *rows, growing=True)
        self._replace(added.data)
        return self

    def forget(
        self,
        X: Any,
        y: Any = None,
        sample_weight: Any = None,
        noise_variance: Any = None,
        width: Any = None,
        *,
        exposure: Any = None,
        offset: Any = None,
        event: Any = None,
        trials: Any = None,
    ) -> Self:
        """Remove data that were added before.

        The parameters are those of `fit`. Give the data with the weights and widths that they had
        when they were added.

        Examples
        --------
        >>> import numpy as np
        >>> from asvgp import GPRegressor
        >>> x = np.linspace(0, 10, 1000)
        >>> gp = GPRegressor(num_basis=100).fit(x, np.sin(x))
        >>> gp.forget(x[:300], np.sin(x[:300])).stats_.count
        700
        """
        data, settings = self._fit_data(), self._settings()
        check_sums(data, "forget")
        beside = exposure, offset, event, trials
        source = source_for(X, y, sample_weight, noise_variance, width, *beside)
        source = source.prepared(settings.kernel, data.features.names)
        old = source.open().statistics(Forgetter(settings, data))
        left = data.with_statistics(data.stats - old)
        self._replace(replace(left, code=""))  # what looked like one may have been among these
        return self

    def merge(self, other: GPRegressor) -> Self:
        """Add the data of another model.

        Both models must have the same ``domain``, ``num_basis`` and ``degree``. If ``num_basis`` is
        "auto" in both, the wider cells of the two are used. If the kernels were chosen from the
        data, they must be the same.

        Parameters
        ----------
        other : GPRegressor
            A model that has data.

        Returns
        -------
        GPRegressor
            The estimator itself.

        Examples
        --------
        >>> import numpy as np
        >>> from asvgp import GPRegressor
        >>> x = np.linspace(0, 10, 1000)
        >>> a, b = (GPRegressor(num_basis=100, domain=(0, 10)) for _ in range(2))
        >>> _ = a.fit(x[:500], np.sin(x[:500])), b.fit(x[500:], np.sin(x[500:]))
        >>> a.merge(b).stats_.count
        1000
        """
        if not isinstance(other, GPRegressor):
            raise TypeError(f"merge takes another GPRegressor, got {type(other).__name__}.")
        mine, theirs = self._fit_data(), other._fit_data()
        check_sums(mine, "merge")
        check_mergeable(mine, theirs)
        if self.kernel is None and other.kernel is None:
            check_same_choice(mine.layout.given, theirs.layout.given)
        stats, others = mine.stats, theirs.stats
        if self.num_basis == other.num_basis == "auto":  # whose cells are as the data want them
            stats, others = stats.on_common_cells(others)
        data = mine.with_statistics(stats + others)
        self._replace(replace(data, code=mine.code or theirs.code))
        return self

    def save(self, path: Any, *, full: bool = False) -> None:
        """Write the model to one file, which `asvgp.load` reads.

        The file contains the settings, the kernel, the sums over the data and the posterior, as
        arrays and JSON. It never contains the data. A loaded model makes the same predictions, and
        you can add data to it.

        The file is at most about ten times as large as the columns of the data. It is written under
        another name and moved to ``path`` when it is complete, so an earlier file is not damaged if
        something goes wrong. A model that has not been trained yet is saved untrained.

        Parameters
        ----------
        path : str or path-like
            Name of the file.
        full : bool
            Whether to keep the sums on the finest grid and all tables, so that a loaded model
            chooses the number of basis functions anew when data are added. The file may then be
            much larger than the data.

        Examples
        --------
        >>> import tempfile
        >>> from pathlib import Path
        >>> import asvgp
        >>> gp = asvgp.GPRegressor(num_basis=9, noise_variance=0.1, optimizer=None)
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     gp.fit([0, 1, 2], [-1.0, 0.0, 1.0]).save(Path(folder) / "three.asvgp")
        ...     again = asvgp.load(Path(folder) / "three.asvgp")
        >>> again.stats_.count
        3
        """
        from asvgp.estimators.persistence import save

        with plain_interrupts():
            save(self, path, full)

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Return the constructor's arguments by name; none of them has parameters of its own."""
        return {name: vars(self)[name] for name in self._get_param_names()}

    def _settings(self) -> Settings:
        """Return the constructor's arguments, checked."""
        return Settings.parse(**self.get_params(deep=False))

    @plain_interrupts()
    def _add(
        self, settings: Settings, before: FitData | None, *rows, growing: bool = False
    ) -> Addition:
        """Add rows, arguments of `fit`, to the data before; the estimator stays as it is."""
        begin, source = time.perf_counter(), source_for(*rows)
        with Progress(settings.progress) as progress:
            added = absorb(settings, source, before, growing, progress)
        self._check_missing(added, before)
        seconds = added.data.seconds + time.perf_counter() - begin
        return replace(added, data=replace(added.data, seconds=seconds))

    def _replace(self, data: FitData) -> None:
        """Take new statistics: hyperparameters trained on the old ones are a start, no more."""
        fitted = vars(self).pop("_fit_now", None)
        if fitted is not None:
            self._warm = State(fitted.kernel, fitted.likelihood)
        self._data = data
        self.n_features_in_: int = data.features.count
        vars(self).pop("feature_names_in_", None)
        if data.features.names is not None:
            self.feature_names_in_ = np.array(data.features.names, dtype=object)

    def _fit_data(self) -> FitData:
        if "_data" not in vars(self):
            raise NotFittedError(
                f"This {type(self).__name__} has no data yet. Call fit or partial_fit first."
            )
        return self._data

    def _fitted(self) -> Fit:
        """Return the model of the data so far, trained if it has not been yet."""
        data = self._fit_data()
        if "_fit_now" not in vars(self):
            warm = vars(self).get("_warm")
            self._data, self._fit_now = trained(self._settings(), data, warm)
            self._announce(self._fit_now)
        return self._fit_now

    def _announce(self, fitted: Fit) -> None:
        """Warn about how training went."""
        report = fitted.report
        if not report.converged:
            gaussian = isinstance(fitted.likelihood, Gaussian)
            noise = f"noise variance {fitted.noise:.4g}" if gaussian else f"{fitted.likelihood!r}"
            warn(
                f"Training did not converge: {report.message}. The best values found are used: "
                f"{self.kernel_!r}, {noise}.",
                ConvergenceWarning,
            )
        for note in report.notes:
            warn(note[0].upper() + note[1:] + ".")

    def _check_missing(self, added: Addition, before: FitData | None) -> None:
        """Warn about missing targets; on a grid, gaps are nothing unusual."""
        data, count, missing = added.data, added.count, added.missing
        name = " or ".join(data.targets) if data.targets else "y"
        if count == 0:
            raise ValueError(f"All {missing} values of {name} are NaN: nothing to fit.")
        if missing and not added.gridded:
            why = ": a row needs the values of all outputs." if data.outputs > 1 else "."
            weightless = ", or no weight," if data.stats.weight != data.stats.count else ""
            warn(
                f"{missing} of {missing + count} rows have {name} = NaN{weightless} and are left "
                f"out as missing{why}",
            )
        if data.code and (before is None or not before.code):  # or it was said
            warn(f"{data.code}.")

    def __sklearn_is_fitted__(self) -> bool:
        return "_data" in vars(self)
