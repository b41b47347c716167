"""``asvgp demo``: the main job on generated data."""

from __future__ import annotations

import sys
from contextlib import redirect_stdout

import click

from asvgp.cli.session import Session, common, examples
from asvgp.cli.values import OutputFile


@click.command(
    short_help="Demonstrate the main job on generated data.",
    epilog=examples("asvgp demo", "asvgp demo --points 100000 --picture series.png"),
)
@click.option(
    "--points", type=click.IntRange(100), default=2_000_000, show_default=True, help="Observations."
)
@click.option(
    "--picture", type=OutputFile(), default="demo.png", show_default=True, help="Where to draw."
)
@click.option("--no-picture", is_flag=True, help="Print the table only.")
@common
def demo(session: Session, points: int, picture: str, no_picture: bool) -> None:
    """Fit a long series with gaps, forecast, check it on points held out, draw it."""
    from asvgp.demo import run

    where = None if no_picture else picture
    if not session.json:
        run(points, where)
        return
    with redirect_stdout(sys.stderr):
        numbers = run(points, where)
    session.answer(numbers, "")
