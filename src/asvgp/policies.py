"""Thresholds of the automatic choices, each with its unit, its reason and its measurement.

There is one frozen dataclass for each kind of choice, and one instance of it that the library
uses: `DATA`, `START`, `LINE`, `FIELD`, `PILOT`, `MEMORY`, `VERDICT`. Its docstring has an entry
for every threshold, "name [unit]: reason Measured: where", without the last part where no
measurement is recorded; `table` reads them. Tolerances of the linear algebra stay beside the code
that they belong to.

Examples
--------
>>> from asvgp.policies import FIELD, table
>>> FIELD.longest_condition
100000000000.0
>>> [row.unit for row in table() if row.name == "FIELD.longest_condition"]
['condition number']
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from inspect import cleandoc
from typing import NamedTuple

NOT_RECORDED = "not recorded"


@dataclass(frozen=True)
class DataPolicy:
    """How much of the data is looked at before the pass, and what y must be like.

    many_rows [rows]: From here on an automatic grid is sized without looking at all rows, so that a
      stream and an array of the same rows get the same grid. Measured: docs/saving.md: files of one
      input below and above this number
    mean_rows [rows]: A mean to be taken off y, so that digits are kept, is guessed from these.
    wide_prior [variance that the data suggest]: Default of a fixed effect: too wide to matter.
    widest_range [units of X]: Powers of wider ranges overflow.
    smallest_power [weighted mean square of y]: Of less, squares of pivots vanish.
    largest_power [weighted mean square of y]: Of more, squares of pivots overflow.
    constant_rounding [mean square of y]: Sums leave this of a variance of zero, by rounding.
    constant_suspected [mean square of y]: With less variance, y itself is looked at.
    distant_mean [variances of y]: From this squared mean on, zero as prior mean needs a warning.
    """

    many_rows: int = 1 << 18
    mean_rows: int = 4096
    wide_prior: float = 1e6
    widest_range: float = 1e100
    smallest_power: float = 1e-250
    largest_power: float = 1e150
    constant_rounding: float = 1e-13
    constant_suspected: float = 1e-9
    distant_mean: float = 1e4


@dataclass(frozen=True)
class StartPolicy:
    """Starting values of training, for any number of inputs.

    least_noise [variance of y, with several inputs its mean square]: A start has at least this.
    much_noise [mean square of y]: A second start: lengths too short for the cells look like noise.
    shared_cells [share of the data beyond the first of a cell]: With more, the noise is estimated
      within cells, otherwise between neighbouring ones.
    revived_share [prior variance]: On a finer grid, a component of a sum is tried as it was given,
      with this variance. Measured: CHANGELOG 0.1.0: a cycle too short for the first cells is not
      taken for noise
    """

    least_noise: float = 1e-6
    much_noise: float = 0.3
    shared_cells: float = 0.2
    revived_share: float = 0.3


@dataclass(frozen=True)
class LinePolicy:
    """Training and resolution of one input.

    most_degree [degree of splines]: Up to here the chain keeps its digits. Measured: 48 functions,
      noise 1e-2 to 1e-10: the bound rises with every degree from 2 to 6
    first_cells [cells]: An automatic resolution begins here: a bound costs little but overhead.
    cheap_cells [cells]: A bound is so cheap up to here that trying many starts costs nothing; a
      given num_basis is trained on such a grid first.
    coarsening_step [cells per coarser cell]: Between grids that a given num_basis is trained on.
    settled_gain [nats per datum]: Refinement ends when two doublings together gain less. Measured:
      docs/mathematics.md, Training; CHANGELOG 0.1.0
    unsettled_gain [nats per datum]: If the finest grid's last doubling gained more, a note says so.
    cells_per_gap [cells per typical gap between points]: With fewer, what the splines miss of a
      rough field with little noise is taken for noise. Measured: commit 5a7f4cd: 90,000 rows of a
      seismogram, Matern32: with 4 per gap noise 0.034 and NLPD 0.412, with 16 noise 0.0087 and
      0.314; exact (celerite2) 0.0037 and 0.284
    fewest_finest_cells [cells]: The finest automatic grid has at least these: they cost nothing.
    most_finest_cells [cells]: The finest automatic grid of a stream, or of many points, bounds
      memory and file size. Measured: docs/saving.md: 34 MB for two million points
    most_finest_cells_in_memory [cells]: The same where all points are in memory and fewer than
      `DATA.many_rows`. Measured: commit 5a7f4cd: 2,097,154 functions on 90,000 rows;
      docs/saving.md: 7 MB compressed
    shortest_lengthscale [knot spacings (half of it for a period)]: Under the evidence, splines on
      wider knots are another process, which training would exploit.
    least_noise [variance of y]: Lower limit of the noise: variance / noise stays far from 1 / eps.
    least_noise_of_power [mean square of y]: Lower limit of the noise where y is all but constant.
    most_noise [mean square of y]: Upper limit of the noise.
    start_lengths [lengths]: Starts from two knot spacings to half of the domain, in equal ratios.
    finer_lengths [knot spacings]: Starts that only finer knots express, tried on refined grids.
    finer_length_of_sums [knot spacings]: A further one for sums, whose components differ in scale.
    noise_trap [noise estimate]: If training ends with more noise, it may have taken short lengths
      for noise: starts with less are tried too. Measured: commit 00e771d adds it; no figures
    second_looks [starts]: So many on cheap grids, and on others.
    hidden_structure [scatter within cells]: Refinement goes on while finer cells scatter less by
      more than this and four standard errors.
    unknown_noise [mean square of y]: Start of the noise where all points share one cell.
    finest_lattice [shortest interval]: A lattice of their ends that is finer is none.
    widest_lattice [longest interval]: Knots farther apart would fit by coincidence.
    lattice_tries [distances]: So many distances of knots are tried, from the widest interval on.
    fewest_uncut_cells [cells]: Fewer are not worth having.
    """

    most_degree: int = 6
    first_cells: int = 256
    cheap_cells: int = 1024
    coarsening_step: int = 8
    settled_gain: float = 1e-3
    unsettled_gain: float = 1e-2
    cells_per_gap: float = 16.0
    fewest_finest_cells: int = 1 << 13
    most_finest_cells: int = 1 << 19
    most_finest_cells_in_memory: int = 1 << 21
    shortest_lengthscale: float = 4.0
    least_noise: float = 1e-9
    least_noise_of_power: float = 1e-12
    most_noise: float = 1e3
    start_lengths: int = 7
    finer_lengths: tuple[float, ...] = (3.0, 12.0)
    finer_length_of_sums: float = 100.0
    noise_trap: float = 1.5
    second_looks: tuple[int, int] = (4, 1)
    hidden_structure: float = 0.01
    unknown_noise: float = 0.1

    # Knots that cut none of the intervals that y is averaged over
    finest_lattice: float = 1e-4
    widest_lattice: float = 4.0
    lattice_tries: int = 1000
    fewest_uncut_cells: int = 8


@dataclass(frozen=True)
class FieldPolicy:
    """Training and resolution of several inputs.

    most_degree [degree of splines]: With degree 5 along two inputs no cells both resolve a process
      (`shortest_length`) and keep K's condition number below `longest_condition`: wider ones are
      used, which fit worse. Measured: two inputs, N = 300, 48 functions along each: the bound is
      13, 8, 20, 29 and 22 nats below the evidence with degrees 2 to 6
    shortest_length [cells]: On fewer cells per lengthscale splines are no longer the process.
    shortest_length_on_finest [cells]: The same under the evidence on the finest cells.
    visible_length [cells]: A length suggested by neighbours shows at all on cells so wide.
    longest_condition [condition number]: A term's K has about the product over inputs of
      (lengthscale in cells)**(2 degree); beyond, too few of 16 digits are left. Measured:
      docs/fields.md: about 8 cells per lengthscale for two Matern52, 24 for two Matern32
    tolerated_loss [nats per datum]: The bound may lose this to one term along one input.
    tolerated_scatter [variance between neighbours]: Under the evidence, one term may miss this
      along one input: predictions add it to their variance. Measured: benchmarks/gaps.py, table in
      docs/fields.md (the whole of it, not this number alone)
    cells_per_place [cells per distinct place along an input]: More stay empty, under the evidence.
    cells_per_datum [cells per datum]: The same over all inputs.
    least_noise_of_scatter [variance between neighbours]: Least noise under the evidence.
    missed_price [1 / variance between neighbours]: Price of missed variance on wide cells under the
      evidence: without it a long lengthscale with a huge variance fits as well. Measured:
      benchmarks/gaps.py, table in docs/fields.md (the whole of it, not this number alone)
    least_noise [mean square of y]: Lower limit of the noise.
    most_noise [mean square of y]: Upper limit of the noise.
    unknown_noise [mean square of y]: Start of the noise where cells tell nothing of it.
    start_fractions [domain]: Lengths to start from, the same along every input.
    middle_fraction [domain]: Start of lengths that neighbours tell nothing of.
    scale_ratio [length of the term before]: Of several terms over the same inputs, each next one.
    nearby_starts_from [functions]: From here on only starts that neighbours suggest are tried.
    stages [resolutions]: Training ends after so many in any case.
    dear_functions [functions]: From here on a bound takes a good part of a second on two cores.
    dear_work [flops of factorisations]: To be spent on the last iterations of dear bounds.
    dear_iterations [iterations]: Within these limits, whatever the work.
    unnoticed_gain [nats per datum]: An iteration that gains less is the last.
    unnoticed_gain_when_dear [nats per datum]: The same of dear bounds, before the next resolution.
    late_gain [nats per datum]: A limited training has converged if the last quarter of its
      evaluations gained less. Measured: commit 754a284 adds this judgement; no figures
    warm_step [log-hyperparameter]: First step from a state that is nearly right, on dear bounds.
    first_cells [cells per input, by number of inputs]: Training begins on so few.
    first_smooth_cells [cells]: The same for a smooth of one input.
    smooth_length [cells per lengthscale, of degree 1 and of higher degrees]: Smooths are cheap:
      finer cells than products have, but not finer than needed.
    most_cells [cells of an automatic grid, by number of inputs]: What the sums of a pass may take
      in memory and in a model file. Measured: docs/saving.md: 105 MB for 500,000 points, D = 2
    cells_per_row [cells per row]: An automatic grid has no more than these,
    cheap_cells_per_row [cells per row]: or these, up to `cheap_cells`.
    cheap_cells [cells]: Few rows with little noise need finer cells than rows, and these cost
      little. Measured: commit f1b57ff raises it to this; no figures
    fewest_cells [cells]: An automatic grid has at least these.
    least_doublings [doublings of one cell, by number of inputs]: Along every input.
    smooth_cells [cells]: Fewest and most of an automatic smooth: a stream may begin with few rows.
    most_smooth_columns [columns]: All smooths together: their block of P is dense.
    boxes [boxes]: Enough data for short lengths and the noise.
    boxes_from [cells of all boxes]: Fields with fewer cells are trained as a whole.
    box_sides [cells, by number of inputs]: Of a box: a bound stays cheap.
    box_alignment [cells, by number of inputs]: Boxes begin at multiples of this.
    box_attempts [starts]: Training on boxes climbs from the best of these. Measured: commit 1e5340d
    coarsening_loss [nats per datum]: Wider cells may lose this on the boxes.
    """

    # Cells that a lengthscale may have
    most_degree: int = 4
    shortest_length: float = 4.0
    shortest_length_on_finest: float = 2.0
    visible_length: float = 2.0
    longest_condition: float = 1e11
    tolerated_loss: float = 2e-3
    tolerated_scatter: float = 0.1
    cells_per_place: float = 1.5
    cells_per_datum: float = 3.0

    # What training pays for under the evidence
    least_noise_of_scatter: float = 1e-2
    missed_price: float = 0.3
    least_noise: float = 1e-8
    most_noise: float = 1e2
    unknown_noise: float = 0.2

    # Starts
    start_fractions: tuple[float, ...] = (0.04, 0.12, 0.4, 1.2)
    middle_fraction: float = 0.4
    scale_ratio: float = 0.15
    nearby_starts_from: int = 2_000

    # Effort
    stages: int = 12
    dear_functions: int = 20_000
    dear_work: float = 1.5e11
    dear_iterations: tuple[int, int] = (4, 25)
    unnoticed_gain: float = 1e-7
    unnoticed_gain_when_dear: float = 5e-5
    late_gain: float = 1e-3
    warm_step: float = 0.2

    # The grids that training goes through
    first_cells: tuple[int, ...] = (0, 0, 24, 10, 6)
    first_smooth_cells: int = 16
    smooth_length: tuple[float, float] = (32.0, 10.0)
    most_cells: tuple[int, ...] = (0, 0, 1 << 20, 1 << 18, 1 << 16)
    cells_per_row: int = 4
    cheap_cells_per_row: int = 64
    cheap_cells: int = 1 << 16
    fewest_cells: int = 4096
    least_doublings: tuple[int, ...] = (0, 0, 3, 3, 2)
    smooth_cells: tuple[int, int] = (64, 256)
    most_smooth_columns: int = 4096

    # Boxes of a large field
    boxes: int = 4
    boxes_from: float = 3.0
    box_sides: tuple[int, ...] = (0, 0, 64, 16, 8)
    box_alignment: tuple[int, ...] = (1, 1, 16, 8, 4)
    box_attempts: int = 3
    coarsening_loss: float = 0.05


@dataclass(frozen=True)
class PilotPolicy:
    """Lengths along every input from predictions of rows by their neighbours.

    rows [rows]: At most so many are looked at.
    boxes [boxes]: Of more rows than these hold, only those in boxes count.
    box_rows [rows]: In each box.
    centres [rows]: So many are predicted: lengths are good to a factor of two, as cells are.
    neighbours [rows]: From which each is predicted.
    fewest_rows [rows]: From fewer nothing is learnt.
    shares [rows]: A random part first: on a fine lattice neighbours all lie along one input, and
      tell nothing of the others. Measured: commit 746f66d; no figures
    fewest_shared_rows [rows]: A part has at least these.
    clear_gain [nats per datum]: By which neighbours must help.
    shortest [log2(length / range)]: Shortest length.
    longest [log2(length / range)]: Longest length.
    least_noise [log2(noise / signal)]: Least noise.
    most_noise [log2(noise / signal)]: Most noise.
    rounds [rounds]: Of neighbours and lengths in turns, at most.
    least_gain [nats per datum]: A step must gain more.
    """

    rows: int = 1 << 20
    boxes: int = 4
    box_rows: int = 4096
    centres: int = 384
    neighbours: int = 12
    fewest_rows: int = 48
    shares: tuple[float, ...] = (0.25, 1.0)
    fewest_shared_rows: int = 2048
    clear_gain: float = 0.02
    shortest: float = -14.0
    longest: float = 2.0
    least_noise: float = -16.0
    most_noise: float = 4.0
    rounds: int = 6
    least_gain: float = 1e-4


@dataclass(frozen=True)
class MemoryPolicy:
    """Memory and time of a model, before they are spent.

    share [memory of the machine or the GPU]: The limit unless the user sets one: the rest is for
      the system and for y and X. Measured: docs/fields.md states it; no figures
    sums_share [limit]: The statistics of an automatic grid may take this much of it.
    efficiency [rate of a matrix product]: Bounds reach about this rate, so that their time can be
      announced. Measured: benchmarks/multifrontal.py: 30 % at 300 x 300, 66 % at 1000 x 1000
    sample_matrices [matrices of all pairs of points]: A joint sample takes the covariance, its
      root, and what LAPACK works in.
    announced_seconds [seconds per bound]: Longer work is announced first.
    least_smooth_cells [cells]: Where memory is short, smooths are coarsened to this first.
    many_columns [columns]: With more it takes long even to look at the elimination.
    bytes_per_function [bytes]: A function of several inputs takes at least this on large grids.
    bytes_per_line_function [bytes]: Peak of a one-input fit. Measured: commit 00e771d; no figures
    batched_overhead [estimate of memory]: Torch reserves more than is counted. Measured: on an
      H200: 1.1 to 2.2 (commit e7e0ae1)
    dense_copies [columns**2]: Matrices held at the peak of an additive model. Measured: commit
      7cc7c03 says measured; no figures
    right_hand_sides [doubles]: Right-hand sides of a joint covariance that are solved at a time.
    most_joint_draws [points]: Joint draws factor the covariance of all points; more take too long.
    """

    share: float = 0.8
    sums_share: float = 0.25
    efficiency: float = 0.4
    sample_matrices: float = 6.0
    announced_seconds: float = 0.5
    least_smooth_cells: int = 16
    many_columns: int = 2000
    bytes_per_function: float = 1000.0
    bytes_per_line_function: float = 400.0
    batched_overhead: float = 2.2
    dense_copies: float = 6.2
    right_hand_sides: int = 1 << 23
    most_joint_draws: int = 2000


@dataclass(frozen=True)
class VerdictPolicy:
    """What a summary, a note or a warning says of a fit.

    enough [nats per datum]: The basis is enough if splines cost less: as `LINE.settled_gain`.
    nearly_enough [nats per datum]: Nearly enough; fewer splines than asked for may cost this.
    finer_grid_gain [nats per datum]: An automatic grid that a twice finer one would improve by more
      gets a warning. Measured: docs/fields.md states it; no figures
    lost_to_digits [nats per datum]: A warning if digits keep splines from being finer, and that
      costs more. Measured: docs/fields.md states it; no figures
    deciding_part [penalty]: An input with a smaller part of it does not decide.
    worthwhile [penalty]: Finer splines are advised if they regain more.
    advised_margin [cells that digits allow]: Advice keeps below: lengthscales may yet grow.
    few_digits [relative error]: A note from here on. Measured: commit 1979beb: below four digits
    no_digits [relative error]: An error from here on. Measured: commit 1979beb: an error at none
    wide_deviations [scatter + noise]: A note if splines miss more, most of the deviations then.
    clear_errors [standard errors]: A deviation of the calibration is reported beyond so many,
    clear_moment [mean, variance or correlation of residuals]: and beyond this,
    clear_coverage [share of the data]: or this of a band.
    unlikely [p-value]: Residuals are not normal if the Kolmogorov-Smirnov test says so,
    clear_distance [distance of distributions]: and beyond this.
    rising [nats]: A direction that curves upwards and rises more was left by training too early.
      Measured: commit cb1124c; no figures
    """

    enough: float = 1e-3
    nearly_enough: float = 1e-2
    finer_grid_gain: float = 0.02
    lost_to_digits: float = 0.2
    deciding_part: float = 0.1
    worthwhile: float = 0.1
    advised_margin: float = 0.95
    few_digits: float = 1e-3
    no_digits: float = 0.1
    wide_deviations: float = 0.5
    clear_errors: float = 4.0
    clear_moment: float = 0.05
    clear_coverage: float = 0.01
    unlikely: float = 1e-4
    clear_distance: float = 0.02
    rising: float = 0.5


DATA = DataPolicy()
START = StartPolicy()
LINE = LinePolicy()
FIELD = FieldPolicy()
PILOT = PilotPolicy()
MEMORY = MemoryPolicy()
VERDICT = VerdictPolicy()


class Row(NamedTuple):
    """One threshold, for tables and tests."""

    name: str
    value: object
    unit: str
    reason: str
    measured: str


def table() -> list[Row]:
    """Return all thresholds, read from the docstrings of the policies."""
    rows = []
    for policy in (DATA, START, LINE, FIELD, PILOT, MEMORY, VERDICT):
        group = type(policy).__name__.removesuffix("Policy").upper()
        notes = re.sub(r"\n +", " ", cleandoc(type(policy).__doc__ or ""))
        for name, unit, note in re.findall(r"^(\w+) \[(.+?)\]: (.+)$", notes, re.MULTILINE):
            reason, _, measured = note.partition(" Measured: ")
            value = getattr(policy, name)
            rows.append(Row(f"{group}.{name}", value, unit, reason, measured or NOT_RECORDED))
    return rows


def halvings(cells: int) -> int:
    """Return the power of two that a number of cells should divide by.

    Such a grid can be coarsened to `LINE.first_cells`.
    """
    return 1 << max(0, (cells // LINE.first_cells).bit_length() - 1)
