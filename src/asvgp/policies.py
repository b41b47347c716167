"""Thresholds of the automatic choices, each with its unit, its reason and its measurement.

There is one frozen dataclass for each kind of choice, and one instance of it that the library
uses: `DATA`, `START`, `LINE`, `FIELD`, `PILOT`, `MEMORY`, `VERDICT`, `SAMPLE`. The comment on a
threshold says "[unit] reason Measured: where"; without the last part no measurement is recorded.
"By inputs" means one entry per number of inputs. Tolerances of the linear algebra stay beside the
code that they belong to.

Examples
--------
>>> from asvgp.policies import FIELD
>>> FIELD.accepted_gradient
1.0
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class DataPolicy:
    """How much of the data is looked at before the pass, and what y must be like."""

    # [rows] From here on an automatic grid is sized without looking at all rows, so that a stream
    # and an array of the same rows get the same grid. Measured: docs/saving.md: files of one input
    # below and above this number
    many_rows: int = 1 << 18
    mean_rows: int = 4096  # [rows] A mean to take off y, to keep digits, is guessed from these.
    wide_prior: float = 1e6  # [variance that data suggest] Of a fixed effect: too wide to matter.
    widest_range: float = 1e100  # [units of X] Powers of wider ranges overflow.
    extreme_length: float = 1e30  # [range of X] Powers of lengths farther from it overflow.
    longest_period: float = 1e5  # [range of X] So little of a circle is all but straight.
    extreme_variance: float = 1e60  # [mean square of y] Beyond, products of variances overflow.
    smallest_power: float = 1e-250  # [weighted mean square of y] Of less, squares of pivots vanish.
    largest_power: float = 1e150  # [weighted mean square of y] Of more, squares of pivots overflow.
    constant_rounding: float = 1e-13  # [mean square of y] Rounding leaves this of variance zero.
    constant_suspected: float = 1e-9  # [mean square of y] With less variance, y itself is read.
    # [nats per datum] A warning if rounding beside linear effects costs more. Measured: 400 rows, a
    # slope of 1e6 standard deviations of the noise: 6e-5 of the bound are wrong; 1e8: 0.6
    lost_bound: float = 1e-3
    distant_mean: float = 1e4  # [variances of y] Squared mean beyond which a warning is given.


@dataclass(frozen=True)
class StartPolicy:
    """Starting values of training, for any number of inputs."""

    least_noise: float = 1e-6  # [variance of y; several inputs: mean square] Least of a start.
    much_noise: float = 0.3  # [mean square of y] A second start: short lengths look like noise.
    # [share of the data beyond the first of a cell] With more, the noise is estimated within cells,
    # otherwise between neighbouring ones.
    shared_cells: float = 0.2
    # [prior variance] On a finer grid, a component of a sum is tried as it was given, with this
    # variance. Measured: CHANGELOG 0.1.0: a cycle too short for the first cells is not taken for
    # noise
    revived_share: float = 0.3


@dataclass(frozen=True)
class LinePolicy:
    """Training and resolution of one input."""

    # [degree of splines] Up to here the chain keeps its digits, and so do fields. Measured: 48
    # functions, noise 1e-2 to 1e-10: the bound rises with every degree from 2 to 6; products over
    # two inputs, N = 600, 60 functions along each, noise 0.01: nats below the evidence are 26, 1.1,
    # 0.9, 0.8 and 0.8 with degrees 2 to 6 for Matern32, 51, 2.1, 0.6 and 0.1 from 3 for Matern52
    most_degree: int = 6
    first_cells: int = 256  # [cells] An automatic resolution begins here: bounds cost little.
    # [cells] A bound is so cheap up to here that trying many starts costs nothing; a given
    # num_basis is trained on such a grid first.
    cheap_cells: int = 1024
    coarsening_step: int = 8  # [cells per coarser cell] Between the grids of a given num_basis.
    # [nats per datum] Refinement ends when two doublings together gain less. Measured:
    # docs/mathematics.md, Training; CHANGELOG 0.1.0
    settled_gain: float = 1e-3
    unsettled_gain: float = 1e-2  # [nats per datum] A note if the last doubling gained more.
    # [nats per datum] Refinement ends, too, when the splines miss less and the last two doublings
    # gained no more than what they missed before. Measured: docs/mathematics.md, How accurate
    settled_loss: float = 1e-4
    # [cells per typical gap between points, of the smallest degree and of higher ones] With fewer,
    # what the splines miss of a rough field with little noise is taken for noise. Measured: commit
    # 5a7f4cd: 90,000 rows of a seismogram, Matern32, smallest degree: with 4 per gap noise 0.034
    # and NLPD 0.412, with 16 noise 0.0087 and 0.314; exact (celerite2) 0.0037 and 0.284;
    # docs/mathematics.md, How accurate: half as many of one degree more miss less
    cells_per_gap: tuple[float, float] = (16.0, 8.0)
    fewest_finest_cells: int = 1 << 13  # [cells] Least of the finest automatic grid, at no cost.
    # [cells] The finest automatic grid of a stream, or of many points, bounds memory and file size.
    # Measured: docs/saving.md: 34 MB for two million points
    most_finest_cells: int = 1 << 19
    # [cells, of the smallest degree and of higher ones] The same where all points are in memory and
    # fewer than `DATA.many_rows`. Measured: commit 5a7f4cd: 2,097,154 functions on 90,000 rows;
    # docs/saving.md: 7 MB compressed
    most_finest_cells_in_memory: tuple[int, int] = (1 << 21, 1 << 20)
    # [knot spacings (half of it for a period)] Under the evidence, splines on wider knots are
    # another process, which training would exploit.
    shortest_lengthscale: float = 4.0
    least_noise: float = 1e-9  # [variance of y] Lower limit of the noise, to keep digits.
    least_noise_of_power: float = 1e-12  # [mean square of y] The same where y is all but constant.
    most_noise: float = 1e3  # [mean square of y] Upper limit of the noise.
    start_lengths: int = 7  # [lengths] From two knot spacings to half the domain, in equal ratios.
    finer_lengths: tuple[float, ...] = (3.0, 12.0)  # [knot spacings] Starts for finer knots only.
    finer_length_of_sums: float = 100.0  # [knot spacings] One more for sums, of different scales.
    # [noise estimate] If training ends with more noise, it may have taken short lengths for noise:
    # starts with less are tried too. Measured: commit 00e771d adds it; no figures
    noise_trap: float = 1.5
    second_looks: tuple[int, int] = (4, 1)  # [starts] So many on cheap grids, and on others.
    # [scatter within cells] Refinement goes on while finer cells scatter less by more than this and
    # four standard errors.
    hidden_structure: float = 0.01
    unknown_noise: float = 0.1  # [mean square of y] Start of the noise if all share one cell.

    # Digits of the chain: see `asvgp.model.elimination`
    certain_information: float = 1e6  # [prior's information] Plain elimination is exact enough.
    hopeless_information: float = 1e10  # [prior's information] Plain elimination is not tried.
    accepted_defect: float = 1e-10  # [basis functions] Error of log|P| of plain elimination.

    # Knots that cut none of the intervals that y is averaged over
    finest_lattice: float = 1e-4  # [shortest interval] A finer lattice of ends is none.
    widest_lattice: float = 4.0  # [longest interval] Knots farther apart would fit by coincidence.
    lattice_tries: int = 1000  # [distances] Of knots that are tried, from the widest interval on.
    fewest_uncut_cells: int = 8  # [cells] Fewer are not worth having.


@dataclass(frozen=True)
class FieldPolicy:
    """Training and resolution of several inputs."""

    # Cells that a lengthscale may have

    shortest_length: float = 4.0  # [cells per lengthscale] On fewer, splines are not the process.
    shortest_length_on_finest: float = 2.0  # [cells] The same under the evidence, on the finest.
    visible_length: float = 2.0  # [cells] A length that neighbours suggest shows on cells so wide.
    # [nats per function or datum, whichever are fewer] Error of log|P|, and so of the bound, beyond
    # which P is factored by square roots. Measured: Matern32(0.5) * Matern52(0.7), 600 points,
    # noise 0.01, 100 cells along each input: 0.001 nats in all
    accepted_defect: float = 1e-4
    # [as before] Predicted error from which on it is measured. Measured: 380 random fields of one
    # to three terms: 1.7e-7 at most where less is predicted
    measured_from: float = 1e-5
    refused_defect: float = 1e-3  # [as before] An error of square roots, too, that is refused.
    # [functions per function or datum, whichever are fewer] Error of tr(P^-1 P), beyond which
    # training takes a state for a bad one; gradients err by a hundredth of it or so, in nats.
    # Measured: as above, with 60, 80, 100, 120 and 150 cells 5e-6, 5e-4, 0.02, 0.2 and 9 in all;
    # slopes along both lengthscales differ by 0.003 and 0.04 between the last and 100
    accepted_gradient: float = 1.0
    almost_polynomial: float = 4.0  # [domain] With a longer lengthscale, advice is to shorten it.
    # [width of the cell before] Of cells beyond the data, where joint kernels have splines too, at
    # the least and at the most: 1 + 1 / sqrt(n) for n of them, so that they become finer where the
    # data's do. Measured: nu = 2, 6 cells per lengthscale: missed at the edges 2.9e-4, with 2.0
    # 2.0e-3; in the middle 1.7e-4 with either. 600 points, noise 0.01, lengthscale 0.5: with 40 and
    # 63 functions along each input 0.13 and 0.04 nats below the evidence; always 1.5: 0.35, 0.22
    joint_growth: tuple[float, float] = (1.2, 1.5)
    # [decay lengths] Of full cells beyond the data; the tails of the splines come on top. Measured:
    # two inputs, nu = 1, 2 and 3: from 2.5 on the variance missed at edges falls by less than 1e-5
    joint_room: float = 3.0
    # [cells per decay length] On finer ones there is more room, as what cells miss becomes less,
    joint_coarse: float = 4.0
    # [decay lengths / (nu log of the cells per decay length)] so much. What too little room costs
    # falls with exp(-2 room), what cells miss with the power 2 nu of their width.
    joint_more_room: float = 0.5
    # [share missed on equal cells everywhere] Missed at the edges of the data, a note from here on:
    # there is too little room. Measured: nu = 2, 6 cells per lengthscale: 7 with enough of it, 400
    # with half a decay length
    little_room: float = 30.0
    # [degrees] Longitudes that span more go round the Earth: their splines are closed to a circle.
    widest_arc: float = 180.0
    # [degrees] Of data: the splines of a kernel on the sphere end at 88.
    last_latitude: float = 86.0
    pole_cells: int = 4  # [cells] Beyond the data, more towards a pole that is near.
    # [columns] What splines leave out at the poles may take. Measured: 400 take about as long as P
    pole_columns: int = 400
    # [numbers] The same in products, with a column for each function of the other inputs.
    pole_entries: float = 2e7
    joint_growing: float = 1.5  # [lengthscale] There is room for one so much longer, in training.
    tolerated_loss: float = 2e-3  # [nats per datum] Of the bound, to one term along one input.
    # [variance between neighbours] Under the evidence, one term may miss this along one input:
    # predictions add it to their variance. Measured: benchmarks/gaps.py, table in docs/fields.md
    # (the whole of it, not this number alone)
    tolerated_scatter: float = 0.1
    cells_per_place: float = 1.5  # [cells per distinct place along an input] More stay empty.
    cells_per_datum: float = 3.0  # [cells per datum] The same over all inputs.

    # What training pays for under the evidence
    least_noise_of_scatter: float = 1e-2  # [variance between neighbours] Least noise.
    # [1 / variance between neighbours] Price of missed variance on wide cells under the evidence:
    # without it a long lengthscale with a huge variance fits as well. Measured: benchmarks/gaps.py,
    # table in docs/fields.md (the whole of it, not this number alone)
    missed_price: float = 0.3
    # [hyperparameter] Where a sample of the rows has told those of the kernel, training goes no
    # further, and missed variance has no price, whose gradient takes as long as four bounds.
    near_ratio: float = 4.0
    least_noise: float = 1e-8  # [mean square of y] Lower limit of the noise.
    most_noise: float = 1e2  # [mean square of y] Upper limit of the noise.
    unknown_noise: float = 0.2  # [mean square of y] Start of the noise if cells do not tell.

    # Starts
    start_fractions: tuple[float, ...] = (0.04, 0.12, 0.4, 1.2)  # [domain] Lengths, along each.
    middle_fraction: float = 0.4  # [domain] Start of lengths that neighbours tell nothing of.
    scale_ratio: float = 0.15  # [length of the term before] Of the next term over the same inputs.
    nearby_starts_from: int = 2_000  # [functions] From here on only neighbours' starts are tried.

    # Second looks, where bounds are cheap: states with another shape of one term
    looks: int = 3  # [climbs] From the best of such states, at most,
    look_gain: float = 1e-3  # [nats per datum] as long as each gains more.
    look_short: tuple[float, ...] = (0.08, 0.3)  # [domain] Lengths of a term along an input,
    look_long: float = 4.0  # [domain] or this, where it is a function of the other inputs alone.
    look_noise: float = 0.5  # [noise variance] Its variance, or that which it has,
    look_apart: float = 3.0  # [ratio] if a length is no nearer than this to the one it has.

    # Effort
    stages: int = 12  # [resolutions] Training ends after so many in any case.
    dear_functions: int = 20_000  # [functions] From here on a bound takes a good part of a second.
    dear_work: float = 1.5e11  # [flops of factorisations] For the last iterations of dear bounds.
    dear_iterations: tuple[int, int] = (4, 25)  # [iterations] Within these, whatever the work.
    unnoticed_gain: float = 1e-7  # [nats per datum] An iteration that gains less is the last.
    unnoticed_gain_when_dear: float = 5e-5  # [nats per datum] The same, before another resolution.
    # [nats per datum] A limited training has converged if the last quarter of its evaluations
    # gained less. Measured: commit 754a284 adds this judgement; no figures
    late_gain: float = 1e-3
    # [nats per datum and log-hyperparameter] Training that ends where the bound still rises more
    # steeply was stopped by lost digits, if any were lost.
    blocked_slope: float = 1e-4
    worthwhile_gain: float = 1e-5  # [nats per datum] What wider cells of a term must gain.
    warm_step: float = 0.2  # [log-hyperparameter] First step from a good state, on dear bounds.

    # The grids that training goes through
    first_cells: tuple[int, ...] = (0, 0, 24, 10, 6)  # [cells, by inputs] Along each, at first.
    # [cells] Around a circle. No leaf of the dissection may hold a spline twice, which takes twice
    # `most_degree` cells.
    fewest_circle_cells: int = 8
    first_smooth_cells: int = 16  # [cells] The same for a smooth of one input.
    # [cells per lengthscale, of degrees 1, 2 and higher] Smooths are cheap: finer cells than
    # products have, but not finer than needed.
    smooth_length: tuple[float, float, float] = (32.0, 10.0, 5.0)
    # [cells of an automatic grid, by number of inputs] What the sums of a pass may take in memory
    # and in a model file. Measured: docs/saving.md: 105 MB for 500,000 points, D = 2
    most_cells: tuple[int, ...] = (0, 0, 1 << 20, 1 << 18, 1 << 16)
    cells_per_row: int = 4  # [cells per row] An automatic grid has no more than these,
    cheap_cells_per_row: int = 64  # [cells per row] or these, up to `cheap_cells`.
    # [cells] Few rows with little noise need finer cells than rows, and these cost little.
    # Measured: commit f1b57ff raises it to this; no figures
    cheap_cells: int = 1 << 16
    fewest_cells: int = 4096  # [cells] An automatic grid has at least these.
    least_doublings: tuple[int, ...] = (0, 0, 3, 3, 2)  # [doublings, by inputs] Of one cell, each.
    smooth_cells: tuple[int, int] = (64, 256)  # [cells] Fewest and most of an automatic smooth.
    most_smooth_columns: int = 4096  # [columns] All smooths together: their block of P is dense.

    # Boxes of a large field
    boxes: int = 4  # [boxes] Enough data for short lengths and the noise.
    boxes_from: float = 3.0  # [cells of all boxes] Fields with fewer cells are trained as a whole.
    box_sides: tuple[int, ...] = (0, 0, 64, 16, 8)  # [cells, by inputs] Of a box: bounds are cheap.
    box_alignment: tuple[int, ...] = (1, 1, 16, 8, 4)  # [cells, by inputs] Of where boxes begin.
    grown_cells: int = 8  # [cells] A domain grows by multiples of this, to be coarsened by halves.
    box_attempts: int = 3  # [starts] Boxes climb from the best of these. Measured: commit 1e5340d
    coarsening_loss: float = 0.05  # [nats per datum] Wider cells may lose this on the boxes.


@dataclass(frozen=True)
class PilotPolicy:
    """Lengths along every input from predictions of rows by their neighbours."""

    rows: int = 1 << 20  # [rows] At most so many are looked at.
    boxes: int = 4  # [boxes] Of more rows than these hold, only those in boxes count.
    box_rows: int = 4096  # [rows] In each box.
    centres: int = 384  # [rows] Rows to predict: lengths are good to a factor of two, as cells are.
    neighbours: int = 12  # [rows] From which each is predicted.
    fewest_rows: int = 48  # [rows] From fewer nothing is learnt.
    # [rows] A random part first: on a fine lattice neighbours all lie along one input, and tell
    # nothing of the others. Measured: commit 746f66d; no figures
    shares: tuple[float, ...] = (0.25, 1.0)
    fewest_shared_rows: int = 2048  # [rows] A part has at least these.
    clear_gain: float = 0.02  # [nats per datum] By which neighbours must help.
    shortest: float = -14.0  # [log2(length / range)] Shortest length.
    longest: float = 2.0  # [log2(length / range)] Longest length.
    least_noise: float = -16.0  # [log2(noise / signal)] Least noise.
    most_noise: float = 4.0  # [log2(noise / signal)] Most noise.
    rounds: int = 6  # [rounds] Of neighbours and lengths in turns, at most.
    least_gain: float = 1e-4  # [nats per datum] A step must gain more.
    start_noise: float = -3.0  # [log2(noise / signal)] Climbs start here,
    start_length: float = -3.0  # [log2(length / range)] with this length along all inputs,
    # [log2(length / range)] or with the first along one input and the second along the others.
    start_lengths: tuple[float, float] = (-7.0, -2.0)


@dataclass(frozen=True)
class MemoryPolicy:
    """Memory and time of a model, before they are spent."""

    # [memory of the machine or the GPU] The limit unless the user sets one: the rest is for the
    # system and for y and X. Measured: docs/fields.md states it; no figures
    share: float = 0.8
    sums_share: float = 0.25  # [limit] The statistics of an automatic grid may take so much of it.
    # [rate of a matrix product] Bounds reach about this rate, so that their time can be announced.
    # Measured: benchmarks/multifrontal.py: 30 % at 300 x 300, 66 % at 1000 x 1000
    efficiency: float = 0.4
    sample_matrices: float = 6.0  # [matrices of all pairs] Covariance, root, LAPACK's workspace.
    announced_seconds: float = 0.5  # [seconds per bound] Longer work is announced first.
    least_smooth_cells: int = 16  # [cells] Smooths are coarsened to this first if memory is short.
    many_columns: int = 2000  # [columns] With more it takes long even to look at the elimination.
    bytes_per_function: float = 1000.0  # [bytes] Least per function of several inputs on big grids.
    bytes_per_line_function: float = 400.0  # [bytes] Peak of one input. Measured: commit 00e771d
    # [estimate] Torch reserves more than is counted. Measured: H200: 1.1 to 2.2 (commit e7e0ae1)
    batched_overhead: float = 2.2
    dense_copies: float = 6.2  # [columns**2] Peak of an additive model. Measured: commit 7cc7c03
    right_hand_sides: int = 1 << 23  # [doubles] Sides of a joint covariance solved at a time.
    most_joint_draws: int = 2000  # [points] Draws factor the covariance of all: more take too long.


@dataclass(frozen=True)
class VerdictPolicy:
    """What a summary, a note or a warning says of a fit."""

    enough: float = 1e-3  # [nats per datum] The basis is enough below: as `LINE.settled_gain`.
    nearly_enough: float = 1e-2  # [nats per datum] Fewer splines than asked for may cost this.
    # [nats per datum] An automatic grid that a twice finer one would improve by more gets a
    # warning. Measured: docs/fields.md states it; no figures
    finer_grid_gain: float = 0.02
    deciding_part: float = 0.1  # [penalty] An input with a smaller part of it does not decide.
    few_digits: float = 1e-4  # [as `FIELD.accepted_defect`] A note from here on.
    wide_deviations: float = 0.5  # [scatter + noise] A note if the splines miss more variance.
    clear_errors: float = 4.0  # [standard errors] Calibration errors are reported beyond these,
    clear_moment: float = 0.05  # [mean, variance or correlation of residuals] and beyond this,
    clear_coverage: float = 0.01  # [share of the data] or this of a band.
    unlikely: float = 1e-4  # [p-value] Not normal if the Kolmogorov-Smirnov test says so,
    clear_distance: float = 0.02  # [distance of distributions] and beyond this.
    # [nats] Of a direction that training left too early, curving upwards. Measured: commit cb1124c
    rising: float = 0.5
    # [share] Of intervals that begin below zero, where all observations are positive.
    below_zero: float = 0.05
    rows_looked_at: int = 25_000  # [rows] For the deviance that a likelihood explains.
    clear_scatter: float = 1.5  # [ratio of variances] Counts beyond are not Poisson's.
    # [mean count] Dispersion of counts that adds less than a hundredth to Poisson's variance.
    far_dispersion: float = 100.0
    light_tails: float = 100.0  # [degrees of freedom] Nobody can tell from Gaussian noise.


@dataclass(frozen=True)
class SeriesPolicy:
    """Series: components of one input on cells of their own."""

    # [functions] In the intervals that elimination begins with. Measured: (b) of
    # benchmarks/series.py, 12,000 hours: a bound takes 31 ms with 34 of them, 134 ms with 270
    leaf_functions: int = 32
    leaf_columns: float = 0.5  # [columns] or this part of the columns, which all intervals have,
    # [bytes] or more, where matrices of all intervals take more than these. Measured: 278,861
    # minutes of power: 2.4 GB in all without, 1.8 GB with this, in the same time
    leaf_bytes: float = 3e8
    leaf_saving: float = 1.3  # [ratio] Twice as many functions save so much: they cost operations.
    # [bytes] Seasons of automatic plans drift with fewer phases where matrices would take more,
    most_leaf_bytes: float = 1e9
    # [operations] or one bound with its gradient would. Measured: traffic by the hour, 40,000 rows:
    # 4.7e10, 2 CPU s; with a third of the phases 0.05 nats per row less. 20,000 minutes of power
    # want 1.2e11
    most_drift_flops: float = 6e10
    wave_degree: int = 9  # [degree] Of the polynomials of oscillators.
    least_wave_level: int = 2  # [doublings] Digits of high powers are lost on finest cells alone.
    fewest_cells: int = 4  # [cells] Of any component along the line.
    cells_per_wave: int = 8  # [finest cells] In a period of an oscillator, at least.
    fewest_finest_cells: int = 16  # [cells] However few inputs there are.
    most_finest_cells: int = 1 << 17  # [cells] Each takes some kilobytes.
    period_drift: float = 1e-3  # [periods] A season may shift by this over the whole domain.
    most_extra_cells: float = 8.0  # [distinct inputs] Cells that common parts of periods may take,
    least_most_cells: int = 4096  # [cells] or these.
    fewest_phases: int = 8  # [functions] Around a circle.
    # [cells] Periods of irregular inputs have this many wide cells, or up to twice as many; of few
    # cells, `fewest_phases` or up to twice as many.
    medium_phases: int = 32
    most_phases: int = 256  # [functions] Around a circle: all of them couple with each other.
    # [nats per datum] What the cells may cost, stage by stage.
    tolerances: tuple[float, ...] = (0.05, 0.01, 0.004)
    stages: int = 5  # [plans] Training ends after so many, even if the next would differ,
    costly_flops: float = 5e9  # [operations] and after one whose bounds take more than these.
    # [nats per datum] An iteration gains more on all but the last plan, and on costly ones.
    # Measured: 35,064 hours of traffic, patterns and a drift: half as many bounds, 12 nats less
    loose_gain: float = 1e-4
    last_gain: float = 3e-5  # [nats per datum] and more than this on the last.
    spline_handicap: float = 4.0  # [functions] Oscillators get splines if these are so many fewer.
    window_inputs: tuple[int, ...] = (720, 4000)  # [inputs] Longer series are learnt on stretches,
    window_attempts: int = 3  # [starts] from the best of many starts on the first,
    cheap_attempts: int = 3  # [starts] The same where a series is short and regular,
    agreement: float = 1e-3  # [nats per datum] or until the best two end as near to each other.
    # [nats] By which data tell a point of a climb from the end of an earlier one, at most, where it
    # may be left. Measured: 84 fits of 700 hours: 2 % fewer bounds, benchmarks/series.py (d) 20 %
    same_slopes: float = 1.0
    cheap_functions: int = 10_000  # [functions] Up to these, all is learnt on the whole at once.
    second_looks: int = 4  # [climbs] Most climbs from states with other qualities,
    other_qualities: tuple[float, ...] = (0.03, 30.0, 1000.0)  # [quality] times the one reached.
    window_share: float = 0.4  # [stretch] for seasons and waves with shorter periods.
    window_spread: float = 0.01  # [variance of y] A stretch with less says nothing of the whole.
    same_turns: float = 0.1  # [turns] Periods are one to data over which they differ by less.
    swinging_quality: float = 1.0  # [quality] Below it there is no period to see.
    given_period: float = 2.0  # [period] Training moves a period that the user gave no further.
    start_quality: float = 300.0  # [quality] Oscillators are tried with this, too.
    exact_inputs: int = 1200  # [distinct inputs] Up to these no splines are needed,
    most_exact_inputs: int = 3000  # [distinct inputs] or these, if splines take more operations,
    most_holes: float = 0.1  # [inputs] A regular series may lack so many and stay one.
    regular_residual: float = 1e-11  # [largest term] More is a loss of digits; else about 1e-15.
    cells_per_input: float = 4.0  # [finest cells per distinct input] Where they are irregular.
    most_functions: float = 2.5  # [inputs] Wider cells are taken where there were more functions,
    fewest_functions: int = 5000  # [functions] unless there are no more than these.
    regular_inputs: int = 4500  # [distinct inputs] or these, if they are regular,
    exact_irregular_inputs: int = 400  # [distinct inputs] or these, if distances do not repeat.
    start_lengths: int = 4  # [starts] Lengths tried where the user has given none.
    start_phase: float = 0.3  # [periods] Lengthscale of a season to begin with.
    sharp_phase: float = 0.12  # [shortest period] The same for all seasons, tried beside it.
    start_drift: float = 0.5  # [span] Lengthscale of a drift to begin with.
    # [periods] A season that changes faster is none: at 0.5, a cycle has a seventh in common with
    # the next. Measured: rolling forecasts, MASE of bike sharing 0.744 without, 0.735 with this, of
    # temperature 0.842, 0.837, and 0.916 with 2
    shortest_drift: float = 0.5
    unused_variance: float = 1e-4  # [noise variance] Components with less get a note.


@dataclass(frozen=True)
class DefaultPolicy:
    """The kernel that is chosen where the user gives none."""

    fewest_rows: int = 24  # [rows] With fewer, no season can be told from chance.
    most_rows: int = 100_000  # [rows] Only so many are looked at, the first ones.
    fewest_per_period: float = 4.0  # [typical distance of inputs] A shorter period does not show.
    fewest_periods: float = 2.2  # [periods] A season must have been seen so often.
    phases: int = 48  # [bins] A period is cut into at most these.
    least_share: float = 0.03  # [variance] Means by phase must explain this, beyond chance.
    # [squared standard error] The mean shape of a cycle must be larger. Measured: a week in six of
    # PM2.5 and of temperature, where there is none, reaches 2
    least_repeat: float = 3.0
    peaks: int = 6  # [peaks] Of the periodogram that are looked at.
    fewest_free_periods: float = 4.5  # [periods] The same of periods that only the data suggest.
    peak: float = 30.0  # [median of the periodogram nearby] Lower peaks are chance.
    peak_width: float = 0.08  # [frequency] A peak takes its surroundings with it.
    whole_steps: float = 0.05  # [periods over the span] Peaks as near whole steps are put there.
    most_harmonics: float = 12.0  # [harmonics] A peak beyond is a season of its own.
    own_peak: float = 0.3  # [highest peak] A peak of this part of its height is strong,
    strong_harmonics: float = 3.5  # [harmonics] and a season beyond these, as a day in a week.
    harmonic: float = 0.02  # [multiple] Periods that divide a longer one as exactly belong to it.

    # The trend
    most_means: int = 200  # [means] Of y over whole seasons, which show a trend.
    plain_means: int = 50  # [means] The same where there is no season.
    least_scatter: float = 1e-4  # [variance] With less noise, and no season, a trend has no bend.
    fewest_means: int = 12  # [means] With fewer, there is none.
    full_mean: float = 0.8  # [values of other means] Means of fewer are left out.
    level_lengths: tuple[float, ...] = (0.7, 1.5, 3.0, 6.0, 12.0, 25.0)  # [means] Of what returns,
    # [span] A longer one was not seen to return. Measured: a line that rises by three standard
    # deviations of the noise, 40 rows without a season: found 7 times in 10, and once without this
    longest_level: float = 0.25
    level_shares: tuple[float, ...] = (0.3, 0.6, 0.9, 0.99)  # [variance] and its part.
    wave_share: float = 0.2  # [variance less seasons] A wave beside the seasons explains more,
    wave_quality: float = 1000.0  # [quality] and begins with this: it lasts.
    first_level: float = 3.0  # [means] Training begins with this or more: apart from the Matérn.
    growth_period: float = 10.0  # [span] Of a wave: a tenth of it is a parabola but for 3 %.
    growth_quality: float = 1e5  # [quality] Of that wave: it keeps its shape.
    wander_length: float = 2.0  # [span] Of the Matérn that is an integrated random walk.
    wander_functions: int = 16  # [functions] It is smooth: eigenvalues fall as the fourth power.
    level_gain: float = 1.0  # [nats] What a lasting level must add to the evidence of the means,
    line_gain: float = 1.5  # [nats] or a trend: one that is not there does more harm than a lack,
    # [nats] or that its slope grows. Measured: carbon dioxide at Mauna Loa, five years ahead
    growth_gain: float = 0.5
    # [nats] or that it wanders: a parabola is simpler. Measured: temperature, docs/forecasting.md
    wander_gain: float = 2.0


@dataclass(frozen=True)
class SamplePolicy:
    """Small dense Gaussian processes on a sample of a field, which choose its default model."""

    fewest_rows: int = 8  # [rows] With fewer there is nothing to choose by: the plain model.
    # [rows] Up to these all are one set. A bound then takes as long as one of several small sets.
    whole_rows: int = 350
    # [rows] Of a set. On a lattice, neighbours are 10 x 11 of them. Measured: 9 sets, two terms: 20
    # ms per evidence with its gradient
    set_rows: int = 112
    learnt_sets: int = 3  # [sets] Of neighbours, of rows in a part and of rows anywhere, each.
    judged_sets: int = 6  # [sets] The same, of other rows, to judge what was learnt.
    # [rows] Anywhere, that trends are judged by. Measured: gaps of 900 rows, eight draws each: CRPS
    # 6 % lower on temperature than by small sets, 1 % on heights, 5 % higher on sea level
    spread_rows: int = 900
    # [nats] That a trend must gain there: less is not worth a bare mention (Kass and Raftery, Bayes
    # factors, 1995). Measured: heights, 9,000 rows: one that gains 0.4 has a CRPS of 119, none 108
    trend_gain: float = 1.0
    most_seen: int = 20_000  # [rows] From which the distance of neighbours is estimated.
    # [log of the number of values, nats] Of a hyperparameter: of all rows, Schwarz's criterion; of
    # several sets more, because they are not independent. Measured: heights, 2,500 rows: two terms
    # gain 1 nat less Schwarz's price, and fill gaps with an error of 162 m, one of 140 m
    prices: tuple[float, float] = (0.5, 1.0)
    # Holes that tell how wide bands must be
    fewest_around: int = 2_500  # [rows] With fewer, holes would overlap.
    # [holes] Enough to see how liveliness differs. Measured: sea level, 30,000 rows: they want 1.8
    # times the variance, and hidden clouds 2.1 times; where bands hold, 40 want 0.7 to 1.0, +- 0.1
    holes: int = 100
    around_rows: int = 220  # [rows] Around a place,
    hidden_rows: int = 50  # [rows] of which the nearest are hidden.
    clear_errors: float = 2.0  # [standard errors] By which more than 1 must be wanted.
    widest_bands: float = 4.0  # [variance] More is not believed.
    iterations: int = 40  # [iterations] Of L-BFGS for one model.
    tolerance: float = 2e-5  # [evidence] A step that gains less, relatively, is the last.
    shortest: float = 0.5  # [distance of neighbours] Shortest length.
    longest: float = 3.0  # [range] Longest: what is longer is a plane.
    variances: tuple[float, float] = (1e-4, 1e2)  # [variance of y] Of a term.
    noises: tuple[float, float] = (1e-6, 2.0)  # [variance of y] Of the noise.
    start_lengths: tuple[float, ...] = (0.02, 0.06, 0.2, 0.6)  # [range] Starts of one term.
    start_noises: tuple[float, ...] = (0.003, 0.3)  # [variance of y] The same of the noise.
    # [length of one term] The long and the short one of two to start with.
    start_pairs: tuple[tuple[float, float], ...] = ((1.5, 0.3), (4.0, 0.5), (8.0, 1.0))
    start_shares: tuple[float, ...] = (0.3, 0.7)  # [variance of one term] Of the long one of two.
    # [variance of the term, (h / lengthscale)**(2 nu)] Missed by splines of the default degree.
    # Measured: docs/fields.md, A distance in place of a product: 0.17 for nu = 1, 0.3 for nu = 2
    missed: float = 0.2
    widest_cell: float = 0.3  # [lengthscale] Of a term along an input,
    widest_width: float = 0.25  # [range] and of the finest, so that longer terms may join cells.
    # [nats per datum] An iteration on all rows that gains less is the last: the start is near.
    unnoticed_gain: float = 3e-5
    # [nats per datum] The same where the sample was all rows: what splines lack changes more.
    unnoticed_gain_of_few: float = 1e-3
    # [operations, by inputs] Of a bound with its gradient, for at most a few seconds of one core.
    # Measured: two inputs, 50,000 functions of degree 3: 1.6e10; three, 150 x 8 x 10 cells of
    # degree 2: 1e10, 20 x 20 x 20: 1.4e10. Temperature at 9,000 places and hours drawn at random:
    # MSE 0.162 in 7 s of CPU with 2.5e10, 0.143 in 12 s with 6e10; sea level at 90,000 places drawn
    # at random: 0.0029 in 9 s with 2.5e10, 0.0006 in 29 s with 2e11
    most_work: tuple[float, ...] = (0.0, 0.0, 2e11, 6e10)
    least_work: float = 1e9  # [operations] Of few rows, a bound takes no more than these,
    # [operations per row, by inputs] and these. Measured: heights at 9,000 places drawn at random,
    # two inputs: CRPS 0.113 in 5 s of CPU with 1e6, 0.107 in 10 s with 5e6; GPBoost 0.105 in 14 s.
    # Temperature at 900, three inputs: 0.319 in 2 s with 1e7, 0.311 in 5.5 s with 3e7; GPBoost
    # 0.310 in 2 s. Around gaps (tests/accuracy), 1,433 rows: RMSE 0.62 with 1e7, 0.48 with 2e7,
    # which pays for a sum
    work_per_row: tuple[float, ...] = (0.0, 0.0, 3e6, 2e7)
    # [ratio] Inputs whose ranges differ by more have other units, and no lengthscale in common.
    same_unit: float = 1e3
    leaf_functions: int = 150  # [functions] Boxes of a grid with fewer are not halved again.
    fewest_functions: int = 1_500  # [functions] Few rows have no use for more than these,
    functions_per_row: float = 10.0  # [functions per row] taken together with these.
    # [nats per datum] A model over three inputs whose cells need not be widened may be so much
    # worse. Measured: temperature at 900 places and hours drawn at random: MSE 0.40 with a joint
    # kernel on cells twice a length wide
    tolerated_judgement: float = 0.15
    # [limits of `FIELD`] Cells are kept below their numbers per place and per datum.
    places_share: float = 0.95
    # [nats per datum] The lower bound is trained on if it loses no more than the last of these, and
    # the first if possible,
    elbo_losses: tuple[float, ...] = (0.002, 0.005, 0.01)
    # [functions, by inputs] with so many functions: more take too long.
    elbo_functions: tuple[int, ...] = (0, 0, 3_000, 2_000)


@dataclass(frozen=True)
class TransformPolicy:
    """The transform of y that is chosen with "auto", and integrals of transformed y."""

    candidates: tuple[float, ...] = (1.0, 0.0)  # [power of Box and Cox] y itself, and log y.
    panel_nodes: int = 8  # [places] Of a Gauss-Legendre rule along one panel of an interval.
    # [integral] Panels are halved until the mean changes by less. Measured: 60 points, Matern32 +
    # Periodic: standard deviations are right to four digits then
    settled_mean: float = 1e-6
    most_nodes: int = 4096  # [places] Panels of an interval, or a box, have no more than these.
    most_joint_nodes: int = 2048  # [places] Covariances are of no more, of all boxes together.


@dataclass(frozen=True)
class SitesPolicy:
    """Likelihoods that are not Gaussian: steps to their sites, and training with them."""

    most_steps: int = 100  # [steps] To the sites of one state of the hyperparameters.
    # [variance of f] Prior of effects that have none, where the mean of y is not f itself: a
    # hundred e-folds each way, whatever the units,
    wide_prior: float = 1e4
    # [variance of f] or, where all y are alike or count for one row at most, ten, if the first f
    # are not larger. With a wider one, rates of counts that are all zero have no useful upper end.
    prior_of_alike: float = 100.0
    # [variance of f] Of a component, likewise: classes that can be separated would want more.
    most_variance: float = 400.0
    # [y, or exposure] Beyond this, or below its inverse, powers overflow: another unit is needed.
    extreme_units: float = 1e100
    # [sum of weights] Of rows that count for less in all, nothing can be learnt,
    least_rows: float = 0.1
    few_rows: float = 10.0  # [sum of weights] and little where weights make them less than this,
    small_weight: float = 0.1  # [mean weight] as those do that are meant to sum to one.
    # [squared distance from the centre of sums] Rounding leaves so much of a variance of zero,
    alike: float = 1e-12
    alike_each: float = 1e-13  # [centre] beside that of every target.
    plain_steps: int = 5  # [steps] Before what the last steps had in common is taken further,
    leap_from: int = 5  # [steps] as many of them.
    least_share: float = 1e-3  # [step] Shorter ones are not tried: rounding is in the way.
    slower: float = 0.7  # [step] Of one that lost, what later ones may be at most,
    faster: float = 1.1  # [ratio] and how that grows with every one that gains.
    # [ratio] Of the next step to the last: with less, the last went too far and is shortened.
    back: float = -0.3
    on: float = 0.6  # [ratio] The same: with more, the last step was much too short.
    # [step] The shortest and the longest of a cell that has a pace of its own. Measured: land and
    # sea, a kernel of variance 100: 20 steps in place of 44
    shortest_share: float = 0.15
    longest_share: float = 1.5  # [step] See there.
    least_kept: float = 0.1  # [ratio] Of a cell's weight, after a step that lessens it.
    # [relative] How well bounds are known: a step may lose as much.
    rounding: float = 1e-11
    # [nats per unknown] The same, by determinants. Measured: 900 splines of two inputs, 1e-6 nats
    rounding_by_size: float = 3e-9
    # [nats per unknown] Divergences are positive; one that is below this is wrong altogether.
    rounded_divergence: float = 1e-3
    short_steps: int = 2  # [steps] In a row that gain nothing, where they cannot be longer.
    settled: float = 1e-9  # [nats] A step that gains less is the last,
    settled_per_datum: float = 1e-9  # [nats per datum] and so much more where data are many.
    unnoticed: float = 1e-3  # [nats] Where steps end, they have ended well if the last gained less.
    # [nats per datum] And so much more where each step reads rows that are many: densities of y
    # change by as little. Measured: land and sea, 920,000 rows, 5 steps in place of 29.
    unnoticed_per_datum: float = 1e-7
    # [steps] After these, a share of what states of training may lose is enough: where all y but
    # one are alike, sites settle slowly, to no use.
    patience: int = 6
    settled_late: float = 0.1  # [ratio] This share.
    settled_in_training: float = 1e-4  # [nats] The same, at states that training passes through.
    settled_in_training_per_datum: float = 1e-6  # [nats per datum] And where data are many.
    # [nats per datum] And at the first state of all, from which training goes far. Measured: a
    # million pixels of land and sea gain 9,000 nats with the first sites, 5,000 with the kernel.
    settled_at_first_per_datum: float = 3e-5
    robust_steps: int = 3  # [steps] With positive weights first, where others may be negative.
    most_turns: int = 4  # [turns] Of climbing on the cells of sites, and choosing cells again.
    settled_turn: float = 1e-5  # [nats per datum] A turn that gains less is the last.
    most_cells: int = 1 << 14  # [cells] Of one input, whose moments give nodes of a quadrature.
    # [cells] On each of a posterior of one input: more nodes would cost time only.
    rule_cells: int = 2
    # [cells] The most of one input that are summed: halves of these, should the quadrature err.
    # Measured: benchmarks/likelihoods.py, 100,000 rows: 0.06 of 0.2 s to sum a million cells
    finest_cells: int = 1 << 17
    rows_of_box: float = 25.0  # [rows] On average, in boxes whose means of y training begins with.
    most_boxes: int = 64  # [boxes] The most of these along an input.
    start_steps: int = 8  # [steps] By Newton's method, from the f of a box to that of a row.
    longest_start_step: float = 2.0  # [f] Of these, so that all together bridge 16 e-folds.
    # [nats per row] A component with less than this in its sites is taken for lost: they are
    # computed anew and training begins afresh. Of `variance * weight / 2`, half that of a row.
    lost_component: float = 1e-4
    boxes: int = 4  # [boxes] Of a large field, to train on first,
    box_sides: tuple[int, ...] = (0, 0, 32, 16, 8)  # [cells, by inputs] with so many along inputs.
    box_gap: int = 4  # [sides per gap] Between two of them, which should hardly feel each other.
    box_rounds: int = 10  # [rounds] On them, before one on all of the field.
    box_gain: float = 1e-3  # [nats per datum] Which gains less where boxes have told enough.
    # [nats per datum] On all of it, a step to the sites that gains less is the last. Measured: land
    # and sea, 200 x 200 splines: log density of hidden pixels -0.0192, with 1e-7 -0.0191
    box_settled: float = 3e-5
    most_rule_error: float = 0.01  # [nats] Of the bound, by sums per cell in place of rows.
    # [nats] The same where no rows are left to look at: estimates are some 20 times too large.
    noted_rule_error: float = 0.1
    # [ratio] By which it falls where cells become half as wide, at least. Measured: 140 to 5,000
    rule_gain: float = 100.0
    # [rows] Of a sample to train on first, where all rows have to be read again for every step,
    sample_rows: int = 4000
    sample_share: int = 10  # [rows per row] or one of so many, where these are more.
    least_left: float = 1e-9  # [share] Of f that others than a row itself must tell of it.
    farthest: float = 1e4  # [ratio] Of hyperparameters, from where a turn began.
    # Rounds of training: the kernel with the sites held, then few steps of these.
    most_rounds: int = 20  # [rounds] Most take three to six.
    climb_of_round: int = 12  # [iterations] With the sites held; the sites then change the optimum.
    farthest_of_round: float = 20.0  # [ratio] Of hyperparameters: farther off, held sites mislead.
    difference: float = 0.05  # [log] Of hyperparameters, whose slopes show the curvature.
    steps_of_round: int = 3  # [steps] Of the sites, after that of the new kernel itself.
    halvings: int = 5  # [times] That the move of a round is tried shorter.
    settled_round: float = 1e-3  # [nats] A round that gains less is the last,
    # [nats per datum] and so much more where data are many: a nat in a million rows.
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

    settled: float = 1e-6  # [nats] A step to the sites of g that gains less is the last,
    most_steps: int = 4  # [steps] and there are no more than so many for a posterior of f.
    turns: int = 2  # [turns] Of training both processes, and choosing the cells of g anew.
    # [bins] Of one input, in which many rows are summed before training; each becomes two rows,
    least_bins: int = 4096
    # [bins per cell of f] or as many as these. Measured: bounds of 40,000 rows to 0.01 nats.
    bins_per_cell: int = 16
    most_bins: int = 1 << 17  # [bins] More would take as long as the rows themselves.
    worth: float = 4.0  # [rows per bin] With fewer, sums would save no time.
    # [ratio] Cells of f may be so much narrower than with one noise variance for all rows: where
    # there is little noise, more can be seen.
    finer: int = 4
    # [cells per row] Of f, or `SITES.most_cells` if that is more. Measured: nitrogen oxides by the
    # hour, 6,169 rows, 65,536 cells 29 s.
    cells_per_row: float = 0.5
    # [rows per cell] Of g, on average, or more: a squared residual says little about a variance.
    rows_per_cell: float = 4.0
    least_cells: int = 1024  # [cells] Of g, which may be fewer rows each.
    same: float = 1.1  # [ratio] Of deviations: noise that varies by less is one for all rows.


@dataclass(frozen=True)
class SavingPolicy:
    """Model files, unless all is to be written."""

    most_times_data: float = 10.0  # [bytes of the data's columns] What arrays may take in all,
    always: int = 1 << 16  # [bytes] or this, however few data there are.
    # [seconds] Unlocked temporary files untouched for so long are of killed writers: living ones
    # lock them at once.
    left_after: float = 60.0
    # [bytes] A file may hold arrays of so much in all, however small it is: empty cells shrink to
    # next to nothing.
    believed: int = 1 << 29
    most_expansion: float = 64.0  # [bytes of the file] Or of so much; zeros alone give a thousand.
    largest_number: float = 1e200  # [any unit] Greater ones in a file are no sums or coefficients.
    most_outer_cells: int = 1 << 16  # [cells] Beyond the data: more were never written.
    most_phases: int = 1 << 15  # [functions] Around a circle: all couple, more fit into no memory.


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


DATA = DataPolicy()
START = StartPolicy()
LINE = LinePolicy()
FIELD = FieldPolicy()
PILOT = PilotPolicy()
MEMORY = MemoryPolicy()
VERDICT = VerdictPolicy()
SERIES = SeriesPolicy()
DEFAULT = DefaultPolicy()
SAMPLE = SamplePolicy()
TRANSFORM = TransformPolicy()
SAVING = SavingPolicy()
SITES = SitesPolicy()
NOISE = NoisePolicy()
EVENTS = EventsPolicy()


def halvings(cells: int) -> int:
    """Return the power of two that a number of cells should divide by.

    Such a grid can be coarsened to `LINE.first_cells`.
    """
    return 1 << max(0, (cells // LINE.first_cells).bit_length() - 1)
