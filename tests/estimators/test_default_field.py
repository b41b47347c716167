"""The default model of two and three inputs: how it is chosen, and what fits make of it."""

from __future__ import annotations

import warnings
from dataclasses import replace
from functools import cache

import numpy as np
import pandas as pd
import pytest

import asvgp
from asvgp import GPRegressor, Linear, Matern
from asvgp.estimators import default_cells, default_field
from asvgp.estimators.default_cells import OnCells, Side, cells_for, functions, on_cells, work
from asvgp.estimators.default_field import FieldChoice, choose_field, plain_field
from asvgp.kernels.joint import JointMatern
from asvgp.kernels.product import Product
from asvgp.linalg.multifrontal import Space, symbolic
from asvgp.policies import SAMPLE
from asvgp.training.sample_evidence import (
    Factor,
    Model,
    Rows,
    Sample,
    SampleEvidence,
    Trained,
    sample_of,
    train,
    trained_further,
    trend,
)

RNG = np.random.default_rng
PLACES = RNG(0).uniform(0.0, 10.0, (165, 2))
PLACES[80:] = 4.0 + 0.2 * PLACES[80:]  # close to each other: they tell how smooth a field is


def draw(covariance, noise=0.02, seed=1):
    """Return values with this covariance at places of variance one, and noise."""
    rng, count = RNG(seed), len(covariance)
    root = np.linalg.cholesky(covariance + 1e-9 * np.eye(count))
    return (root @ rng.standard_normal(count) + noise**0.5 * rng.standard_normal(count))[:, None]


def between(kernel, x=PLACES):
    """Return the dense covariance of a joint kernel."""
    return kernel.covariance(x[:, None] - x)


JOINT = {nu: Matern(nu, (2.0, 2.0), dim=(0, 1)) for nu in (1, 2)}
LONG, SHORT = Matern(2, 5.0, 9.0, dim=(0, 1)), Matern(1, 0.4, 0.1, dim=(0, 1))


def separable(x=PLACES, length=2.5):
    """Return the covariance of a product of two exponential kernels: rough along the axes."""
    return np.exp(-np.abs(x[:, None] - x).sum(axis=2) / length)


# ------------------------------------------------------------ the evidence of a sample


@pytest.mark.parametrize("alike", [True, False])
def test_the_evidence_and_its_gradient_are_those_of_a_dense_process(alike):
    rng = RNG(0)
    x, y = rng.uniform(size=(40, 3)), rng.standard_normal((40, 2))
    rows = Rows(x, y, rng.uniform(0.5, 2.0, 40))
    units = np.array([1.0, 4.0, 2.0])
    joint, along = Factor((0, 2), 2.0, alike), Factor((1,), 1.5)
    model = Model(((joint, along), (Factor((0, 1), 1.0),)), linear=True)
    evidence = SampleEvidence(model, [rows], units)
    lengths = [0.4] if alike else [0.4, 0.7]
    theta = np.log([*lengths, 0.5, 1.3, 0.2, 0.3, 0.6, 0.1])
    value, gradient = evidence(theta)
    raw = (0.4 * 2**0.5 * np.array([1.0, 0.5])) if alike else np.array([0.4, 0.7])
    lag = x[:, None] - x
    first = Matern(2, tuple(raw), 1.3, dim=(0, 1)).covariance(lag[..., [0, 2]])
    first = first * asvgp.Matern32(0.5).covariance(np.abs(lag[..., 1]))
    whole = first + Matern(1, (0.2, 0.3), 0.6, dim=(0, 1)).covariance(lag[..., :2])
    centred = 12**0.5 * (x - 0.5)
    whole = whole + 1.0 + centred @ centred.T + np.diag(0.1 * rows.inverse_weight)
    root = np.linalg.cholesky(whole)
    z = np.linalg.solve(root, y)
    dense = -0.5 * np.sum(z**2) - 2 * np.log(np.diag(root)).sum() - 40 * np.log(2 * np.pi)
    assert np.isclose(value, dense, rtol=1e-10)
    for i, step in enumerate(1e-5 * np.eye(len(theta))):
        slope = (evidence(theta + step)[0] - evidence(theta - step)[0]) / 2e-5
        assert np.isclose(gradient[i], slope, rtol=1e-5, atol=1e-6)


