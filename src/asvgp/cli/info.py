"""``asvgp info``: what is in a model file."""

from __future__ import annotations

import os
from typing import Any

import click

from asvgp.cli.session import Session, common, examples
from asvgp.runtime.memory import in_words


@click.command(
    short_help="What is in a model file.",
    epilog=examples("asvgp info power.asvgp", "asvgp info power.asvgp --json | jq .elbo"),
)
@click.argument("model", type=click.Path())
@common
def info(session: Session, model: str) -> None:
    """Print what MODEL is: its columns, hyperparameters, bounds, and is its basis large enough."""
    tell(session, session.load(model), model)


def tell(session: Session, gp, path: str, **further) -> None:
    """Print the summary of a model; of one that was never trained, what it has seen.

    Further facts are for those who read JSON.
    """
    from asvgp.diagnostics.summary import summary

    facts = facts_of(gp, path) | further
    named = [
        f"Model             {path} ({in_words(facts['bytes'])})",
        f"Predicts          {', '.join(facts['targets'] or ['y'])} from {', '.join(inputs_of(gp))}",
    ]
    if facts["trained"]:
        found = summary(gp)
        facts |= found.as_dict()
        facts["hyperparameters"] = [with_unit(row) for row in facts["hyperparameters"]]
        text = "\n".join([*named, str(found)])
    else:
        facts |= {"kernel": repr(gp.kernel), "observations": gp.stats_.count}
        facts |= {"missing": gp.stats_.missing, "domain": gp.domain_}
        rows = f"Observations      {gp.stats_.count:,}, not trained yet"
        text = "\n".join([*named, f"Kernel            {gp.kernel!r}", rows])
    session.answer(facts, text)


def facts_of(gp, path: str) -> dict[str, Any]:
    """What a file says of a model beside its summary."""
    targets = gp._fit_data().targets
    return {
        "file": path,
        "bytes": os.path.getsize(path),
        "trained": "_fit_now" in vars(gp),
        "targets": None if targets is None else list(targets),
        "inputs": inputs_of(gp),
        "num_basis_setting": gp.num_basis,
        "time_origin": origins_of(gp),
    }


def with_unit(row: dict[str, Any]) -> dict[str, Any]:
    """A hyperparameter with its unit, where it is a length of time, and as the summary has it."""
    from asvgp.diagnostics.summary import worded
    from asvgp.times import Duration

    estimate = row["estimate"]
    unit = "seconds" if isinstance(estimate, Duration) else None
    return {**row, "unit": unit, "in_words": worded(estimate, 5)}


def origins_of(gp) -> dict[str, Any] | None:
    """From when inputs that are times are counted, by name; None where there are none."""
    names = inputs_of(gp)
    timed = gp._fit_data().structure.timed
    return {names[column]: axis.shown(0.0) for column, axis in timed.items()} or None


def inputs_of(gp) -> list[str]:
    """Names of a model's inputs; x, or x0, x1 and so on, where they have none."""
    names = getattr(gp, "feature_names_in_", None)
    if names is not None:
        return [str(name) for name in names]
    count = gp.n_features_in_
    return ["x"] if count == 1 else [f"x{number}" for number in range(count)]
