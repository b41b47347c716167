"""The model of two or three inputs that is used where the user gives none.

It is chosen by the evidence of small dense Gaussian processes on a sample of the rows
(`asvgp.training.sample_evidence`): whether the kernel is joint or a product, and how smooth;
whether a long and a short one are better than one; whether one lengthscale does for all inputs; and
whether there is a linear trend. Every step goes on from the best model of the step before, so that
few are tried. Training on all rows begins with the hyperparameters that were found.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import product
from typing import Any, NamedTuple

import numpy as np

from asvgp.basis import Array
from asvgp.estimators.default_cells import affordable, cells_for, on_cells
from asvgp.kernels import Constant, Kernel, Linear, Matern12, Matern32, Matern52
from asvgp.kernels.base import Unset
from asvgp.kernels.joint import JointMatern
from asvgp.kernels.product import Product
from asvgp.policies import SAMPLE
from asvgp.runtime.parallel import one_blas_thread
from asvgp.training.sample_evidence import (
    Factor,
    Model,
    Sample,
    Term,
    Trained,
    sample_of,
    train,
    trained_further,
    trend,
)
from asvgp.training.sample_information import information
from asvgp.training.widening import widening

_SMOOTH: Term = (Factor((0,), 2.5), Factor((1,), 2.5))
_SUMS: tuple[tuple[Term, Term], ...] = (
    ((Factor((0, 1), 3.0),), (Factor((0, 1), 3.0),)),
    ((Factor((0, 1), 2.0),), (Factor((0, 1), 1.0),)),
    (_SMOOTH, _SMOOTH),
)
_OF_ONE_INPUT: dict[float, Any] = {0.5: Matern12, 1.5: Matern32, 2.5: Matern52}


class FieldChoice(NamedTuple):
    """The default model of a field, where its training begins, and why it is this one."""

    kernel: Kernel  # with scales that are still to be found
    start: tuple[float, ...] = ()  # all hyperparameters of the kernel, then the noise variance
    objective: str = "elbo"
    spacing: tuple[float, ...] = ()  # of the finest cells that are worth having, along every input
    note: str = ""  # what was chosen, and what the others reached
    widening: float = 1.0  # factor of all variances after training, so that bands hold in gaps
    information: Array | None = None  # about what all rows tell of the logarithms of the start


def plain_field(inputs: int) -> Kernel:
    """Return the model of a field whose rows do not tell which to choose.

    Examples
    --------
    >>> plain_field(2)
    Matern(nu=1, lengthscale=(1.0, 1.0), variance=1.0, dim=(0, 1)) + Constant()
    """
    return _kernel_of(_plain_model(inputs), None)


def _plain_model(inputs: int) -> Model:
    """Return the first kind of a single term."""
    return Model((_kinds(inputs, frozenset(), 2.0)[0],))


def choose_field(
    x: Array,
    y: Array,
    weights: Array | None = None,
    known_noise: bool = False,
    times: frozenset[int] = frozenset(),
    most_nu: float = 3.0,
    names: Sequence[str] = (),
    objective: str = "auto",
) -> FieldChoice | None:
    """Return the model for places x (rows, inputs) and y (rows, outputs); None of a constant field.

    The columns ``times`` hold times. Joint kernels are no smoother than ``most_nu``. Columns are
    called by their ``names`` in the note. The ``objective`` is chosen where it is "auto", and cells
    suit it.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> x = rng.uniform(size=(200, 2))
    >>> y = np.sin(6 * x[:, :1]) * np.cos(4 * x[:, 1:]) + 0.1 * rng.standard_normal((200, 1))
    >>> choose_field(x, y).objective
    'elbo'
    """
    sample = sample_of(x, y, weights, known_noise)
    if sample is None:
        return None
    with one_blas_thread:  # matrices are small
        rows = int(np.isfinite(y).all(axis=1).sum())
        if rows < SAMPLE.fewest_rows:
            tried = [_plain(sample)]
        else:
            tried = trained_further(list(_tried(sample, times, most_nu)), sample)
            best = max(tried, key=lambda each: each.judged)
            tried = [each for each in tried if each is not best] + trend(best, sample)
        best = _affordable(tried, sample, rows, objective)
        wider = widening(best, sample)
        known = information(best, sample, rows)
    chosen, cells, missed = cells_for(best, sample, rows, objective)
    noise = float(np.exp(best.theta[-1])) + missed
    start = _kernel_of(best.model, sample, best.theta).values.tolist()
    return FieldChoice(
        _kernel_of(best.model, None),
        (*start, float(noise * sample.scale**2 * sample.mean_weight)),
        chosen,
        tuple((sample.units * cells).tolist()),
        _note(best, tried, sample, names or list(map(str, range(x.shape[1])))) + _wider(wider),
        wider,
        known,
    )


# ------------------------------------------------------------ the models that are tried


def _plain(sample: Sample) -> Trained:
    """Return the plain model, trained: too few rows to choose by can still be learnt from."""
    model = _plain_model(len(sample.units))
    return train(model, sample, list(_starts(model.terms[0])))


def _tried(sample: Sample, times: frozenset[int], most_nu: float) -> Iterator[Trained]:
    """Yield trained models: of one term, with one length for all inputs, of two."""
    tried = []

    def best() -> Trained:
        return max(tried, key=lambda each: each.judged)

    def attempt(model: Model, starts: Sequence[Array]) -> Trained:
        tried.append(train(model, sample, starts))
        return tried[-1]

    for term in _kinds(len(sample.units), times, most_nu):
        yield attempt(Model((term,)), list(_starts(term)))
    if len(sample.units) == 3:
        joint = (each for each in tried if len(each.model.terms[0]) == 2)
        first = max(joint, key=lambda each: each.judged)  # of space and time
        for term in _variants(first.model.terms[0], most_nu):
            yield attempt(Model((term,)), [first.theta])
    singles, first = list(tried), best()
    if np.ptp(np.log(sample.units)) > np.log(SAMPLE.same_unit):
        times = frozenset(range(len(sample.units)))  # units differ, as those of times do
    if (alike := _with_one_length(first, times)) is not None:
        yield attempt(alike.model, [alike.theta])
    one_length = best() is not first
    for long, short in _pairs(first, singles):
        parts = [long, short]
        if one_length:
            parts = [_with_one_length(part, times) or part for part in parts]
        yield attempt(*_sum_of(*parts))


def _kinds(inputs: int, times: frozenset[int], most_nu: float) -> list[Term]:
    """Return the kinds of a single term, the first where nothing is known."""
    every = range(inputs)
    separable = tuple(Factor((column,), 1.5) for column in every)
    if inputs == 2:
        joint = [(Factor((0, 1), nu),) for nu in (1.0, 2.0, 3.0) if nu <= most_nu]
        return [*joint, separable, *([_SMOOTH] if most_nu >= 2.0 else [])]
    # A joint kernel over three inputs takes too long. One input is of another kind than the others:
    # the time where there is one, else that with which the product has the highest evidence.
    apart = times if len(times) == 1 else every
    smooth = tuple(Factor((column,), 2.5) for column in every)
    products = [separable, *([smooth] if most_nu >= 2.0 else [])]
    return [*products, *(_space_and(column) for column in apart)]


def _space_and(column: int, nu: float = 1.0, along: float = 1.5) -> Term:
    """Return the product of a joint kernel over the other two inputs and one over a column."""
    space = tuple(other for other in range(3) if other != column)
    return Factor(space, nu), Factor((column,), along)


def _variants(term: Term, most_nu: float) -> list[Term]:
    """Return a product of space and time with other smoothnesses."""
    _, ((column,), _, _) = term
    smooth = [_space_and(column, 2.0)] if most_nu >= 2.0 else []
    return [_space_and(column, 1.0, 0.5), *smooth]


def _pairs(first: Trained, singles: Sequence[Trained]) -> Iterator[tuple[Trained, Trained]]:
    """Yield models of one term to add: a long and a short one of a kind, a smooth and a rough one.

    A smooth kind may be the best of two although a rough one is the best alone: two scales look
    rough.
    """
    yield first, first
    known = {each.model.terms[0]: each for each in singles}
    for smooth, rough in _SUMS:
        if smooth in known and rough in known and not known[smooth] is known[rough] is first:
            yield known[smooth], known[rough]
    (space, *others), theta = first.model.terms[0], first.theta
    if len(space.columns) == 2 and others:  # space and time beside their product
        for factor, own in ((space, theta[:2]), (others[0], theta[2:3])):
            alone = first.model._replace(terms=((factor,),))
            yield first._replace(model=alone, theta=np.array([*own, *theta[3:]])), first


def _starts(term: Term) -> Iterator[Array]:
    """Yield log-hyperparameters of a model of one term to start from."""
    count = sum(factor.lengths for factor in term)
    for length, noise in product(SAMPLE.start_lengths, SAMPLE.start_noises):
        yield np.log([*[length] * count, max(1.0 - noise, 0.1), noise])


def _sum_of(long: Trained, short: Trained) -> tuple[Model, list[Array]]:
    """Return the sum of two models of one term, with log-hyperparameters to start from."""
    starts = []
    for times, share in product(SAMPLE.start_pairs, SAMPLE.start_shares):
        theta = []
        for part, ratio, own in zip((long, short), times, (share, 1.0 - share), strict=True):
            *lengths, variance, _ = part.theta
            theta += [x + np.log(ratio) for x in lengths] + [variance + np.log(own)]
        starts.append(np.array([*theta, short.theta[-1]]))
    return Model((*long.model.terms, *short.model.terms)), starts


def _with_one_length(one: Trained, times: frozenset[int]) -> Trained | None:
    """Return a joint kernel with one lengthscale; None where it has none, or is over times."""
    (first, *others), *_ = one.model.terms
    if len(first.columns) == 1 or times.intersection(first.columns):
        return None
    theta = np.array([one.theta[: first.lengths].mean(), *one.theta[first.lengths :]])
    model = Model(((first._replace(alike=True), *others),))
    return one._replace(model=model, theta=theta)


# ------------------------------------------------------------ what follows from the choice


def _affordable(tried: Sequence[Trained], sample: Sample, rows: int, objective: str) -> Trained:
    """Return the best model; over three inputs of those that do not take too many functions.

    Joint kernels over two of three inputs take several times as many as products, since their
    splines go on beyond the data along both. If all that are about as good take too many, it is the
    one that is best on the cells that can be had. Cells that are too wide lose what neighbours
    tell, but not what is known in gaps: a part of that loss counts. Where much of the variance is
    missed, splines are not the kernel any more.
    """
    best = max(tried, key=lambda each: each.judged)
    if len(sample.units) < 3:
        return best
    least = best.judged
    least -= SAMPLE.tolerated_judgement * sum(each.y.size for each in sample.judged)
    good = [each for each in tried if each.judged >= least]
    if few := [each for each in good if affordable(each, sample, rows)]:
        return max(few, key=lambda each: each.judged)
    found = [(each, on_cells(each, sample, rows, objective)) for each in good]
    usable = [pair for pair in found if pair[1].missed <= SAMPLE.most_missed]
    if not usable:
        return min(found, key=lambda pair: pair[1].missed)[0]
    return max(usable, key=lambda pair: pair[0].judged - SAMPLE.counted_loss * pair[1].lost)[0]


def _kernel_of(model: Model, sample: Sample | None, theta: Array | None = None) -> Kernel:
    """Return the kernel of a model, with unset scales where no hyperparameters are given."""
    values = iter([] if theta is None else np.exp(theta))
    parts, columns = [], set()
    for term in model.terms:
        factors = []
        for factor in term:
            columns |= {*factor.columns}
            lengths = [Unset(1.0)] * factor.lengths
            if sample is not None:
                units = factor.unit(sample.units)
                lengths = [float(unit * next(values)) for unit in units]
            if len(factor.columns) == 1:
                factors.append(_OF_ONE_INPUT[factor.nu](lengths[0], dim=factor.columns[0]))
            else:
                length = lengths[0] if factor.alike else tuple(lengths)
                factors.append(JointMatern(nu=factor.nu, lengthscale=length, dim=factor.columns))
        part = factors[0] if len(factors) == 1 else Product.of(factors)
        if sample is not None:
            part = part.replace(variance=float(next(values)) * sample.scale**2)
        parts.append(part)
    kernel = sum(parts[1:], parts[0]) + Constant()
    for column in sorted(columns) if model.linear else ():
        kernel = kernel + Linear(column)
    return kernel


def _note(best: Trained, tried: Sequence[Trained], sample: Sample, names: Sequence[str]) -> str:
    """Return what was chosen and what the others reached, per datum of the sample."""
    count = sum(rows.y.size for rows in sample.judged)
    if len(tried) == 1:
        return f"{_name(best.model, names)}: {count} values are too few to choose by"
    others = sorted((each for each in tried if each is not best), key=lambda each: -each.judged)
    listed = ", ".join(
        f"{_name(each.model, names)} {(each.judged - best.judged) / count:.2g}" for each in others
    )
    higher = ""
    if others[0].judged > best.judged:
        higher = "; those above zero would need more basis functions than a quick fit can have"
    return (
        f"chosen by the evidence of a sample of {count:,} values: {_name(best.model, names)}; "
        f"others, in nats per datum: {listed}{higher}"
    )


def _wider(times: float) -> str:
    """Return what holes in the data say, where they say something."""
    if times == 1.0:
        return ""
    return f"; variances are {times:.2g} times those of the highest evidence, for bands in gaps"


def _name(model: Model, names: Sequence[str]) -> str:
    """Return a model in short."""
    terms = []
    for term in model.terms:
        factors = [
            f"Matern({factor.nu:g}{', one length' * factor.alike})"
            if len(factor.columns) > 1
            else f"{_OF_ONE_INPUT[factor.nu].__name__}[{names[min(factor.columns)]}]"
            for factor in term
        ]
        terms.append(" * ".join(factors))
    return " + ".join(terms) + " + Linear" * model.linear