def sampled(x, y) -> Sample:
    sample = sample_of(x, y)
    assert sample is not None
    return sample


def test_a_sample_shows_neighbours_and_the_whole_and_is_the_same_again():
    lattice = np.stack(np.meshgrid(np.arange(90.0), np.arange(60.0)), -1).reshape(-1, 2)
    y = RNG(0).standard_normal((len(lattice), 1))
    sample, again = (sampled(lattice, y) for _ in range(2))
    extents = sorted(float(np.ptp(rows.x, axis=0).max()) for rows in sample.learnt)
    assert extents[0] < 0.2
    assert extents[-1] > 0.9
    assert all(np.array_equal(a.x, b.x) for a, b in zip(sample.learnt, again.learnt, strict=True))
    assert np.allclose(sample.gaps * sample.units, 1.0)
    assert sample_of(lattice, np.ones_like(y)) is None


def test_trained_hyperparameters_are_no_worse_than_the_truth():
    model, sample = Model(((Factor((0, 1), 1.0),),)), sampled(PLACES, draw(between(JOINT[1])))
    scaled = np.log([*2.0 / sample.units, 1.0 / sample.scale**2, 0.02 / sample.scale**2])
    truth = SampleEvidence(model, sample.learnt, sample.units)(scaled)[0]
    assert train(model, sample, [np.log([0.05, 0.05, 1.0, 0.1])]).learnt > truth


# ------------------------------------------------------------ the choice


def chosen(y, x=PLACES, **settings) -> FieldChoice:
    choice = choose_field(x, y, **settings)
    assert choice is not None
    return choice


@cache
def chosen_for(nu) -> FieldChoice:
    return chosen(draw(between(JOINT[nu]), 2e-3))


@pytest.mark.parametrize("nu", [1, 2])
def test_a_joint_process_is_found_with_its_smoothness_and_length(nu):
    choice = chosen_for(nu)
    (part,) = choice.kernel.components
    assert isinstance(part, JointMatern)
    assert part.nu == nu
    assert choice.kernel.intercept is not None
    assert 1.0 < choice.start[0] < 4.0


def test_a_product_is_found():
    (part,) = chosen(draw(separable(), 0.001)).kernel.components[:1]
    assert isinstance(part, Product)


def test_a_long_and_a_short_scale_are_found():
    choice = chosen(draw(between(LONG) + between(SHORT), 1e-3))
    assert len(choice.kernel.components) == 2
    lengths = sorted(part.memory for part in choice.kernel.components)
    assert lengths == [1.0, 1.0]  # still to be found
    assert choice.objective == "evidence"
    assert len(choice.spacing) == 2
    assert "others, in nats per datum" in choice.note
    assert "Matern32[0] * Matern32[1]" in choice.note


def test_a_plane_is_found_and_noise_is_none():
    y = draw(between(JOINT[2]), 2e-3)
    assert not any(isinstance(effect, Linear) for effect in chosen_for(2).kernel.effects)
    assert sum(isinstance(e, Linear) for e in chosen(y + 9.0 * PLACES[:, :1]).kernel.effects) == 2


@pytest.mark.parametrize("slope", [0.0, 3.0])
def test_many_rows_pay_for_a_trend_once(slope):
    x = RNG(4).uniform(size=(SAMPLE.whole_rows + 250, 3))
    y = draw(separable(x, 0.05), 0.05) + slope * (x.sum(axis=1, keepdims=True) - 1.5)
    sample = sampled(x, y)
    model = Model((tuple(Factor((d,), 1.5) for d in range(3)),))
    without = train(model, sample, [np.log([0.1, 0.1, 0.1, 1.0, 0.1])])
    level, found = trend(without, sample)
    (rows,) = sample.spread
    assert len(rows.x) == len(x)  # no more than may be had: all of them
    before, after = (
        SampleEvidence(each.model, [rows], sample.units)(each.theta)[0] for each in (level, found)
    )
    gain = after - before - SAMPLE.trend_gain
    assert np.any(level.theta != without.theta)  # both are trained further
    assert found.judged - level.judged == pytest.approx(gain)
    assert (found.judged > level.judged) == (slope > 0.0)


