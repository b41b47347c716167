"""Variational Fourier features (Hensman, Durrande & Solin, 2018) for Matérn kernels.

On a domain [a, b] the features are ``u_i = <phi_i, f>`` in the kernel's Hilbert space, with
``phi`` the functions 1, cos(w_m (x - a)), sin(w_m (x - a)), ``w_m = 2 pi m / (b - a)``. By the
reproducing property ``Kuf`` is ``phi(x)``: it knows no hyperparameter, so one pass over the
data serves all of training.

``Kuu`` is derived, not transcribed. A Matérn process of order ``nu = p + 1/2`` solves
``(d + r)^(p+1) f = white noise`` of density q, with rate ``r = sqrt(2 nu) / lengthscale`` and
stationary covariance ``Pinf`` of ``F = (f, f', ..., f^(p))``. The inner product on [a, b] is

    <f, g> = 1/q int_a^b (Lf)(Lg) dx + F(a)' Pinf^-1 G(a),        L = (d + r)^(p+1).

``L exp(iwx) = (r + iw)^(p+1) exp(iwx)``, and different frequencies are orthogonal over a full
period: the integral gives a diagonal, ``(r^2 + w^2)^(p+1) (b - a) / 2q`` (twice that for the
constant), and the end point gives a matrix of rank p + 1.

The edge effect
---------------
Sums of these features are periodic on [a, b]; the kernel's functions are not. However many
frequencies, what is lost are the p + 1 directions ``f^(i)(a) - f^(i)(b)``, which matter within
a few lengthscales of the ends only. So the domain must be wider than the data: the default
`margin` of half the data's range on either side puts an end at least a lengthscale away from
every row while lengthscales stay below half the range. The authors chose the domain by hand:
for the airline delays [-2, 3] for inputs in [0, 1], which is ``margin=2``. A wider domain
needs more frequencies in proportion. The bound counts what is lost, so training may also stop
at a lengthscale of about the margin where the data would have a longer one.
"""

from __future__ import annotations

from functools import lru_cache, reduce
from math import comb, factorial, pi, sqrt

import numpy as np
import torch
from scipy.linalg import solve_continuous_lyapunov
from torch import Tensor

from experiments.baselines.collapsed import Posterior, Sums, bound, maximise, with_gradient
from experiments.baselines.kuu import DiagonalPlusLowRank, Kronecker, Kuu
from experiments.baselines.rows import checked, checked_inputs, chunks, one_thread

ORDERS = {0.5: 0, 1.5: 1, 2.5: 2}
CHUNK_BYTES = 2**25  # of features


@lru_cache
def _unit_process(p: int) -> tuple[float, Tensor]:
    """White-noise density q and a root R of ``Pinf^-1 = R R'``, at unit rate and variance."""
    companion = np.eye(p + 1, k=1)
    companion[-1] = [-comb(p + 1, i) for i in range(p + 1)]
    driven = np.zeros((p + 1, p + 1))
    driven[-1, -1] = -1.0
    covariance = solve_continuous_lyapunov(companion, driven)  # for q = 1
    q = 1.0 / covariance[0, 0]
    root = np.linalg.cholesky(np.linalg.inv(q * covariance))
    return float(q), torch.tensor(root)


