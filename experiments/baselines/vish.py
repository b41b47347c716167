"""Variational inference with spherical harmonics (Dutordoir, Durrande & Hensman, 2020).

Inputs are weighted, a bias coordinate is appended, ``z = (w_1 x_1, ..., w_D x_D, 1)``, and the
kernel is the arc-cosine kernel of first order,

    k(x, x') = variance |z| |z'| kappa(angle),   pi kappa(a) = sin a + (pi - a) cos a,

zonal on the sphere S^D but for the lengths. Its Mercer expansion is in spherical harmonics with
one eigenvalue a degree, and the features ``u_m = <Y_m, f>`` have

    Kuu = diag(1 / (variance eigenvalue_m)),      Kuf = |z| Y_m(z / |z|).

The eigenvalues of odd degrees above 1 are zero: those degrees are left out. A common factor
of weights and bias is a factor of the variance, so the bias is 1. The kernel is not
stationary; centre and scale the inputs.
"""

from __future__ import annotations

from itertools import chain, count, takewhile

import numpy as np
import torch
from torch import Tensor

from experiments.baselines.collapsed import Posterior, Sums, bound, maximise, with_gradient
from experiments.baselines.harmonics import Harmonics, funk_hecke, multiplicity
from experiments.baselines.kuu import DiagonalPlusLowRank
from experiments.baselines.rows import checked, checked_inputs, chunks, one_thread

CHUNK_BYTES = 2**22  # of features
ROUNDING = 1e-12  # quadrature knows eigenvalues to about 1e-14


def arc_cosine(angle):
    """The first-order arc-cosine kernel on the sphere, 1 at angle 0."""
    return (np.sin(angle) + (np.pi - angle) * np.cos(angle)) / np.pi


def harmonic_counts(
    d: int, max_degree: int | None = None, num_features: int | None = None
) -> dict[int, int]:
    """How many harmonics to take of each degree whose eigenvalue is not zero.

    All of them up to ``max_degree``, or from the lowest degree up until there are
    ``num_features``; then the last degree may be incomplete.
    """
    degrees = chain([0, 1], count(2, 2))
    if max_degree is not None and num_features is None:
        if max_degree < 0:
            raise ValueError(f"max_degree must not be negative, but is {max_degree}")
        return {n: multiplicity(d, n) for n in takewhile(lambda n: n <= max_degree, degrees)}
    if num_features is None or max_degree is not None:
        raise ValueError("give either max_degree or num_features")
    if num_features < 1:
        raise ValueError(f"num_features must be at least 1, not {num_features}")
    counts: dict[int, int] = {}
    for n in degrees:
        counts[n] = min(multiplicity(d, n), num_features - sum(counts.values()))
        if sum(counts.values()) == num_features:
            break
    return counts


