"""Families whose data are read once: the sums give what the rows give."""

from dataclasses import replace

import numpy as np
import pytest

from asvgp.likelihoods import Bernoulli, Gamma, NegativeBinomial, Weibull

from .cases import CASES, Case, grid

once = {name: case for name, case in CASES.items() if case.family.one_read}
# with numbers that are known
known = {"NegativeBinomial": NegativeBinomial(2.5), "Weibull": Weibull(1.7)}
once |= {f"{name}, known": replace(CASES[name], family=each) for name, each in known.items()}
each_case = pytest.mark.parametrize("case", once.values(), ids=once.keys())


def test_who_reads_once():
    found = {name for name, case in CASES.items() if case.family.one_read}
    assert found == {"Poisson", "Bernoulli", "Binomial", "Gamma", "Exponential"}
    assert all(family.one_read for family in known.values())
    assert not Weibull(30.0).one_read  # powers of times could be too large for sums


def rows(case: Case, offsets: bool):
    y, extra, m, v = grid(case)
    rng = np.random.default_rng(0)
    weight = rng.uniform(0.5, 3.0, len(y))
    offset = rng.normal(0.0, 0.7, len(y)) if offsets else None
    return y, extra, m, v, weight, offset


def from_sums(family, y, extra, m, v, weight, offset):
    mass, linear = family.measure(y, extra, weight, offset)
    value, slope, bend = family.curve(m, v)
    constant, _ = family.constant(family.constants(y, extra, weight, offset).sum(axis=1))
    return (
        family.factor * np.sum(linear * m - mass * value) + constant,
        family.factor * (linear - mass * slope),
        family.factor * mass * bend,
    )


@each_case
@pytest.mark.parametrize("offsets", [False, True])
def test_sums_and_rows_agree(case, offsets):
    y, extra, m, v, weight, offset = rows(case, offsets)
    if offsets and not case.family.offset_in_one_read:
        with pytest.raises(ValueError, match="cannot take offsets in one read"):
            case.family.measure(y, extra, weight, offset)
        return
    value, slope, bend = case.family.expected(y, extra, m if offset is None else m + offset, v)
    total, linear, curvature = from_sums(case.family, y, extra, m, v, weight, offset)
    assert total == pytest.approx(weight @ value, rel=1e-12)
    np.testing.assert_allclose(linear, weight * slope, rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(curvature, weight * bend, rtol=1e-9, atol=1e-12)


@each_case
def test_no_weight_is_a_weight_of_one(case):
    y, extra, m, v, _, _ = rows(case, False)
    plain = from_sums(case.family, y, extra, m, v, None, None)
    weighted = from_sums(case.family, y, extra, m, v, np.ones(len(y)), None)
    assert plain[0] == pytest.approx(weighted[0])


def test_a_free_shape_has_slopes_from_sums():
    case = CASES["Gamma"]
    y, extra, m, v, weight, offset = rows(case, True)
    family, step = case.family, 1e-5
    value = from_sums(family, y, extra, m, v, weight, offset)[0]
    constant, slope = family.constant(family.constants(y, extra, weight, offset).sum(axis=1))
    got = (value - constant) * family.factor_slopes() + slope
    above, below = (
        from_sums(family.with_values(family.values * c), y, extra, m, v, weight, offset)[0]
        for c in (np.exp(step), np.exp(-step))
    )
    np.testing.assert_allclose(got, (above - below) / (2.0 * step), rtol=1e-7)
    rowwise = family.slopes(y, extra, m + offset, v) @ weight
    np.testing.assert_allclose(got, rowwise, rtol=1e-10)
    assert Gamma(shape=2.0).factor_slopes().shape == (0,)
    assert Gamma(shape=2.0).constant(np.ones(3))[1].shape == (0,)


@each_case
def test_curves_have_consistent_derivatives(case):
    _, _, m, v = grid(case)
    step = 1e-3
    below, above = case.family.curve(m - step, v), case.family.curve(m + step, v)
    middle = case.family.curve(m, v)
    for order in (0, 1):
        difference = (above[order] - below[order]) / (2.0 * step)
        np.testing.assert_allclose(middle[order + 1], difference, rtol=1e-5, atol=1e-5)


@each_case
def test_a_start_from_sums_is_near_the_best_constant(case):
    """Many rows in one cell: T - B A'(f) = 0 there; a cell without rows gets the overall mean."""
    family, rng = case.family, np.random.default_rng(1)
    f = np.full(20_000, 0.6)
    extra = None if case.extra is None else np.full(len(f), case.extra[0])
    y = np.maximum(family.sample(f, rng, extra), 1e-12 if family.support[0] == 0.0 else 0.0)
    mass, linear = family.measure(y, extra, None, None)
    start = family.start_from_sums(np.array([linear.sum(), 0.0]), np.array([mass.sum(), 0.0]))
    assert np.all(np.abs(start - 0.6) < 0.05)
    _, slope, _ = family.curve(start[:1], np.zeros(1))
    assert abs(linear.sum() - mass.sum() * slope[0]) < 1e-3 * abs(linear).sum()


@each_case
@pytest.mark.parametrize("sums", [(0.0, 0.0), (0.0, 1e6), (1e-9, 3.0), (5.0, 5.0)])
def test_starts_are_finite(case, sums):
    sign = -1.0 if case.family.name in ("gamma", "exponential") else 1.0
    linear, mass = np.array([sign * sums[0], 0.0]), np.array([sums[1], 0.0])
    assert np.all(np.isfinite(case.family.start_from_sums(linear, mass)))


def test_others_say_that_they_read_again():
    ones = np.ones(3)
    for family in (NegativeBinomial(), Weibull(), Bernoulli(link="probit")):
        for call in (
            lambda family=family: family.measure(ones, None, None, None),
            lambda family=family: family.curve(ones, ones),
        ):
            with pytest.raises(TypeError, match="reads the rows anew"):
                call()
