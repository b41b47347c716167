"""``asvgp forecast``: what follows the end of a series."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import click

from asvgp.cli.data import data_argument, output_option, source_of, spare_inputs
from asvgp.cli.info import inputs_of
from asvgp.cli.predict import TABLES, in_zone
from asvgp.cli.session import Session, common, examples
from asvgp.cli.values import Parsed, level


def levels(text: str) -> list[float]:
    """Return probabilities, written in per cent or as such, with commas between them.

    Examples
    --------
    >>> levels("80,95"), levels("0.9")
    ([0.8, 0.95], [0.9])
    """
    return [level(part.strip()) for part in text.split(",")]


def number_or_text(text: str) -> float | str:
    """Return a number where the text is one."""
    with suppress(ValueError):
        return float(text)
    return text


@click.command(
    short_help="What follows the end of a series, with intervals.",
    epilog=examples(
        "asvgp forecast power.asvgp --steps 48 -o tomorrow.csv",
        "asvgp forecast power.asvgp --until 2024-03-08 --level 80,95 --components -o week.parquet",
        "asvgp forecast load.asvgp weather.csv -o load.csv    # rows with further columns",
        "asvgp forecast power.asvgp --steps 3",
    ),
)
@click.argument("model", type=click.Path())
@data_argument(required=False)
@click.option("--steps", type=int, help="Number of inputs after the last, as far apart as before.")
@click.option(
    "--until",
    type=Parsed("number|time", number_or_text),
    help="Instead of --steps: the end of the forecast, a number or a time, in the time zone of "
    "the data.",
)
@click.option(
    "--level",
    type=Parsed("percents", levels),
    default="80,95",
    show_default=True,
    help="Probabilities of the intervals, in per cent or as 0.8, with commas between them.",
)
@click.option("--components", is_flag=True, help="Also the mean of every component and effect.")
@click.option(
    "--without-noise", is_flag=True, help="Intervals of f rather than of new observations."
)
@output_option(
    "A table (.parquet, .csv, .csv.gz, .tsv, .feather), replaced when the new one is complete; by "
    "default, and for -, CSV on standard output.",
    *TABLES,
    required=False,
)
@common
def forecast(
    session: Session, model, data, steps, until, level, components, without_noise, output
) -> None:
    """Forecast the series of MODEL: --steps further inputs, or all --until a place.

    Where other columns have linear effects, DATA hold the rows to forecast, with those columns.
    The output has the input, mean, std, the ends of the intervals and the components.
    """
    from asvgp.cli.output import TableWriter, written

    output = output or "-"
    if output == "-" and session.json:
        raise click.UsageError("Standard output can hold the table or JSON, not both: give -o.")
    if sum([bool(data), steps is not None, until is not None]) != 1:
        raise click.UsageError("Give one of --steps, --until and DATA.")
    spare_inputs(output, data, model)
    gp = session.load(model)
    if gp._fit_data().known_noise and not without_noise:
        raise ValueError(
            "The data came with known noise variances, so the model cannot know that of a new "
            "observation: add --without-noise, for intervals of f."
        )
    X: Any = None
    if data:
        names = inputs_of(gp)
        named = names if hasattr(gp, "feature_names_in_") else None
        X = source_of(data, inputs=named or ()).inputs_only(named)
    found = gp._forecast(steps, until, X, level, components, not without_noise)
    several = len(found.outputs) > 1
    columns = {found.name or "x": in_zone(found.inputs)}
    for name, values in found.outputs.items():
        columns |= {f"{key}_{name}" if several else key: each for key, each in values.items()}
    with written(output) as stream, TableWriter(stream, output) as table:
        table.write(columns)
    facts = {"output": output, "rows": table.rows, "columns": list(table.columns)}
    if output != "-":
        session.wrote(facts, f"Wrote {output} ({table.rows:,} rows: {', '.join(table.columns)}).")
