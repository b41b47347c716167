"""Families as objects: parameters, checks of y, starts and deviances."""

import copy
import json
import pickle
from dataclasses import replace

import numpy as np
import pytest

from asvgp.likelihoods import (
    FAMILIES,
    Bernoulli,
    Beta,
    Binomial,
    Exponential,
    Gamma,
    Heteroscedastic,
    NegativeBinomial,
    Ordinal,
    Poisson,
    StudentT,
    Weibull,
    ZeroInflatedPoisson,
    family_from_dict,
    family_named,
    family_to_dict,
)

from .cases import CASES, Case

each_case = pytest.mark.parametrize("case", CASES.values(), ids=CASES.keys())


def test_how_they_are_written():
    assert repr(Poisson()) == "Poisson()"
    assert repr(Bernoulli(link="probit")) == "Bernoulli(link='probit')"
    assert repr(NegativeBinomial(dispersion=2)) == "NegativeBinomial(dispersion=2.0)"
    assert repr(NegativeBinomial()) == 'NegativeBinomial(dispersion="auto")'
    assert repr(NegativeBinomial().with_values([3.5])) == "NegativeBinomial(dispersion=3.5)"
    assert repr(StudentT(scale=0.5)) == "StudentT(df=4.0, scale=0.5)"
    assert repr(StudentT()) == 'StudentT(df=4.0, scale="auto")'


@each_case
def test_names_are_distinct(case):
    same = [c for c in CASES.values() if c.family.name == case.family.name]
    assert {type(c.family) for c in same} == {type(case.family)}


@each_case
def test_they_are_compared_by_value_and_copied(case):
    family = case.family
    assert copy.deepcopy(family) == family == pickle.loads(pickle.dumps(family))
    assert hash(copy.copy(family)) == hash(family)
    assert family.with_values(family.values) == family
    if family.free:
        moved = family.with_values(1.5 * family.values)
        assert moved != family
        assert moved.parameters == family.parameters
        np.testing.assert_allclose(moved.values, 1.5 * family.values)
    with pytest.raises(AttributeError):
        family.free = ()


@each_case
def test_values_lie_within_their_limits(case):
    limits = case.family.limits()
    assert len(limits) == len(case.family.parameters) == len(case.family.values)
    for value, (low, high) in zip(case.family.values, limits, strict=True):
        assert 0.0 < low < value < high < np.inf


def test_free_and_fixed_parameters():
    assert StudentT().parameters == ("scale",)
    assert StudentT(df="auto").parameters == ("df", "scale")
    assert StudentT(df="auto", scale=2.0).values.tolist() == [4.0]
    assert StudentT(scale=2.0).parameters == ()
    assert NegativeBinomial(3.0) != NegativeBinomial(3.0, free=("dispersion",))
    with pytest.raises(ValueError, match="no parameter shape that could be free; it has disp"):
        NegativeBinomial(free=("shape",))


@pytest.mark.parametrize("wrong", [0.0, -1.0, float("nan"), float("inf"), "automatic", None])
def test_numbers_must_be_positive(wrong):
    with pytest.raises(ValueError, match="dispersion of NegativeBinomial must be a positive num"):
        NegativeBinomial(dispersion=wrong)


def test_inflation_is_a_probability():
    with pytest.raises(ValueError, match=r"inflation must be less than one, got 1\.5"):
        ZeroInflatedPoisson(inflation=1.5)


def test_ordinal_gaps_belong_to_levels():
    assert Ordinal(4).parameters == ("gap 1", "gap 2")
    assert repr(Ordinal(4)) == 'Ordinal(levels=4, gaps="auto", first=0.0)'
    assert Ordinal(2).parameters == ()
    np.testing.assert_allclose(Ordinal(4, gaps=(1.0, 2.0), first=-1.0).cuts, [-1.0, 0.0, 2.0])
    for levels, gaps, message in (
        (4, (1.0,), "4 levels needs 2 positive gaps"),
        (3, (-1.0,), "3 levels needs 1 positive gaps"),
        (1, (), "whole number >= 2, got 1"),
        (3, "wide", 'numbers or "auto"'),
    ):
        with pytest.raises(ValueError, match=message):
            Ordinal(levels, gaps=gaps)


def test_ordinal_levels_begin_with_their_shares():
    rng = np.random.default_rng(2)
    y = rng.choice(4, p=[0.1, 0.4, 0.3, 0.2], size=20_000).astype(float)
    begun = Ordinal(4).begin(y, None, None, None)
    shares = begun.probabilities(np.zeros(1), np.zeros(1))[0]
    np.testing.assert_allclose(shares, np.bincount(y.astype(int)) / len(y), atol=1e-4)
    two = Ordinal(2, first=0.0).expected(y % 2, None, y, y)
    for got, expected in zip(two, Bernoulli().expected(y % 2, None, y, y), strict=True):
        np.testing.assert_allclose(got, expected, rtol=1e-12)


