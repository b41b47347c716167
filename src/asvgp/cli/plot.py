"""``asvgp plot``: a picture of a model."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from inspect import signature

import click

from asvgp.cli.data import column_options, data_argument, output_option, source_of, spare_inputs
from asvgp.cli.info import inputs_of
from asvgp.cli.session import Session, common, examples
from asvgp.cli.values import LEVEL, NUMBER_OR_DURATION, SPAN, ColumnName

NEED_DATA = ("check", "residuals", "calibration")
KINDS = ("auto", "series", "map", "components", *NEED_DATA, "resolution", "bound")


@click.command(
    short_help="A picture of a model.",
    epilog=examples(
        "asvgp plot power.asvgp power.parquet -o power.png",
        "asvgp plot power.asvgp --interval 2024-02-20,2024-03-01 --forecast 7d -o week.pdf",
        "asvgp plot power.asvgp --kind components -o components.svg",
        "asvgp plot power.asvgp power.parquet --kind check -o check.png",
    ),
)
@click.argument("model", type=click.Path())
@data_argument(required=False)
@click.option(
    "--kind",
    type=click.Choice(KINDS),
    default="auto",
    show_default=True,
    help="auto: a series for one input, a map for two, the components for more. check, residuals "
    "and calibration compare with DATA.",
)
@click.option("--target", multiple=True, type=ColumnName(), help="Column of DATA.")
@column_options
@click.option("--interval", type=SPAN, help="Interval to show, for series and components.")
@click.option(
    "--forecast",
    type=NUMBER_OR_DURATION,
    help="How far to go beyond the end of the data, for series and components: 7d. With "
    "--interval, whichever ends later.",
)
@click.option("--level", type=LEVEL, default=0.95)
@click.option("--include-noise", is_flag=True, help="Draw the band of new observations (series).")
@click.option(
    "--held-out",
    is_flag=True,
    help="DATA are not those of the fit (check, residuals, calibration).",
)
@click.option("--output-number", type=int, help="Number of the target to draw, from 0.")
@click.option("--dpi", type=click.IntRange(20, 1200), default=150, show_default=True)
@output_option("The picture: .png, .pdf, .svg or .jpg.", ".png", ".pdf", ".svg", ".jpg")
@common
def plot(
    session: Session,
    model,
    data,
    kind,
    target,
    weight,
    noise_variance,
    width,
    output_number,
    dpi,
    output,
    **options,
) -> None:
    """Draw MODEL, with DATA if they are given.

    DATA are read into memory: the columns that the picture needs must fit.
    """
    from asvgp import plot as pictures

    spare_inputs(output, data, model)
    gp = session.load(model, reading=True)
    if kind == "auto":
        kind = {1: "series", 2: "map"}.get(len(inputs_of(gp)), "components")
    if kind in NEED_DATA and not data:
        raise click.UsageError(f"--kind {kind} compares the model with DATA: name them.")
    function = getattr(pictures, kind)
    accepted = signature(function).parameters
    beyond = options["interval"] is not None or options["forecast"] is not None
    if beyond and "interval" not in accepted:
        raise click.UsageError("--interval and --forecast are for series and components.")
    options |= {"output": output_number, "forecast": options["forecast"] or 0.0}
    rows = 0
    if data:
        from asvgp.sources.roles import BESIDE

        beside = {name: options.pop(name) for name in BESIDE}
        source = source_of(data, target, (), weight, noise_variance, width, gp, **beside)
        options |= gp._rows_in_memory(source)._asdict()
        rows = len(options["X"])
    chosen = {name: value for name, value in options.items() if name in accepted}
    draw(partial(function, gp, **chosen), output, dpi)
    facts = {"output": output, "kind": kind, "rows": rows}
    session.wrote(facts, f"Wrote {output} ({kind}).")


def draw(picture: Callable[[], object], output: str, dpi: int) -> None:
    """Draw one picture into a file."""
    from asvgp.cli.output import written
    from asvgp.plot.style import pyplot

    plt = pyplot()  # says what to install, before anything is drawn
    plt.switch_backend("Agg")
    try:
        picture()
        figure = plt.gcf()
        with written(output) as stream:
            figure.savefig(stream, format=output.rpartition(".")[2].lower(), dpi=dpi)
    finally:
        plt.close("all")
