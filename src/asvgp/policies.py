"""Thresholds of the automatic choices, each with its unit, its reason and its measurement.

There is one frozen dataclass for each kind of choice, and one instance of it that the library
uses: `DATA`, `START`, `LINE`, `FIELD`, `PILOT`, `MEMORY`, `VERDICT`. Tolerances of the linear
algebra stay beside the code that they belong to. `table` lists everything.

Examples
--------
>>> from asvgp.policies import FIELD, table
>>> FIELD.longest_condition
100000000000.0
>>> [row.unit for row in table() if row.name == "FIELD.longest_condition"]
['condition number']
"""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from typing import NamedTuple, TypeVar

T = TypeVar("T")
NOT_RECORDED = "not recorded"


def _policy(value: T, unit: str, reason: str, measured: str = NOT_RECORDED) -> T:
    """Return the field of a policy: its value, and why it is what it is."""
    metadata = {"unit": unit, "reason": reason, "measured": measured}
    return field(default=value, metadata=metadata)


@dataclass(frozen=True)
class DataPolicy:
    """How much of the data is looked at before the pass."""

    many_rows: int = _policy(
        1 << 18,
        "rows",
        "From here on an automatic grid is sized without looking at all rows, so that a stream "
        "and an array of the same rows get the same grid.",
        "docs/saving.md: files of one input below and above this number",
    )
    mean_rows: int = _policy(
        4096, "rows", "A mean to be taken off y, so that digits are kept, is guessed from these."
    )
    wide_prior: float = _policy(
        1e6,
        "variance that the data suggest",
        "Default prior variance of a fixed effect: too wide to matter.",
    )


@dataclass(frozen=True)
class StartPolicy:
    """Starting values of training, for any number of inputs."""

    least_noise: float = _policy(
        1e-6, "variance of y, with several inputs its mean square", "A start has at least this."
    )
    much_noise: float = _policy(
        0.3, "mean square of y", "A second start: lengths too short for the cells look like noise."
    )
    shared_cells: float = _policy(
        0.2,
        "share of the data beyond the first of a cell",
        "With more, the noise is estimated within cells, otherwise between neighbouring ones.",
    )
    revived_share: float = _policy(
        0.3,
        "prior variance",
        "On a finer grid, a component of a sum is tried as it was given, with this variance.",
        "CHANGELOG 0.1.0: a cycle too short for the first cells is not taken for noise",
    )


