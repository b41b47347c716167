"""One self-contained page about a fitted model."""

from __future__ import annotations

import re
from base64 import b64encode
from dataclasses import replace
from hashlib import sha256
from importlib import resources
from pathlib import Path
from string import Template
from typing import NamedTuple

import numpy as np

from asvgp import __version__, plot
from asvgp.data.inputs import as_rows
from asvgp.estimators.scores import normal_scores
from asvgp.likelihoods import Bernoulli
from asvgp.plot.bounds import draw_levels
from asvgp.plot.maps import panel_size, sides
from asvgp.plot.remainders import (
    draw_correlation,
    draw_coverage,
    draw_quantiles,
    draw_transforms,
)
from asvgp.plot.terms import terms
from asvgp.plot.view import View, view_of
from asvgp.report import facts
from asvgp.report.chart import OUTPUTS, Observations, charts
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
from asvgp.report.pictures import can_draw, pictures
from asvgp.report.text import Html, joined, listed, safe, tag
from asvgp.report.usage import usage
from asvgp.saving.atomic import replacing
from asvgp.structures.observed import NOTHING, Beside

_KINDS = {PROBLEM: "problem", LOOK: "look", FINE: "fine", NONE: "none"}
_SIZE = (4.2, 3.1)  # inches, of small pictures
_NO_PICTURES = "Pictures need matplotlib, which was not installed: pip install 'asvgp[plot]'."


