"""One self-contained page about a fitted model."""

from __future__ import annotations

import re
from importlib import resources
from pathlib import Path
from typing import NamedTuple

import numpy as np

from asvgp import __version__
from asvgp.data.inputs import as_rows
from asvgp.plot.bounds import functions
from asvgp.plot.view import View
from asvgp.report import charts, facts
from asvgp.report.checks import (
    FINE,
    LOOK,
    NONE,
    PROBLEM,
    Evidence,
    Finding,
    findings,
    gather,
    headline,
)
from asvgp.report.figures import Figures, Given, components, explorer
from asvgp.report.text import Html, joined, tag
from asvgp.report.usage import usage
from asvgp.saving.atomic import replacing
from asvgp.sources.answers import rows_of

_SCRIPTS = ("axes.js", "gestures.js", "curve.js", "map.js", "page.js")
_KINDS = {PROBLEM: "problem", LOOK: "look", FINE: "fine", NONE: "none"}
_POLICY = "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; img-src data:"


class Report(NamedTuple):
    """A page, and what it finds.

    Attributes
    ----------
    text : str
        HTML.
    findings : list of Finding
        The worst first.
    """

    text: str
    findings: list[Finding]

    def write(self, path) -> None:
        """Put the page into a file, whole or not at all."""
        with replacing(path, "report") as stream:
            stream.write(self.text.encode("utf-8"))


def write_report(
    gp,
    path,
    X=None,
    y=None,
    *,
    title: str | None = None,
    sample_weight=None,
    noise_variance=None,
    width=None,
) -> Path:
    """Write a page about a fitted model: what it is, whether to believe it, and what it looks like.

    The page needs no network and nothing beside itself. The same model and data give the same
    bytes. It is written whole or not at all.

    Parameters
    ----------
    gp : GPRegressor
        Fitted.
    path : str or path-like
        Of the page; a file that is there is replaced.
    X, y : optional
        The data it was fitted to, or some of them, as in `GPRegressor.leave_one_out`: every
        observation is then predicted without itself. Without them the fit is judged by what the
        statistics in the model say. Of a source y is None or names the target; it is read whole.
    title : str, optional
    sample_weight, noise_variance, width : optional
        As they were given to `GPRegressor.fit`.

    Returns
    -------
    Path
        Of the page.

    Examples
    --------
    >>> import tempfile
    >>> from asvgp import GPRegressor, Matern32
    >>> gp = GPRegressor(Matern32(), num_basis=30).fit([0.0, 1.0, 2.0, 3.0], [0.1, 0.9, 0.2, 0.8])
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     page = write_report(gp, Path(folder) / "report.html", title="Four points")
    ...     "<title>Four points</title>" in page.read_text(encoding="utf-8")
    True
    """
    compose(gp, X, y, title, sample_weight, noise_variance, width).write(path)
    return Path(path)


