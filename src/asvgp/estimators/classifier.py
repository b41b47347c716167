"""Classification: labels in, probabilities out, by regressors with a Bernoulli likelihood."""

from __future__ import annotations

from typing import Any, Literal, Self

import numpy as np
from scipy.special import logit, ndtri
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.exceptions import DataConversionWarning, NotFittedError
from sklearn.utils.multiclass import check_classification_targets

from asvgp.basis import Array
from asvgp.data.inputs import read_weights
from asvgp.data.settings import Domain, NumBasis
from asvgp.diagnostics.summary import Summary
from asvgp.estimators.regressor import GPRegressor
from asvgp.kernels import Kernel
from asvgp.likelihoods import Bernoulli
from asvgp.runtime.arguments import NamingEstimator
from asvgp.runtime.warn import warn
from asvgp.sources.source import is_source
from asvgp.training.optimise import LBFGS


class GPClassifier(ClassifierMixin, BaseEstimator, metaclass=NamingEstimator):
    """Gaussian process classification with sparse B-splines, for any number of observations.

    The probability of a class is a function of a Gaussian process f, such as 1 / (1 + exp(-f)).
    With two classes there is one process. With more classes there is one process for each class
    against all others, each with hyperparameters of its own; the probabilities are then divided by
    their sum.

    Parameters
    ----------
    kernel : Kernel or None, default=None
        The covariance function of f. None chooses one from the data, as in `GPRegressor`. Add a
        `Constant` to a kernel of your own; without it, probabilities far from the data return to
        one half.
    link : {"logit", "probit"}
        "logit" is 1 / (1 + exp(-f)). "probit" is the distribution function of a standard normal
        variable at f. With "logit", the data are read once and can be extended by `partial_fit`
        (unless the kernel has linear effects or kernels over further columns).
    num_basis, domain, degree, optimizer, device, progress, memory_limit
        The same as in `GPRegressor`.

    Attributes
    ----------
    classes_ : ndarray of shape (classes,)
        The labels, sorted.
    regressors_ : list of GPRegressor
        The models of f, one for each class against all others. With two classes there is one model,
        for the second class.
    regressor_ : GPRegressor
        With two classes, the only model. Use it for intervals of the probability
        (``regressor_.predict_quantiles``), samples, leave-one-out predictions, the bound
        ``elbo_`` and the trained ``kernel_``.

    Examples
    --------
    >>> import numpy as np
    >>> from asvgp import GPClassifier, Matern52
    >>> rng = np.random.default_rng(0)
    >>> x = rng.uniform(0, 10, 5_000)
    >>> rain = np.where(rng.random(5_000) < 1 / (1 + np.exp(-3 * np.sin(x))), "wet", "dry")
    >>> gp = GPClassifier(Matern52(), num_basis=30).fit(x, rain)
    >>> gp.classes_.tolist(), gp.predict([1.6, 4.7]).tolist()
    (['dry', 'wet'], ['wet', 'dry'])
    >>> gp.predict_proba([1.6]).round(1).tolist()
    [[0.0, 1.0]]
    """

    classes_: Array
    regressors_: list[GPRegressor]

    def __init__(
        self,
        kernel: Kernel | None = None,
        *,
        link: Literal["logit", "probit"] = "logit",
        num_basis: NumBasis = "auto",
        domain: Domain = None,
        degree: int | None = None,
        optimizer: Literal["lbfgs"] | LBFGS | None = "lbfgs",
        device: str = "cpu",
        progress: Literal["auto"] | bool = "auto",
        memory_limit: float | str | None = None,
    ) -> None:
        self.kernel = kernel
        self.link = link
        self.num_basis = num_basis
        self.domain = domain
        self.degree = degree
        self.optimizer = optimizer
        self.device = device
        self.progress = progress
        self.memory_limit = memory_limit

    def fit(self, X: Any, y: Any = None, sample_weight: Any = None, *, offset: Any = None) -> Self:
        """Fit to labelled data, forgetting what was fitted before.

        Parameters
        ----------
        X : array-like of shape (n,) or (n, columns), axes of a grid, or source
            The inputs, as in `GPRegressor.fit`.
        y : array-like of shape (n,), or name of a column
            The labels: numbers, booleans or strings. NaN and None mean that a label is missing;
            there is a warning unless X is a grid. If X is a grid, y has its shape. If X is a
            source, give the name of a column of zeros and ones.
        sample_weight : array-like of shape (n,), optional
            How often each row counts.
        offset : array-like of shape (n,), optional
            A known number that is added to f; only with two classes.

        Returns
        -------
        GPClassifier
            The fitted estimator itself.
        """
        classes, targets = self._read(X, y, sample_weight)
        if len(targets) > 1:
            _refuse_offset(offset)
        regressors = [self._regressor() for _ in targets]
        for regressor, target in zip(regressors, targets, strict=True):
            regressor.fit(X, target, sample_weight, offset=offset)
        return self._take(classes, regressors)

    def partial_fit(
        self, X: Any, y: Any = None, classes: Any = None, sample_weight: Any = None
    ) -> Self:
        """Add data to the model. Training waits until a result is needed.

        Parameters
        ----------
        X, y, sample_weight
            The same as in `fit`.
        classes : array-like of shape (classes,)
            All labels that can occur. It must be given in the first call.

        Examples
        --------
        >>> import numpy as np
        >>> from asvgp import GPClassifier
        >>> x = np.linspace(0, 10, 1000)
        >>> gp = GPClassifier(num_basis=20)
        >>> for part in np.split(x, 4):
        ...     _ = gp.partial_fit(part, np.sin(part) > 0, classes=[False, True])
        >>> gp.predict([1.6, 4.7]).tolist()
        [True, False]
        """
        known = vars(self).get("classes_")
        if known is None and classes is None:
            raise ValueError("classes must be given in the first call of partial_fit: all labels.")
        if classes is not None:
            given = np.unique(np.asarray(classes))
            if len(given) < 2:
                raise ValueError(f"classes must hold at least two labels, got {given.tolist()}.")
            if known is not None and not np.array_equal(given, known):
                raise ValueError(
                    f"classes={given.tolist()} are not those of the data so far, {known.tolist()}."
                )
            known = given
        assert known is not None
        _, targets = self._read(X, y, sample_weight, known)
        regressors = vars(self).get("regressors_") or [self._regressor() for _ in targets]
        for regressor, target in zip(regressors, targets, strict=True):
            regressor.partial_fit(X, target, sample_weight)
        return self._take(known, regressors)

    def _regressor(self) -> GPRegressor:
        """Return a regressor with the settings of this estimator, without data."""
        settings = self.get_params(deep=False)
        link = settings.pop("link")
        return GPRegressor(**settings, likelihood=Bernoulli(link=link))

    def _take(self, classes: Array, regressors: list[GPRegressor]) -> Self:
        """Keep what was fitted."""
        self.classes_, self.regressors_ = classes, regressors
        self.n_features_in_: int = regressors[0].n_features_in_
        vars(self).pop("feature_names_in_", None)
        if hasattr(regressors[0], "feature_names_in_"):
            self.feature_names_in_ = regressors[0].feature_names_in_
        return self

    def _read(self, X, y, sample_weight, known: Array | None = None) -> tuple[Array, list[Any]]:
        """Return the classes, and zeros and ones for each of them but one of two."""
        if isinstance(y, str) or (y is None and is_source(X, y)):
            if known is not None and known.tolist() != [0, 1]:
                raise ValueError(
                    f"Labels of a source are zeros and ones, not {known.tolist()}. Give "
                    "X and y as arrays, or write such a column for every class."
                )
            return np.array([0, 1]), [y]
        if y is None:
            raise ValueError(
                f"{type(self).__name__} requires y to be passed, but the target y is None."
            )
        labels, there = _labels(y)
        in_rows = isinstance(X, np.ndarray | list) or hasattr(X, "iloc")
        if in_rows and labels.ndim == 1 and len(X) != len(labels):
            raise ValueError(
                f"X and y have inconsistent numbers of samples: {len(X)} and {len(labels)}."
            )
        if known is None:
            weights = read_weights(sample_weight, None, labels.size)
            if weights is not None and weights.size == labels.size:
                there = there & (np.reshape(weights, labels.shape) > 0.0)
            known = np.unique(labels[there])
            if len(known) < 2:
                only = f"one class only, {known[0].item()!r}" if len(known) else "no class at all"
                without = " in rows whose weight is not zero" if weights is not None else ""
                raise ValueError(
                    f"{type(self).__name__} needs at least two classes, and y has {only}{without}."
                )
        else:
            strange = np.setdiff1d(labels[there], known)
            if len(strange):
                raise ValueError(f"y has {strange.tolist()[:5]}, which are not among the classes.")
        codes = np.full(labels.shape, -1)
        codes[there] = np.searchsorted(known, labels[there])
        wanted = range(1, 2) if len(known) == 2 else range(len(known))
        return known, [np.where(codes < 0, np.nan, codes == each) for each in wanted]

    def _models(self) -> list[GPRegressor]:
        if "regressors_" not in vars(self):
            raise NotFittedError(
                f"This {type(self).__name__} has no data yet. Call fit or partial_fit first."
            )
        return self.regressors_

    @property
    def regressor_(self) -> GPRegressor:
        """The model of f, with two classes."""
        models = self._models()
        if len(models) > 1:
            raise AttributeError(
                f"There are {len(models)} classes, each with a model of its own: see regressors_."
            )
        return models[0]

    def decision_function(self, X: Any, *, offset: Any = None) -> Array:
        """Return what classes are decided by: links of the probabilities of `predict_proba`.

        With two classes, of shape (n,), it is the logit (or probit) of the probability of the
        second: f drawn towards zero as far as it is uncertain, and positive where the second is
        predicted. With more, of shape (n, classes), it is that of every class against the rest.
        The posterior mean of f itself is ``regressor_.predict(X, type="link")``.
        """
        shares = self._shares(X, offset)
        shares = np.clip(shares, 1e-300, 1.0 - 1e-16)
        return logit(shares) if self.link == "logit" else ndtri(shares)

    def predict_proba(self, X: Any, *, offset: Any = None) -> Array:
        """Return probabilities of the classes, averaged over the posterior of f.

        Of shape (n, classes); for the axes of a grid, the grid's shape is in place of n.
        """
        shares = self._shares(X, offset)
        if len(self._models()) == 1:
            return np.stack([1.0 - shares, shares], axis=-1)
        shares = np.maximum(shares, 1e-300)
        return shares / shares.sum(axis=-1, keepdims=True)

    def predict_log_proba(self, X: Any, *, offset: Any = None) -> Array:
        """Return the logarithms of the probabilities of the classes."""
        with np.errstate(divide="ignore"):
            return np.log(self.predict_proba(X, offset=offset))

    def predict(self, X: Any, *, offset: Any = None) -> Array:
        """Return the most probable class of every row."""
        shares = self._shares(X, offset)
        if len(self._models()) == 1:
            return self.classes_[(shares > 0.5).astype(int)]
        return self.classes_[np.argmax(shares, axis=-1)]

    def summary(self) -> Summary | dict[Any, Summary]:
        """Return a summary of the model; with more than two classes one for each, in a dict."""
        models = self._models()
        if len(models) == 1:
            return models[0].summary()
        return {label: each.summary() for label, each in zip(self.classes_, models, strict=True)}

    def save(self, path: Any, *, full: bool = False) -> None:
        """Write the model to a file, from which `asvgp.load` makes it again.

        Labels may be numbers, booleans or text. What is written, and what ``full`` means, is as in
        `GPRegressor.save`.
        """
        from asvgp.estimators.persistence import save_classifier

        save_classifier(self, path, full)

    def _shares(self, X, offset=None) -> Array:
        """Return the probability of the second class, or of each along a last axis."""
        models = self._models()
        X = models[0]._rows_in_memory(X).X
        if len(models) == 1:
            return np.asarray(models[0].predict(X, offset=offset))
        _refuse_offset(offset)
        return np.stack([model.predict(X) for model in models], axis=-1)

    def __sklearn_is_fitted__(self) -> bool:
        return "regressors_" in vars(self)


