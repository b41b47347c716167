"""``asvgp plot``: a picture of a model."""

from __future__ import annotations

import click

from asvgp.cli.data import (
    data_argument,
    noise_option,
    rows_to_compare,
    spare_inputs,
    weight_option,
    width_option,
)
from asvgp.cli.info import inputs_of
from asvgp.cli.session import Session, common, examples
from asvgp.cli.values import ColumnName, NumberOrDuration, OutputFile, Span

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
@weight_option
@noise_option
@width_option
@click.option("--interval", type=Span(), help="Interval to show, for series and components.")
@click.option(
    "--forecast",
    type=NumberOrDuration(),
    help="How far to go beyond the end of the data, for series and components: 7d. With "
    "--interval, whichever ends later.",
)
@click.option(
    "--level", type=click.FloatRange(0.0, 1.0, min_open=True, max_open=True), default=0.95
)
@click.option("--include-noise", is_flag=True, help="Draw the band of new observations (series).")
@click.option(
    "--held-out",
    is_flag=True,
    help="DATA are not those of the fit (check, residuals, calibration).",
)
@click.option("--output-number", type=int, help="Number of the target to draw, from 0.")
@click.option("--dpi", type=click.IntRange(20, 1200), default=150, show_default=True)
@click.option(
    "-o",
    "--output",
    required=True,
    type=OutputFile(".png", ".pdf", ".svg", ".jpg"),
    help="The picture: .png, .pdf, .svg or .jpg.",
)
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
    interval,
    forecast,
    level,
    include_noise,
    held_out,
    output_number,
    dpi,
    output,
) -> None:
    """Draw MODEL, with DATA if they are given.

    DATA are read into memory: the columns that the picture needs must fit.
    """
    from asvgp.plot.style import pyplot

    spare_inputs(output, data, model)
    gp = session.load(model)
    count = len(inputs_of(gp))
    if kind == "auto":
        kind = {1: "series", 2: "map"}.get(count, "components")
    if kind in NEED_DATA and not data:
        raise click.UsageError(f"--kind {kind} compares the model with DATA: name them.")
    X = y = None
    given: dict = {}
    if data:
        columns = {"weight": weight, "noise_variance": noise_variance, "width": width}
        X, y, weights, noise, widths = rows_to_compare(gp, data, target, columns)
        given = {"sample_weight": weights, "noise_variance": noise, "width": widths}
    options: dict = {"output": output_number}
    if kind in ("series", "components"):
        options |= {"interval": interval, "level": level}
        options |= {"forecast": 0.0 if forecast is None else forecast}
    elif interval is not None or forecast is not None:
        raise click.UsageError("--interval and --forecast are for series and components.")
    if kind == "series":
        options |= {"include_noise": include_noise, "width": given.get("width")}
    if kind in NEED_DATA:
        options |= {"held_out": held_out, **given}
    pyplot()  # says what to install, before anything is drawn
    import matplotlib as mpl

    mpl.use("Agg")
    draw(kind, gp, X, y, options, output, dpi)
    facts = {"output": output, "kind": kind, "rows": 0 if X is None else len(X)}
    if session.json:
        session.answer(facts, "")
    else:
        session.note(f"Wrote {output} ({kind}).")


def draw(kind: str, gp, X, y, options: dict, output: str, dpi: int) -> None:
    """Draw one picture into a file."""
    import matplotlib.pyplot as plt

    from asvgp import plot as pictures
    from asvgp.cli.output import written

    function = getattr(pictures, kind)
    try:
        if kind in ("resolution", "bound"):
            function(gp)
        elif kind == "components":
            function(gp, X, **options)
        else:
            function(gp, X, y, **options)
        figure = plt.gcf()
        with written(output) as stream:
            figure.savefig(stream, format=output.rpartition(".")[2].lower(), dpi=dpi)
    finally:
        plt.close("all")
