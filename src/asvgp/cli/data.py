"""Options that name data and their columns, and the sources they stand for."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import reduce
from os.path import exists

import click

from asvgp.cli.values import ColumnName, OutputFile, number_or_column, number_or_duration


def data_argument(required: bool) -> Callable:
    """Return the argument DATA: files, folders or patterns."""
    return click.argument("data", nargs=-1, required=required, type=click.Path())


def _beside(name: str, help: str) -> Callable:
    return click.option(f"--{name}", type=ColumnName(), help=help)


# Of likelihoods that are not Gaussian, for `fit` and, but for the last, `predict`.
exposure_options = (
    _beside("trials", "Trials of every row of a binomial likelihood: a column or a number."),
    _beside("offset", "What is added to f: a column or a number."),
    _beside("exposure", "What rates are multiplied by: a column or a number."),
)
_COLUMNS = (
    _beside("event", "Column that is 1 where a time was seen to end, 0 where it was censored."),
    *exposure_options,
    click.option(
        "--width", help="Rows are averages over [x, x + width]: a column, a number or a duration."
    ),
    click.option("--noise-variance", type=ColumnName(), help="Column of known noise variances."),
    click.option(
        "--weight", type=ColumnName(), help="Column of weights: how often every row is there."
    ),
)


def column_options(function: Callable) -> Callable:
    """Give a command the options of `source_of`: --weight, --exposure and the others."""
    return reduce(lambda command, option: option(command), _COLUMNS, function)


def output_option(help: str, *endings: str, required: bool = True) -> Callable:
    """Return the option --output: a file with one of several endings."""
    return click.option("-o", "--output", required=required, type=OutputFile(*endings), help=help)


def full_option() -> Callable:
    """Return the option --full, of commands that write a model."""
    return click.option(
        "--full",
        is_flag=True,
        help="Write all sums, so that the model can become finer when data are added; the file "
        "may be much larger.",
    )


def source_of(
    data: Sequence[str],
    target: Sequence[str] = (),
    inputs: Sequence[str] = (),
    weight: str | None = None,
    noise_variance: str | None = None,
    width: str | None = None,
    gp=None,
    **beside: str | None,
):
    """Return the source for the arguments of a command; targets are by default those of ``gp``."""
    from asvgp.sources.arrays import ArraySource
    from asvgp.sources.roles import Roles
    from asvgp.sources.source import open_source

    source = open_source(data[0] if len(data) == 1 else list(data))
    numbered = isinstance(source, ArraySource)

    def column(name: str | None):
        # An array's columns have numbers, not names.
        return int(name) if numbered and name is not None and name.isdigit() else name

    if gp is not None and not target:
        target = gp._fit_data().targets
        if not target:
            raise ValueError("The model was fitted to arrays, without names: give --target.")
    targets = [column(name) for name in target]
    length = width
    if width is not None:
        try:
            length = number_or_duration(width)
        except ValueError:
            length = column(width)

    def column_or_number(given: str | None):
        return column(given) if given is None or numbered else number_or_column(given)

    return source.with_roles(
        Roles(
            targets[0] if len(targets) == 1 else targets or None,
            [column(name) for name in inputs] or None,
            column(weight),
            column(noise_variance),
            length,
            **{name: column_or_number(value) for name, value in beside.items()},
        )
    )


@contextmanager
def with_lines(source) -> Iterator[None]:
    """Add the line of the file to errors about rows of text files."""
    try:
        yield
    except ValueError as error:
        from asvgp.likelihoods.family import BadRows

        text = str(error)
        found = re.search(r"(?:in \d+ of \d+ rows \(|First rows: |: [^ ]+ in row )(\d+)", text)
        plain = type(error) in (ValueError, BadRows)
        if found is None or not plain or not hasattr(source, "line_of"):
            raise
        before = re.match(r"From row (\d+) of the data on", text)
        where = source.line_of(int(found[1]) + (int(before[1]) if before else 0))
        raise ValueError(f"{text} The first is {where[2:-1]}." if where else text) from None


def spare_inputs(output: str, data: Sequence[str], *models: str) -> None:
    """Raise an error if the output would replace a file that is to be read."""
    from asvgp.sources.files import find
    from asvgp.sources.grids import grid_files
    from asvgp.sources.paths import identity

    if output == "-" or not exists(output):
        return
    replaced = identity(output)
    files = (path for item in data for path in grid_files(item) or find(item))
    for path in (*models, *files):
        if identity(path) == replaced:
            raise click.UsageError(
                f"The output {output} is a file to be read, {path}, and would replace it: give it "
                "another name."
            )
