"""Checks of what users pass in: every error says what, where, the numbers and what to try."""

from __future__ import annotations

from collections.abc import Sequence
from numbers import Real

import numpy as np

from asvgp.basis import Array
from asvgp.kernels import Kernel
from asvgp.model.devices import device_for
from asvgp.policies import MEMORY
from asvgp.runtime.checks import finite_range
from asvgp.runtime.memory import as_bytes, physical_memory
from asvgp.times import TimeAxis
from asvgp.training.optimise import LBFGS

WIDEST = 1e100  # range of X: its powers must not overflow


def check_settings(estimator) -> None:
    """The constructor's arguments, before any work."""
    kernel = estimator.kernel
    if isinstance(kernel, type) and issubclass(kernel, Kernel):
        raise TypeError(f"kernel must be an instance: {kernel.__name__}(), not {kernel.__name__}.")
    if not isinstance(kernel, Kernel):
        raise TypeError(f"kernel must be an asvgp kernel such as Matern32(), got {kernel!r}.")
    if not kernel.components:
        raise ValueError(
            f"kernel={kernel!r} has fixed effects only: add a process, such as Matern32()."
        )
    if estimator.objective not in ("elbo", "evidence"):
        raise ValueError(f"objective must be 'elbo' or 'evidence', got {estimator.objective!r}.")
    optimizer = estimator.optimizer
    if not (optimizer is None or optimizer == "lbfgs" or isinstance(optimizer, LBFGS)):
        raise ValueError(f"optimizer must be 'lbfgs', LBFGS(...) or None, got {optimizer!r}.")
    device = estimator.device
    if not (isinstance(device, str) and (device in ("cpu", "torch") or device.startswith("cuda"))):
        raise ValueError(f"device must be 'cpu' or 'cuda', got {device!r}.")
    if device != "cpu":
        device_for(device)
    as_bytes(estimator.memory_limit)
    if not (estimator.progress == "auto" or isinstance(estimator.progress, bool)):
        raise ValueError(f"progress must be 'auto', True or False, got {estimator.progress!r}.")
    noise = estimator.noise_variance
    if not (isinstance(noise, str) and noise == "auto") and not _positive(noise):
        raise ValueError(f"noise_variance must be 'auto' or a positive number, got {noise!r}.")


def check_degree(degree, kernel: Kernel) -> tuple[int, ...]:
    """Spline degree of every component: at least order + 1, or it is not in the kernel's space."""
    smallest = tuple(component.order + 1 for component in kernel.components)
    if degree is None:
        return tuple(component.default_degree for component in kernel.components)
    if not isinstance(degree, int | np.integer) or not max(smallest) <= degree <= 6:
        raise ValueError(
            f"degree must be None or an integer from {max(smallest)} (for {kernel!r}) to 6, got "
            f"{degree!r}."
        )
    return (int(degree),) * len(smallest)


def check_num_basis(num_basis, degree: int) -> int | None:
    """Number of basis functions, None for "auto"."""
    if isinstance(num_basis, str) and num_basis == "auto":
        return None
    if isinstance(num_basis, Sequence | np.ndarray) and not isinstance(num_basis, str):
        if len(num_basis) != 1:
            raise ValueError(
                f"num_basis has {len(num_basis)} entries but there is one input: {num_basis!r}."
            )
        num_basis = num_basis[0]
    if not isinstance(num_basis, int | np.integer) or isinstance(num_basis, bool):
        raise TypeError(f"num_basis must be 'auto' or an integer, got {num_basis!r}.")
    if num_basis < degree + 1:
        raise ValueError(f"num_basis must be at least degree + 1 = {degree + 1}, got {num_basis}.")
    needed, available = MEMORY.bytes_per_line_function * float(num_basis), physical_memory()
    if needed > available:
        raise ValueError(
            f"num_basis={num_basis} needs about {needed / 2**30:.1f} GiB, and this machine has "
            f"{available / 2**30:.1f} GiB. Take at most "
            f"{int(available / MEMORY.bytes_per_line_function)}, or 'auto'."
        )
    return int(num_basis)


def check_domain(
    domain, x, lower: float, upper: float, width: Array | float = 0.0, axis: TimeAxis | None = None
) -> tuple[float, float]:
    """The interval the splines live on: the data's own range, or the user's around it.

    Where y is averaged over intervals, rounding of their ends is forgiven. Of times, ``axis`` is
    what the numbers are along.
    """
    shown = "{:g}".format if axis is None else axis.shown
    if domain is None:
        if not lower < upper:
            raise ValueError(
                f"X is constant ({shown(lower)}, n_samples = {len(x)}): there is no range to put "
                "splines on. Give one with domain=(a, b)."
            )
        if not upper - lower < WIDEST:
            raise ValueError(
                f"X ranges from {lower!r} to {upper!r}, which is wider than double precision can "
                "work with. Mend or drop what is so far out, or rescale X."
            )
        return lower, upper
    try:
        a, b = (float(end) for end in domain)
    except (TypeError, ValueError):
        raise ValueError(f"domain must be None or a pair (a, b), got {domain!r}.") from None
    if not (np.isfinite(a) and np.isfinite(b) and a < b):
        given = (a, b) if axis is None else (axis.shown(a), axis.shown(b))
        raise ValueError(f"domain must be finite with a < b, got {given!r}.")
    slack = 1e-9 * (upper - lower) if np.any(width) else 0.0
    if lower < a - slack or upper > b + slack:
        left_out = int(np.count_nonzero((x < a - slack) | (x + width > b + slack)))
        raise ValueError(
            f"domain=({shown(a)}, {shown(b)}) leaves out {left_out} of {len(x)} values of X, which "
            f"range from {shown(lower)} to {shown(upper)}. Widen the domain or drop those rows."
        )
    return a, b


def check_weights(sample_weight, length: int, name: str = "sample_weight"):
    """Positive weights as an array or a broadcast scalar, never a float64 copy."""
    if sample_weight is None:
        return None
    if isinstance(sample_weight, Real):
        sample_weight = np.broadcast_to(np.float64(sample_weight), (length,))
    weights = np.asarray(sample_weight)
    if weights.dtype.kind not in "fiub":
        raise TypeError(f"{name} must hold numbers, got {sample_weight!r:.60}.")
    if weights.shape != (length,):
        raise ValueError(
            f"{name} has shape {weights.shape}, but X has {length} rows: it must be one number "
            f"per row, ({length},)."
        )
    lowest, _ = finite_range(weights, name)
    if lowest <= 0.0:
        row = int(np.argmin(weights))
        count = int(np.count_nonzero(weights <= 0.0))
        raise ValueError(
            f"{name} must be positive: {count} of {length} are zero or negative (row {row} is "
            f"{weights[row]:g}). A weight is an inverse relative noise variance; drop rows that "
            "should not count."
        )
    return weights


def _positive(value) -> bool:
    return (
        isinstance(value, Real)
        and not isinstance(value, bool)
        and bool(np.isfinite(float(value)))
        and float(value) > 0.0
    )
