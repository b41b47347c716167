"""``asvgp merge``: one model from several."""

from __future__ import annotations

import click

from asvgp.cli.data import full_option, output_option, spare_inputs
from asvgp.cli.session import Session, common, examples, sparing


@click.command(
    short_help="Merge models into one of all their data.",
    epilog=examples("asvgp merge monday.asvgp tuesday.asvgp wednesday.asvgp -o week.asvgp"),
)
@click.argument("models", nargs=-1, required=True, type=click.Path())
@full_option()
@output_option("The model file; one that is there is replaced when the new one is complete.")
@common
def merge(session: Session, models, full, output) -> None:
    """Add up the data of MODELS and train on all of them.

    The models must have the same columns, domain, number of basis functions and degree: fit
    them with --domain and --num-basis, or with --domain and --full. Kernel and settings are those
    of the first.
    """
    from asvgp.cli.fit import tell_trained
    from asvgp.sources.paths import check_distinct

    if len(models) < 2:
        raise click.UsageError("Give at least two models to merge.")
    spare_inputs(output, (), *models)
    check_distinct(models)
    first, *others = models
    gp = session.load(first)
    for path in others:
        other = session.load(path)
        check_same(gp, first, other, path)
        try:
            gp.merge(other)
        except ValueError as error:
            raise ValueError(f"{path} cannot be added to {first}: {error}") from error
    with sparing(output):
        _ = gp.elbo_
    session.save(gp, output, full)
    tell_trained(session, gp, output)


def check_same(gp, path: str, other, other_path: str) -> None:
    """Check that two models have the same columns: other statistics must not be added."""
    from asvgp.cli.info import inputs_of

    for what, mine, theirs in (
        ("inputs", inputs_of(gp), inputs_of(other)),
        ("targets", gp._fit_data().targets, other._fit_data().targets),
    ):
        if mine != theirs:
            listed = (", ".join(names or ["without names"]) for names in (mine, theirs))
            raise ValueError(
                f"{path} and {other_path} have different {what}: {' and '.join(listed)}."
            )
