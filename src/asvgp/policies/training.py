"""Training of models over one or several inputs: starts, cells, and when to stop."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class StartPolicy:
    """Starting values of training, for any number of inputs."""

    # [variance of y; several inputs: mean square] Smallest starting value of the noise.
    least_noise: float = 1e-6
    # [mean square of y] A second start of the noise, because short lengths look like noise.
    much_noise: float = 0.3
    # [share of the data beyond the first of a cell] With a larger share, the noise is estimated
    # from the scatter within cells, otherwise from that between neighbouring cells.
    shared_cells: float = 0.2
    # [prior variance] On a finer grid, a component of a sum is also tried as it was given, with
    # this share of the variance. Measured: CHANGELOG 0.1.0: a cycle too short for the first cells
    # is not taken for noise
    revived_share: float = 0.3


@dataclass(frozen=True)
class LinePolicy:
    """Training and resolution of one input."""

    # [degree of splines] Up to this degree chains keep their digits, and so do fields. Measured: 48
    # functions, noise 1e-2 to 1e-10: the bound rises with every degree from 2 to 6; products over
    # two inputs, N = 600, 60 functions along each, noise 0.01: nats below the evidence are 26, 1.1,
    # 0.9, 0.8 and 0.8 with degrees 2 to 6 for Matern32, 51, 2.1, 0.6 and 0.1 from 3 for Matern52
    most_degree: int = 6
    # [cells] An automatic resolution begins with these, where bounds cost little.
    first_cells: int = 256
    # [cells] Up to these, a bound is so cheap that many starts can be tried. A given num_basis is
    # trained on such a grid first.
    cheap_cells: int = 1024
    coarsening_step: int = 8  # [cells per coarser cell] Between the grids of a given num_basis.
    # [nats per datum] Refinement ends when two doublings together gain less. Measured:
    # docs/mathematics.md, Training; CHANGELOG 0.1.0
    settled_gain: float = 1e-3
    # [nats per datum] If the last doubling gained more, there is a note.
    unsettled_gain: float = 1e-2
    # [nats per datum] Refinement also ends when the splines miss less than this and the last two
    # doublings gained no more than the splines missed before. Measured: docs/mathematics.md, How
    # accurate
    settled_loss: float = 1e-4
    # [cells per typical gap between points, of the smallest degree and of higher ones] With fewer,
    # what the splines miss of a rough field with little noise is taken for noise. Measured: commit
    # 5a7f4cd: 90,000 rows of a seismogram, Matern32, smallest degree: with 4 per gap noise 0.034
    # and NLPD 0.412, with 16 noise 0.0087 and 0.314; exact (celerite2) 0.0037 and 0.284;
    # docs/mathematics.md, How accurate: half as many of one degree more miss less
    cells_per_gap: tuple[float, float] = (16.0, 8.0)
    # [cells] The finest automatic grid has at least these, which cost nothing.
    fewest_finest_cells: int = 1 << 13
    # [cells] The finest automatic grid of a stream, or of many points, has at most these, to limit
    # memory and file size. Measured: docs/saving.md: 34 MB for two million points
    most_finest_cells: int = 1 << 19
    # [cells, of the smallest degree and of higher ones] The same if all points are in memory and
    # there are fewer than `DATA.many_rows`. Measured: commit 5a7f4cd: 2,097,154 functions on 90,000
    # rows; docs/saving.md: 7 MB compressed
    most_finest_cells_in_memory: tuple[int, int] = (1 << 21, 1 << 20)
    # [knot spacings (half of it for a period)] Shortest lengthscale under the evidence. On wider
    # knots splines are another process, which training would exploit.
    shortest_lengthscale: float = 4.0
    # [functions times bounds] An automatic resolution is doubled only if training as long as on the
    # last grid takes no more than this: ten CPU seconds with all that came before. Measured: half a
    # million functions, three right-hand sides: 2.5e-7 s each; tests/soak/hardest.py
    most_work: float = 2e7
    # [functions times bounds per row] This much more is allowed: a millisecond per row.
    work_per_row: float = 2e3
    work_of_roots: float = 2.0  # [work of plain elimination] Work if P is factored by square roots.
    least_noise: float = 1e-9  # [variance of y] Lower limit of the noise, to keep digits.
    least_noise_of_power: float = 1e-12  # [mean square of y] The same if y is nearly constant.
    most_noise: float = 1e3  # [mean square of y] Upper limit of the noise.
    start_lengths: int = 7  # [lengths] From two knot spacings to half the domain, in equal ratios.
    # [knot spacings] Further starts, for finer knots only.
    finer_lengths: tuple[float, ...] = (3.0, 12.0)
    # [knot spacings] One more for sums, whose terms have different scales.
    finer_length_of_sums: float = 100.0
    # [noise estimate] If training ends with more noise, it may have taken short lengths for noise,
    # and starts with less noise are tried, too. Measured: commit 00e771d adds it; no figures
    noise_trap: float = 1.5
    # [starts] So many of these are tried on cheap grids and on others.
    second_looks: tuple[int, int] = (4, 1)
    # [scatter within cells] Refinement continues while finer cells reduce the scatter by more than
    # this share and by four standard errors.
    hidden_structure: float = 0.01
    unknown_noise: float = 0.1  # [mean square of y] Start of the noise if all data share one cell.

    # Digits of the chain: see `asvgp.model.elimination`

    # [prior's information] Up to this, plain elimination is accurate enough.
    certain_information: float = 1e6
    # [prior's information] Beyond this, plain elimination is not tried. Measured: 320 random models
    # of 300 rows, geometric, clustered or repeated inputs: from 1e10 to 1e16 about a third is
    # accurate
    hopeless_information: float = 1e16
    # [basis functions] Largest error of log|P| for which plain elimination is kept.
    accepted_defect: float = 1e-10
    # [nats per datum] The same for the error of what the means explain,
    accepted_error: float = 1e-6
    rounding: float = 1e-14  # [of what they explain] to which rounding alone may add this much.

    # Knots that cut none of the intervals that y is averaged over

    # [shortest interval] A finer lattice of interval ends is not taken for one.
    finest_lattice: float = 1e-4
    widest_lattice: float = 4.0  # [longest interval] Knots farther apart would fit by coincidence.
    # [distances] Knot distances that are tried, from the widest interval on.
    lattice_tries: int = 1000
    fewest_uncut_cells: int = 8  # [cells] Fewer are of no use.


@dataclass(frozen=True)
class FieldPolicy:
    """Training and resolution of several inputs."""

    # Cells that a lengthscale may have

    # [cells per lengthscale] With fewer, splines do not represent the process.
    shortest_length: float = 4.0
    # [cells] The same under the evidence, on the finest grid.
    shortest_length_on_finest: float = 2.0
    # [cells] A length that neighbours suggest can be seen if it spans this many cells.
    visible_length: float = 2.0
    # [nats per function or datum, whichever are fewer] Error of log|P|, and so of the bound, beyond
    # which P is factored by square roots. Measured: thirty products of two Matern52, 200 rows, 20
    # to 64 splines along each input: with 1e-4 a bound lay 0.004 nats above the evidence, with this
    # none above it, at 0.23 in place of 0.08 CPU seconds for a fit at most
    accepted_defect: float = 5e-6
    # [as before] The error is measured if a larger one is predicted. Measured: 380 random fields of
    # one to three terms: 1.7e-7 at most where less is predicted
    measured_from: float = 1e-5
    # [as before] If square roots have a larger error, too, the factor is refused.
    refused_defect: float = 1e-3
    # [functions per function or datum, whichever are fewer] Error of tr(P^-1 P) beyond which
    # training takes a state for a bad one. Gradients err by about a hundredth of it, in nats.
    # Measured: as above, with 60, 80, 100, 120 and 150 cells 5e-6, 5e-4, 0.02, 0.2 and 9 in all;
    # slopes along both lengthscales differ by 0.003 and 0.04 between the last and 100
    accepted_gradient: float = 1.0
    # [prior variance] Where the rounding predicted of K^-1 of a joint kernel is larger, it is
    # measured. Measured: nu = 2 and 3, 27 to 230 cells per lengthscale: predicted 5e-8 to 4e-3,
    # found 0.1 to 1.5 times as much; with 27 cells and nu = 3, 2.5e-8 found and 1.3e-6 missed
    joint_stiff: float = 1e-7
    measuring_points: int = 16  # [points] Where it is measured, beside the corners of the domain.
    known_share: float = 0.1  # [variance that splines miss] K^-1 is believed up to this rounding.
    # [predictive variance] Rounding of P^-1 on leaves, measured at as many points, beyond which a
    # variance takes a solution of its own. Measured: products of two Matern72, 30 splines along
    # each input: of lengthscales 0.3 domains variances are good to 2e-11, of 3 to 7e-4 amid the
    # data and to no digit a domain beyond; by solutions they equal the dense ones everywhere
    known_variance: float = 0.01
    # [domain] If a lengthscale is longer, the advice is to shorten it.
    almost_polynomial: float = 4.0
    # [width of the cell before] Widths of cells beyond the data, where joint kernels have splines
    # too, at least and at most: 1 + 1 / sqrt(n) for n of them, so that they become finer where the
    # data's do. Measured: nu = 2, 6 cells per lengthscale: missed at the edges 2.9e-4, with 2.0
    # 2.0e-3; in the middle 1.7e-4 with either. 600 points, noise 0.01, lengthscale 0.5: with 40 and
    # 63 functions along each input 0.13 and 0.04 nats below the evidence; always 1.5: 0.35, 0.22
    joint_growth: tuple[float, float] = (1.2, 1.5)
    # [decay lengths] Width of the full cells beyond the data; the tails of the splines are added to
    # it. Measured: two inputs, nu = 1, 2 and 3: from 2.5 on the variance missed at edges falls by
    # less than 1e-5
    joint_room: float = 3.0
    # [cells per decay length] On finer cells there is more room, because they miss less.
    joint_coarse: float = 4.0
    # [decay lengths / (nu log of the cells per decay length)] Additional room on such cells. What
    # too little room costs falls with exp(-2 room), what cells miss with the power 2 nu of their
    # width.
    joint_more_room: float = 0.5
    # [share missed on equal cells everywhere] If splines miss more than this at the edges of the
    # data, a note says that there is too little room. Measured: nu = 2, 6 cells per lengthscale: 7
    # with enough of it, 400 with half a decay length
    little_room: float = 30.0
    # [degrees] Longitudes that span more go round the Earth: their splines form a closed circle.
    widest_arc: float = 180.0
    # [degrees] Of data: the splines of a kernel on the sphere end at 88 degrees.
    last_latitude: float = 86.0
    pole_cells: int = 4  # [cells] Additional cells beyond the data, towards a pole that is near.
    # [columns] At most so many for what splines leave out at the poles. Measured: 400 take about as
    # long as P
    pole_columns: int = 400
    # [numbers] At most so many for these columns in products, with one for each function of the
    # other inputs.
    pole_entries: float = 2e7
    # [lengthscale] In training, there is room for a lengthscale that is longer by this factor.
    joint_growing: float = 1.5
    # [nats per datum] One term may cost the bound this much along one input.
    tolerated_loss: float = 2e-3
    # [variance between neighbours] Under the evidence, one term may miss this along one input:
    # predictions add it to their variance. Measured: benchmarks/gaps.py, table in docs/fields.md
    # (the whole of it, not this number alone)
    tolerated_scatter: float = 0.1
    cells_per_place: float = 1.5  # [cells per distinct place along an input] More would stay empty.
    cells_per_datum: float = 3.0  # [cells per datum] The same over all inputs.

    # What training pays for under the evidence

    # [variance between neighbours] Least noise under the evidence.
    least_noise_of_scatter: float = 1e-2
    # [1 / variance between neighbours] Price of missed variance on wide cells under the evidence:
    # without it a long lengthscale with a huge variance fits as well. Measured: benchmarks/gaps.py,
    # table in docs/fields.md (the whole of it, not this number alone)
    missed_price: float = 0.3
    # [hyperparameter] If those of the kernel are known from a sample of the rows, training changes
    # them by no more than this factor. Missed variance then has no price, because its gradient
    # takes as long as four bounds.
    near_ratio: float = 4.0
    least_noise: float = 1e-8  # [mean square of y] Lower limit of the noise.
    most_noise: float = 1e2  # [mean square of y] Upper limit of the noise.
    unknown_noise: float = 0.2  # [mean square of y] Start of the noise if cells do not show it.

    # Starts

    # [domain] Starting lengths along each input.
    start_fractions: tuple[float, ...] = (0.04, 0.12, 0.4, 1.2)
    middle_fraction: float = 0.4  # [domain] Start of lengths about which neighbours say nothing.
    # [length of the term before] Start of the next term over the same inputs.
    scale_ratio: float = 0.15
    # [functions] From these on, only the starts that neighbours suggest are tried.
    nearby_starts_from: int = 2_000

    # Second looks, where bounds are cheap: states with another shape of one term
    looks: int = 3  # [climbs] At most so many, from the best of these states,
    look_gain: float = 1e-3  # [nats per datum] as long as each gains more than this.
    # [domain] Lengths of a term along an input that are tried,
    look_short: tuple[float, ...] = (0.08, 0.3)
    # [domain] and this one, with which the term is a function of the other inputs alone.
    look_long: float = 4.0
    look_noise: float = 0.5  # [noise variance] The variance of the term is this or its present one.
    # [ratio] A length is tried only if it differs from the present one by this factor.
    look_apart: float = 3.0

    # Effort
    stages: int = 12  # [resolutions] Training ends after so many in any case.
    # [functions] From these on, a bound takes a good part of a second and is called dear.
    dear_functions: int = 20_000
    # [flops of factorisations] For the last iterations if bounds are dear.
    dear_work: float = 1.5e11
    # [iterations] At least and at most so many of these, whatever the work.
    dear_iterations: tuple[int, int] = (4, 25)
    unnoticed_gain: float = 1e-7  # [nats per datum] Training ends at an iteration that gains less.
    # [nats per datum] The same if bounds are dear, before another resolution.
    unnoticed_gain_when_dear: float = 5e-5
    # [nats per datum] A limited training has converged if the last quarter of its evaluations
    # gained less. Measured: commit 754a284 adds this judgement; no figures
    late_gain: float = 1e-3
    # [nats per datum and log-hyperparameter] If training ends where the bound still rises more
    # steeply, and digits were lost, their loss has stopped it.
    blocked_slope: float = 1e-4
    worthwhile_gain: float = 1e-5  # [nats per datum] Wider cells of a term must gain this.
    warm_step: float = 0.2  # [log-hyperparameter] First step from a good state if bounds are dear.
    # [log-hyperparameter] The same where a sample tells the curvature; 1.5 times as much is the
    # most. Measured: heights, 102,000 rows: 27 s, with 0.2 43 s, with 1.0 33 s
    informed_step: float = 0.5

    # The grids that training goes through

    # [cells, by inputs] Along each input, on the first grid.
    first_cells: tuple[int, ...] = (0, 0, 24, 10, 6)
    # [cells] Around a circle. No leaf of the dissection may hold a spline twice, which takes twice
    # `most_degree` cells.
    fewest_circle_cells: int = 8
    first_smooth_cells: int = 16  # [cells] The same for a smooth of one input.
    # [cells per lengthscale, of degrees 1, 2 and higher] Smooths are cheap. Their cells are finer
    # than those of products, but not finer than needed.
    smooth_length: tuple[float, float, float] = (32.0, 10.0, 5.0)
    # [cells of an automatic grid, by number of inputs] They limit the memory and the file size that
    # the sums of a pass may take. Measured: docs/saving.md: 105 MB for 500,000 points, D = 2
    most_cells: tuple[int, ...] = (0, 0, 1 << 20, 1 << 18, 1 << 16)
    cells_per_row: int = 4  # [cells per row] An automatic grid has at most these,
    # [cells per row] or these if there are no more than `cheap_cells` in all.
    cheap_cells_per_row: int = 64
    # [cells] So many cost little, and few rows with little noise need more cells than rows.
    # Measured: commit f1b57ff raises it to this; no figures
    cheap_cells: int = 1 << 16
    fewest_cells: int = 4096  # [cells] An automatic grid has at least these.
    # [doublings, by inputs] A single cell is halved at least this often along each input.
    least_doublings: tuple[int, ...] = (0, 0, 3, 3, 2)
    smooth_cells: tuple[int, int] = (64, 256)  # [cells] Fewest and most of an automatic smooth.
    most_smooth_columns: int = 4096  # [columns] Of all smooths together: their block of P is dense.

    # Boxes of a large field
    boxes: int = 4  # [boxes] So many hold enough data for short lengths and the noise.
    boxes_from: float = 3.0  # [cells of all boxes] Fields with fewer cells are trained as a whole.
    # [cells, by inputs] Sides of a box, small enough for cheap bounds.
    box_sides: tuple[int, ...] = (0, 0, 64, 16, 8)
    # [cells, by inputs] Boxes begin at multiples of these.
    box_alignment: tuple[int, ...] = (1, 1, 16, 8, 4)
    # [cells] A domain grows by multiples of this, so that pairs of cells can be joined.
    grown_cells: int = 8
    # [starts] Training on the boxes climbs from the best of these. Measured: commit 1e5340d
    box_attempts: int = 3
    coarsening_loss: float = 0.05  # [nats per datum] Wider cells may lose this on the boxes.


@dataclass(frozen=True)
class PilotPolicy:
    """Lengths along every input from predictions of rows by their neighbours."""

    rows: int = 1 << 20  # [rows] At most so many are used.
    boxes: int = 4  # [boxes] If there are more rows than these hold, only those in boxes are used.
    box_rows: int = 4096  # [rows] In each box.
    # [rows] Rows to predict: lengths are then good to a factor of two, as cells are.
    centres: int = 384
    neighbours: int = 12  # [rows] Each row is predicted from so many.
    fewest_rows: int = 48  # [rows] With fewer, nothing is learnt.
    # [rows] A random part is used first: on a fine lattice, all neighbours lie along one input and
    # say nothing about the others. Measured: commit 746f66d; no figures
    shares: tuple[float, ...] = (0.25, 1.0)
    fewest_shared_rows: int = 2048  # [rows] A part has at least these.
    clear_gain: float = 0.02  # [nats per datum] Predictions must gain this by neighbours.
    shortest: float = -14.0  # [log2(length / range)] Shortest length.
    longest: float = 2.0  # [log2(length / range)] Longest length.
    least_noise: float = -16.0  # [log2(noise / signal)] Least noise.
    most_noise: float = 4.0  # [log2(noise / signal)] Most noise.
    rounds: int = 6  # [rounds] Neighbours and lengths are found in turns, at most this often.
    least_gain: float = 1e-4  # [nats per datum] A step must gain more.
    start_noise: float = -3.0  # [log2(noise / signal)] Climbs start from this noise,
    start_length: float = -3.0  # [log2(length / range)] with this length along all inputs,
    # [log2(length / range)] or with the first along one input and the second along the others.
    start_lengths: tuple[float, float] = (-7.0, -2.0)


START = StartPolicy()
LINE = LinePolicy()
FIELD = FieldPolicy()
PILOT = PilotPolicy()


def halvings(cells: int) -> int:
    """Return the power of two that a number of cells should divide by.

    Such a grid can be coarsened to `LINE.first_cells`.
    """
    return 1 << max(0, (cells // LINE.first_cells).bit_length() - 1)