def uneven(count=SAMPLE.fewest_further):
    """Return places and a field that is calm in one half, with a second, short scale in both."""
    x = RNG(7).uniform(0.0, 40.0, (count, 2))
    waves = [RNG(seed).standard_normal((3, 60)) for seed in (8, 9)]
    parts = [
        np.cos(x @ (k[:2] / length) + 6.0 * k[2]).sum(axis=1) / 30**0.5
        for k, length in zip(waves, (8.0, 0.7), strict=True)
    ]
    y = parts[0] + 0.3 * parts[1] * np.where(x[:, 0] < 20.0, 0.3, 1.0)
    return x, y[:, None]


def test_the_best_models_learn_from_all_sets_and_those_far_behind_do_not():
    sample = sampled(*uneven())
    assert len(sample.judged) > len(sample.learnt)
    assert sample.judged[: len(sample.learnt)] == sample.learnt
    joint = Factor((0, 1), 2.0)
    good = train(Model(((joint,),)), sample, [np.log([0.2, 0.2, 1.0, 0.1])])
    long = np.log([SAMPLE.longest, SAMPLE.longest, 1e-4, 1.0])
    poor = good._replace(theta=long, learnt=good.learnt - 1e3, judged=good.judged - 1e3)
    better, same = trained_further([good, poor], sample)
    assert same is poor
    assert better.judged > good.judged
    evidence = SampleEvidence(better.model, sample.judged, sample.units)
    price = SAMPLE.prices[1] * np.log(sum(rows.y.size for rows in sample.judged))
    assert better.judged == pytest.approx(evidence(better.theta)[0] - 4 * price)
    assert np.abs(evidence(better.theta)[1]).max() < np.abs(evidence(good.theta)[1]).max()


def test_the_choice_is_made_among_models_that_have_learnt_further(monkeypatch):
    left = []

    def further(tried, sample):
        left.append(min(tried, key=lambda each: each.judged))
        return left[-1:]

    monkeypatch.setattr(default_field, "trained_further", further)
    choice = chosen(draw(between(JOINT[2]), 2e-3))
    name = default_field._name(left[0].model, ["0", "1"])
    assert choice.note.split(": ")[1].split(";")[0].removesuffix(" + Linear") == name


@pytest.mark.parametrize("x", [PLACES, RNG(3).uniform(size=(SAMPLE.fewest_further - 1, 2))])
def test_few_rows_have_nothing_more_to_tell(x):
    sample = sampled(x, np.sin(9.0 * x[:, :1]) + 0.1 * RNG(4).standard_normal((len(x), 1)))
    one = train(Model(((Factor((0, 1), 1.0),),)), sample, [np.log([0.05, 0.05, 1.0, 0.1])])
    assert trained_further([one], sample) == [one]


def test_scales_of_x_and_y_and_weights_do_not_matter():
    y, one = draw(between(JOINT[2]), 2e-3), chosen_for(2)
    other = chosen(1e3 * y - 7.0, 60.0 * PLACES, weights=np.full(len(y), 0.5))
    assert one.kernel == other.kernel
    assert one.objective == other.objective
    factors = np.array([60.0] * (len(one.start) - 2) + [1e6, 5e5])
    assert np.allclose(np.array(other.start) / np.array(one.start), factors, rtol=1e-2)


@pytest.mark.parametrize("rows", [30, 165])
@pytest.mark.parametrize("objective", ["elbo", "evidence"])
def test_cells_suit_a_given_objective_and_the_number_of_rows(objective, rows):
    sample = sampled(PLACES[:rows], draw(between(SHORT), 1e-3)[:rows])
    best = train(Model(((Factor((0, 1), 1.0),),)), sample, [np.log([0.05, 0.05, 1.0, 0.01])])
    kept, cells, noise = cells_for(best, sample, rows, objective)
    assert kept == objective
    assert (noise > 0.0) == (objective == "evidence")  # what splines miss is noise to it alone
    few = SAMPLE.fewest_functions + SAMPLE.functions_per_row * rows
    assert functions(best, sample, cells[None]) <= few