@dataclass(frozen=True)
class LinePolicy:
    """Training and resolution of one input."""

    first_cells: int = _policy(
        256, "cells", "An automatic resolution begins here: a bound costs little but overhead."
    )
    cheap_cells: int = _policy(
        1024,
        "cells",
        "A bound is so cheap up to here that trying many starts costs nothing; a given "
        "num_basis is trained on such a grid first.",
    )
    coarsening_step: int = _policy(
        8, "cells per coarser cell", "Between the grids that a given num_basis is trained on."
    )
    settled_gain: float = _policy(
        1e-3,
        "nats per datum",
        "Refinement ends when two doublings together gain less.",
        "docs/mathematics.md, Training; CHANGELOG 0.1.0",
    )
    unsettled_gain: float = _policy(
        1e-2,
        "nats per datum",
        "If the finest grid's last doubling gained more, a note says that it ended refinement.",
    )
    cells_per_gap: float = _policy(
        16.0,
        "cells per typical gap between points",
        "With fewer, what the splines miss of a rough field with little noise is taken for noise.",
        "commit 5a7f4cd: 90,000 rows of a seismogram, Matern32: with 4 per gap noise 0.034 and "
        "NLPD 0.412, with 16 noise 0.0087 and 0.314; exact (celerite2) 0.0037 and 0.284",
    )
    fewest_finest_cells: int = _policy(
        1 << 13, "cells", "The finest automatic grid has at least these: they cost nothing."
    )
    most_finest_cells: int = _policy(
        1 << 19,
        "cells",
        "The finest automatic grid of a stream, or of many points, bounds memory and file size.",
        "docs/saving.md: 34 MB for two million points",
    )
    most_finest_cells_in_memory: int = _policy(
        1 << 21,
        "cells",
        "The same where all points are in memory and fewer than `DATA.many_rows`.",
        "commit 5a7f4cd: 2,097,154 functions on 90,000 rows; docs/saving.md: 7 MB compressed",
    )
    shortest_lengthscale: float = _policy(
        4.0,
        "knot spacings (half of it for a period)",
        "Under the evidence, splines on wider knots are another process, which training would "
        "exploit.",
    )
    least_noise: float = _policy(
        1e-9, "variance of y", "Lower limit of the noise: variance / noise stays far from 1 / eps."
    )
    least_noise_of_power: float = _policy(
        1e-12, "mean square of y", "Lower limit of the noise where y is all but constant."
    )
    most_noise: float = _policy(1e3, "mean square of y", "Upper limit of the noise.")
    start_lengths: int = _policy(
        7, "lengths", "Starts between two knot spacings and half of the domain, logarithmically."
    )
    finer_lengths: tuple[float, ...] = _policy(
        (3.0, 12.0),
        "knot spacings",
        "Starts that only the finer knots can express, tried when a grid is refined.",
    )
    finer_length_of_sums: float = _policy(
        100.0, "knot spacings", "A further one for sums, whose components differ in scale."
    )
    noise_trap: float = _policy(
        1.5,
        "noise estimate",
        "If training ends with more noise, it may have taken short lengths for noise: starts "
        "with less are tried too.",
        "commit 00e771d adds this second look; no figures",
    )
    second_looks: tuple[int, int] = _policy(
        (4, 1), "starts", "So many on cheap grids, and on others."
    )
    hidden_structure: float = _policy(
        0.01,
        "scatter within cells",
        "Refinement goes on while finer cells scatter less by more than this and four standard "
        "errors.",
    )
    unknown_noise: float = _policy(
        0.1, "mean square of y", "Start of the noise where all points share one cell."
    )

    # Knots that cut none of the intervals that y is averaged over
    finest_lattice: float = _policy(
        1e-4, "shortest interval", "A lattice of their ends that is finer is none."
    )
    widest_lattice: float = _policy(
        4.0, "longest interval", "Knots farther apart would fit by coincidence."
    )
    lattice_tries: int = _policy(
        1000, "distances", "So many distances of knots are tried, from the widest interval on."
    )
    fewest_uncut_cells: int = _policy(8, "cells", "Fewer are not worth having.")


