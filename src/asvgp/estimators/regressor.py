"""The scikit-learn estimator: validates, orchestrates, holds no mathematics."""

from __future__ import annotations

import time
import warnings
from contextlib import contextmanager
from functools import reduce
from operator import add

import numpy as np
from sklearn.base import BaseEstimator, MultiOutputMixin, RegressorMixin
from sklearn.exceptions import ConvergenceWarning, NotFittedError

from asvgp.data.columns import Gridded, Table
from asvgp.data.inputs import Seen, as_rows, read_targets, read_weights
from asvgp.data.validation import check_settings
from asvgp.estimators.ingest import absorb, infinite_targets, is_known, target_names
from asvgp.estimators.predict import Answers
from asvgp.kernels import Kernel, Matern32
from asvgp.runtime.parallel import one_blas_thread
from asvgp.runtime.progress import Progress
from asvgp.sources.answers import input_names, with_names
from asvgp.sources.source import Chunk, Source, source_for
from asvgp.statistics import Statistics
from asvgp.structures.choose import structure_of
from asvgp.training.fit import Fit
from asvgp.training.optimise import LBFGS
from asvgp.training.problem import Problem
from asvgp.training.starts import mean_weight


class GPRegressor(Answers, MultiOutputMixin, RegressorMixin, BaseEstimator):
    """Gaussian process regression by actually sparse B-splines.

    One pass over the data, then everything costs O(num_basis), however many observations
    there are. The prior mean is zero.

    Parameters
    ----------
    kernel : Kernel, default=Matern32()
        Its hyperparameters are one of the starting points of training, beside those that
        the data suggest; with ``optimizer=None`` they are used as given.
    num_basis : "auto", int or a sequence of int
        Number of B-splines; with several inputs along each, or one number for each, in the
        order of their columns. "auto" refines until the bound stops improving.
    noise_variance : "auto" or float
        Starting value of the noise variance, kept fixed with ``optimizer=None``.
    domain : None, (float, float) or a sequence of such pairs
        Interval of the splines; by default the range of X, to its very ends. With several
        inputs a pair for each, in the order of their columns; None for those left to the data.
    degree : None or int
        Spline degree, by default the smallest the kernel allows. One more converges faster
        in ``num_basis`` and costs half as much again.
    objective : {"elbo", "evidence"}
        What training maximises: the lower bound on the evidence, or the evidence of the
        spline field itself (the bound without its trace term).
    optimizer : "lbfgs", LBFGS or None
        None keeps all hyperparameters as given.
    device : {"cpu", "cuda"}
        Where matrices of models of several inputs are factored; "cuda" needs PyTorch and a GPU.
    progress : {"auto", True, False}
        Progress on standard error for work of more than two seconds; "auto": on a
        terminal.
    memory_limit : None, float or str
        Bytes, or a string as "8 GiB", that a model of several inputs may take; None: four fifths
        of what the machine, or the GPU, has. ``num_basis="auto"`` keeps to it. With more basis
        functions asked for than fit, the factor goes to a temporary file (in the folder TMPDIR
        names) if that is all that does not fit; else there is an error before the work begins.

    Attributes
    ----------
    kernel_ : Kernel
        With trained hyperparameters.
    noise_variance_ : float
    elbo_, evidence_upper_bound_ : float
        The log evidence of the exact Gaussian process lies between the two.
    num_basis_ : int, or tuple of int
        With several inputs one for each; where several terms are over one, of the finest.
    domain_ : tuple of float, or tuple of such pairs
        With several inputs a pair for each.
    stats_ : Statistics
        Of all data seen; they add, subtract and coarsen.
    posterior_ : Posterior
    resolution_ : list of Level
        What every resolution that was tried reached.
    optimization_ : Report
        How training went; print it.
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

    def __init__(
        self,
        kernel: Kernel = Matern32(),  # noqa: B008 (kernels are immutable)
        *,
        num_basis="auto",
        noise_variance="auto",
        domain=None,
        degree=None,
        objective="elbo",
        optimizer="lbfgs",
        device="cpu",
        progress="auto",
        memory_limit=None,
    ):
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

    def fit(self, X, y=None, sample_weight=None, noise_variance=None, width=None) -> GPRegressor:
        """Fit to data, forgetting what was fitted before.

        Parameters
        ----------
        X : array-like of shape (n,) or (n, columns), axes of a grid, or source
            Numbers or times, in any order. A tuple of one-dimensional arrays holds the axes of a
            grid, one a column, and a dict the same with their names, ``{"lat": lat, "lon":
            lon}``; their combinations are never written out. A source is what `asvgp.scan` reads,
            or returns: a path, a frame, an iterable of chunks. It is read block by block.
        y : array-like of shape (n,) or (n, outputs), or names of columns
            NaN means missing, of which there is a warning unless X is a grid. Several outputs share
            kernel, noise and X. On a grid, values of its shape, or of that and a last axis of
            outputs. A name, or a list of them, where X is a source; then ``sample_weight`` and the
            others are names, too.
        sample_weight : array-like of shape (n,), optional
            Inverse relative noise variances: observation i has noise variance
            ``noise_variance_ / sample_weight[i]``.
        noise_variance : array-like of shape (n,), optional
            Known noise variances of the observations; nothing is then estimated of them,
            and ``noise_variance_`` is one, a factor that they all share.
        width : number, duration or array-like of shape (n,), optional
            Observation i is the average of f over ``[X[i], X[i] + width[i]]``; where the width
            is zero, f itself. A duration ("1 hour", a timedelta) where X holds times. Every
            interval must lie between two knots; ``num_basis="auto"`` sees to that.

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
        with self._kept_on_failure():
            for name in ("_data", "_fit_now", "_warm", "feature_names_in_"):
                vars(self).pop(name, None)
            source = source_for(X, y, sample_weight, noise_variance, width)
            if source is None:
                self._absorb(X, y, sample_weight, noise_variance, width)
            else:
                y = self._absorb_source(source)
            self._check_variation(self._data.stats, y, begun=True)
            self._fitted()
        return self

    def partial_fit(
        self, X, y=None, sample_weight=None, noise_variance=None, width=None
    ) -> GPRegressor:
        """Add data to those seen before; training waits until something is asked for.

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
        with self._kept_on_failure():
            source = source_for(X, y, sample_weight, noise_variance, width)
            if source is None:
                self._absorb(X, y, sample_weight, noise_variance, width)
            else:
                self._absorb_source(source, growing=True)
        return self

    def forget(self, X, y=None, sample_weight=None, noise_variance=None, width=None) -> GPRegressor:
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
        data = self._seen()
        source = source_for(X, y, sample_weight, noise_variance, width)
        if source is not None:
            self._replace(data._replace(stats=data.stats - self._sums(source)))
            return self
        X, y, sample_weight, noise_variance = as_rows(X, y, sample_weight, noise_variance)
        old = self._sums_of_rows(Chunk(X, y, sample_weight, noise_variance, width))
        self._replace(data._replace(stats=data.stats - old))
        return self

    def _sums(self, source: Source):
        """Statistics of a source of which all was added before."""
        blocks = source.prepared(self.kernel, input_names(self)).open().blocks()
        return reduce(add, (self._sums_of_rows(block) for block in blocks))

    def _sums_of_rows(self, rows: Chunk):
        """Statistics of rows that were added before."""
        data = self._seen()
        X, y, sample_weight, noise_variance, width = rows
        points = data.structure.read(self, X, width=width)
        y = read_targets(y, points.count)
        data.check_convention(noise_variance)
        weights = read_weights(sample_weight, noise_variance, points.count)
        if not data.structure.covers(data.stats, points):
            raise ValueError(
                "These data cannot be forgotten, because they were never added: some of X lies "
                f"outside the domain {self.domain_}."
            )
        return data.structure.accumulate(points, y, data.stats, weights)

    def merge(self, other: GPRegressor) -> GPRegressor:
        """Add the data of another model of the same domain, num_basis and degree.

        Of two automatic ones, the wider of their cells are kept.

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
        mine, theirs = self._seen(), other._seen()
        if mine.known_noise != theirs.known_noise:
            raise ValueError(
                "One of the models knows its noise variances and the other has relative weights: "
                "their statistics do not add."
            )
        if mine.axis != theirs.axis:
            if mine.axis is None or theirs.axis is None:
                raise ValueError("One of the models is of times and the other of numbers.")
            if mine.axis.tz != theirs.axis.tz:
                raise ValueError(
                    f"The models' times are in different zones, {mine.axis.tz} and "
                    f"{theirs.axis.tz}. Bring the data to one of them."
                )
            raise ValueError(
                f"The models count time from different origins, {mine.axis.origin} and "
                f"{theirs.axis.origin}: the first times they saw. Fit the second with partial_fit "
                "on the first instead."
            )
        if mine.structure.key != theirs.structure.key:
            raise ValueError(
                "The models use different columns of X: "
                f"{mine.layout.given!r} and {theirs.layout.given!r}."
            )
        added, other_sums = mine.stats, theirs.stats
        if self.num_basis == other.num_basis == "auto":  # whose cells are as the data want them
            added, other_sums = added.on_common_cells(other_sums)
        self._replace(mine._replace(stats=added + other_sums))
        return self

    def save(self, path) -> None:
        """Write the model to one file, from which `asvgp.load` makes it again.

        The file holds settings, kernel, statistics and posterior, never the data, as arrays and
        JSON. It is written beside ``path`` and moved there when it is complete: whatever goes
        wrong, a file that was there before stays as it was. A model that has not been trained
        yet is saved as it is.

        Parameters
        ----------
        path : str or path-like

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
        from asvgp.saving.persistence import save

        save(self, path)

    @contextmanager
    def _kept_on_failure(self):
        """Whatever goes wrong inside, what was fitted before stays as it was."""
        before = dict(vars(self))
        try:
            yield
        except BaseException:
            vars(self).clear()
            vars(self).update(before)
            raise

    def _absorb(self, X, y, sample_weight, noise_variance, width) -> None:
        """One pass over new data into the statistics."""
        begin = time.perf_counter()
        check_settings(self)
        X, y, sample_weight, noise_variance = as_rows(X, y, sample_weight, noise_variance)
        data, X = vars(self).get("_data"), with_names(self, X)
        known = vars(self).get("n_features_in_")
        if data is not None and (found := Table(X).width) != known:
            raise ValueError(
                f"X has {found} features, but {type(self).__name__} is expecting {known} "
                "features as input."
            )
        structure = structure_of(self.kernel, X, self.optimizer is None, self.domain)
        if data is not None:
            if structure.columns != data.structure.columns:
                raise ValueError(
                    "The kernel has changed since the first data, and needs other columns of X: "
                    f"{data.layout.given!r} then, {self.kernel!r} now. Call fit to begin anew."
                )
            structure = data.structure.with_layout(structure.layout)
            data = data._replace(structure=structure)
        structure.degrees(self)
        points = structure.read(self, X, reset=data is None, width=width)
        y = read_targets(y, points.count)
        weights = read_weights(sample_weight, noise_variance, points.count)
        if data is None:
            stats = structure.prepare(self, points, y, None, noise_variance is not None)
            data = Seen(stats, structure, noise_variance is not None, y.ndim == 1)
        else:
            data.check_convention(noise_variance)
            data = data._replace(stats=structure.prepare(self, points, y, data.stats))
        progress = Progress(self.progress)
        with progress:
            new = structure.accumulate(
                points, y, data.stats, weights, progress.passing(points.count)
            )
        total = new if data.stats.count == 0 else data.stats + new
        self._check_finite(new, y, isinstance(X, Gridded), data.targets)
        self._replace(
            data._replace(stats=total, seconds=data.seconds + time.perf_counter() - begin)
        )

    def _absorb_source(self, source: Source, growing: bool = False):
        """All data of a source, of which the targets that were looked at are returned.

        Where the domain is ``growing`` it need not be known before.
        """
        begin = time.perf_counter()
        check_settings(self)
        progress = Progress(self.progress)
        source = source.prepared(self.kernel, input_names(self))
        stream = source.open()
        if growing and ("_data" in vars(self) or not is_known(self, source, stream)):
            for block in stream.blocks():
                self._absorb(*block)
            self._data = self._data._replace(targets=target_names(source))
            return None
        with progress:
            data, y = absorb(self, source, stream, progress)
        self._check_finite(data.stats, y, getattr(source, "gridded", False), data.targets)
        self._replace(data._replace(seconds=time.perf_counter() - begin))
        return y

    def _replace(self, data: Seen) -> None:
        """New statistics: what was learnt from the old is a start, no more."""
        fitted = vars(self).pop("_fit_now", None)
        if fitted is not None:
            self._warm = (fitted.kernel, fitted.noise)
        self._data = data

    def _seen(self) -> Seen:
        if "_data" not in vars(self):
            raise NotFittedError(
                f"This {type(self).__name__} has seen no data. Call fit or partial_fit first."
            )
        return self._data

    def _fitted(self) -> Fit:
        """The model of the data seen, trained if it has not been yet."""
        data = self._seen()
        if "_fit_now" not in vars(self):
            degrees = data.structure.degrees(self)
            noise = None if self.noise_variance == "auto" else float(self.noise_variance)
            progress = Progress(self.progress)
            problem = Problem(
                data.layout.kernel,
                1.0 if data.known_noise else noise,
                degrees,
                self.objective,
                self.optimizer if isinstance(self.optimizer, LBFGS) else LBFGS(),
                progress.training,
                data.known_noise,
            )
            if data.stats.count == 0:
                raise ValueError("There are no observations left to fit.")
            self._check_variation(data.stats)
            with progress, one_blas_thread:
                warm = vars(self).get("_warm")
                fitted = data.structure.fit(self, problem, data.stats, warm)
            self._fit_now = fitted
            self._announce(fitted)
        return self._fit_now

    def _announce(self, fitted: Fit) -> None:
        """Warnings about how training went."""
        report = fitted.report
        if not report.converged:
            warnings.warn(
                f"Training did not converge: {report.message}. The best state found is used: "
                f"{self.kernel_!r}, noise variance {fitted.noise:.4g}.",
                ConvergenceWarning,
                stacklevel=4,
            )
        for note in report.notes:
            warnings.warn(note[0].upper() + note[1:] + ".", UserWarning, stacklevel=4)

    def _check_finite(self, stats: Statistics, y, gridded: bool, targets=None) -> None:
        """What the pass found: infinite or missing targets; on a grid, gaps are nothing new."""
        if not np.all(np.isfinite(stats.squares)):
            raise ValueError(infinite_targets(y))
        if stats.count == 0:
            raise ValueError(
                f"All {stats.missing} values of {_named_y(targets)} are NaN: nothing to fit."
            )
        if stats.missing and not gridded:
            several = len(stats.squares) > 1
            why = ": a row counts where all outputs are known." if several else "."
            warnings.warn(
                f"{stats.missing} of {stats.missing + stats.count} rows have "
                f"{_named_y(targets)} = NaN and are left out as missing{why}",
                UserWarning,
                stacklevel=4,
            )

    def _check_variation(self, stats: Statistics, y=None, begun: bool = False) -> None:
        """Whether there is something to train on, of a size that double precision can hold."""
        weight = mean_weight(stats)
        means = stats.sums / stats.weight
        spread = stats.squares / stats.weight - (means - stats.centre) ** 2
        power = float(np.max(means**2 + spread))
        if not (power == 0.0 and self.noise_variance != "auto") and not (
            1e-250 < power * weight < 1e150  # squares of pivots, 1 / power, must not vanish
        ):
            raise ValueError(
                f"y has a root mean square of {power**0.5:.3g} (and mean weight {weight:.3g}), "
                "which double precision cannot work with. Rescale y, or drop what is zero "
                "throughout."
            )
        if self.optimizer is None:
            return
        # Sums only raise the suspicion; where y is at hand it decides.
        share = 1e-13 if y is None else 1e-9
        if np.all(spread <= share * stats.squares / stats.weight):
            low, high = (means.min(), means.max()) if y is None else (np.nanmin(y), np.nanmax(y))
            if low == high or (y is None and len(means) > 1):
                raise ValueError(
                    f"y is constant ({low:g}, n_samples = {stats.count}): there is nothing to "
                    "train a kernel on. Fix the hyperparameters with optimizer=None and a "
                    "noise_variance."
                )
        if begun and np.any(means**2 > 1e4 * spread) and self.kernel.intercept is None:
            worst = int(np.argmax(means**2 / np.maximum(spread, 1e-300)))
            warnings.warn(
                f"y has a mean of {means[worst]:g}, more than a hundred times its standard "
                "deviation, and the prior mean is zero. Add an intercept to the kernel: + "
                "Constant().",
                UserWarning,
                stacklevel=3,
            )

    def __sklearn_is_fitted__(self) -> bool:
        return "_data" in vars(self)


def _named_y(targets) -> str:
    """y, by the names of its columns where it has any."""
    return " or ".join(targets) if targets else "y"
