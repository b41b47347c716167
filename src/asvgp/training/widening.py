"""How much wider bands must be than the evidence says, from holes in the data.

The variance that has the highest evidence is right for a field that is as lively everywhere. Of one
that is calm in most places and lively in some, it is nearer to that of the calm ones, and gaps in
the lively ones are filled with far too much confidence. Holes are cut around places drawn at
random, filled from their surroundings, and the squared errors in units of their predicted
variances averaged: that is by how much all variances are to be multiplied. It leaves means as they
are. Where single rows are predicted too confidently from all others, it is the sample that is
wrong, which training on all rows mends: holes have to ask for more than that. Under a wrong model
this estimate of the variance is the better one (Bachoc, Cross validation and maximum likelihood
estimations of hyper-parameters of Gaussian processes with model misspecification, 2013).
"""

from __future__ import annotations

import numpy as np
from scipy.linalg import cho_solve, cholesky

from asvgp.policies import SAMPLE
from asvgp.training.problem import State
from asvgp.training.sample_evidence import Rows, Sample, SampleEvidence, Trained


def widening(best: Trained, sample: Sample) -> float:
    """Return by how much variances are to be multiplied: 1 unless holes clearly want more."""
    if not sample.around or sample.noise is not None:
        return 1.0
    each = np.array([_squared_errors(best, rows, sample) for rows in sample.around])
    errors = each[:, 0] / max(each[:, 1].mean(), 1.0)
    mean, doubt = errors.mean(), errors.std() / np.sqrt(len(errors))
    clear = mean - SAMPLE.clear_errors * doubt > 1.0
    return float(min(mean, SAMPLE.widest_bands)) if clear else 1.0


def _squared_errors(best: Trained, rows: Rows, sample: Sample) -> tuple[float, float]:
    """Return mean squared errors in the middle of rows, in units of predicted variances.

    First all of the middle is hidden, then one row at a time.
    """
    evidence, hidden = SampleEvidence(best.model, [rows], sample.units), SAMPLE.hidden_rows
    lower = np.tril(evidence.covariance(best.theta, 0))
    whole = lower + np.tril(lower, -1).T
    try:
        root = cholesky(whole[hidden:, hidden:], lower=True, check_finite=False)
        inverse = np.linalg.inv(whole)
    except np.linalg.LinAlgError:
        return 1.0, 1.0
    across = whole[hidden:, :hidden]
    weights = cho_solve((root, True), across, check_finite=False)
    error = rows.y[:hidden] - weights.T @ rows.y[hidden:]
    variance = np.diag(whole)[:hidden] - np.sum(across * weights, axis=0)
    precision = np.diag(inverse)[:hidden, None]
    alone = (inverse[:hidden] @ rows.y) ** 2 / precision
    return float(np.mean(error**2 / variance[:, None])), float(np.mean(alone))


def widened(state: State, times: float) -> State:
    """Return a state with all variances multiplied, that of the noise included."""
    kernel, likelihood = state
    names = [name for name in kernel.parameters if name.split(".")[-1] == "variance"]
    values = dict(zip(kernel.parameters, kernel.values.tolist(), strict=True))
    kernel = kernel.replace_free({name: times * values[name] for name in names})
    return State(kernel, likelihood.with_noise(times * likelihood.noise))