@dataclass(frozen=True)
class FieldPolicy:
    """Training and resolution of several inputs."""

    # Cells that a lengthscale may have
    shortest_length: float = _policy(
        4.0,
        "cells",
        "On fewer cells per lengthscale splines are no longer the process.",
    )
    shortest_length_on_finest: float = _policy(
        2.0,
        "cells",
        "The same under the evidence on the finest cells, where nothing finer is to be had.",
    )
    visible_length: float = _policy(
        2.0, "cells", "A length suggested by neighbours shows at all on cells so wide."
    )
    longest_condition: float = _policy(
        1e11,
        "condition number",
        "A term's K has about the product over inputs of (lengthscale in cells)**(2 degree); "
        "beyond, too few of 16 digits are left.",
        "docs/fields.md: about 8 cells per lengthscale for two Matern52, 24 for two Matern32",
    )
    tolerated_loss: float = _policy(
        2e-3, "nats per datum", "The bound may lose this to one term along one input."
    )
    tolerated_scatter: float = _policy(
        0.1,
        "variance between neighbours",
        "Under the evidence, one term may miss this along one input: predictions add it to "
        "their variance.",
        "benchmarks/gaps.py, table in docs/fields.md (the whole of it, not this number alone)",
    )
    cells_per_place: float = _policy(
        1.5, "cells per distinct place along an input", "More stay empty, under the evidence."
    )
    cells_per_datum: float = _policy(3.0, "cells per datum", "The same over all inputs.")

    # What training pays for under the evidence
    least_noise_of_scatter: float = _policy(
        1e-2, "variance between neighbours", "Lower limit of the noise under the evidence."
    )
    missed_price: float = _policy(
        0.3,
        "1 / variance between neighbours",
        "Price of missed variance on wide cells under the evidence: without it a long "
        "lengthscale with a huge variance fits as well.",
        "benchmarks/gaps.py, table in docs/fields.md (the whole of it, not this number alone)",
    )
    least_noise: float = _policy(1e-8, "mean square of y", "Lower limit of the noise.")
    most_noise: float = _policy(1e2, "mean square of y", "Upper limit of the noise.")
    unknown_noise: float = _policy(
        0.2, "mean square of y", "Start of the noise where cells tell nothing of it."
    )

    # Starts
    start_fractions: tuple[float, ...] = _policy(
        (0.04, 0.12, 0.4, 1.2), "domain", "Lengths to start from, the same along every input."
    )
    middle_fraction: float = _policy(
        0.4, "domain", "Start of lengths that neighbours tell nothing of."
    )
    scale_ratio: float = _policy(
        0.15, "length of the term before", "Of several terms over the same inputs, each next one."
    )
    nearby_starts_from: int = _policy(
        2_000,
        "functions",
        "From here on a bound is too dear to try more than the starts that neighbours suggest.",
    )

    # Effort
    stages: int = _policy(12, "resolutions", "Training ends after so many in any case.")
    dear_functions: int = _policy(
        20_000, "functions", "From here on a bound takes a good part of a second on two cores."
    )
    dear_work: float = _policy(
        1.5e11, "flops of factorisations", "To be spent on the last iterations of dear bounds."
    )
    dear_iterations: tuple[int, int] = _policy(
        (4, 25), "iterations", "Within these limits, whatever the work."
    )
    unnoticed_gain: float = _policy(
        1e-7, "nats per datum", "An iteration that gains less is the last."
    )
    unnoticed_gain_when_dear: float = _policy(
        5e-5, "nats per datum", "The same of dear bounds: the next resolution changes more."
    )
    late_gain: float = _policy(
        1e-3,
        "nats per datum",
        "A limited training has converged if the last quarter of its evaluations gained less.",
        "commit 754a284 adds this judgement; no figures",
    )
    warm_step: float = _policy(
        0.2, "log-hyperparameter", "First step from a state that is nearly right, on dear bounds."
    )

    # The grids that training goes through
    first_cells: tuple[int, ...] = _policy(
        (0, 0, 24, 10, 6), "cells per input, by number of inputs", "Training begins on so few."
    )
    first_smooth_cells: int = _policy(16, "cells", "The same for a smooth of one input.")
    smooth_length: tuple[float, float] = _policy(
        (32.0, 10.0),
        "cells per lengthscale, of degree 1 and of higher degrees",
        "Smooths are cheap: finer cells than products have, but not finer than needed.",
    )
    most_cells: tuple[int, ...] = _policy(
        (0, 0, 1 << 20, 1 << 18, 1 << 16),
        "cells of an automatic grid, by number of inputs",
        "What the sums of a pass may take in memory and in a model file.",
        "docs/saving.md: 105 MB for 500,000 points of two inputs",
    )
    cells_per_row: int = _policy(4, "cells per row", "An automatic grid has no more than these,")
    cheap_cells_per_row: int = _policy(64, "cells per row", "or these, up to `cheap_cells`.")
    cheap_cells: int = _policy(
        1 << 16,
        "cells",
        "Few rows with little noise need finer cells than rows, and these cost little.",
        "commit f1b57ff raises it to this; no figures",
    )
    fewest_cells: int = _policy(4096, "cells", "An automatic grid has at least these.")
    least_doublings: tuple[int, ...] = _policy(
        (0, 0, 3, 3, 2), "doublings of one cell, by number of inputs", "Along every input."
    )
    smooth_cells: tuple[int, int] = _policy(
        (64, 256),
        "cells",
        "Fewest and most of an automatic smooth: a stream may begin with few rows.",
    )
    most_smooth_columns: int = _policy(
        4096, "columns", "All smooths together: their block of P is dense."
    )

    # Boxes of a large field
    boxes: int = _policy(4, "boxes", "Enough data for short lengths and the noise.")
    boxes_from: float = _policy(
        3.0, "cells of all boxes", "Fields with fewer cells are trained as a whole."
    )
    box_sides: tuple[int, ...] = _policy(
        (0, 0, 64, 16, 8), "cells, by number of inputs", "Of a box: a bound stays cheap."
    )
    box_alignment: tuple[int, ...] = _policy(
        (1, 1, 16, 8, 4), "cells, by number of inputs", "Boxes begin at multiples of this."
    )
    box_attempts: int = _policy(
        3, "starts", "Training on boxes climbs from so many, the best first.", "commit 1e5340d"
    )
    coarsening_loss: float = _policy(
        0.05, "nats per datum", "Wider cells may lose this on the boxes."
    )


