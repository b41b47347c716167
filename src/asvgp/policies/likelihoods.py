"""Likelihoods that are not Gaussian: steps to their sites, varying noise, and events."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class SitesPolicy:
    """Likelihoods that are not Gaussian: steps to their sites, and training with them."""

    most_steps: int = 100  # [steps] For the sites of one state of the hyperparameters.
    # [variance of f] Prior of effects that have none, if the mean of y is not f itself: a hundred
    # e-folds each way, whatever the units.
    wide_prior: float = 1e4
    # [variance of f] The same if all y are alike or count for one row at most: ten e-folds, or more
    # if the first f are larger. With a wider prior, rates of counts that are all zero have no
    # useful upper end.
    prior_of_alike: float = 100.0
    # [variance of f] Of a component: classes that can be separated would want more.
    most_variance: float = 400.0
    # [y, or exposure] Beyond this, or below its inverse, powers overflow, and another unit is
    # needed.
    extreme_units: float = 1e100
    # [sum of weights] From rows that count for less in all, nothing can be learnt.
    least_rows: float = 0.1
    # [sum of weights] Little can be learnt if weights make the rows count for less than this,
    few_rows: float = 10.0
    small_weight: float = 0.1  # [mean weight] as weights do that are meant to sum to one.
    # [squared distance from the centre of sums] Rounding leaves this much of a variance of zero,
    alike: float = 1e-12
    alike_each: float = 1e-13  # [centre] and this much beside that of every target.
    # [steps] After so many, what the last steps had in common is extrapolated,
    plain_steps: int = 5
    leap_from: int = 5  # [steps] from the last so many.
    least_share: float = 1e-3  # [step] Shorter steps are not tried, because rounding is in the way.
    slower: float = 0.7  # [step] After a step that lost, later ones are at most this long,
    faster: float = 1.1  # [ratio] and this limit grows by such a factor with every step that gains.
    # [ratio] Of the next step to the last: with less, the last step went too far and is shortened.
    back: float = -0.3
    # [ratio] Of the next step to the last: with more, the last step was much too short.
    on: float = 0.6
    # [step] The shortest step of a cell that has a pace of its own. Measured: land and sea, a
    # kernel of variance 100: 20 steps in place of 44
    shortest_share: float = 0.15
    longest_share: float = 1.5  # [step] The longest step of such a cell.
    # [ratio] Of a cell's weight, at least so much is kept by a step that reduces it.
    least_kept: float = 0.1
    rounding: float = 1e-11  # [relative] Accuracy of bounds: a step may lose as much.
    # [nats per unknown] The same for the error of determinants. Measured: 900 splines of two
    # inputs, 1e-6 nats
    rounding_by_size: float = 3e-9
    # [nats per unknown] Divergences are positive: one that is below minus this is wrong altogether.
    rounded_divergence: float = 1e-3
    # [steps] After so many in a row that gain nothing and cannot be longer, steps end.
    short_steps: int = 2
    settled: float = 1e-9  # [nats] A step that gains less is the last.
    settled_per_datum: float = 1e-9  # [nats per datum] This much more is allowed with many data.
    unnoticed: float = 1e-3  # [nats] When steps end, they have ended well if the last gained less.
    # [nats per datum] This much more is allowed if each step reads many rows: densities of y change
    # by as little. Measured: land and sea, 920,000 rows, 5 steps in place of 29.
    unnoticed_per_datum: float = 1e-7
    # [steps] After these, a share of what states of training may lose is enough: where all y but
    # one are alike, sites settle slowly, to no use.
    patience: int = 6
    settled_late: float = 0.1  # [ratio] The share that is enough from then on.
    # [nats] The same as `settled` for states that training passes through.
    settled_in_training: float = 1e-4
    # [nats per datum] This much more is allowed with many data.
    settled_in_training_per_datum: float = 1e-6
    # [nats per datum] The same for the very first state, from which training goes far. Measured: a
    # million pixels of land and sea gain 9,000 nats with the first sites, 5,000 with the kernel.
    settled_at_first_per_datum: float = 3e-5
    robust_steps: int = 3  # [steps] The first steps use positive weights if others may be negative.
    most_turns: int = 4  # [turns] Of climbing on the cells of the sites and choosing cells again.
    settled_turn: float = 1e-5  # [nats per datum] A turn that gains less is the last.
    most_cells: int = 1 << 14  # [cells] Of one input, whose moments give nodes of a quadrature.
    # [cells per row] If rows are read again; at least `most_cells` are allowed. Measured:
    # Student-t, 100,000 rows: 20 CPU s on half a million cells, 4 s on these, with the same bound
    cells_per_row: int = 4
    # [occupied cells per row] Cells become wider if at least so many have data afterwards,
    occupied_per_row: float = 2.0
    still_apart: float = 0.9  # [share] or at least this share of those that had data before.
    # [cells] In each cell of a posterior of one input: more nodes would only cost time.
    rule_cells: int = 2
    # [cells] The most of one input that are summed: halves of these, should the quadrature err, by
    # which its error falls by `rule_gain` at least. Measured: benchmarks/likelihoods.py, a million
    # rows: 0.11 s in all, with four times as many cells 0.12 s
    finest_cells: int = 1 << 15
    # [rows] On average, in the boxes whose means of y training begins with.
    rows_of_box: float = 25.0
    most_boxes: int = 64  # [boxes] Of these, along an input.
    start_steps: int = 8  # [steps] By Newton's method, from the f of a box to that of a row.
    longest_start_step: float = 2.0  # [f] Of these steps, so that all together bridge 16 e-folds.
    # [nats per row] A component with less than this in its sites is taken for lost: they are
    # computed anew and training begins afresh. Of `variance * weight / 2`, half that of a row.
    lost_component: float = 1e-4
    boxes: int = 4  # [boxes] A large field is first trained on so many,
    box_sides: tuple[int, ...] = (0, 0, 32, 16, 8)  # [cells, by inputs] of this size.
    box_gap: int = 4  # [sides per gap] Between two boxes, so that they hardly affect each other.
    box_rounds: int = 10  # [rounds] On the boxes, before one on the whole field.
    # [nats per datum] If the boxes have shown enough, that round gains less than this.
    box_gain: float = 1e-3
    # [nats per datum] On the whole field, a step to the sites that gains less is the last.
    # Measured: land and sea, 200 x 200 splines: log density of hidden pixels -0.0192, with 1e-7
    # -0.0191
    box_settled: float = 3e-5
    # [nats] Error of the bound by sums per cell instead of rows, at most.
    most_rule_error: float = 0.01
    # [nats] The same where no rows are left to look at: estimates are some 20 times too large.
    noted_rule_error: float = 0.1
    # [ratio] Factor by which it falls if cells become half as wide, at least. Measured: 140 to
    # 5,000
    rule_gain: float = 100.0
    # [rows] Training begins on a sample of so many if all rows have to be read again for every
    # step,
    sample_rows: int = 4000
    sample_share: int = 10  # [rows per row] or on one row in so many if this is more.
    least_left: float = 1e-9  # [share] Of f that others than a row itself must tell of it.
    farthest: float = 1e4  # [ratio] Of hyperparameters to those at which a turn began.
    # Rounds of training: the kernel with the sites held, then few steps of these.
    most_rounds: int = 20  # [rounds] Most take three to six.
    climb_of_round: int = 12  # [iterations] With the sites held; the sites then move the optimum.
    # [ratio] Of hyperparameters in a round: farther away, held sites mislead.
    farthest_of_round: float = 20.0
    difference: float = 0.05  # [log] Of hyperparameters, whose slopes show the curvature.
    steps_of_round: int = 3  # [steps] Of the sites, after that of the new kernel itself.
    # [times] So many lengths of the move of a round are tried, each half as long as the one before.
    halvings: int = 5
    settled_round: float = 1e-3  # [nats] A round that gains less is the last.
    # [nats per datum] This much more is allowed with many data: a nat in a million rows.
    settled_round_per_datum: float = 1e-6
    slow_round: float = 0.01  # [nats] A last round that gains less ends training well, too.
    # [ratio] From a round to the next, of their moves: slower ones are drawn out, by Aitken's rule,
    slow_rate: float = 0.2
    longest_draw: float = 4.0  # [ratio] but no farther than this.
    # [nats per datum] Of a number of a likelihood, as the bound's second derivative by its
    # logarithm, before it is learnt: of a scale it is up to 2, of a dispersion 0.05.
    first_curvature: float = 0.5
    steepening: float = 4.0  # [ratio] Of it, after a step that was too long.
    least_move: float = 1e-4  # [log] Of a number: less does not show how its slope changes.
    longest_move: float = 1.0  # [log] Of a number in one step.


@dataclass(frozen=True)
class NoisePolicy:
    """Noise whose variance is a process of its own."""

    settled: float = 1e-6  # [nats] A step to the sites of g that gains less is the last.
    most_steps: int = 4  # [steps] At most so many for a posterior of f.
    turns: int = 2  # [turns] Of training both processes and choosing the cells of g again.
    # [bins] Many rows of one input are summed in so many before training, and each bin becomes two
    # rows.
    least_bins: int = 4096
    # [bins per cell of f] There are as many bins as this if these are more. Measured: bounds of
    # 40,000 rows to 0.01 nats.
    bins_per_cell: int = 16
    most_bins: int = 1 << 17  # [bins] More would take as long as the rows themselves.
    worth: float = 4.0  # [rows per bin] With fewer, sums would not save time.
    # [ratio] Cells of f may be narrower by this than with one noise variance for all rows, because
    # more can be seen where there is little noise.
    finer: int = 4
    # [cells per row] Of f, or `SITES.most_cells` if that is more. Measured: nitrogen oxides by the
    # hour, 6,169 rows, 65,536 cells 29 s.
    cells_per_row: float = 0.5
    # [rows per cell] Of g, on average, or more: a squared residual says little about a variance.
    rows_per_cell: float = 4.0
    least_cells: int = 1024  # [cells] Of g, at least, even if each then has fewer rows.
    # [ratio] Of standard deviations: noise that varies by less is the same for all rows.
    same: float = 1.1


@dataclass(frozen=True)
class EventsPolicy:
    """Point processes."""

    # Events are counted in bins to choose the finest cells and, of several inputs, the kernel.
    bins_per_event: int = 4  # [bins] Training does not see them: they need not be fine,
    least_bins: int = 256  # [bins] but fine enough for few events with a large gap,
    most_bins: int = 1 << 14  # [bins] and not so many that counting takes longer than training.
    # [nodes] Along every part of a cell, beyond the degree of the splines: the error of the bound
    # is then 0.006 nats for 23,232 earthquakes, with one less 0.1 nats.
    further_nodes: int = 2
    most_pieces: int = 1 << 14  # [pieces] On which a drawn intensity is constant.


SITES = SitesPolicy()
NOISE = NoisePolicy()
EVENTS = EventsPolicy()
