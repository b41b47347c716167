"""Models that are chosen from the data: series with seasons, and samples of fields."""

from __future__ import annotations

from dataclasses import dataclass


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
    # [rows] Of more, means over so many cells are looked at; for shorter periods, the first ones.
    most_rows: int = 100_000
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
    # [nats] or that it wanders. Measured: temperature, docs/forecasting.md
    wander_gain: float = 2.0
    # [nats] It wanders where that gains so much more than growth: a parabola is simpler. Measured:
    # means over days or weeks of 19 series, 322 origins: errors are 0.3 % larger with 2.0, 0.8 %
    # with 0.0; with a growth_gain of 2.0 and a wander_gain of 3.0 they are 1 % larger
    simpler_growth: float = 0.5


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
    # [range] The same under the evidence, which does not tell training that cells are too wide,
    # where places are as dense. Measured: nine days of ssh_med_2005q2, 30 x 50 cells, 15 % hidden
    # in blocks: RMSE 3.03 mm with four cells along the days, 2.73 mm with eight; a line between
    # the days around 3.01 mm
    widest_of_evidence: float = 0.125
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


SERIES = SeriesPolicy()
DEFAULT = DefaultPolicy()
SAMPLE = SamplePolicy()