class FourierBasis:
    """The Fourier features of one input: 1, cosines, sines on ``[lower, upper]``."""

    def __init__(self, lower: float, upper: float, num_frequencies: int, nu: float):
        self.lower, self.upper, self.order = lower, upper, ORDERS[nu]
        self.root_two_nu = sqrt(2.0 * nu)
        self.frequencies = (
            2.0 * pi / (upper - lower) * torch.arange(1, num_frequencies + 1, dtype=torch.float64)
        )

    def __len__(self) -> int:
        return 2 * len(self.frequencies) + 1

    def __call__(self, x: Tensor, lengthscale: Tensor | None = None) -> Tensor:
        """``Kfu`` at ``x``, one row a point.

        Inside the domain these are the features. Outside, where only predictions are asked
        for, they follow the kernel from the nearer end: f(b + s) given F(b) has the mean that
        solves ``L f = 0``, and likewise mirrored at a. The lengthscale is needed there.
        """
        angle = torch.outer(x - self.lower, self.frequencies)
        values = torch.cat([torch.ones_like(x)[:, None], angle.cos(), angle.sin()], dim=1)
        beyond = torch.maximum(self.lower - x, x - self.upper)
        outside = beyond > 0.0
        if outside.any():
            if lengthscale is None:
                raise ValueError("a point outside the domain needs the lengthscale")
            side = torch.where(x[outside] > self.upper, 1.0, -1.0).to(x.dtype)
            values[outside] = self._beyond(beyond[outside], side, lengthscale)
        return values

    def _beyond(self, s: Tensor, side: Tensor, lengthscale: Tensor) -> Tensor:
        """``exp(-r s) sum_j s^j / j! (d + r)^j phi`` at the end, by distance ``s`` from it."""
        rate = self.root_two_nu / lengthscale
        jets = self.jets()
        values = torch.zeros(len(s), len(self), dtype=s.dtype)
        for j in range(self.order + 1):
            for i in range(j + 1):
                weight = comb(j, i) / factorial(j) * s**j * rate ** (j - i) * side**i
                values += torch.outer(weight, jets[:, i])
        return values * torch.exp(-rate * s)[:, None]

    def jets(self) -> Tensor:
        """``phi_m^(i)`` at either end of the domain, i = 0 ... p; periodic, so the same."""
        w = self.frequencies
        columns = []
        for i in range(self.order + 1):
            constant = torch.tensor([1.0 if i == 0 else 0.0], dtype=w.dtype)
            cosine, sine = [(1, 0), (0, 1), (-1, 0), (0, -1)][i % 4]
            columns.append(torch.cat([constant, cosine * w**i, sine * w**i]))
        return torch.stack(columns, dim=1)

    def kuu(self, lengthscale: Tensor, variance: Tensor) -> DiagonalPlusLowRank:
        """The inner products of the features."""
        p = self.order
        q, root = _unit_process(p)
        rate = self.root_two_nu / lengthscale
        w = torch.cat([torch.zeros(1, dtype=torch.float64), self.frequencies, self.frequencies])
        # in units of the rate, so that no power of it can overflow
        spectrum = (1.0 + (w / rate) ** 2) ** (p + 1) * rate / q
        width = torch.full_like(w, (self.upper - self.lower) / 2.0)
        width[0] *= 2.0
        powers = rate ** torch.arange(p + 1, dtype=torch.float64)
        return DiagonalPlusLowRank(
            width * spectrum / variance, (self.jets() / powers) @ root / variance.sqrt()
        )