def test_cells_of_long_lengths_are_no_narrower_than_the_places():
    places = 6, 20, 5  # along every input
    x = np.stack(np.meshgrid(*map(np.arange, map(float, places)), indexing="ij"), -1).reshape(-1, 3)
    sample = sampled(x, draw(np.ones((len(x),) * 2), 0.1))
    assert sample.judged is not sample.learnt
    theta = np.log([2.0, 2.0, 2.0, 1.0, 0.1])
    best = Trained(Model((tuple(Factor((d,), 1.5) for d in range(3)),)), theta, 0.0, 0.0)
    _, cells, _ = cells_for(best, sample, len(x), "evidence")
    apart = 1.0 / (np.array(places) - 1.0)
    np.testing.assert_allclose(cells, np.maximum(apart, SAMPLE.widest_of_evidence))


def test_the_lower_bound_gets_narrower_cells_than_the_evidence():
    y = draw(between(JOINT[1]), 0.01)
    elbo, evidence = (chosen(y, objective=each).spacing for each in ("elbo", "evidence"))
    assert np.all(np.array(elbo) < evidence)


@pytest.mark.parametrize(
    ("cells", "degrees"),
    [
        ((100, 100), [(3, 3)]),
        ((500, 50), [(3, 3)]),
        ((60, 60), [(2, 2), (4, 3)]),
        ((150, 8, 10), [(2, 2, 2)]),
        ((20, 20, 20), [(2, 2, 2)]),
        ((60, 14, 16), [(3, 3, 3), (None, 3, 3)]),  # space and time, and space alone
    ],
)
def test_the_work_of_a_bound_is_foreseen(cells, degrees):
    cost = symbolic(cells, tuple(Space(each, (0,) * len(cells)) for each in degrees)).cost()
    sides = [
        [Side(n, k) if k else Side(1.0, 0.0) for n, k in zip(cells, each, strict=True)]
        for each in degrees
    ]
    assert 0.5 < work(sides) / (cost.factor_flops + cost.inverse_flops) < 2.0


@pytest.mark.parametrize("wide", [1.0, 4.0])
def test_what_splines_miss_is_lost_as_noise(wide):
    sample = sampled(PLACES, draw(between(JOINT[1])))
    best = train(Model(((Factor((0, 1), 1.0),),)), sample, [np.log([0.05, 0.05, 1.0, 0.1])])
    cells = wide * np.full(2, 0.05)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(default_cells, "cells_for", lambda *_: ("evidence", cells, 0.0))
        missed, lost = on_cells(best, sample, 165)
    lengths = np.exp(best.theta[:2])
    variance, noise = np.exp(best.theta[2:])
    share = np.minimum(SAMPLE.missed * np.sum((cells / lengths) ** 2), 1.0)
    assert missed == pytest.approx(share * variance)
    moved = np.log([*lengths, max(variance - missed, SAMPLE.variances[0]), noise + missed])
    evidence = SampleEvidence(best.model, sample.judged, sample.units)
    assert lost == pytest.approx(evidence(best.theta)[0] - evidence(moved)[0])
    assert lost > 0.0
    assert on_cells(best, sample, 165, "elbo").lost == 0.0


def test_wide_cells_do_not_make_the_smoothest_model_the_best(monkeypatch):
    x = RNG(0).uniform(size=(400, 3))
    y = np.sin(9.0 * np.hypot(x[:, 0] - 0.5, x[:, 1] - 0.5))[:, None] + 0.1 * x[:, 2:]
    sample, (rough, smooth) = sampled(x, y), default_field._kinds(3, frozenset(), 3.0)[:2]
    tried = [Trained(Model((term,)), np.zeros(5), 0.0, 0.0) for term in (rough, smooth)]
    count = sum(each.y.size for each in sample.judged)
    tried[1] = tried[1]._replace(judged=-0.05 * count)
    monkeypatch.setattr(default_field, "affordable", lambda *_: False)

    def chosen_with(*found):
        known = dict(zip((each.model for each in tried), found, strict=True))
        monkeypatch.setattr(default_field, "on_cells", lambda each, *_: known[each.model])
        return default_field._affordable(tried, sample, 400, "auto").model.terms[0]

    assert chosen_with(OnCells(0.02, 0.05 * count), OnCells(0.01, 0.02 * count)) == rough
    assert chosen_with(OnCells(0.02, 0.10 * count), OnCells(0.01, 0.02 * count)) == rough
    assert chosen_with(OnCells(0.02, 0.15 * count), OnCells(0.01, 0.02 * count)) == smooth
    assert chosen_with(OnCells(0.3, 0.0), OnCells(0.2, 0.5 * count)) == smooth  # hardly a spline
    assert chosen_with(OnCells(0.3, 0.5 * count), OnCells(0.5, 0.0)) == rough  # misses less