def _labels(y) -> tuple[Array, Array]:
    """Return labels as an array, and where they are not missing."""
    labels = np.asarray(y)
    if labels.dtype.kind in "fc":
        there = ~np.isnan(labels)
        if np.any(np.isinf(labels)):
            raise ValueError(
                "Input y contains infinity or a value too large for dtype('float64'): labels must "
                "be finite."
            )
    elif labels.dtype.kind == "O":
        there = np.array([not _is_missing(label) for label in labels.ravel()], dtype=bool)
        there = there.reshape(labels.shape)
        _refuse_mixed(labels[there])
        whole = np.array(labels[there].tolist()) if there.any() else np.empty(0)
        labels = np.zeros(np.shape(y), dtype=whole.dtype)
        labels[there] = whole
    else:
        there = np.ones(labels.shape, dtype=bool)
    if labels.ndim == 2 and np.size(labels, 1) == 1:
        warn(
            "A column-vector y was passed when a 1d array was expected: give y of shape (n,), for "
            "example by ravel().",
            DataConversionWarning,
        )
        labels, there = labels[:, 0], there[:, 0]
    check_classification_targets(labels[there])
    return labels, there


def _is_missing(label: Any) -> bool:
    """Return True for None, NaN and pandas.NA, which equals nothing."""
    return label is None or type(label).__name__ == "NAType" or bool(label != label)


def _refuse_mixed(labels: Array) -> None:
    """Raise an error where some labels are text and others are not."""
    words = [label for label in labels if isinstance(label, str)]
    if words and len(words) < len(labels):
        other = next(label for label in labels if not isinstance(label, str))
        raise TypeError(
            f"Labels must be all text or all numbers, and y has {words[0]!r} and {other!r}."
        )


def _refuse_offset(offset) -> None:
    if offset is not None:
        raise ValueError("offset is for two classes: there is one f that it could be added to.")
