"""``asvgp report``: a page about a model."""

from __future__ import annotations

import click

from asvgp.cli.data import column_options, data_argument, output_option, source_of, spare_inputs
from asvgp.cli.session import Session, common, examples
from asvgp.cli.values import ColumnName


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
@column_options
@output_option(
    "The page; one that is there is replaced when the new one is complete.", ".html", ".htm"
)
@common
def report(session: Session, model, data, target, output, **columns) -> None:
    """Write a self-contained page about MODEL: what was fitted, and whether it is good.

    With DATA it also has residuals and calibration; their columns are read into memory. --json
    answers with the findings: question, verdict, words, and the number that decides.
    """
    from asvgp.report.checks import headline
    from asvgp.report.page import compose

    spare_inputs(output, data, model)
    gp = session.load(model, reading=True)
    source = source_of(data, target, gp=gp, **columns) if data else None
    page = compose(gp, source)
    page.write(output)
    verdict = headline(page.findings)
    found = [
        {"question": one.question, "verdict": one.word, "words": one.answer, "number": one.number}
        for one in page.findings
    ]
    facts = {"output": output, "verdict": verdict, "findings": found}
    session.wrote(facts, f"Wrote {output}. {verdict}")