@pytest.mark.parametrize("family", [Bernoulli, Binomial])
def test_links_must_be_known(family):
    with pytest.raises(ValueError, match="got 'cloglog'"):
        family(link="cloglog")


BAD = [
    (
        Poisson(),
        [0.0, -1.0, 3.0, -2.0],
        None,
        "non-negative counts.* 2 of 4 rows do not: -1",
    ),
    (Poisson(), [0.0, 1.5], None, "whole numbers.* 1 of 2 rows does not: 1.5 in row 101"),
    (NegativeBinomial(), [0.5, 1.0], None, "whole numbers.* 1 of 2 rows does not: 0.5 in row 100"),
    (Poisson(), [np.nan, 1.0], None, "finite.* 1 of 2 rows does not: nan in row 100"),
    (
        Bernoulli(),
        [0.0, 2.0, 1.0],
        None,
        "must contain 0 or 1.* 1 of 3 rows does not: 2 in row 101",
    ),
    (
        Bernoulli(),
        [0.0, np.nan],
        None,
        "must contain 0 or 1.* 1 of 2 rows does not: nan in row 101",
    ),
    (
        Binomial(),
        [3.0, 9.0],
        [5.0, 5.0],
        "as there are trials.* 1 of 2 rows does not: 9 in row 101",
    ),
    (
        Binomial(),
        [0.0, 0.0],
        [5.0, 0.0],
        "trials must contain positive whole.* 1 of 2 rows does not: 0 in row 101",
    ),
    (Binomial(), [-1.0, 0.0], [5.0, 1.0], "non-negative counts.* 1 of 2 rows"),
    (Binomial(), [1.0], None, "Binomial needs trials"),
    (Gamma(), [1.0, 0.0], None, "positive.* 1 of 2 rows does not: 0 in row 101"),
    (Exponential(), [1.0, -3.0], None, "positive.* 1 of 2 rows does not: -3 in row 101"),
    (
        Weibull(),
        [1.0, 2.0],
        [1.0, 0.5],
        "event must contain 1 .* 1 of 2 rows does not: 0.5 in row 101",
    ),
    (
        Beta(),
        [0.5, 1.0, 0.0],
        None,
        "between 0 and 1.* 2 of 3 rows do not: 1 in row 101, 0 in row 102",
    ),
    (Beta(), [0.5, np.nan], None, "between 0 and 1.* 1 of 2 rows does not: nan in row 101"),
    (Ordinal(3), [0.0, 3.0], None, "levels from 0 to 2.* 1 of 2 rows does not: 3 in row 101"),
    (Ordinal(3), [0.0, 0.5], None, "whole numbers.* 1 of 2 rows does not: 0.5 in row 101"),
    (ZeroInflatedPoisson(), [-1.0], None, "non-negative counts.* 1 of 1 rows"),
    (StudentT(), [1.0, np.inf], None, "finite.* 1 of 2 rows does not: inf in row 101"),
]


@pytest.mark.parametrize("family, y, extra, message", BAD)
def test_bad_rows_are_named(family, y, extra, message):
    extra = None if extra is None else np.array(extra)
    with pytest.raises(ValueError, match=message):
        family.check(np.array(y), extra, first_row=100)


def test_five_bad_rows_are_enough():
    with pytest.raises(
        ValueError, match=r"9 of 9 rows do not: -1 in row 0, .* -1 in row 4, \.\.\.\."
    ):
        Poisson().check(np.full(9, -1.0))


@each_case
def test_good_rows_pass(case):
    case.family.check(case.ys, case.extras)


@each_case
@pytest.mark.parametrize("offsets", [False, True])
def test_starts_are_finite_and_without_the_offset(case, offsets):
    y, extra = case.ys, case.extras
    offset = np.full(len(y), 0.8) if offsets else None
    f = case.family.start(y, extra, None, offset)
    assert np.all(np.isfinite(f))
    if offsets:
        # The same y at a higher offset leave less to f; shrinkage may keep a part of it.
        np.testing.assert_array_less(f, case.family.start(y, extra, None, None))


@each_case
def test_a_first_step_from_the_start_is_possible(case):
    f = case.family.start(case.ys, case.extras, None, None)
    _, g, w = case.family.expected(case.ys, case.extras, f, np.zeros(len(f)))
    assert np.all(np.isfinite(g / w))
    assert np.all(w > 0.0)


def drawn(case: Case, n: int = 20_000):
    """Rows around one f with the case's own parameters."""
    rng = np.random.default_rng(5)
    extra = None if case.extra is None else np.full(n, case.extra[0])
    y = case.family.sample(np.full(n, 0.5), rng, extra)
    return y, extra