class VFF:
    """Sparse Gaussian process regression by Fourier features.

    With several inputs either a sum of Matérns, one for each input with its own lengthscale
    and variance (``structure="additive"``: ``Kuu`` is block-diagonal), or their product
    (``"kronecker"``: all products of features, ``(2 m + 1)^D`` of them, one variance).

    Parameters
    ----------
    num_frequencies : int
        m; an input has ``2 m + 1`` features.
    nu : 0.5, 1.5 or 2.5
        Order of the Matérn kernel.
    structure : "additive" or "kronecker"
    margin : float
        The domain's margin on either side, in units of the input's range; see the module.
    domain : array (D, 2), optional
        Lower and upper end for every input, instead of a margin.
    lengthscale, variance, noise_variance : float or array, optional
        Starting values. By default a fifth of each input's range; the mean square of y (in
        the sum, divided by D); a tenth of that mean square.
    train : bool
        With False the starting values are kept.
    max_iterations : int
        Of L-BFGS; `converged` says after `fit` whether they were enough.

    Notes
    -----
    O(N M^2) once, for M features in all, in chunks of bounded memory; then O(M^3) a step.

    Examples
    --------
    >>> import numpy as np
    >>> x = np.linspace(0.0, 1.0, 200)
    >>> model = VFF(num_frequencies=20).fit(x, np.sin(6.0 * x))
    >>> mean, variance = model.predict([0.5])
    >>> print(f"{mean[0]:.3f} {np.sin(3.0):.3f}")
    0.141 0.141
    """

    def __init__(
        self,
        num_frequencies: int = 30,
        nu: float = 1.5,
        *,
        structure: str = "additive",
        margin: float = 0.5,
        domain=None,
        lengthscale=None,
        variance=None,
        noise_variance: float | None = None,
        train: bool = True,
        max_iterations: int = 500,
    ):
        if num_frequencies < 1:
            raise ValueError(f"num_frequencies must be at least 1, not {num_frequencies}")
        if nu not in ORDERS:
            raise ValueError(f"nu must be one of {sorted(ORDERS)}, not {nu}")
        if structure not in ("additive", "kronecker"):
            raise ValueError(f'structure must be "additive" or "kronecker", not {structure!r}')
        if margin < 0.0:
            raise ValueError(f"margin must not be negative, but is {margin}")
        self.num_frequencies, self.nu, self.structure = num_frequencies, nu, structure
        self.margin, self.domain = margin, domain
        self.start = (lengthscale, variance, noise_variance)
        self.max_iterations = max_iterations if train else 0

    @one_thread()
    def fit(self, X, y) -> VFF:
        """One pass over the rows, then training."""
        X, y = checked(X, y)
        domain = self._domain(X)
        self.bases = [FourierBasis(a, b, self.num_frequencies, self.nu) for a, b in domain]
        start = self._start(X, y)
        sums = Sums.zero(self.num_features)
        for rows, values in chunks(self._chunk(), X, y):
            sums = sums.add(self._features(rows), values)

        def objective(logs: Tensor) -> Tensor:
            lengthscale, variance, noise = self._split(logs.exp())
            trace = sums.rows * variance.sum()
            return bound(self._kuu(lengthscale, variance), sums, trace, noise)

        trained = maximise(with_gradient(objective), start, sums.rows, self.max_iterations)
        self.bound = trained.bound
        self.iterations, self.converged = trained.iterations, trained.converged
        lengthscale, variance, noise = self._split(torch.tensor(trained.parameters))
        self.hyperparameters = {
            "lengthscale": lengthscale.numpy(),
            "variance": variance.numpy(),
            "noise_variance": float(noise),
        }
        self._posterior = Posterior(self._kuu(lengthscale, variance), sums, noise)
        return self

    @one_thread()
    def predict(self, X) -> tuple[np.ndarray, np.ndarray]:
        """Mean and variance of f, inside the domain and outside."""
        X = checked_inputs(X)
        if X.shape[1] != len(self.bases):
            raise ValueError(f"X has {X.shape[1]} inputs, the model {len(self.bases)}")
        lengthscale = torch.tensor(self.hyperparameters["lengthscale"])
        prior = torch.tensor(self.hyperparameters["variance"].sum())
        return self._posterior.predict_parts(
            (self._features(rows, lengthscale), prior) for (rows,) in chunks(self._chunk(), X)
        )

    @property
    def noise_variance(self) -> float:
        """Variance of the noise."""
        return self.hyperparameters["noise_variance"]

    @property
    def num_features(self) -> int:
        """M, over all inputs."""
        one = 2 * self.num_frequencies + 1
        D = len(self.bases)
        return D * one if self.structure == "additive" else one**D

    def _chunk(self) -> int:
        return max(1, CHUNK_BYTES // (8 * self.num_features))

    def _features(self, X: Tensor, lengthscale: Tensor | None = None) -> Tensor:
        """``Kfu``: side by side in the sum, all products in the product."""
        blocks = [
            basis(X[:, d], None if lengthscale is None else lengthscale[d])
            for d, basis in enumerate(self.bases)
        ]
        if self.structure == "additive":
            return torch.cat(blocks, dim=1)
        return reduce(lambda a, b: (a[:, :, None] * b[:, None, :]).flatten(1), blocks)

    def _kuu(self, lengthscale: Tensor, variance: Tensor) -> Kuu:
        if self.structure == "kronecker":  # the one variance goes with the first input
            variance = torch.cat([variance, torch.ones(len(self.bases) - 1, dtype=variance.dtype)])
        blocks = [basis.kuu(lengthscale[d], variance[d]) for d, basis in enumerate(self.bases)]
        if self.structure == "additive":
            return DiagonalPlusLowRank.stack(blocks)
        return Kronecker(tuple(blocks))

    def _split(self, parameters: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Lengthscales, variances (one in a product) and the noise variance."""
        D = len(self.bases)
        return parameters[:D], parameters[D:-1], parameters[-1]

    def _domain(self, X: np.ndarray) -> np.ndarray:
        low, high = X.min(axis=0), X.max(axis=0)
        if self.domain is None:
            constant = np.flatnonzero(high == low)
            if len(constant):
                d = constant[0]
                raise ValueError(
                    f"input {d} has the one value {low[d]} in all {len(X)} rows, so the domain "
                    "would have no width: leave the input out, or give domain="
                )
            pad = self.margin * (high - low)
            return np.stack([low - pad, high + pad], axis=1)
        domain = np.asarray(self.domain, dtype=np.float64).reshape(-1, 2)
        if len(domain) != X.shape[1] or not (domain[:, 0] < domain[:, 1]).all():
            raise ValueError(
                f"domain must give lower < upper for each of the {X.shape[1]} inputs, "
                f"not {domain.tolist()}"
            )
        out = np.flatnonzero((low < domain[:, 0]) | (high > domain[:, 1]))
        if len(out):
            d = out[0]
            raise ValueError(
                f"input {d} runs from {low[d]} to {high[d]}, beyond its domain "
                f"{domain[d].tolist()}: widen the domain"
            )
        return domain

    def _start(self, X: np.ndarray, y: np.ndarray) -> np.ndarray:
        D = X.shape[1]
        lengthscale, variance, noise = self.start
        square = float(y @ y) / len(y) or 1.0
        spread = np.ptp(X, axis=0)
        width = np.array([basis.upper - basis.lower for basis in self.bases])
        spread = np.where(spread > 0.0, spread, width)
        terms = D if self.structure == "additive" else 1
        parts = [
            np.broadcast_to(spread / 5.0 if lengthscale is None else lengthscale, (D,)),
            np.broadcast_to(square / terms if variance is None else variance, (terms,)),
            np.broadcast_to(square / 10.0 if noise is None else noise, (1,)),
        ]
        start = np.concatenate(parts).astype(np.float64)
        if not (np.isfinite(start).all() and (start > 0.0).all()):
            raise ValueError(f"starting values must be positive and finite, but are {start}")
        return start
