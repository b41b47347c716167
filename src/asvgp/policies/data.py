"""Data that come in, and what is kept of them: rows looked at, transforms, memory and files."""

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
    # [nats per datum] Beyond it the variance of the noise is less than the rounding of the mean
    # square of y: noise that was estimated is then none that could be seen.
    unseen_noise: float = 1.0
    distant_mean: float = 1e4  # [variances of y] Squared mean beyond which a warning is given.


@dataclass(frozen=True)
class CodePolicy:
    """Values of y that look like codes for missing ones.

    Measured on every column of the data sets of experiments/README.md (tests/data/test_codes.py):
    twelve columns of the air quality data (-200) and three maps (-32768) have a code, with gaps of
    at least 0.57 and 0.14 of the units below. Were every number a code, the distances of 25,888
    flights would have one (1863 miles, 16 times; 0.51 and 0.39), and nothing else.
    """

    fewest_codes: int = 3  # [values] A code is there so often at least,
    fewest_values: int = 20  # [different values] beside so many others: fewer may be levels.
    gap_to_middle: float = 0.5  # [others' median to their end] It is farther from the others,
    gap_to_range: float = 0.1  # [range of the others] and farther than this.
    rows_looked_at: int = 10_000  # [rows] For different values.
    fill_value: float = 1e15  # [any unit] From here on no measurement is.
    whole: float = 1e16  # [any unit] Whole numbers below are written with all digits.
    # [digits] Ends of integers of 16 and 32 bits.
    integer_ends: tuple[str, ...] = (
        *("32767", "32768", "65535", "2147483647", "2147483648", "4294967295"),
    )


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
    tables: int = 1 << 24  # [bytes] Of tables of cells that a function keeps for further models.
    most_joint_draws: int = 2000  # [points] Draws factor the covariance of all: more take too long.


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
    # [finest cells] A period may be longer than the data, but tables of its cells have to be small,
    most_turn: int = 1 << 20
    most_turn_of_domain: int = 16  # [domains] or a period of so many, if these are more cells.


DATA = DataPolicy()
CODES = CodePolicy()
TRANSFORM = TransformPolicy()
MEMORY = MemoryPolicy()
SAVING = SavingPolicy()
