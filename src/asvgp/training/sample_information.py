"""How well a field tells hyperparameters: their Fisher information, by a sample of its rows.

Training that begins where a sample ended needs the curvature of the objective there, or its first
steps are guesses. Rows that lie side by side tell short lengths and the noise, rows anywhere tell
long lengths. A field has many regions as small as those of the first kind, but is itself the only
region of the last, so each kind counts as often as there are such regions. Beside dense matrices
of up to 2,500 rows, the sum is between once and eleven times what all rows tell; about half of it
is in the middle. That is close enough: climbs correct what they find wrong.
"""

from __future__ import annotations

import numpy as np
from scipy.linalg import get_lapack_funcs

from asvgp.basis import Array
from asvgp.training.sample_evidence import Sample, SampleEvidence, Trained, reaches

_OVERLAP = 2.0  # [ratio] Of what all kinds of sets tell together to what rows do, about.
_POTRF, _POTRS = get_lapack_funcs(("potrf", "potrs"), dtype=np.float64)


def information(trained: Trained, sample: Sample, rows: int) -> Array:
    """Return about what so many rows tell of log-hyperparameters, those of the kernel first.

    It is an expectation over y, positive semidefinite whatever y is.
    """
    evidence = SampleEvidence(trained.model, sample.learnt, sample.units)
    sets = [_of_set(*evidence.derivatives(trained.theta, i)) for i in range(len(sample.learnt))]
    outputs = sample.learnt[0].y.shape[1]
    if len(sets) == 1:
        return outputs * sets[0]
    among = reaches(rows)
    kinds = [kind.mean(axis=0) for kind in np.array_split(np.array(sets), len(among))]
    total = sum(rows / reach * kind for kind, reach in zip(kinds, among, strict=True))
    return outputs / _OVERLAP * np.asarray(total)


def _of_set(covariance: Array, derivatives: list[Array]) -> Array:
    """Return half the traces of pairs of derivatives, each divided by the covariance."""
    root, failed = _POTRF(covariance, lower=1)
    if failed:
        return np.zeros((len(derivatives), len(derivatives)))
    ratios = np.array([_POTRS(root, each, lower=1)[0] for each in derivatives])
    return 0.5 * np.einsum("iab,jba->ij", ratios, ratios, optimize=True)