def compose(
    gp, X=None, y=None, title=None, sample_weight=None, noise_variance=None, width=None
) -> Report:
    """The page that `write_report` writes."""
    view = View(gp, 0)
    summary = gp.summary()
    left = given = None
    if X is not None:
        # Of a source, too: residuals say nothing of structure without their places.
        *rows, width = rows_of(gp, X, y, sample_weight, noise_variance, width)
        X, y, *weights = as_rows(*rows)
        left = gp.leave_one_out(X, y, *weights, width)
        given = _given(view, X, y, width)
    elif y is not None:
        raise ValueError("y is given without X: give both, or neither.")
    target = given.names[0] if given is not None else view.target_label(y)
    evidence = gather(view, summary, left, {} if given is None else given.columns)
    found = findings(view, summary, evidence)
    figures = Figures()
    name = title if title is not None else f"{target} over {facts.inputs_named(view)}"
    sections = [
        ("good", "Is it good?", [_verdicts(found), _charts(view, evidence)]),
        ("explore", "The posterior", [_hint(view), explorer(view, given, evidence.cells, figures)]),
        (
            "fitted",
            "What was fitted",
            [
                facts.hyperparameters(summary),
                facts.effects(summary),
                facts.fit(view, summary),
            ],
        ),
        ("components", "Components", [components(view, figures)]),
        ("use", "How to use it", [usage(view)]),
    ]
    links = [tag("a", heading, href=f"#{anchor}") for anchor, heading, _ in sections]
    button = tag("button", "Dark", id="theme", type="button", hidden="hidden")
    top = tag("div", tag("h1", name), button, class_="bar")
    lead = facts.lead(view, summary, target)
    header = tag("header", top, lead, tag("p", headline(found), class_="lead"), tag("nav", *links))
    body = [
        tag("section", tag("h2", heading), *content, id=anchor)
        for anchor, heading, content in sections
    ]
    missing = tag("p", "The figures of this page are drawn by its script, which is switched off.")
    footer = f"Written by asvgp {__version__}. This page is self-contained: it loads nothing."
    text = "\n".join(
        [
            "<!DOCTYPE html>",
            '<html lang="en">',
            "<head>",
            '<meta charset="utf-8">',
            f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}">',
            '<meta name="viewport" content="width=device-width, initial-scale=1">',
            tag("title", name),
            f"<style>{_style()}</style>",
            "</head>",
            "<body>",
            header,
            tag("main", tag("noscript", missing), *body),
            tag("footer", tag("p", footer)),
            joined(figures.scripts),
            f"<script>{_script()}</script>",
            "</body>",
            "</html>",
            "",
        ]
    )
    return Report(text, found)


def _given(view: View, X, y, width) -> Given:
    """Observations of all outputs, with their inputs."""
    columns, first = view.data(X, y, width)
    views = [View(view.gp, output) for output in range(view.outputs)]
    values = [first, *(own.targets(y, len(first)) for own in views[1:])]
    return Given(columns, np.column_stack(values), [own.target_label(y) for own in views])


def _verdicts(found: list[Finding]) -> Html:
    rows = [
        tag(
            "li",
            tag("span", one.word, class_=f"word {_KINDS[one.level]}"),
            tag("div", tag("h3", one.question), tag("p", one.answer)),
        )
        for one in found
    ]
    return tag("ul", *rows, class_="checks")


def _charts(view: View, evidence: Evidence) -> Html:
    """Residuals of the first output, and what the resolutions reached."""
    panels = []
    z = evidence.z[0][np.isfinite(evidence.z[0])] if len(evidence.z) else np.empty(0)
    if len(z) >= 2:
        panels += [charts.coverage(z, evidence.what), charts.quantiles(z, evidence.what)]
    if evidence.neighbours and len(evidence.neighbours[0].correlations):
        found, pairs, _ = evidence.neighbours[0]
        panels.append(charts.correlation(found, pairs, evidence.near))
    levels = view.gp.resolution_
    if len(levels) > 1:
        each = view.posterior.stats.count * view.outputs
        counts = [functions(view, level.num_basis) for level in levels]
        lower = np.array([level.elbo for level in levels]) / each
        panels.append(charts.resolution(counts, lower, view.gp.evidence_upper_bound_ / each))
    return tag("div", *panels, class_="charts") if panels else Html("")


def _hint(view: View) -> Html:
    if not view.is_line and not (len(view.inputs) == 2 and view.layout.inputs):
        return Html("")
    return tag(
        "p",
        "Drag to move, turn the wheel or pinch to zoom, double-click to see all again; with the "
        "keyboard, arrows, + and −, and 0. "
        + ("Band: 95 %." if view.is_line else "The maps move together."),
        class_="soft",
    )


# ---------------------------------------------------------------- the file


def _asset(name: str) -> str:
    return resources.files("asvgp.report").joinpath("assets", name).read_text(encoding="utf-8")


def _style() -> str:
    """The style sheet; its dark colours also for those whose system asks for them."""
    text = _asset("report.css")
    dark = re.search(r':root\[data-theme="dark"\] (\{[^}]*\})', text)
    assert dark is not None
    asked = f':root:not([data-theme="light"]) {dark[1]}'
    return f"{text}@media screen and (prefers-color-scheme: dark) {{ {asked} }}\n"


def _script() -> str:
    """All scripts, in a scope of their own."""
    return '(() => {\n"use strict";\n' + "\n".join(_asset(name) for name in _SCRIPTS) + "})();\n"
