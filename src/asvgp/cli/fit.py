"""``asvgp fit``: from files to a model."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import click

from asvgp.cli.app import INTERRUPTED
from asvgp.cli.data import (
    column_options,
    data_argument,
    full_option,
    output_option,
    source_of,
    spare_inputs,
    with_lines,
)
from asvgp.cli.session import Session, common, examples
from asvgp.cli.values import (
    AUTO_OR_NUMBER,
    KERNEL,
    LIKELIHOOD,
    NUM_BASIS,
    SPAN,
    TRANSFORM,
    ColumnName,
)

if TYPE_CHECKING:
    from asvgp.cli.checkpoint import Checkpoint


class LikelihoodOption(click.Option):
    """An option whose help lists all likelihoods, which are imported only when it is shown."""

    def get_help_record(self, ctx: click.Context) -> tuple[str, str] | None:
        """Return the option as written, and its help."""
        from asvgp.likelihoods.names import FAMILIES

        self.help = (
            f"How y scatters: gaussian, the default, {', '.join(FAMILIES)}; with numbers that are "
            "known, such as student-t(df=4)."
        )
        return super().get_help_record(ctx)


class KernelOption(click.Option):
    """An option whose help lists all kernels, which are imported only when it is shown."""

    def get_help_record(self, ctx: click.Context) -> tuple[str, str] | None:
        """Return the option as written, and its help."""
        from asvgp.kernels.text import PARTS

        self.help = (
            f"Joined by + and *: {', '.join(PARTS)}. By default chosen from the data: matern32 + "
            "constant, and the seasons that a series shows."
        )
        return super().get_help_record(ctx)


@click.command(
    short_help="Fit a model to files and save it.",
    epilog=examples(
        "asvgp fit power.parquet --target power --input time -o power.asvgp",
        'asvgp fit power.csv --target power --input time --kernel "matern32 + sho(period=1d)" '
        "-o power.asvgp",
        'asvgp fit "tiles/*.parquet" --target height --input lon --input lat --num-basis 300,200 '
        "-o map.asvgp",
        "asvgp fit trips.csv --target trips --input time --likelihood negative-binomial "
        "--exposure hours -o trips.asvgp",
        "asvgp fit a.csv b.csv --target y --input x --domain 0,100 --json -o y.asvgp",
    ),
)
@data_argument(required=True)
@click.option(
    "--target",
    multiple=True,
    required=True,
    type=ColumnName(),
    help="Column to predict; several times for several outputs.",
)
@click.option(
    "--input",
    "inputs",
    multiple=True,
    type=ColumnName(),
    help="Column to predict from; by default those that the kernel names, or all others.",
)
@column_options
@click.option(
    "--kernel",
    cls=KernelOption,
    type=KERNEL,
)
@click.option("--likelihood", cls=LikelihoodOption, type=LIKELIHOOD)
@click.option("--num-basis", type=NUM_BASIS, default="auto", show_default=True)
@click.option(
    "--domain",
    type=SPAN,
    multiple=True,
    help="Interval of the splines, once for each input; by default the range of the data. With "
    "it, CSV files are read once instead of twice.",
)
@click.option("--degree", type=int, help="Degree of the splines; by default chosen by the kernel.")
@click.option(
    "--noise", type=float, help="First guess of the noise variance; with --fixed, its value."
)
@click.option(
    "--noise-scale",
    type=AUTO_OR_NUMBER,
    default=1.0,
    show_default=True,
    help="Factor of the noise variances in the column --noise-variance; auto estimates it.",
)
@click.option("--fixed", is_flag=True, help="Keep all hyperparameters as they are given.")
@click.option(
    "--objective",
    type=click.Choice(["auto", "elbo", "evidence"]),
    default="auto",
    show_default=True,
)
@click.option("--device", default="cpu", show_default=True, help="cpu or cuda.")
@click.option(
    "--memory-limit", help='Memory that a model of several inputs may use, such as "8 GiB".'
)
@click.option(
    "--transform",
    type=TRANSFORM,
    default="none",
    show_default=True,
    help="Model log y, or a power of y between 0 and 1; auto takes y or log y by the evidence.",
)
@click.option(
    "--max-time",
    help='Seconds, or a time such as "10 minutes", after which training ends with the best state.',
)
@click.option("--resume", is_flag=True, help="Continue a fit that was interrupted or killed.")
@full_option()
@output_option(
    "The model file, such as model.asvgp. One that is there is replaced, but only when the new "
    "one is complete."
)
@common
def fit(
    session: Session,
    data,
    target,
    inputs,
    weight,
    noise_variance,
    width,
    exposure,
    offset,
    event,
    trials,
    domain,
    noise,
    fixed,
    resume,
    full,
    output,
    **settings,
) -> None:
    """Fit a model to DATA and save it.

    DATA are files of one kind (Parquet, CSV, TSV, Feather, NumPy, NetCDF), folders or patterns of
    them, or a Zarr store, read block by block: they may be larger than memory. Columns of NetCDF
    and Zarr are variables and coordinates. The summary goes to standard output.

    Ctrl-C during training saves the best state so far. During the pass over the data it leaves
    OUTPUT.partial with all rows summed so far, from which the same command with --resume
    continues; OUTPUT is not touched. A long pass writes that file every minute, in case the
    program is killed.
    """
    from asvgp.cli.checkpoint import Checkpoint, added, resumed, watched
    from asvgp.estimators.regressor import GPRegressor
    from asvgp.runtime.interrupts import plain_interrupts

    spare_inputs(output, data)
    beside = {"exposure": exposure, "offset": offset, "event": event, "trials": trials}
    source = source_of(data, target, inputs, weight, noise_variance, width, **beside)
    gp = GPRegressor(
        noise_variance="auto" if noise is None else noise,
        domain=None if not domain else domain[0] if len(domain) == 1 else domain,
        optimizer=None if fixed else "lbfgs",
        progress=session.progress,
        **settings,
    )
    checkpoint = Checkpoint(output, source)
    if not resume and os.path.exists(checkpoint.path):
        note = f"{checkpoint.path} is that of an earlier fit, which --resume would continue"
        click.echo(f"note: {note}; this one starts again", err=True)
    try:
        with plain_interrupts(), with_lines(source):
            if resume:
                gp = resumed(output, gp, source)
                checkpoint.model = gp
                added(gp, source, gp.stats_.count + gp.stats_.missing, checkpoint)
                _ = gp.elbo_
            else:
                gp.fit(watched(source, checkpoint, gp))
    except KeyboardInterrupt:
        left = what_is_left(checkpoint, output, gp.likelihood)
        raise KeyboardInterrupt(left) from None
    if checkpoint.written:
        times = f"{checkpoint.written} times in {checkpoint.seconds:.1f} s"
        click.echo(f"note: {checkpoint.path} was written {times} during the pass", err=True)
    session.save(gp, output, full)
    checkpoint.remove()
    tell_trained(session, gp, output)


def what_is_left(checkpoint: Checkpoint, output: str, likelihood=None) -> str:
    """Save what an interrupted pass has summed; return what was saved and how to continue."""
    from asvgp.runtime.interrupts import patient_interrupts

    path, source = checkpoint.path, checkpoint.source
    untouched = f"{output} is as it was" if os.path.exists(output) else f"there is no {output}"
    if checkpoint.model is None:
        older = f"; {path} is as it was" if os.path.exists(path) else ""
        why = "no rows had been summed yet"
        if likelihood is not None and not likelihood.one_read:
            why = f"{likelihood!r} reads all rows several times"
        return f"{why}, so nothing was saved and the same command starts again; {untouched}{older}"
    with patient_interrupts("Ctrl-C: the checkpoint is being written"):
        rows = checkpoint.write()
    total = "" if source.rows is None else f" of {source.rows:,}"
    return (
        f"{rows:,}{total} rows were summed and are in {path}; the same command with "
        f"--resume continues from there; {untouched}"
    )


def tell_trained(session: Session, gp, output: str, **further) -> None:
    """Print the summary of a model that was trained and saved, unless training was stopped."""
    from asvgp.cli.info import tell

    if gp.optimization_.interrupted and not gp.optimization_.out_of_time:
        click.echo(f"interrupted: training; {output} has the best state so far", err=True)
        click.get_current_context().exit(INTERRUPTED)
    tell(session, gp, output, **further)
