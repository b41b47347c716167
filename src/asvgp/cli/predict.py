"""``asvgp predict``: means and bands, row by row."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import reduce
from math import prod
from typing import Any, NamedTuple

import click

from asvgp.cli.data import (
    data_argument,
    exposure_options,
    output_option,
    source_of,
    spare_inputs,
)
from asvgp.cli.info import inputs_of
from asvgp.cli.session import Session, common, examples
from asvgp.cli.values import LEVEL, ColumnName, number_or_column

TABLES = ("-", ".parquet", ".pq", ".csv", ".csv.gz", ".tsv", ".feather", ".arrow")


class Portion(NamedTuple):
    """A portion of rows: inputs of the model, columns to write before the answers, and options.

    Options are known noise variances, exposures and the like.
    """

    X: Any
    columns: Mapping[str, Any]
    options: Mapping[str, Any] = {}


def exposures(function: Callable) -> Callable:
    """Give the command the options --exposure, --offset and --trials."""
    return reduce(lambda command, option: option(command), exposure_options, function)


@click.command(
    short_help="Predictions for the rows of files, or for places.",
    epilog=examples(
        "asvgp predict power.asvgp new.csv -o out.parquet",
        "asvgp predict power.asvgp new.parquet --level 0.95 --include-noise --keep site -o out.csv",
        "asvgp predict power.asvgp --at 2024-03-01:2024-03-08:1h --components -o week.csv",
        "asvgp predict map.asvgp --at lon=5:15:0.1 --at lat=47:55:0.1 -o map.parquet",
        "asvgp predict power.asvgp --at 2024-03-01T12:00 -o -",
    ),
)
@click.argument("model", type=click.Path())
@data_argument(required=False)
@click.option(
    "--at",
    "--grid",
    "places",
    multiple=True,
    metavar="[INPUT=]PLACES",
    help="Instead of DATA: a value, or START:STOP:STEP with both ends, in numbers or times; one "
    "for every input, of which all combinations are taken.",
)
@click.option(
    "--input",
    "inputs",
    multiple=True,
    type=ColumnName(),
    help="Columns of DATA in the order of the model's inputs, where their names differ.",
)
@click.option(
    "--keep",
    multiple=True,
    type=ColumnName(),
    help="Further columns of DATA to write before the predictions; '*' for all.",
)
@click.option(
    "--level",
    type=LEVEL,
    help="Also lower and upper ends of the central band of this probability.",
)
@click.option("--include-noise", is_flag=True, help="Predict new observations instead of f.")
@click.option(
    "--noise-variance",
    type=ColumnName(),
    help="With --include-noise: column of noise variances of the new observations.",
)
@exposures
@click.option(
    "--type",
    "kind",
    type=click.Choice(["response", "link"]),
    default="response",
    show_default=True,
    help="Of a likelihood that is not Gaussian: the mean of y, or f itself.",
)
@click.option("--components", is_flag=True, help="Also every component's mean and std.")
@output_option(
    "A table (.parquet, .csv, .csv.gz, .tsv, .feather), replaced when the new one is complete; - "
    "for CSV on standard output.",
    *TABLES,
)
@common
def predict(
    session: Session,
    model,
    data,
    places,
    inputs,
    keep,
    level,
    include_noise,
    noise_variance,
    exposure,
    offset,
    trials,
    kind,
    components,
    output,
) -> None:
    """Write predictions of MODEL for the rows of DATA, or for places given by --at.

    The output has the inputs, the columns to keep, mean and std, in the order of the rows. Data
    are read and written block by block. Nothing is left behind if something goes wrong.
    """
    from asvgp.cli.output import TableWriter, written
    from asvgp.runtime.progress import Progress

    if bool(data) == bool(places):
        raise click.UsageError("Give either DATA or --at, and not both.")
    if output == "-" and session.json:
        raise click.UsageError("Standard output can hold the table or JSON, not both.")
    if noise_variance and not include_noise:
        raise click.UsageError("--noise-variance is for --include-noise.")
    if places and (keep or inputs or noise_variance):
        raise click.UsageError("--keep, --input and --noise-variance are columns of DATA.")
    beside = {"exposure": exposure, "offset": offset, "trials": trials}
    beside = {name: number_or_column(given) for name, given in beside.items() if given is not None}
    if places and any(isinstance(given, str) for given in beside.values()):
        raise click.UsageError(
            "With --at, --exposure, --offset and --trials are numbers: there are no columns."
        )
    spare_inputs(output, data, model)
    begin = time.perf_counter()
    gp = session.load(model, reading=True)
    if places:
        total, rows = rows_at(gp, places)
    else:
        named = {name: given for name, given in beside.items() if isinstance(given, str)}
        if noise_variance:
            named["noise_variance"] = noise_variance
        total, rows = rows_of_data(gp, data, inputs, keep, named)
    given = {"include_noise": include_noise, "type": kind} | beside
    with (
        Progress(session.progress) as progress,
        written(output) as stream,
        TableWriter(stream, output) as table,
    ):
        advance = progress.passing(total, "prediction")
        for portion in rows:
            predicted = answers(gp, portion, components, level, given)
            if both := [name for name in portion.columns if name in predicted]:
                raise ValueError(
                    f"The data have a column {both[0]!r}, which is also the name of a prediction: "
                    "rename it, or do not keep it."
                )
            table.write({**portion.columns, **predicted})
            advance(len(portion.X))
        if table.writer is None:
            raise ValueError("There are no data: 0 rows.")
    facts = {
        "output": output,
        "rows": table.rows,
        "columns": list(table.columns),
        "seconds": time.perf_counter() - begin,
    }
    if output != "-":
        session.wrote(facts, f"Wrote {output} ({table.rows:,} rows: {', '.join(table.columns)}).")


def rows_at(gp, places) -> tuple[int, Iterator[Portion]]:
    """Return the number of all combinations of places, and their rows."""
    from asvgp.cli.places import axes, portions

    names = inputs_of(gp)
    along = axes(gp, places, names)
    return prod(map(len, along)), (_whole(gp, X, names) for X in portions(names, along))


def in_zone(axis):
    """Return places as a column, with times in their zone."""
    if not hasattr(axis, "tz"):
        return axis
    import pyarrow as pa

    times = pa.array(axis.times)
    return times.cast(pa.timestamp(times.type.unit, axis.tz))


def rows_of_data(
    gp, data, inputs, keep, named: Mapping[str, str]
) -> tuple[int | None, Iterator[Portion]]:
    """Return the number of rows of files, if known, and the rows.

    Options of predictions are columns that are ``named`` for them.
    """
    from asvgp.sources.convert import as_numbers
    from asvgp.sources.table import TableSource, chunk_of

    known = inputs_of(gp)
    if inputs and len(inputs) != len(known):
        raise ValueError(
            f"The model has {len(known)} inputs, {', '.join(known)}, but {len(inputs)} columns are "
            "given."
        )
    wanted = list(inputs) or (known if hasattr(gp, "feature_names_in_") else None)
    source = source_of(data, inputs=wanted or ()).inputs_only(wanted)
    if not isinstance(source, TableSource):
        if keep or named:
            raise ValueError("From arrays and grids only the inputs can be kept or used.")
        return source.rows, (_whole(gp, c.X, known) for c in source.chunks(inputs_only=True))
    names = list(source.names())
    chosen: tuple[str, ...] = source.roles.inputs
    further = [name for name in names if name not in chosen] if "*" in keep else list(keep)
    for name in [*further, *named.values()]:
        if names.count(name) != 1:
            many = "There is no column" if name not in names else "There are several columns"
            raise ValueError(f"{many} {name!r}; there are {', '.join(map(repr, names))}.")
    before = list(dict.fromkeys([*chosen, *further]))
    beside = [name for name in dict.fromkeys(named.values()) if name not in before]

    def portions() -> Iterator[Portion]:
        start = 0
        for batch in source.batches([*before, *beside]):
            X = chunk_of(batch, source.roles, start, inputs_only=True).X
            options = {key: as_numbers(batch[name], name, start) for key, name in named.items()}
            yield Portion(for_model(gp, X), {name: batch[name] for name in before}, options)
            start += len(X)

    return source.rows, portions()


def _whole(gp, X, names: Sequence[str]) -> Portion:
    """Return the rows of an array, or the points of a grid one by one."""
    from asvgp.data.columns import Columns, Gridded

    X = X.expanded() if isinstance(X, Gridded) else X
    if isinstance(X, Columns):
        columns = {n: in_zone(a) for n, a in zip(X.columns, X.arrays, strict=True)}
    else:
        columns = {n: X[:, i] for i, n in enumerate(names)}
    return Portion(for_model(gp, X), columns)


def for_model(gp, X):
    """Return rows under the names that the model knows, or as arrays if it knows none."""
    from asvgp.data.columns import Columns

    if not isinstance(X, Columns):
        return X
    names = getattr(gp, "feature_names_in_", None)
    if names is not None:
        return Columns(tuple(names), X.arrays)
    if len(X.arrays) == 1:
        return X.arrays[0]
    import numpy as np

    return np.column_stack(X.arrays)


def answers(gp, portion: Portion, components, level, options: Mapping[str, Any]) -> dict[str, Any]:
    """Return columns of means, standard deviations and the ends of bands."""
    from asvgp.estimators.portable import Predictor

    return Predictor(gp, components, level, **{**options, **portion.options})(portion.X)