class VISH:
    """Sparse Gaussian process regression by spherical harmonics, any number of inputs.

    Parameters
    ----------
    num_features : int, optional
        Harmonics in all, lowest degrees first.
    max_degree : int, optional
        Instead: all harmonics up to this degree. D = 8: 1, 9, 44, 450 of degrees 0, 1, 2, 4.
    weights : float or array, optional
        Starting values. By default one over the root mean square of each input, divided by
        the square root of D, so that a typical row has ``|z|^2 = 2``.
    variance, noise_variance : float, optional
        Starting values. By default a half and a tenth of the mean square of y.
    train : bool
        With False the starting values are kept.
    max_iterations : int
        Of L-BFGS; `converged` says after `fit` whether they were enough.
    train_rows : int, optional
        Train the weights on that many rows, drawn without replacement with a fixed seed. Both
        variances, which need no further pass, are then trained on all rows; so are the
        posterior and `bound`.

    Notes
    -----
    The features depend on the weights, so every step passes over the data, twice: once for
    the sums, once more for the gradient; O(N M^2) and O(M^3) a step. Features are made in
    chunks, so the memory does not grow with N.

    Examples
    --------
    >>> import numpy as np
    >>> x = np.linspace(-1.0, 1.0, 200)
    >>> model = VISH(max_degree=20).fit(x, np.sin(3.0 * x))
    >>> mean, variance = model.predict([0.5])
    >>> print(f"{mean[0]:.3f} {np.sin(1.5):.3f}")
    0.997 0.997
    """

    def __init__(
        self,
        num_features: int | None = None,
        max_degree: int | None = None,
        *,
        weights=None,
        variance: float | None = None,
        noise_variance: float | None = None,
        train: bool = True,
        max_iterations: int = 200,
        train_rows: int | None = None,
    ):
        harmonic_counts(2, max_degree, num_features)  # refuses what cannot be
        if train_rows is not None and train_rows < 1:
            raise ValueError(f"train_rows must be at least 1, not {train_rows}")
        self.num_features, self.max_degree = num_features, max_degree
        self.start = (weights, variance, noise_variance)
        self.max_iterations = max_iterations if train else 0
        self.train_rows = train_rows

    @one_thread()
    def fit(self, X, y) -> VISH:
        """Training, then the posterior."""
        X, y = checked(X, y)
        d = X.shape[1] + 1
        counts = harmonic_counts(d, self.max_degree, self.num_features)
        eigenvalues = funk_hecke(arc_cosine, d, max(counts))
        lost = [n for n in counts if eigenvalues[n] < ROUNDING]
        if lost:
            raise ValueError(
                f"the kernel's eigenvalues are below {ROUNDING:g} of its variance from degree "
                f"{lost[0]} on, with {d - 1} inputs: lower degrees are all it needs"
            )
        self.harmonics = Harmonics(d, counts)
        self.eigenvalues = torch.tensor(eigenvalues[self.harmonics.degrees])
        start = self._start(X, y)
        some_X, some_y = X, y
        if self.train_rows is not None and self.train_rows < len(y):
            chosen = np.random.default_rng(0).choice(len(y), self.train_rows, replace=False)
            some_X, some_y = X[chosen], y[chosen]
        trained = maximise(
            lambda logs: self.bound_and_gradient(some_X, some_y, logs),
            start,
            len(some_y),
            self.max_iterations,
        )
        self.iterations, self.converged = trained.iterations, trained.converged
        weights, scales = trained.parameters[:-2], trained.parameters[-2:]
        zonals, squares = self._sums(X, y, torch.tensor(weights))
        sums = self._orthonormal(zonals)

        def of_scales(logs: Tensor) -> Tensor:
            variance, noise = logs.exp()
            return bound(self._kuu(variance), sums, variance * squares, noise)

        most = self.max_iterations if len(some_y) < len(y) else 0
        whole = maximise(with_gradient(of_scales), scales, len(y), most)
        self.bound = whole.bound
        variance, noise = torch.tensor(whole.parameters)
        self.hyperparameters = {
            "weights": weights,
            "variance": float(variance),
            "noise_variance": float(noise),
        }
        self._posterior = Posterior(self._kuu(variance), sums, noise)
        return self

    @one_thread()
    def predict(self, X) -> tuple[np.ndarray, np.ndarray]:
        """Mean and variance of f."""
        X = checked_inputs(X)
        weights = torch.tensor(self.hyperparameters["weights"])
        if X.shape[1] != len(weights):
            raise ValueError(f"X has {X.shape[1]} inputs, the model {len(weights)}")
        scale, turn = self.hyperparameters["variance"], self.harmonics.transform.T
        zonals = (self._zonal(rows, weights) for (rows,) in chunks(self._chunk(), X))
        return self._posterior.predict_parts((zonal @ turn, scale * sq) for zonal, sq in zonals)

    @property
    def noise_variance(self) -> float:
        """Variance of the noise."""
        return self.hyperparameters["noise_variance"]

    def bound_and_gradient(
        self, X: np.ndarray, y: np.ndarray, logs: np.ndarray
    ) -> tuple[float, np.ndarray]:
        """The bound at log parameters (weights, variance, noise variance), and its gradient.

        The bound's derivatives by the sums are autograd's, on matrices of the features' size.
        A second pass carries them back to the weights chunk by chunk: with ``phi`` the rows'
        features, ``A = sum phi' phi`` and ``b = sum phi' y`` have d bound / d phi =
        ``2 phi dA + y db'``.
        """
        weights = torch.tensor(logs[:-2]).exp()
        sums, squares = self._sums(X, y, weights)
        scales = torch.tensor(logs[-2:], requires_grad=True)
        trace = torch.tensor(squares, dtype=torch.float64, requires_grad=True)
        sums.outer.requires_grad_()
        sums.cross.requires_grad_()
        variance, noise = scales.exp()
        value = bound(self._kuu(variance), self._orthonormal(sums), variance * trace, noise)
        d_outer, d_cross, d_trace, d_scales = torch.autograd.grad(
            value, (sums.outer, sums.cross, trace, scales)
        )
        doubled = d_outer + d_outer.T
        log_weights = torch.tensor(logs[:-2], requires_grad=True)
        d_weights = torch.zeros_like(log_weights)
        for rows, values in chunks(self._chunk(), X, y):
            zonal, lengths = self._zonal(rows, log_weights.exp())
            d_zonal = zonal.detach() @ doubled + torch.outer(values, d_cross)
            d_weights += torch.autograd.grad(
                (zonal, lengths), log_weights, (d_zonal, d_trace.expand(len(rows)))
            )[0]
        return value.item(), torch.cat([d_weights, d_scales]).numpy()

    def _zonal(self, X: Tensor, weights: Tensor) -> tuple[Tensor, Tensor]:
        """``|z| P_n(v . z / |z|)`` and ``|z|^2`` for every row.

        The harmonics are a linear map of these, applied to sums over rows: cheaper than row
        by row.
        """
        z = torch.cat([X * weights, torch.ones(len(X), 1, dtype=X.dtype)], dim=1)
        squares = z.square().sum(dim=1)
        lengths = squares.sqrt()[:, None]
        return lengths * self.harmonics.zonal(z / lengths), squares

    def _sums(self, X: np.ndarray, y: np.ndarray, weights: Tensor) -> tuple[Sums, float]:
        """Sums of the zonal features, and ``sum |z|^2``."""
        sums, total = Sums.zero(len(self.harmonics)), 0.0
        for rows, values in chunks(self._chunk(), X, y):
            zonal, squares = self._zonal(rows, weights)
            sums = sums.add(zonal, values)
            total += float(squares.sum())
        return sums, total

    def _orthonormal(self, sums: Sums) -> Sums:
        """From sums of zonal features to sums of harmonics."""
        T = self.harmonics.transform
        return Sums(T @ sums.outer @ T.T, T @ sums.cross, sums.square, sums.rows)

    def _kuu(self, variance: Tensor) -> DiagonalPlusLowRank:
        diagonal = 1.0 / (variance * self.eigenvalues)
        return DiagonalPlusLowRank(diagonal, torch.zeros(len(diagonal), 0, dtype=diagonal.dtype))

    def _chunk(self) -> int:
        return max(1, CHUNK_BYTES // (8 * len(self.harmonics)))

    def _start(self, X: np.ndarray, y: np.ndarray) -> np.ndarray:
        D = X.shape[1]
        weights, variance, noise = self.start
        square = float(y @ y) / len(y) or 1.0
        spread = np.sqrt(np.mean(X**2, axis=0) * D)
        parts = [
            np.broadcast_to(
                1.0 / np.where(spread > 0.0, spread, 1.0) if weights is None else weights, (D,)
            ),
            np.broadcast_to(square / 2.0 if variance is None else variance, (1,)),
            np.broadcast_to(square / 10.0 if noise is None else noise, (1,)),
        ]
        start = np.concatenate(parts).astype(np.float64)
        if not (np.isfinite(start).all() and (start > 0.0).all()):
            raise ValueError(f"starting values must be positive and finite, but are {start}")
        return start