free_cases = {name: case for name, case in CASES.items() if case.family.free}


@pytest.mark.parametrize("case", free_cases.values(), ids=free_cases.keys())
def test_free_parameters_begin_near_those_of_a_constant_field(case):
    y, extra = drawn(case)
    weight = np.ones(len(y))
    away = case.family.with_values(0.1 * case.family.values)
    begun = away.begin(y, extra, weight, np.zeros(len(y)))
    assert begun.parameters == case.family.parameters
    for name, got, true in zip(begun.free, begun.values, case.family.values, strict=True):
        if name == "df":
            assert got == pytest.approx(0.1 * true)  # not begun from data
        else:
            assert 0.3 < got / true < 3.0, name
    fixed = replace(begun, free=())
    assert fixed.begin(y, extra, None, None) == fixed


@pytest.mark.parametrize("case", free_cases.values(), ids=free_cases.keys())
def test_a_constant_y_begins_somewhere_too(case):
    y = np.full(5, case.y[1])
    begun = case.family.begin(y, None if case.extra is None else np.ones(5), None, None)
    for value, (low, high) in zip(begun.values, begun.limits(), strict=True):
        assert low <= value <= high


@each_case
def test_deviances_are_of_the_best_mean(case):
    """Zero at the mean that fits best, positive elsewhere, and twice a difference of log p."""
    family, y, extra = case.family, case.ys, case.extras
    f = np.linspace(-5.0, 5.0, 3601)[:, None]
    log_p = case.log_density(y, f, extra, family.values)
    response = family.response(f, extra)
    deviance = np.array([family.deviance(y, np.broadcast_to(r, y.shape), extra) for r in response])
    assert np.all(deviance > -1e-9)
    scale = family.factor if family.one_read else 1.0  # deviances leave the shape of Gamma out
    np.testing.assert_allclose(
        scale * (deviance - deviance[1800]), 2.0 * (log_p[1800] - log_p), rtol=1e-7, atol=1e-6
    )
    inside = np.abs(f[np.argmax(log_p, axis=0), 0]) < 4.9
    assert np.all(deviance.min(axis=0)[inside] < 1e-3)
    # Zero counts and sure outcomes are fitted best by f beyond all limits.
    assert np.any(deviance.min(axis=0) < 0.02)


LIMITS = [
    ("Weibull with shape 1", Weibull(1.0), Exponential(), [0.1, 2.0], 1e-12),
    ("Gamma with shape 1", Gamma(1.0), Exponential(), [0.1, 2.0], 1e-12),
    ("one trial", Binomial(), Bernoulli(), [0.0, 1.0], 1e-12),
    ("no dispersion", NegativeBinomial(1e6), Poisson(), [0.0, 4.0], 1e-4),
    ("no inflation", ZeroInflatedPoisson(1e-12), Poisson(), [0.0, 4.0], 1e-6),
]


@pytest.mark.parametrize("one, other, y, tolerance", [row[1:] for row in LIMITS])
def test_families_that_are_special_cases_of_others(one, other, y, tolerance):
    y, m, v = np.array(y), np.array([-0.3, 1.2]), np.array([0.4, 0.02])
    for a, b in zip(one.expected(y, None, m, v), other.expected(y, None, m, v), strict=True):
        np.testing.assert_allclose(a, b, rtol=tolerance, atol=tolerance)
    for name in ("response_moments", "variance"):
        np.testing.assert_allclose(
            getattr(one, name)(m, v), getattr(other, name)(m, v), rtol=10.0 * tolerance
        )
    np.testing.assert_allclose(one.cdf(y, m, v), other.cdf(y, m, v), atol=tolerance)
    np.testing.assert_allclose(one.deviance(y, y + 0.4), other.deviance(y, y + 0.4), atol=1e-3)
    np.testing.assert_allclose(
        one.log_predictive_density(y, m, v), other.log_predictive_density(y, m, v), atol=tolerance
    )


@each_case
def test_families_go_through_json(case):
    for family in (case.family, replace(case.family, free=())):
        assert family_from_dict(json.loads(json.dumps(family_to_dict(family)))) == family


def test_families_by_name():
    assert family_named("Poisson") == Poisson()
    assert family_named("student_t", df="auto") == StudentT(df="auto")
    # noise with a process of its own has tests of its own, in tests/sites/test_noise.py
    others = set(FAMILIES.values()) - {Heteroscedastic}
    assert {type(case.family) for case in CASES.values()} == others
    with pytest.raises(ValueError, match="no likelihood 'poison'; there are poisson, negative-bin"):
        family_named("poison")
    with pytest.raises(ValueError, match="gamma does not take dispersion; it takes shape"):
        family_named("gamma", dispersion=1.0)
    with pytest.raises(ValueError, match="poisson does not take rate; it takes no arguments"):
        family_named("poisson", rate=1.0)
