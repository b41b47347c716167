"""Starting values for fields, from the statistics of a coarse grid."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from itertools import product

import numpy as np

from asvgp.basis import Grid
from asvgp.kernels import Kernel, Product, Sum
from asvgp.model.effects import ridge
from asvgp.model.plan import Plan
from asvgp.policies import FIELD
from asvgp.statistics import Statistics
from asvgp.training.starts import State, mean_weight, signal_power


def without_effects(plan: Plan, stats: Statistics) -> Statistics:
    """The statistics of y less what the effects alone explain of it, by ridge regression.

    Good for magnitudes only: sums over cells and squares are adjusted, columns are not.
    """
    count = plan.effects
    if not count:
        return stats
    gram = stats.column_gram[-count:, -count:]
    with_y = stats.column_targets[:, -count:].T
    beta, squares = ridge(gram, with_y, stats.squares)
    targets = stats.targets
    if plan.inputs:
        targets = targets - np.moveaxis(stats.cross[..., -count:] @ beta, -1, 0)
    return replace(stats, squares=squares, targets=targets)


def noise_estimate(plan: Plan, stats: Statistics) -> float:
    """Noise variance from what varies at the smallest scales, an upper estimate."""
    power = signal_power(stats) * mean_weight(stats)
    if not plan.inputs:
        return FIELD.unknown_noise * power
    return float(np.clip(_scatter(plan, stats), 1e-6 * power, power))


def _scatter(plan: Plan, stats: Statistics) -> float:
    """Variance of y within cells, or between neighbouring ones where cells hold one point."""
    D, outputs = len(plan.inputs), len(stats.squares)
    weight = stats.moments[(..., *([0] * D))]
    sums = stats.targets[(..., *([0] * D))]
    occupied = weight > 0.0
    count = int(occupied.sum())
    freedom = stats.count - count
    if freedom >= 0.2 * stats.count:
        means = np.sum(sums[:, occupied] ** 2 / weight[occupied])
        return float((stats.squares.sum() - means) / (freedom * outputs))
    total, pairs = 0.0, 0
    for d in range(D):
        w, y = np.moveaxis(weight, d, 0), np.moveaxis(sums, d + 1, 1)
        both = (w[1:] > 0.0) & (w[:-1] > 0.0)
        if not both.any():
            continue
        high, low = w[1:][both], w[:-1][both]
        difference = y[:, 1:][:, both] / high - y[:, :-1][:, both] / low
        total += float(np.sum(difference**2 / (1.0 / high + 1.0 / low)))
        pairs += int(both.sum()) * outputs
    return (
        total / pairs if pairs else FIELD.unknown_noise * signal_power(stats) * mean_weight(stats)
    )


def grids_by_input(kernel: Kernel, plan: Plan) -> dict[int, Grid]:
    """The grid of every column that a process is over."""
    grids = dict(zip(plan.inputs, plan.grids, strict=True))
    for term, grid in zip(plan.smooths, plan.smooth_grids, strict=True):
        grids[kernel.components[term].factors[0].dim] = grid
    return grids


def candidates(
    kernel: Kernel,
    noise: float | None,
    plan: Plan,
    stats: Statistics,
    along: Mapping[int, float] | None = None,
    near: bool = False,
) -> list[State]:
    """States worth trying, the given kernel first.

    Lengths are those that neighbours suggest, ``along`` inputs of the main block, and unless
    only states ``near`` to them are wanted, fractions of the domain; in the same proportions, or
    the same along every input. Where several terms are alike, their scales are spread, the
    longest first or last. ``noise`` is the user's own start.
    """
    plain = without_effects(plan, stats)
    power, rough = signal_power(plain), noise_estimate(plan, plain)
    noises = [rough, 0.3 * power * mean_weight(stats)] if noise is None else [noise]
    grids = grids_by_input(kernel, plan)
    spans = {dim: grid.upper - grid.lower for dim, grid in grids.items()}
    share = power / len(kernel.components)
    kernels = [kernel, _with(kernel, [None] * len(kernel.components), spans, share)]
    over = [tuple(f.dim for f in part.factors) for part in kernel.components]
    same = {key: [i for i, other in enumerate(over) if other == key] for key in over}
    for shape in _shapes(spans, along or {}, max(map(len, same.values())), near):
        lengths: list[float | None] = [1.0] * len(over)
        backwards = list(lengths)
        for members in same.values():
            if len(members) > 1:
                for place, number in enumerate(members):
                    lengths[number] = FIELD.scale_ratio**place
                    backwards[members[-1 - place]] = FIELD.scale_ratio**place
        kernels.append(_with(kernel, lengths, shape, share))
        if backwards != lengths:
            kernels.append(_with(kernel, backwards, shape, share))
    return [(k, value) for k in kernels for value in sorted(set(noises))]


def _shapes(
    spans: dict[int, float], along: Mapping[int, float], alike: int, near: bool
) -> list[dict[int, float]]:
    """The longest lengths to try, by input.

    Of so many terms that are ``alike``, the longest or the shortest is as long as neighbours
    suggest.
    """
    middle = {dim: FIELD.middle_fraction * span for dim, span in spans.items()}
    shapes = []
    if along:
        for times in sorted({1.0, FIELD.scale_ratio ** (1 - alike)}):
            shapes.append(middle | {dim: times * length for dim, length in along.items()})
        if near:
            return shapes
    forms = [spans]
    if along:
        shares = np.array([length / spans[dim] for dim, length in along.items()])
        shares /= np.exp(np.log(shares).mean())
        forms.append(spans | {d: s * spans[d] for d, s in zip(along, shares, strict=True)})
    for fraction, form in product(FIELD.start_fractions, forms):
        shapes.append({dim: fraction * span for dim, span in form.items()})
    return shapes


def _with(kernel: Kernel, fractions, spans: dict[int, float], variance: float) -> Kernel:
    """The kernel with lengths that are fractions of spans, None to keep a term's own."""
    parts = []
    for part, fraction in zip(kernel.components, fractions, strict=True):
        if fraction is None:
            parts.append(part.replace_free({"variance": variance}))
            continue
        lengths = {dim: fraction * span for dim, span in spans.items()}
        own = lengths if isinstance(part, Product) else lengths[part.dim]
        parts.append(part.candidates([own], [], variance)[0])
    return Sum(tuple(parts), kernel.effects) if isinstance(kernel, Sum) else parts[0]
