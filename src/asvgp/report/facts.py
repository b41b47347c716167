"""The facts of `asvgp.diagnostics.summary` as prose and tables."""

from __future__ import annotations

import numpy as np

from asvgp.diagnostics.summary import Summary
from asvgp.kernels import Linear
from asvgp.plot.view import View
from asvgp.report.text import Html, at, counted, joined, listed, shown, table, tag
from asvgp.times import Duration

_OBJECTIVES = {
    "elbo": "the ELBO, a lower bound on the log evidence",
    "evidence": "the log evidence of the spline field",
}


def lead(view: View, summary: Summary, target: str) -> Html:
    """Return the first paragraph."""
    inputs = inputs_named(view)
    effects = [
        f"Linear({effect.dim})" if isinstance(effect, Linear) else "Constant"
        for effect in view.gp.kernel_.effects
    ]
    what = target if summary.outputs == 1 else f"{summary.outputs} outputs"
    missing = f" ({summary.missing:,} more had no value)" if summary.missing else ""
    places = list(view.inputs.values())
    several = len(places) > 1
    spans = [f"{at(place, place.lower)} to {at(place, place.upper)}" for place in places]
    if several:
        spans = [f"{place.name} from {span}" for place, span in zip(places, spans, strict=True)]
    return tag(
        "p",
        "A Gaussian process with kernel ",
        tag("b", " + ".join([*summary.components, *effects])),
        *([] if view.family is None else [" and likelihood ", tag("b", summary.likelihood)]),
        f" was fitted to {counted(summary.observations, 'observation')}{missing} of ",
        tag("b", what),
        " over ",
        tag("b", inputs),
        f", {listed(spans)}." if not several else f": {listed(spans)}.",
        class_="lead",
    )


def inputs_named(view: View) -> str:
    """Return the inputs in a few words."""
    names = [place.name or place.label for place in view.inputs.values()]
    return listed(names) if len(names) <= 3 else f"{len(names)} inputs"


def hyperparameters(view: View, summary: Summary) -> Html:
    """Return a table of trained values with their uncertainty, in the units of the data."""
    rows, owner = [], None
    for season, group in summary.by_season():
        for row in group:
            interval = ""
            if np.isfinite(row["log_error"]):
                interval = f"{shown(row['lower'], 4)} to {shown(row['upper'], 4)}"
            label = "" if row["component"] == owner else row["component"]
            owner = row["component"]
            if label and season:
                label = f"{label}, {season}"
            name = "variance" if owner == "noise" and view.family is None else row["name"]
            rows.append((label, name, shown(row["estimate"], 5), interval, row["note"]))
    units = "in the units of y" if view.transform.identity else f"on the scale of {view.scale}"
    known = any(row["note"] == "known" for row in summary.hyperparameters)
    if view.family is not None:
        noise = (
            f"The likelihood is {summary.likelihood}. The kernel is on the scale of {view.scale}."
        )
        noise += " Its intervals are as if the likelihood's parameters were known."
    elif known:
        noise = "The noise variances of the observations were given."
    else:
        deviation = shown(float(summary.noise_variance**0.5), 4)
        noise = f"The noise has a standard deviation of {deviation}, {units}."
    head = ("component", "parameter", "estimate", "95 % interval", "note")
    columns = [i for i in range(len(head)) if any(row[i] for row in rows)]
    rows = [[row[i] for i in columns] for row in rows]
    return joined([table([head[i] for i in columns], rows, (2, 3)), tag("p", noise)])


def effects(summary: Summary) -> Html:
    """Return a table of the coefficients of the fixed effects."""
    rows = [
        (
            row["name"].replace("'", ""),
            row["note"],
            shown(row["estimate"], 5),
            f"{shown(row['lower'], 4)} to {shown(row['upper'], 4)}",
        )
        for row in summary.effects
    ]
    return table(("effect", "", "estimate", "95 % interval"), rows, (2, 3)) if rows else Html("")


def fit(view: View, summary: Summary) -> Html:
    """Return a list of the size of the model, the bounds and the time it took."""
    each = summary.observations * summary.outputs
    counts = summary.num_basis if isinstance(summary.num_basis, tuple) else (summary.num_basis,)
    many = " each" if len(summary.components) > 1 and len(counts) == 1 else ""
    spacings = listed(
        [
            shown(Duration(place.spacing) if place.axis else float(place.spacing), 4)
            for place in view.inputs.values()
        ]
    )
    degrees = sorted(set(summary.degrees))
    gap = summary.evidence_upper_bound - summary.elbo
    freedom = shown(summary.degrees_of_freedom, 4)
    if len(summary.component_degrees_of_freedom) > 1:
        parts = " + ".join(shown(part, 3) for part in summary.component_degrees_of_freedom)
        freedom += f" ({parts}{', and the effects' if summary.effects else ''})"
    pairs = [
        ("Basis functions", " × ".join(f"{n:,}" for n in counts) + many),
        ("Splines", f"degree {listed([str(k) for k in degrees])}, knots every {spacings}"),
        *(("Structure", line) for line in summary.structure[:1]),
        ("Degrees of freedom", freedom),
        *([] if summary.transform == "y" else [("Model of", summary.transform)]),
        ("Objective", _OBJECTIVES[summary.objective]),
        ("Training", summary.convergence.split(";")[0]),
        (
            "Lower bound",
            f"{shown(summary.elbo, 7)} nats, {shown(summary.elbo / each, 5)} per observation",
        ),
    ]
    if view.family is not None:
        read = "once" if summary.reads == 1 else f"{summary.reads:,} times"
        pairs.append(("Upper bound", "none is known for this likelihood"))
        pairs.append(("Sites", f"{summary.steps:,} steps, the data read {read}"))
    if np.isfinite(gap):
        upper = f"{shown(summary.evidence_upper_bound, 7)} nats, {shown(gap / each, 3)} per "
        pairs.append(("Upper bound", f"{upper}observation above the lower"))
    times = [f"{stage} {seconds:.2f} s" for stage, seconds in summary.timings.items()]
    pairs.append(("Time", ", ".join(times)))
    return tag("dl", *(part for name, text in pairs for part in (tag("dt", name), tag("dd", text))))
