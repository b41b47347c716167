"""``asvgp update``: more data for a model."""

from __future__ import annotations

import click

from asvgp.cli.data import (
    column_options,
    data_argument,
    full_option,
    output_option,
    source_of,
    spare_inputs,
    with_lines,
)
from asvgp.cli.session import Session, common, examples, sparing
from asvgp.cli.values import ColumnName


@click.command(
    short_help="Add data to a model and train it again.",
    epilog=examples(
        "asvgp update power.asvgp yesterday.parquet",
        "asvgp update power.asvgp yesterday.parquet -o newer.asvgp",
    ),
)
@click.argument("model", type=click.Path())
@data_argument(required=True)
@click.option(
    "--target", multiple=True, type=ColumnName(), help="By default the column of the first data."
)
@column_options
@full_option()
@output_option("Where to write the new model; by default it replaces MODEL.", required=False)
@common
def update(session: Session, model, data, target, full, output, **columns) -> None:
    """Add DATA to MODEL and train it again, starting where training ended.

    The statistics are those of all data at once; so is the model, where no new input lies outside
    the domain. Elsewhere the domain grows. A model that was saved with --full may become finer;
    any other keeps the cells that it has. Target and inputs are the columns of the first data;
    weights, noise variances, widths, exposures and the like are named again. Ctrl-C while data are
    read leaves MODEL as it was.
    """
    from asvgp.cli.checkpoint import added
    from asvgp.cli.fit import tell_trained

    output = model if output is None else output
    spare_inputs(output, data)
    gp = session.load(model)
    before = gp.stats_.count
    source = source_of(data, target, gp=gp, **columns)
    with sparing(output), with_lines(source):
        added(gp, source)
        _ = gp.elbo_
    rows = gp.stats_.count - before
    session.note(f"{rows:,} rows added, now {gp.stats_.count:,}.")
    session.save(gp, output, full)
    tell_trained(session, gp, output, added=rows)
