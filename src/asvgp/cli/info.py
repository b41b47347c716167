"""``asvgp info``: the contents of a model file."""

from __future__ import annotations

import os
from typing import Any

import click

from asvgp.cli.session import Session, common, examples
from asvgp.runtime.memory import in_words


@click.command(
    short_help="Print what is in a model file.",
    epilog=examples("asvgp info power.asvgp", "asvgp info power.asvgp --json | jq .elbo"),
)
@click.argument("model", type=click.Path())
@common
def info(session: Session, model: str) -> None:
    """Print columns, hyperparameters and bounds of MODEL, and whether its basis is large enough."""
    tell(session, session.load(model, reading=True), model)


def tell(session: Session, gp, path: str, **further) -> None:
    """Print the summary of a model, or the data so far of one that was never trained.

    Further facts are for those who read JSON.
    """
    from asvgp.diagnostics.summary import summary, worded
    from asvgp.times import Duration

    facts = facts_of(gp, path) | further
    named = [
        f"Model             {path} ({in_words(facts['bytes'])})",
        f"Predicts          {', '.join(facts['targets'] or ['y'])} from {', '.join(inputs_of(gp))}",
    ]
    family = gp._fit_data().family
    if family is not None:
        likelihood = gp.likelihood_ if facts["trained"] else family
        named.append(f"Likelihood        {likelihood!r}")
        facts |= likelihood_facts(likelihood)
    if facts["trained"] and family is not None:
        facts |= family_facts(gp)
        text = "\n".join([*named, *family_lines(gp)])
    elif facts["trained"]:
        found = summary(gp)
        facts |= found.as_dict()
        for row in facts["hyperparameters"]:
            row["unit"] = "seconds" if isinstance(row["estimate"], Duration) else None
            row["in_words"] = worded(row["estimate"], 5)
        text = "\n".join([*named, str(found)])
    else:
        kernel = repr(gp._fit_data().layout.given)
        facts |= {"kernel": kernel, "observations": gp.stats_.count}
        facts |= {"missing": gp.stats_.missing, "domain": gp.domain_}
        rows = f"Observations      {gp.stats_.count:,}, not trained yet"
        text = "\n".join([*named, f"Kernel            {kernel}", rows])
    session.answer(facts, text)


def likelihood_facts(likelihood) -> dict[str, Any]:
    """Return a likelihood and its numbers."""
    from asvgp.likelihoods.names import family_to_dict

    numbers = family_to_dict(likelihood)
    return {"likelihood": numbers.pop("name"), "likelihood_numbers": numbers}


def family_facts(gp) -> dict[str, Any]:
    """Return the facts about a model whose likelihood is not Gaussian."""
    report = gp.optimization_
    return {
        "kernel": repr(gp.kernel_),
        "observations": gp.stats_.count,
        "missing": gp.stats_.missing,
        "domain": gp.domain_,
        "num_basis": gp.num_basis_,
        "elbo": gp.elbo_,
        "converged": report.converged,
        "reads": report.reads,
        "notes": list(report.notes),
    }


def family_lines(gp) -> list[str]:
    """Return these facts in words."""
    facts, report = family_facts(gp), gp.optimization_
    missing = f", {facts['missing']:,} missing" if facts["missing"] else ""
    times = "read once" if facts["reads"] == 1 else f"read {facts['reads']} times"
    return [
        f"Kernel            {facts['kernel']}",
        f"Observations      {facts['observations']:,}{missing}, {times}",
        f"Basis functions   {facts['num_basis']}",
        f"ELBO              {facts['elbo']:.6g} (no upper bound is known)",
        f"Training          {report}",
    ]


def facts_of(gp, path: str) -> dict[str, Any]:
    """Return the facts about a model file that are not in the summary."""
    data, names = gp._fit_data(), inputs_of(gp)
    origins = {names[column]: axis.shown(0.0) for column, axis in data.structure.timed.items()}
    return {
        "file": path,
        "bytes": os.path.getsize(path),
        "trained": "_fit_now" in vars(gp),
        "targets": None if data.targets is None else list(data.targets),
        "inputs": names,
        "num_basis_setting": gp.num_basis,
        "time_origin": origins or None,
    }


def inputs_of(gp) -> list[str]:
    """Return the names of a model's inputs; x, or x0, x1 and so on, if they have none."""
    names = getattr(gp, "feature_names_in_", None)
    if names is not None:
        return [str(name) for name in names]
    count = gp.n_features_in_
    return ["x"] if count == 1 else [f"x{number}" for number in range(count)]
