"""``asvgp report``: a page about a model."""

from __future__ import annotations

import click

from asvgp.cli.data import (
    data_argument,
    noise_option,
    source_of,
    spare_inputs,
    targets_of,
    weight_option,
    width_option,
)
from asvgp.cli.session import Session, common, examples
from asvgp.cli.values import ColumnName, OutputFile


@click.command(
    short_help="A page about a model, as HTML.",
    epilog=examples(
        "asvgp report power.asvgp power.parquet -o power.html",
        "asvgp report power.asvgp -o power.html",
    ),
)
@click.argument("model", type=click.Path())
@data_argument(required=False)
@click.option("--target", multiple=True, type=ColumnName(), help="Column of DATA.")
@weight_option
@noise_option
@width_option
@click.option(
    "-o",
    "--output",
    required=True,
    type=OutputFile(".html", ".htm"),
    help="The page; one that is there is replaced when the new one is complete.",
)
@common
def report(session: Session, model, data, target, weight, noise_variance, width, output) -> None:
    """Write a page about MODEL that stands alone: what was fitted, and is it good.

    With DATA it also has residuals and calibration.
    """
    from asvgp.report import write_report  # pyright: ignore[reportMissingImports]

    spare_inputs(output, data, model)
    gp = session.load(model)
    source = None
    if data:
        source = source_of(data, target or targets_of(gp), (), weight, noise_variance, width)
    write_report(gp, output, source)
    if session.json:
        session.answer({"output": output}, "")
    else:
        session.note(f"Wrote {output}.")