class Report(NamedTuple):
    """A page and its findings."""

    text: str  # HTML
    findings: list[Finding]  # the worst first

    def write(self, path) -> None:
        """Write the page to a file, whole or not at all."""
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
    exposure=None,
    offset=None,
    event=None,
    trials=None,
) -> Path:
    """Write a page about a fitted model: what it is, whether to believe it, and what it looks like.

    The page needs no network and nothing beside itself. The same model and data give the same
    bytes. It is written whole or not at all.

    Parameters
    ----------
    gp : GPRegressor
        Fitted.
    path : str or path-like
        Path of the page; a file that is there is replaced.
    X, y : optional
        The data it was fitted to, or some of them, as in `GPRegressor.leave_one_out`: every
        observation is then predicted without itself. Without them the fit is judged by the
        statistics in the model. For a source, y is None or names the target; it is read whole.
    title : str, optional
    sample_weight, noise_variance, width, exposure, offset, event, trials : optional
        As they were given to `GPRegressor.fit`.

    Returns
    -------
    Path
        Path of the page.

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
    beside = exposure, offset, event, trials
    compose(gp, X, y, title, sample_weight, noise_variance, width, *beside).write(path)
    return Path(path)


def compose(
    gp, X=None, y=None, title=None, sample_weight=None, noise_variance=None, width=None, *beside
) -> Report:
    """Return the page that `write_report` writes."""
    view = view_of(gp, 0)
    summary = gp.summary()
    left = data = None
    given = NOTHING
    if X is not None:
        # A source is read whole: residuals say nothing about structure without their places.
        chunk = gp._rows_in_memory(X, y, sample_weight, noise_variance, width, *beside)
        width, others = chunk.width, chunk.beside
        X, y, *weights = as_rows(*tuple(chunk)[:4], *others)
        given = Beside(*weights[2:])
        left = gp.leave_one_out(X, y, *weights[:2], width, **given._asdict())
        if view.family is not None:  # of counts and classes, scores that are randomised
            left = replace(left, z=normal_scores(gp, X, y, weights[0], given).z)
        data = _observations(view, X, y, width, given)
    elif y is not None:
        raise ValueError("y is given without X: give both, or neither.")
    target = view.target_label(y) if data is None else data.names[0]
    evidence = gather(view, summary, left, {} if data is None else data.columns)
    found = findings(view, summary, evidence)
    name = title if title is not None else f"{target} over {facts.inputs_named(view)}"
    fitted = [
        facts.hyperparameters(view, summary),
        facts.effects(summary),
        facts.fit(view, summary),
    ]
    sections = [
        ("good", "Is it good?", [_verdicts(found), _residuals(view, evidence)]),
        ("explore", "The posterior", [_posterior(view, data, evidence, X, y, given)]),
        ("fitted", "What was fitted", fitted),
        ("components", "Components", [_components(view, X)]),
        ("use", "How to use it", [usage(view)]),
    ]
    style, script = _style(), _asset("report.js")
    drawing = f"/*\n{_asset('uplot.LICENSE')}*/\n{_asset('uplot.min.js')}"
    parts = {
        "policy": _policy(style, drawing, script),
        "name": safe(name),
        "style": style,
        "lead": facts.lead(view, summary, target),
        "headline": safe(headline(found)),
        "links": joined(tag("a", heading, href=f"#{anchor}") for anchor, heading, _ in sections),
        "sections": joined(
            tag("section", tag("h2", heading), *content, id=anchor)
            for anchor, heading, content in sections
        ),
        "version": __version__,
        "charts": drawing,
        "script": script,
    }
    text = Template(_asset("page.html")).substitute(parts)
    return Report(text, found)


def _policy(style: str, *scripts: str) -> str:
    """Return what a browser may do with the page: run its own scripts, and load nothing.

    Whatever else looks like a script, because a name was not escaped, is not one of these and does
    not run. Pictures have styles in their attributes, which can do no more than look odd.
    """
    runs = " ".join(map(_digest, scripts))
    rules = {
        "default-src": "'none'",
        "script-src": runs,
        "style-src-elem": _digest(style),
        "style-src-attr": "'unsafe-inline'",
        "img-src": "data:",
        "base-uri": "'none'",
        "form-action": "'none'",
    }
    return "; ".join(f"{name} {value}" for name, value in rules.items())


def _digest(text: str) -> str:
    """Return the hash by which a policy knows a script or a style."""
    return f"'sha256-{b64encode(sha256(text.encode()).digest()).decode()}'"


def _observations(view: View, X, y, width, beside: Beside) -> Observations:
    columns, first = view.data(X, y, width)
    first = view.rates(first, beside)
    views = [view_of(view.gp, output) for output in range(view.outputs)]
    values = [first, *(other.targets(y, len(first)) for other in views[1:])]
    return Observations(columns, np.column_stack(values), [v.target_label(y) for v in views])


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


def _residuals(view: View, evidence: Evidence) -> Html:
    """Return pictures of the residuals of the first output and of the resolutions."""
    draws = []
    z = evidence.z[0][np.isfinite(evidence.z[0])] if len(evidence.z) else np.empty(0)
    if len(z) >= 2:
        bands = draw_transforms if isinstance(view.family, Bernoulli) else draw_coverage
        draws += [lambda ax: bands(ax, z), lambda ax: draw_quantiles(ax, z)]
    if evidence.neighbours and len(evidence.neighbours[0].correlations.values):
        correlations = evidence.neighbours[0].correlations
        draws.append(lambda ax: draw_correlation(ax, correlations, evidence.near))
    if len(view.gp.resolution_) > 1:
        draws.append(lambda ax: draw_levels(ax, view))

    def draw(axes) -> None:
        for ax, one in zip(axes, draws, strict=True):
            one(ax)

    if not can_draw():
        return tag("p", _NO_PICTURES, class_="soft")
    return _grid(pictures("check", len(draws), _SIZE, draw))


def _posterior(
    view: View, data: Observations | None, evidence: Evidence, X, y, beside: Beside
) -> Html:
    """Return the posterior of every output: charts over one input, maps over two."""
    if len(view.inputs) == 1:
        hint = (
            "Drag to move, turn the wheel or pinch to zoom, double-click to see all again; with "
            "the keyboard: arrows, + and −, and 0."
        )
        return joined([tag("p", hint, class_="soft"), charts(view, data, evidence.cells)])
    if len(view.inputs) > 2 or not view.layout.inputs:
        names = listed([view.naming(column) for column in view.inputs])
        text = (
            f"The model is over {len(view.inputs)} inputs ({names}); the components below are "
            "what it is the sum of. For slices see asvgp.plot.map."
        )
        return tag("p", text)
    if not can_draw():
        return tag("p", _NO_PICTURES, class_="soft")
    across, up = sides(view, None, None)
    held = view.typical((across.column, up.column))
    parts = []
    for output in range(min(view.outputs, OUTPUTS)):
        exposure, offset, _, trials = beside
        options = {"at": held, "output": output, "exposure": exposure}
        options |= {"offset": offset, "trials": trials}
        panels = pictures(
            f"map-{output}",
            2 if data is None else 3,
            panel_size(across, up),
            lambda axes, options=options: plot.map(view.gp, X, y, ax=axes, **options),
        )
        parts.append(_grid(panels))
    return joined(parts)


def _components(view: View, X) -> Html:
    """Return a picture of every component and linear effect with its band."""
    columns = None if X is None else view.read(X)
    count, kernel = len(terms(view, columns)), view.layout.kernel
    shown_above = len(view.inputs) == 1 or (len(view.inputs) == 2 and bool(view.layout.inputs))
    if count == 1 and shown_above:
        but = ", except for the intercept" if kernel.effects else ""
        return tag("p", f"The kernel has one component: it is the posterior above{but}.")
    if not can_draw():
        return tag("p", _NO_PICTURES, class_="soft")
    panels = pictures(
        "component", count, _SIZE, lambda axes: plot.components(view.gp, X, output=0, ax=axes)
    )
    notes = ["Bands hold 95 %."]
    if view.outputs > 1:
        notes.append(f"These are of the first of {view.outputs} outputs.")
    if any(view.is_centred(number) for number in range(len(kernel.components))):
        notes.append("Centred: less its mean over the data, which terms and intercept share.")
    return joined([_grid(panels), tag("p", " ".join(notes), class_="soft")])


def _grid(panels: list[Html]) -> Html:
    return (
        tag("div", *(tag("figure", panel) for panel in panels), class_="pictures")
        if panels
        else Html("")
    )


# ---------------------------------------------------------------- the file


def _asset(name: str) -> str:
    return resources.files("asvgp.report").joinpath("assets", name).read_text(encoding="utf-8")


def _style() -> str:
    """Return the style sheets, with the dark colours also for systems that prefer these."""
    text = _asset("uplot.min.css") + _asset("report.css")
    dark = re.search(r':root\[data-theme="dark"\] (\{[^}]*\})', text)
    assert dark is not None
    preferred = f':root:not([data-theme="light"]) {dark[1]}'
    return f"{text}@media screen and (prefers-color-scheme: dark) {{ {preferred} }}\n"