def test_few_rows_over_three_inputs_take_few_functions():
    x = RNG(0).standard_normal((60, 3))
    y = np.sin(3.0 * x[:, 0]) * x[:, 1] + 0.1 * RNG(1).standard_normal(60)
    gp = GPRegressor().fit(x, y)
    assert gp.posterior_.engine.size < 3000
    new = RNG(2).standard_normal((200, 3))
    mean, std = gp.predict(new, return_std=True)
    assert np.mean(np.abs(mean - np.sin(3.0 * new[:, 0]) * new[:, 1]) < 1.96 * std) > 0.9


def test_a_model_that_is_not_the_likeliest_says_why(monkeypatch):
    x = RNG(0).uniform(size=(400, 3))
    distance = np.hypot(x[:, 0] - 0.5, x[:, 1] - 0.5)
    y = (np.sin(9.0 * distance) + x[:, 2] + 0.1 * RNG(1).standard_normal(400))[:, None]
    free = choose_field(x, y)
    assert free is not None
    product = default_field._plain_model(3)
    monkeypatch.setattr(default_field, "affordable", lambda each, *_: each.model == product)
    monkeypatch.setattr(default_field, "SAMPLE", replace(SAMPLE, tolerated_judgement=10.0))
    bound = choose_field(x, y)
    assert bound is not None
    assert bound.kernel == plain_field(3)
    assert bound.note.endswith("would need more basis functions than a quick fit can have")
    assert "would need" not in free.note


# ------------------------------------------------------------ the estimator


@pytest.fixture(scope="module")
def fitted():
    """A model of a frame with gaps and a distant level."""
    frame = pd.DataFrame(PLACES, columns=["lon", "lat"])
    y = 50.0 + draw(between(JOINT[2]))[:, 0]
    y[::11] = np.nan
    with pytest.warns(UserWarning, match="15 of 165 rows have y = NaN"):
        return frame, y, GPRegressor().fit(frame, y)


def test_the_summary_names_the_model_the_others_and_the_objective(fitted):
    *_, gp = fitted
    assert gp.objective == "auto"
    assert gp.objective_ == "elbo"
    text = " ".join(str(gp.summary()).split())
    assert "chosen by the evidence of a sample of 150 values: Matern(2" in text
    assert "Matern(1) -" in text
    assert "elbo: converged" in text


def test_training_begins_near_its_end_and_a_saved_model_is_the_same(fitted, tmp_path):
    frame, y, gp = fitted
    assert gp.optimization_.evaluations < 15
    mean, std = gp.predict(frame, return_std=True)
    known = np.isfinite(y)
    assert (
        np.mean(np.abs(mean - y)[known] < 1.96 * (std[known] ** 2 + gp.noise_variance_) ** 0.5)
        > 0.9
    )
    gp.save(tmp_path / "field.asvgp")
    again = asvgp.load(tmp_path / "field.asvgp")
    assert np.allclose(again.predict(frame), mean)
    assert again.objective_ == "elbo"
    assert again.summary().kernel_choice == gp.summary().kernel_choice


def test_models_of_the_same_choice_merge(fitted):
    frame, y, _ = fitted
    known = np.isfinite(y)
    settings = {"domain": ((0.0, 10.0), (0.0, 10.0)), "num_basis": 8}
    one, two = (GPRegressor(**settings).fit(frame[known], y[known] + c) for c in (0.0, 1.0))
    assert one.merge(two).stats_.count == 300


