"""Models that are chosen from the data: series with seasons, and samples of fields."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class SeriesPolicy:
    """Series: components of one input on cells of their own."""

    # [functions] An interval that elimination begins with has about so many. Measured: (b) of
    # benchmarks/series.py, 12,000 hours: a bound takes 31 ms with 34 of them, 134 ms with 270
    leaf_functions: int = 32
    # [columns] It has at least this part of the number of columns, which all intervals share.
    leaf_columns: float = 0.5
    # [bytes] If the matrices of all intervals take more, the intervals are doubled. Measured:
    # 278,861 minutes of power: 2.4 GB in all without, 1.8 GB with this, in the same time
    leaf_bytes: float = 3e8
    # [ratio] They are doubled only if this saves memory by such a factor, because it costs
    # operations.
    leaf_saving: float = 1.3
    # [bytes] In automatic plans, the drift of a season gets fewer phases if these matrices take
    # more.
    most_leaf_bytes: float = 1e9
    # [operations] The same if one bound with its gradient takes more. Measured: traffic by the
    # hour, 40,000 rows: 4.7e10, 2 CPU s; with a third of the phases 0.05 nats per row less. 20,000
    # minutes of power want 1.2e11
    most_drift_flops: float = 6e10
    wave_degree: int = 9  # [degree] Of the polynomials of oscillators.
    # [doublings] Oscillators have cells at least this much wider than the finest, on which high
    # powers lose digits.
    least_wave_level: int = 2
    fewest_cells: int = 4  # [cells] Of any component along the line, at least.
    cells_per_wave: int = 8  # [finest cells] In a period of an oscillator, at least.
    fewest_finest_cells: int = 16  # [cells] However few inputs there are.
    most_finest_cells: int = 1 << 17  # [cells] Each takes some kilobytes.
    # [periods] Rounding its period may shift a season by at most this over the whole domain.
    period_drift: float = 1e-3
    # [distinct inputs] The common part of several periods may need at most so many cells.
    most_extra_cells: float = 8.0
    least_most_cells: int = 4096  # [cells] That limit is never lower than this.
    fewest_phases: int = 8  # [functions] Around a circle, at least.
    # [cells] The period of irregular inputs is cut into so many wide cells, or up to twice as many;
    # a period of few cells into `fewest_phases`, or up to twice as many.
    medium_phases: int = 32
    # [functions] Around a circle, at most: all of them couple with each other.
    most_phases: int = 256
    # [nats per datum] What the cells may cost the bound, stage by stage.
    tolerances: tuple[float, ...] = (0.05, 0.01, 0.004)
    stages: int = 5  # [plans] Training ends after so many, even if the next would differ.
    # [operations] Training also ends after a plan whose bounds take more.
    costly_flops: float = 5e9
    # [nats per datum] A climb ends at an iteration that gains less, on costly plans and on all but
    # the last. Measured: 35,064 hours of traffic, patterns and a drift: half as many bounds, 12
    # nats less
    loose_gain: float = 1e-4
    last_gain: float = 3e-5  # [nats per datum] The same on the last plan.
    # [functions] Oscillators get splines only if these need fewer functions by this factor.
    spline_handicap: float = 4.0
    # [inputs] Longer series are first learnt on stretches of these lengths.
    window_inputs: tuple[int, ...] = (720, 4000)
    # [starts] On the first stretch, so many of the best starts are climbed from.
    window_attempts: int = 3
    # [operations] A series whose bound takes no more is climbed from one other start beside what
    # stretches taught. Measured: PM2.5, 7,813 hours, `Matern12 + Matern32`: a bound 120 nats higher
    second_start_flops: float = 1e9
    cheap_attempts: int = 3  # [starts] The same on the whole of a series whose bounds are cheap.
    # [nats per datum] No further start is tried once the best two climbs end this near to each
    # other.
    agreement: float = 1e-3
    # [nats] A climb may be left for the end of an earlier one if the data tell the two points apart
    # by less than this. Measured: 84 fits of 700 hours: 2 % fewer bounds, benchmarks/series.py (d)
    # 20 %
    same_slopes: float = 1.0
    # [functions] Up to these, everything is learnt on the whole series at once.
    cheap_functions: int = 10_000
    second_looks: int = 4  # [climbs] At most so many start from states with other qualities.
    # [quality] The quality that was reached is multiplied by these.
    other_qualities: tuple[float, ...] = (0.03, 30.0, 1000.0)
    # [stretch] A stretch can show seasons and waves whose periods are shorter than this part of it.
    window_share: float = 0.4
    # [variance of y] A stretch with less variance says nothing about the whole series.
    window_spread: float = 0.01
    # [turns] Two periods count as one if they differ by less over the span of the data.
    same_turns: float = 0.1
    swinging_quality: float = 1.0  # [quality] An oscillator of lower quality shows no period.
    # [period] Training changes a period that the user gave by no more than this factor.
    given_period: float = 2.0
    start_quality: float = 300.0  # [quality] Oscillators are also started from this.
    exact_inputs: int = 1200  # [distinct inputs] Up to these, no splines are used.
    # [distinct inputs] Up to these, none are used if splines would take more operations.
    most_exact_inputs: int = 3000
    # [inputs] A series counts as regular if at most this part of its inputs is missing.
    most_holes: float = 0.1
    # [largest term] A larger residual means that digits were lost; about 1e-15 is usual.
    regular_residual: float = 1e-11
    # [finest cells per distinct input] In the finest automatic grid: at most so many if inputs are
    # regular, about so many if not.
    cells_per_input: float = 4.0
    # [inputs] If a plan has more functions than this, wider cells are taken,
    most_functions: float = 2.5
    fewest_functions: int = 5000  # [functions] unless there are no more than these.
    # [distinct inputs] Up to these, no splines are used if the inputs are regular.
    regular_inputs: int = 4500
    # [distinct inputs] The limit that replaces the others if distances do not repeat.
    exact_irregular_inputs: int = 400
    start_lengths: int = 4  # [starts] Number of lengths that are tried if the user has given none.
    start_phase: float = 0.3  # [periods] Lengthscale of a season at the start.
    # [shortest period] A second start has this lengthscale for all seasons.
    sharp_phase: float = 0.12
    start_drift: float = 0.5  # [span] Lengthscale of a drift at the start.
    # [periods] Shortest lengthscale of a drift: what changes faster is no season. At 0.5, a cycle
    # has a seventh in common with the next. Measured: rolling forecasts, MASE of bike sharing 0.744
    # without, 0.735 with this, of temperature 0.842, 0.837, and 0.916 with 2
    shortest_drift: float = 0.5
    unused_variance: float = 1e-4  # [noise variance] A component with less variance gets a note.


@dataclass(frozen=True)
class DefaultPolicy:
    """The kernel that is chosen where the user gives none."""

    fewest_rows: int = 24  # [rows] With fewer, no season can be told from chance.
    # [rows] In longer series, means over at most so many cells are searched for periods. Shorter
    # periods are searched for in so many of the first rows.
    most_rows: int = 100_000
    fewest_per_period: float = 4.0  # [typical distance of inputs] Shorter periods cannot be seen.
    fewest_periods: float = 2.2  # [periods] A season must have been seen at least this often.
    phases: int = 48  # [bins] A period is cut into at most so many.
    # [rows] To see what is rough beside a season, there are more phases, with so many rows each.
    rows_per_phase: int = 8
    # [variance] Means by phase must explain this share, beyond what chance explains.
    least_share: float = 0.03
    # [squared standard error] The squared mean shape of a cycle must exceed this. Measured: a week
    # in six of PM2.5 and of temperature, where there is none, reaches 2
    least_repeat: float = 3.0
    # [variance less seasons] The shape of a season drifts if values a period apart have so much
    # more in common than values that are a part of a period closer or further apart. Measured: 0.03
    # to 0.55 in six series by the hour and the week, -0.02 and -0.05 in 34,200 and 18,000 minutes
    # of power, which take a third of the time without a drift, and 1 nat less. Of a fixed season
    # beside a slow process it may be 0.03 as well: then the drift stays, and takes time only
    least_drift: float = 0.01
    drift_phases: int = 24  # [bins] A period is cut into at most so many for that.
    drift_aside: float = 0.3  # [period] How much closer or further.
    peaks: int = 6  # [peaks] Of the periodogram, so many are examined.
    # [periods] The same as `fewest_periods` for a period that only the data suggest.
    fewest_free_periods: float = 4.5
    peak: float = 30.0  # [median of the periodogram nearby] A lower peak may be chance.
    peak_width: float = 0.08  # [frequency] Frequencies as near as this to a peak belong to it.
    # [periods over the span] A period this near to a whole number of steps is set to that number.
    whole_steps: float = 0.05
    # [harmonics] A period that is shorter than another by more than this factor is a season of its
    # own.
    most_harmonics: float = 12.0
    own_peak: float = 0.3  # [highest peak] A peak of at least this part of its height is strong.
    # [harmonics] The same as `most_harmonics` for strong peaks, such as a day in a week.
    strong_harmonics: float = 3.5
    # [multiple] A period that divides a longer one as exactly as this belongs to it.
    harmonic: float = 0.02

    # The trend
    most_means: int = 200  # [means] Of y over whole seasons, at most; they show a trend.
    plain_means: int = 50  # [means] The same if there is no season.
    # [variance] With less noise and no season, no bend of a trend is looked for.
    least_scatter: float = 1e-4
    fewest_means: int = 12  # [means] With fewer, there is no trend.
    # [values of other means] A mean of fewer values than this part is left out.
    full_mean: float = 0.8
    # [means] Lengthscales of a level that returns to the mean.
    level_lengths: tuple[float, ...] = (0.7, 1.5, 3.0, 6.0, 12.0, 25.0)
    # [span] A level with a longer lengthscale has not been seen to return. Measured: a line that
    # rises by three standard deviations of the noise, 40 rows without a season: found 7 times in
    # 10, and once without this
    longest_level: float = 0.25
    # [variance] Shares of the variance that such a level has.
    level_shares: tuple[float, ...] = (0.3, 0.6, 0.9, 0.99)
    # [variance less seasons] An oscillator beside the seasons must explain more than this.
    wave_share: float = 0.2
    wave_quality: float = 1000.0  # [quality] It starts from this, because it lasts.
    # [means] Training starts from this length or a longer one, to keep the level apart from the
    # Matérn.
    first_level: float = 3.0
    # [span] Of the wave that stands for steady growth: a tenth of its period is a parabola but for
    # 3 %.
    growth_period: float = 10.0
    growth_quality: float = 1e5  # [quality] Of that wave, which keeps its shape.
    # [span] Lengthscale of the Matérn that stands for an integrated random walk.
    wander_length: float = 2.0
    # [functions] Number of its eigenfunctions that are used: eigenvalues fall as the fourth power.
    wander_functions: int = 16
    level_gain: float = 1.0  # [nats] A lasting level must add this to the evidence of the means.
    # [nats] A straight trend must add this: a wrong trend does more harm than a missing one.
    line_gain: float = 1.5
    # [nats] A slope that grows must add this to the evidence of a straight trend. Measured: carbon
    # dioxide at Mauna Loa, five years ahead
    growth_gain: float = 0.5
    # [nats] A slope that wanders must add this to it. Measured: temperature, docs/forecasting.md
    wander_gain: float = 2.0
    fewest_sampled: int = 2_700  # [rows] With fewer, sets of them would overlap.
    # [sets] Of every kind, to learn from, and as many to judge by. Measured: minutes of power: with
    # three, gains of the same model on sets to learn from and to judge by differ in sign
    sampled_sets: int = 8
    # [distance of neighbours] Starting lengthscales of the only process.
    sampled_lengths: tuple[float, ...] = (3.0, 10.0, 40.0, 200.0)
    # [length of the only process] Starting lengthscales of the longer and the shorter of two.
    sampled_pairs: tuple[tuple[float, float], ...] = ((5.0, 1.0), (5.0, 0.2), (30.0, 0.3))
    # [nats] A wandering slope must gain this much more than a growing one, because a parabola is
    # simpler. Measured: means over days or weeks of 19 series, 322 origins: errors are 0.3 % larger
    # with 2.0, 0.8 % with 0.0; with a growth_gain of 2.0 and a wander_gain of 3.0 they are 1 %
    # larger
    simpler_growth: float = 0.5


@dataclass(frozen=True)
class SamplePolicy:
    """Small dense Gaussian processes on a sample of a field, which choose its default model."""

    # [rows] With fewer, there is nothing to choose by, and the plain model is used.
    fewest_rows: int = 8
    # [rows] Up to these, all rows form one set. Its evidence takes as long as that of several small
    # sets.
    whole_rows: int = 350
    # [rows] In a set. On a lattice, sets of neighbours are blocks of 10 x 11. Measured: 9 sets, two
    # terms: 20 ms per evidence with its gradient
    set_rows: int = 112
    # [sets] For learning, so many each of neighbours, of rows in one part, and of rows anywhere.
    learnt_sets: int = 3
    # [sets] The same in addition, for models that are among the best, and to judge all models by.
    # Measured: 9,000 places of the sea level: a sum that learnt from nine sets is 0.33 nats per
    # datum behind a single term on others, and 0.09 ahead when both have learnt from all
    further_sets: int = 6
    # [rows] With fewer, the first sets hold most rows, and models learn from them alone. Measured:
    # gaps of 900 heights, six draws: CRPS 85 if they learn from all sets, 80 if not, in half the
    # time
    fewest_further: int = 2_500
    # [nats per datum] Models that are further behind the best on the first sets learn no further.
    contending: float = 0.06
    further_iterations: int = 15  # [iterations] Of L-BFGS on all sets: the start is nearly right.
    # [rows] Trends are judged by so many rows from anywhere. Measured: gaps of 900 rows, eight
    # draws each: CRPS 6 % lower on temperature than by small sets, 1 % on heights, 5 % higher on
    # sea level
    spread_rows: int = 900
    # [nats] A trend must gain this on those rows: strong evidence (Kass and Raftery, Bayes factors,
    # 1995), because a wrong trend does more harm in gaps than a missing one. Measured: heights,
    # 9,000 rows: one that gains 1.2 has a CRPS of 119, none 108; temperature, 900 rows: gains of 8
    # and of 28
    trend_gain: float = 3.0
    # [rows] The distance between neighbours is estimated from at most so many.
    most_seen: int = 20_000
    # [log of the number of values, nats] Price of a hyperparameter: that of Schwarz's criterion if
    # the sample is all rows; more for several sets, because they are not independent. Measured:
    # heights, 2,500 rows: two terms gain 1 nat less Schwarz's price, and fill gaps with an error of
    # 162 m, one of 140 m
    prices: tuple[float, float] = (0.5, 1.0)
    # Holes that tell how wide bands must be
    fewest_around: int = 2_500  # [rows] With fewer, holes would overlap.
    # [holes] Enough to see how much the variability differs between places. Measured: sea level,
    # 30,000 rows: they want 1.8 times the variance, and hidden clouds 2.1 times; where bands hold,
    # 40 want 0.7 to 1.0, +- 0.1
    holes: int = 100
    around_rows: int = 220  # [rows] In and around each hole.
    hidden_rows: int = 50  # [rows] The nearest of these, which are hidden.
    # [standard errors] The factor that the errors call for must exceed 1 by this.
    clear_errors: float = 2.0
    widest_bands: float = 4.0  # [variance] A larger factor is not believed.
    iterations: int = 40  # [iterations] Of L-BFGS for one model.
    tolerance: float = 2e-5  # [evidence] The climb ends at a step whose relative gain is less.
    shortest: float = 0.5  # [distance of neighbours] Shortest lengthscale.
    longest: float = 3.0  # [range] Longest lengthscale: a longer one makes a plane.
    variances: tuple[float, float] = (1e-4, 1e2)  # [variance of y] Of a term.
    noises: tuple[float, float] = (1e-6, 2.0)  # [variance of y] Of the noise.
    # [range] Starting lengthscales of a single term.
    start_lengths: tuple[float, ...] = (0.02, 0.06, 0.2, 0.6)
    start_noises: tuple[float, ...] = (0.003, 0.3)  # [variance of y] Starting values of the noise.
    # [length of one term] Starting lengthscales of the long and the short term of a sum.
    start_pairs: tuple[tuple[float, float], ...] = ((1.5, 0.3), (4.0, 0.5), (8.0, 1.0))
    # [variance of one term] Share of the long term of a sum at the start.
    start_shares: tuple[float, ...] = (0.3, 0.7)
    # [variance of the term, (h / lengthscale)**(2 nu)] Missed by splines of the default degree.
    # Measured: docs/fields.md, A distance in place of a product: 0.17 for nu = 1, 0.3 for nu = 2
    missed: float = 0.2
    widest_cell: float = 0.3  # [lengthscale] Widest cells of a term along an input.
    # [range] Widest cells of the finest term, so that longer terms may join cells.
    widest_width: float = 0.25
    # [range] The same under the evidence if places are dense enough, because the evidence does not
    # tell training that cells are too wide. Measured: nine days of ssh_med_2005q2, 30 x 50 cells,
    # 15 % hidden in blocks: RMSE 3.03 mm with four cells along the days, 2.73 mm with eight; a line
    # between the days around 3.01 mm
    widest_of_evidence: float = 0.125
    # [nats per datum] Training on all rows ends at an iteration that gains less, because it starts
    # near the maximum.
    unnoticed_gain: float = 3e-5
    # [nats per datum] The same if the sample was all rows: what the splines miss then matters more.
    unnoticed_gain_of_few: float = 1e-3
    # [operations, by inputs] Of a bound with its gradient: at most a few seconds of one core.
    # Measured: two inputs, 50,000 functions of degree 3: 1.6e10; three, 150 x 8 x 10 cells of
    # degree 2: 1e10, 20 x 20 x 20: 1.4e10. Temperature at 9,000 places and hours drawn at random:
    # MSE 0.162 in 7 s of CPU with 2.5e10, 0.143 in 12 s with 6e10; sea level at 90,000 places drawn
    # at random: 0.0029 in 9 s with 2.5e10, 0.0006 in 29 s with 2e11
    most_work: tuple[float, ...] = (0.0, 0.0, 2e11, 6e10)
    least_work: float = 1e9  # [operations] With few rows, a bound may take these operations,
    # [operations per row, by inputs] and these in addition. Measured: heights at 9,000 places drawn
    # at random, two inputs: CRPS 0.113 in 5 s of CPU with 1e6, 0.107 in 10 s with 5e6; GPBoost
    # 0.105 in 14 s. Temperature at 900, three inputs: 0.319 in 2 s with 1e7, 0.311 in 5.5 s with
    # 3e7; GPBoost 0.310 in 2 s. Around gaps (tests/accuracy), 1,433 rows: RMSE 0.62 with 1e7, 0.48
    # with 2e7, which pays for a sum
    work_per_row: tuple[float, ...] = (0.0, 0.0, 3e6, 2e7)
    # [ratio] If the ranges of inputs differ by more, their units differ, and they have no common
    # lengthscale.
    same_unit: float = 1e3
    leaf_functions: int = 150  # [functions] Boxes of a grid with fewer are not halved again.
    fewest_functions: int = 1_500  # [functions] With few rows, more than these are of no use,
    functions_per_row: float = 10.0  # [functions per row] and these in addition.
    # [nats per datum] Over three inputs, a model whose cells need not be widened may be worse than
    # the best by this. Measured: temperature at 900 places and hours drawn at random: MSE 0.40 with
    # a joint kernel on cells twice a length wide
    tolerated_judgement: float = 0.15
    # [variance of y] If there is none, models whose splines miss more on the cells that can be had
    # are not used. Measured: temperature at 900 places and hours drawn at random: MSE 0.44 with a
    # product that misses 0.34, 0.32 with one that misses 0.24; gaps of 8,925 temperatures: RMSE
    # 1.54 with the product that misses least, 0.01, and 1.02 with the one that is chosen, 0.02
    most_missed: float = 0.25
    # [evidence] Of what the others lose if that is noise, this part counts: near data all is lost,
    # in gaps hardly anything.
    counted_loss: float = 0.5
    # [limits of `FIELD`] The numbers of cells per place and per datum stay below this part of their
    # limits.
    places_share: float = 0.95
    # [nats per datum] The lower bound is the objective if cells with few enough functions lose no
    # more than the last of these. The first that can be met is taken.
    elbo_losses: tuple[float, ...] = (0.002, 0.005, 0.01)
    # [functions, by inputs] Most functions for training on the lower bound: more take too long.
    elbo_functions: tuple[int, ...] = (0, 0, 3_000, 2_000)


SERIES = SeriesPolicy()
DEFAULT = DefaultPolicy()
SAMPLE = SamplePolicy()