@dataclass(frozen=True)
class PilotPolicy:
    """Lengths along every input from predictions of rows by their neighbours."""

    rows: int = _policy(1 << 20, "rows", "At most so many are looked at.")
    boxes: int = _policy(4, "boxes", "Of more rows than these hold, only those in boxes count.")
    box_rows: int = _policy(4096, "rows", "In each box.")
    centres: int = _policy(
        384, "rows", "So many are predicted: lengths are good to a factor of two, as cells are."
    )
    neighbours: int = _policy(12, "rows", "From which each is predicted.")
    fewest_rows: int = _policy(48, "rows", "From fewer nothing is learnt.")
    shares: tuple[float, ...] = _policy(
        (0.25, 1.0),
        "rows",
        "A random part first: on a fine lattice neighbours all lie along one input, and tell "
        "nothing of the others.",
        "commit 746f66d; no figures",
    )
    fewest_shared_rows: int = _policy(2048, "rows", "A part has at least these.")
    clear_gain: float = _policy(0.02, "nats per datum", "By which neighbours must help.")
    shortest: float = _policy(-14.0, "log2(length / range)", "Shortest length.")
    longest: float = _policy(2.0, "log2(length / range)", "Longest length.")
    least_noise: float = _policy(-16.0, "log2(noise / signal)", "Least noise.")
    most_noise: float = _policy(4.0, "log2(noise / signal)", "Most noise.")
    rounds: int = _policy(6, "rounds", "Of neighbours and lengths in turns, at most.")
    least_gain: float = _policy(1e-4, "nats per datum", "A step must gain more.")


@dataclass(frozen=True)
class MemoryPolicy:
    """Memory and time of a model, before they are spent."""

    share: float = _policy(
        0.8,
        "memory of the machine or the GPU",
        "The limit unless the user sets one: the rest is for the system and for y and X.",
        "docs/fields.md states it; no figures",
    )
    sums_share: float = _policy(
        0.25, "limit", "The statistics of an automatic grid may take this much of it."
    )
    efficiency: float = _policy(
        0.4,
        "rate of a matrix product",
        "Bounds reach about this rate, so that their time can be announced.",
        "benchmarks/multifrontal.py: 30 % at 300 x 300, 66 % at 1000 x 1000 (two cores)",
    )
    announced_seconds: float = _policy(0.5, "seconds per bound", "Longer work is announced first.")
    least_smooth_cells: int = _policy(
        16, "cells", "Smooths are coarsened to this before products are, where memory is short."
    )
    many_columns: int = _policy(
        2000, "columns", "With more it takes long even to look at the elimination."
    )
    bytes_per_function: float = _policy(
        1000.0, "bytes", "A function of several inputs takes at least this on large grids."
    )
    bytes_per_line_function: float = _policy(
        400.0, "bytes", "Peak of a fit of one input.", "commit 00e771d says measured; no figures"
    )
    batched_overhead: float = _policy(
        2.2,
        "estimate of memory",
        "Torch reserves more than is counted.",
        "on an H200: 1.1 to 2.2 (commit e7e0ae1)",
    )
    dense_copies: float = _policy(
        6.2,
        "columns**2",
        "Matrices held at the peak of an additive model.",
        "commit 7cc7c03 says measured; no figures",
    )
    right_hand_sides: int = _policy(
        1 << 23, "doubles", "Right-hand sides of a joint covariance that are solved at a time."
    )
    most_joint_draws: int = _policy(
        2000, "points", "Joint draws factor the covariance of all points; more take too long."
    )


