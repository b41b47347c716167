"""The scikit-learn estimator: it orchestrates, and holds no mathematics."""

from __future__ import annotations

import time
from dataclasses import replace
from typing import Any, Literal, Self

import numpy as np
from sklearn.base import BaseEstimator, MultiOutputMixin, RegressorMixin
from sklearn.exceptions import ConvergenceWarning, NotFittedError

from asvgp.data.settings import Domain, NumBasis, Settings
from asvgp.diagnostics.below_zero import below_zero
from asvgp.estimators.forecast import ForecastMixin
from asvgp.estimators.ingest import Addition, Forgetter, absorb, check_sums
from asvgp.estimators.merging import check_mergeable, check_same_choice
from asvgp.estimators.trained import trained
from asvgp.kernels import Kernel
from asvgp.likelihoods import Gaussian
from asvgp.likelihoods.family import Family
from asvgp.runtime.arguments import NamingClass
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
    ForecastMixin, MultiOutputMixin, RegressorMixin, BaseEstimator, metaclass=NamingClass
):
    """Gaussian process regression by actually sparse B-splines.

    One pass over the data, then everything costs O(num_basis), however many observations
    there are. The prior mean is zero, or a constant that is estimated if the kernel has a
    `Constant`, as the default has.

    Parameters
    ----------
    kernel : Kernel or None, default=None
        None chooses a kernel from the data. Over two or three inputs it is a sum of one or two
        Matérn kernels and a constant, of those with the highest evidence on a sample (see
        docs/fields.md). Otherwise it is ``Matern32() + Constant()``. A series of one
        input also gets the seasons that it shows (of times, a day, a week and a year are tried;
        of numbers, the peaks of the periodogram), a season that drifts, and a trend if it has
        one, unless ``num_basis``, ``degree`` or ``width`` is given, which seasons do not take.
        The first rows decide; data that are added later do not change the choice. ``kernel_`` and
        `summary` tell it.
        The hyperparameters of a kernel are one of the starting points of training, beside those
        that the data suggest; with ``optimizer=None`` they are used as given.
    num_basis : "auto", int or a sequence of int
        Number of B-splines; with several inputs one number for all of them, or one per input in
        the order of their columns. "auto" refines until the bound stops improving.
    noise_variance : "auto" or float
        Starting value of the noise variance, kept fixed with ``optimizer=None``.
    domain : None, (float, float) or a sequence of such pairs
        Interval of the splines; by default the range of X. With several inputs one pair per
        input, in the order of their columns, or None for an input whose range is that of X. Of
        a column that a kernel is periodic over, one period.
    degree : None or int
        Spline degree, by default one more than the smallest that the kernel allows (3 for
        Matern32, 4 for Matern52, 5 for Matern72), and 1 for Matern12. At most 6.
    objective : {"auto", "elbo", "evidence"}
        The objective of training: the lower bound on the evidence, or the evidence of the
        spline field itself (the bound without its trace term). "auto" is the lower bound, but
        where a kernel over several inputs is chosen from the data, the evidence if the bound would
        take too many splines to be tight; ``objective_`` tells.
    optimizer : "lbfgs", LBFGS or None
        None keeps all hyperparameters as given.
    device : {"cpu", "cuda"}
        Device that factorises matrices of models of several inputs; "cuda" needs PyTorch and a
        GPU.
    progress : {"auto", True, False}
        Show progress on standard error for work of more than two seconds; "auto" shows it on a
        terminal.
    memory_limit : None, float or str
        Bytes, or a string such as "8 GiB", that a model of several inputs may take; None stands
        for four fifths of the memory of the machine, or of the GPU. ``num_basis="auto"`` keeps
        within it. If a given ``num_basis`` does not fit, the factorisation goes to a temporary
        file (in the folder TMPDIR) where that suffices; otherwise an error is raised before the
        work begins.
    transform : None, "auto", "log", "sqrt" or float
        For targets whose swings grow with their level, all of them positive: the process and its
        noise are Gaussian on the scale of log y, or of the Box-Cox transform ``(y**p - 1) / p``
        with a power p between 0 (the logarithm) and 1 (y itself). "auto" takes y or log y,
        whichever has the higher evidence on coarse cells; it never takes log y where y has zeros
        or negative values. The sums of both are kept in the one pass over the data. The choice is
        made when the model is first trained, and holds for data that are added later; the summary
        tells it.
        All answers are in the units of y. Hyperparameters, effects, components and weights are on
        the scale of the transform, and so is the prior mean of zero: add ``Constant()`` to a
        kernel that has none.
    noise_scale : "auto" or float
        Factor of the noise variances that `fit` is given for every observation. "auto" estimates
        it, for variances of which only the ratios are known; ``noise_variance_`` tells it.
    likelihood : None or a likelihood
        How y scatters about f: `Poisson`, `NegativeBinomial`, `Bernoulli`, `StudentT` and others
        (see docs/likelihoods.md); None is Gaussian noise. The process is then on the scale of the
        likelihood's link, the logarithm of a rate or the logit of a probability, where its prior
        mean of zero is: add ``Constant()`` to a kernel that has none. All answers are in the units
        of y.
    max_time : None, float or str
        Seconds, or a duration such as "10 minutes", that `fit` may take, about: when they are
        over, training ends with the best state so far, and a warning says how far it had come. The
        pass over the data is not cut short, nor is an evaluation of the bound, and the posterior
        is computed in any case.

    Attributes
    ----------
    kernel_ : Kernel
        With trained hyperparameters.
    noise_variance_ : float
        Of Gaussian noise; other likelihoods have none.
    likelihood_ : Gaussian or another likelihood
        With trained parameters.
    transform_ : Transform
        Of y: ``transform_.power`` is one for y itself, zero for log y.
    elbo_, evidence_upper_bound_ : float
        The log evidence of the exact Gaussian process lies between the two. It is that of y
        itself, so that models with different transforms compare. Of likelihoods that are not
        Gaussian no upper bound is known: it is NaN.
    num_basis_ : int, or tuple of int
        With several inputs one per input; where several terms are over one, of the finest.
    domain_ : tuple of float, or tuple of such pairs
        With several inputs one pair per input; of times, in the time zone of the data.
    stats_ : Statistics
        Statistics of all data so far; they add, subtract and coarsen.
    posterior_ : Posterior
    resolution_ : list of Level
        Bounds reached on every resolution that was tried.
    optimization_ : Report
        Report on training; print it.
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
            Numbers or times, in any order. A tuple of one-dimensional arrays holds the axes of a
            grid, one per column; a dict holds them by name, ``{"lat": lat, "lon": lon}``. Their
            combinations are never written out. A source is anything that `asvgp.scan` reads or
            returns: a path, a frame, an iterable of chunks. It is read block by block.
        y : array-like of shape (n,) or (n, outputs), or names of columns
            NaN means missing, with a warning unless X is a grid. Several outputs share kernel,
            noise and X. On a grid, values have its shape, with a last axis for several outputs.
            If X is a source, a name or a list of names; then ``sample_weight`` and the others are
            names, too.
        sample_weight : array-like of shape (n,), optional
            How often each row is there: a weight multiplies the log density of the row, as if it
            came so many times; a row of weight zero is not there.
        noise_variance : array-like of shape (n,), optional
            Known noise variances of the observations. They are not estimated, but for a factor
            that they all share if ``noise_scale="auto"``.
        width : number, duration or array-like of shape (n,), optional
            Observation i is the average of f over ``[X[i], X[i] + width[i]]``; where the width
            is zero, f itself. A duration ("1 hour", a timedelta) where X holds times. Every
            interval must lie between two knots, which ``num_basis="auto"`` takes care of.
        exposure : number or array-like of shape (n,), optional
            For counts and times: what the rate is multiplied by, such as the time that was watched.
            If X is a source, this and those below are names of columns, or one number for all.
        offset : number or array-like of shape (n,), optional
            What is added to f, for any likelihood that is not Gaussian.
        event : array-like of shape (n,), optional
            For times until an event: 1 where it was seen, 0 where the time was censored.
        trials : number or array-like of shape (n,), optional
            For binomial counts: the number of trials.

        Returns
        -------
        GPRegressor
            Itself.

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
        self._find(added)
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
        """Add data to those before; training waits until a result is needed.

        The statistics are those of all data at once, in whatever order and portions they
        came. Where new inputs lie outside the domain, it grows by whole knot intervals.
        Parameters as in `fit`.

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
        """Take out data that were added before, with the weights and widths they had.

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
        self._replace(data.with_statistics(data.stats - old))
        return self

    def merge(self, other: GPRegressor) -> Self:
        """Add the data of another model of the same domain, num_basis and degree.

        If both are automatic, the wider of their cells are kept. If the kernels were chosen from
        the data, they must be the same.

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
        self._replace(mine.with_statistics(stats + others))
        return self

    def save(self, path: Any, *, full: bool = False) -> None:
        """Write the model to one file, which `asvgp.load` reads.

        The file holds settings, kernel, statistics and posterior, never the data, as arrays and
        JSON. It is at most about ten times as large as the data's own columns: the statistics are
        on the cells that training ended on, and tables that would not fit are computed again when
        a loaded model first needs them. A loaded model answers as this one does, and takes
        further data on the cells that it has.

        It is written beside ``path`` and moved there when it is complete: whatever goes wrong, a
        file that was there before stays as it was. A model that has not been trained yet is saved
        as it is, with all of its statistics.

        Parameters
        ----------
        path : str or path-like
        full : bool
            Whether to write all that there is: the statistics on the finest cells, so that a
            loaded model chooses its resolution anew when data are added, and every table. The
            file may then be much larger than the data.

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
        self._check_missing(added)
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

    def _find(self, added: Addition) -> None:
        """Keep for the summary what there is to say about the data that were just fitted."""
        data, fitted = self._data, self._fit_now
        fitted.report.missing_code = added.code
        if added.looked_at is not None and data.transform.identity and not data.known_noise:
            mean, variance = data.structure.predict(fitted.posterior, added.looked_at)
            share = np.mean(mean < 1.96 * np.sqrt(variance + fitted.noise))
            if words := below_zero(float(share), added.lowest == 0.0):
                fitted.report.findings.append(words)

    def _announce(self, fitted: Fit) -> None:
        """Warn about how training went."""
        report = fitted.report
        if not report.converged:
            gaussian = isinstance(fitted.likelihood, Gaussian)
            noise = f"noise variance {fitted.noise:.4g}" if gaussian else f"{fitted.likelihood!r}"
            warn(
                f"Training did not converge: {report.message}. The best state found is used: "
                f"{self.kernel_!r}, {noise}.",
                ConvergenceWarning,
            )
        for note in report.notes:
            warn(note[0].upper() + note[1:] + ".")

    def _check_missing(self, added: Addition) -> None:
        """Warn about missing targets; on a grid, gaps are nothing unusual."""
        data, count, missing = added.data, added.count, added.missing
        name = " or ".join(data.targets) if data.targets else "y"
        if count == 0:
            raise ValueError(f"All {missing} values of {name} are NaN: nothing to fit.")
        if missing and not added.gridded:
            why = ": a row counts where all outputs are known." if data.outputs > 1 else "."
            weightless = ", or no weight," if data.stats.weight != data.stats.count else ""
            warn(
                f"{missing} of {missing + count} rows have {name} = NaN{weightless} and are left "
                f"out as missing{why}",
            )
        if added.code:
            warn(f"{added.code}.")

    def __sklearn_is_fitted__(self) -> bool:
        return "_data" in vars(self)