def test_times_lie_apart_from_space():
    x = RNG(0).uniform(0.0, 10.0, (200, 3))
    y = draw(between(JOINT[1], x[:, [0, 2]]) * np.exp(-np.abs(x[:, None, 1] - x[:, 1]) / 7.0))
    (part,) = chosen(y, x, times=frozenset({1})).kernel.components
    assert [factor.dim for factor in part.factors] == [(0, 2), 1]


def test_nine_days_get_a_cell_each_under_the_evidence():
    # Long lengths that a sample finds along them would let a quarter of them share a cell.
    days, a, b = (np.arange(float(n)) for n in (9, 8, 8))
    y = np.sin(0.3 * days[:, None, None]) * np.sin(0.8 * a[:, None]) + np.cos(0.7 * b)
    y += 0.2 * RNG(0).standard_normal(y.shape)
    gp = GPRegressor(objective="evidence").fit((days, a, b), y)
    assert gp.posterior_.engine.plan.grids[0].cells >= 8


def test_cells_that_a_part_of_the_rows_chose_are_kept():
    # Lengths along the first input, to which it says little, would do with a quarter of them.
    a = np.arange(20.0)
    y = np.sin(0.02 * a[:, None]) * np.sin(0.8 * a) + 0.2 * RNG(0).standard_normal((20, 20))
    gp = GPRegressor(objective="evidence").fit((a, a), y)
    assert gp.kernel_.components[0].lengthscale[0] > 10.0
    assert gp.posterior_.engine.plan.grids == gp.stats_.grids


@pytest.mark.parametrize(
    "x",
    [
        PLACES[:2],
        PLACES[:5],
        PLACES[:10],
        np.stack([PLACES[:60, 0]] * 2, 1),
        PLACES[:60].round().astype(int),
    ],
)
def test_few_rows_lines_and_integers(x):
    y = 3.0 + np.sin(x[:, 0]) + 0.1 * RNG(0).standard_normal(len(x))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        gp = GPRegressor().fit(x, y)
    assert np.all(np.isfinite(gp.predict(x, return_std=True)))
    assert gp.kernel_.intercept is not None


@pytest.mark.parametrize("inputs", [2, 3])
def test_too_few_rows_to_choose_by_start_the_plain_model_at_its_best(inputs):
    rng = RNG(3)
    x = rng.uniform(size=(6, inputs))
    y = np.sin(3.0 * x.sum(axis=1, keepdims=True))
    choice, sample = chosen(y, x), sampled(x, y)
    assert choice.kernel == plain_field(inputs)
    assert "too few to choose by" in choice.note
    term = ((Factor((0, 1), 1.0),), tuple(Factor((d,), 1.5) for d in range(3)))[inputs - 2]
    evidence = SampleEvidence(Model((term,)), sample.learnt, sample.units)
    units = np.array([*sample.units, sample.scale**2, sample.scale**2])
    reached = evidence(np.log(np.array(choice.start) / units))[0]
    others = [evidence(np.log(rng.uniform(0.05, 3.0, inputs + 2)))[0] for _ in range(50)]
    assert reached > max(others) - 1.0  # other optima of so few rows are about as good


def test_the_objective_of_one_input_and_of_given_kernels_is_the_bound():
    x = np.linspace(0.0, 1.0, 50)
    assert GPRegressor().fit(x, np.sin(9 * x)).objective_ == "elbo"
    gp = GPRegressor(JOINT[1], num_basis=8, noise_variance=0.1, optimizer=None)
    assert gp.fit(PLACES[:50], PLACES[:50, 0]).objective_ == "elbo"
    assert gp.set_params(objective="evidence").objective_ == "evidence"
    with pytest.raises(ValueError, match="objective must be 'auto', 'elbo' or 'evidence'"):
        GPRegressor(objective="evidences").fit(x, x)


def test_inputs_of_other_units_have_lengths_of_their_own():
    rng = np.random.default_rng(0)
    X, y = rng.uniform(size=(600, 2)), rng.standard_cauchy(600)
    gp = GPRegressor().fit(X * [1e-9, 1e9], y)
    assert "one length" not in gp.summary().kernel_choice
    assert np.all(np.isfinite(gp.predict(X[:5] * [1e-9, 1e9])))