@dataclass(frozen=True)
class VerdictPolicy:
    """What a summary, a note or a warning says of a fit."""

    enough: float = _policy(
        1e-3,
        "nats per datum",
        "The basis is enough if the splines cost the bound less: as `LINE.settled_gain`.",
    )
    nearly_enough: float = _policy(
        1e-2,
        "nats per datum",
        "It is nearly enough below this; fewer splines than asked for may cost this unannounced.",
    )
    finer_grid_gain: float = _policy(
        0.02,
        "nats per datum",
        "An automatic grid that a twice finer one would improve by more gets a warning.",
        "docs/fields.md states it; no figures",
    )
    lost_to_digits: float = _policy(
        0.2,
        "nats per datum",
        "A warning if digits keep splines from being finer, and that costs more.",
        "docs/fields.md states it; no figures",
    )
    deciding_part: float = _policy(
        0.1, "penalty", "An input with a smaller part of it does not decide."
    )
    worthwhile: float = _policy(0.1, "penalty", "Finer splines are advised if they regain more.")
    advised_margin: float = _policy(
        0.95,
        "cells that digits allow",
        "Advice keeps below: lengthscales may become longer when trained again.",
    )
    few_digits: float = _policy(
        1e-3, "relative error", "A note from here on.", "commit 1979beb: a note below four digits"
    )
    no_digits: float = _policy(
        0.1, "relative error", "An error from here on.", "commit 1979beb: an error at none"
    )
    wide_deviations: float = _policy(
        0.5,
        "scatter + noise",
        "A note if the splines miss more: standard deviations are mostly that.",
    )
    clear_errors: float = _policy(
        4.0, "standard errors", "A deviation of the calibration is reported beyond so many,"
    )
    clear_moment: float = _policy(
        0.05, "mean, variance or correlation of residuals", "and beyond this,"
    )
    clear_coverage: float = _policy(0.01, "share of the data", "or this of a band.")
    unlikely: float = _policy(
        1e-4, "p-value", "Residuals are not normal if the Kolmogorov-Smirnov test says so,"
    )
    clear_distance: float = _policy(0.02, "distance of distributions", "and beyond this.")
    rising: float = _policy(
        0.5,
        "nats",
        "A direction that curves upwards and rises more was left by training too early.",
        "commit cb1124c; no figures",
    )


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
    """Return all thresholds."""
    policies = {
        "DATA": DATA,
        "START": START,
        "LINE": LINE,
        "FIELD": FIELD,
        "PILOT": PILOT,
        "MEMORY": MEMORY,
        "VERDICT": VERDICT,
    }
    return [
        Row(f"{name}.{each.name}", getattr(policy, each.name), **each.metadata)
        for name, policy in policies.items()
        for each in fields(policy)
    ]


def halvings(cells: int) -> int:
    """Return the power of two that a number of cells should divide by.

    Such a grid can be coarsened to `LINE.first_cells`.
    """
    return 1 << max(0, (cells // LINE.first_cells).bit_length() - 1)
