"""The figures of a page: the posterior to explore, and the parts it is the sum of."""

from __future__ import annotations

from typing import Any, NamedTuple

from asvgp.basis import Array, Grid
from asvgp.kernels import Linear
from asvgp.plot.maps import sides
from asvgp.plot.view import Input, View
from asvgp.report.curves import NUMBERS, axis, curve, observations, of_input
from asvgp.report.maps import FEWER, PIXELS, field_map, proportion
from asvgp.report.pack import as_script
from asvgp.report.sums import CellMeans
from asvgp.report.text import Html, joined, listed, shown, tag

_OUTPUTS = 6  # panels of outputs at most


class Given(NamedTuple):
    """Observations of all outputs, where their inputs are at hand."""

    columns: dict[int, Array]
    y: Array  # (n, outputs)
    names: list[str]


class Figures:
    """Elements and the numbers behind them; every figure has a name of its own."""

    def __init__(self):
        self.scripts: list[Html] = []

    def carry(self, content: dict[str, Any]) -> str:
        """Keep numbers for a figure."""
        name = f"figure-{len(self.scripts) + 1}"
        self.scripts.append(as_script(content, name))
        return name

    def curve(self, content: dict[str, Any], title: str, caption: str, small: bool) -> Html:
        """A panel of a posterior along one input."""
        name = self.carry(content)
        noisy: list[Html] = []
        if content["noise"] is not None:
            box = Html('<input type="checkbox" class="noisy"> ')
            noisy = [tag("label", box, "band of new observations")]
        buttons = [
            tag("button", text, type="button", data_act=act, aria_label=spoken)
            for act, text, spoken in (
                ("in", "+", "Zoom in"),
                ("out", "−", "Zoom out"),
                ("all", "All", "Show all"),
            )
        ]
        spoken = f"{title}: posterior mean and 95 % band. Arrow keys move, + and - zoom, 0 resets."
        return tag(
            "figure",
            tag("h3", title) if title else Html(""),
            tag("div", *buttons, *noisy, class_="tools"),
            tag("canvas", class_="", tabindex=0, role="img", aria_label=spoken),
            tag("output"),
            tag("div", class_="key"),
            tag("figcaption", caption) if caption else Html(""),
            class_="curve part" if small else "curve",
            data_figure=name,
        )

    def map(self, content: dict[str, Any], ratio: float, title: str, caption: str) -> Html:
        """Images of a posterior over two inputs."""
        name = self.carry(content)
        # Room for labels and the colour bar is about a third of the width.
        style = f"aspect-ratio: {1.35 * ratio / (1.0 + 0.12 * ratio):.3f}"
        panels = []
        for layer in content["layers"]:
            label = f"{title}: {layer['name']}" if title else layer["name"]
            canvas = tag("canvas", tabindex=0, role="img", aria_label=label, style=style)
            heading = layer["name"][0].upper() + layer["name"][1:]
            panels.append(tag("div", tag("h3", heading), canvas))
        return tag(
            "figure",
            tag("h3", title) if title else Html(""),
            tag("div", *panels, class_="maps"),
            tag("output"),
            tag("figcaption", caption) if caption else Html(""),
            data_figure=name,
        )


def explorer(view: View, given: Given | None, cells: CellMeans | None, figures: Figures) -> Html:
    """The posterior itself: a panel an output, or maps."""
    if view.is_line:
        return _line(view, given, cells, figures)
    if len(view.inputs) == 2 and view.layout.inputs:
        return _map(view, figures)
    names = listed([view.naming(column) for column in view.inputs])
    return tag(
        "p",
        f"The model is over {len(view.inputs)} inputs ({names}), more than a page shows at once: "
        "its components, below, are what it is the sum of. For slices see asvgp.plot.map.",
    )


def _line(view: View, given: Given | None, cells: CellMeans | None, figures: Figures) -> Html:
    place, gp = view.line, view.gp
    held = held_columns(view, (place.column,))
    panels = []
    for output in range(min(view.outputs, _OUTPUTS)):
        own = View(gp, output)
        seen = None
        if given is not None:
            y = own.moved(given.columns, given.y[:, output], held)
            seen = observations(given.columns[place.column], y, place)
        elif cells is not None:
            columns = {c: cells.covariates[:, i] for i, c in enumerate(own.layout.linear)}
            y = own.moved(columns, cells.mean[output], held)
            seen = observations(cells.x, y, place, "means of cells")
        target = given.names[output] if given is not None else own.target_label()
        content = {
            "kind": "curve",
            "link": "x",
            "target": target,
            "axis": axis(place),
            "noise": None if gp._seen().known_noise else float(gp.noise_variance_),
            "curve": curve(
                _grid(view),
                max(view.posterior.model.degrees),
                of_input(place, held, own.predict),
                NUMBERS // (min(view.outputs, _OUTPUTS) + _parts(view)),
            ),
            "data": seen,
        }
        title = target if view.outputs > 1 else ""
        panels.append(figures.curve(content, title, "", view.outputs > 2))
    notes = []
    if held:
        notes.append(f"Drawn at {view.in_words(held)}; observations are moved there.")
    if view.outputs > _OUTPUTS:
        notes.append(f"The first {_OUTPUTS} of {view.outputs} outputs.")
    return joined([*panels, *(tag("p", note, class_="soft") for note in notes)])


def _map(view: View, figures: Figures) -> Html:
    across, up = sides(view, None, None)
    held = held_columns(view, (across.column, up.column))
    panels = []
    for output in range(min(view.outputs, _OUTPUTS)):
        own = View(view.gp, output)
        content = field_map(own, across, up, held, PIXELS // min(view.outputs, _OUTPUTS))
        title = own.target_label() if view.outputs > 1 else ""
        caption = f"At {view.in_words(held)}." if held else ""
        panels.append(figures.map(content, proportion(across, up), title, caption))
    return joined(panels)


def components(view: View, figures: Figures) -> Html:
    """Every component with its part and band, and the fixed effects as numbers."""
    kernel, named = view.layout.kernel, view.gp.kernel_
    own = View(view.gp, 0)
    panels: list[Html] = []
    if view.outputs > 1:
        panels.append(tag("p", f"Of the first of {view.outputs} outputs.", class_="soft"))
    if not _parts(view):
        but = ", but for the intercept" if kernel.effects else ""
        return tag("p", f"The kernel has one component: the posterior above is its part{but}.")
    room = NUMBERS // (min(view.outputs, _OUTPUTS) + _parts(view))
    for number, (bare, part) in enumerate(zip(kernel.components, named.components, strict=True)):
        dims = [f.dim if f.dim is not None else view.layout.input for f in bare.factors]
        over = [view.inputs[dim] for dim in dims]
        held = held_columns(view, tuple(dims[:2]))
        title = f"{number + 1}. {_title(part)}"
        caption = ""
        if len(over) > 2:
            beside = {place.column: held[place.column] for place in over[2:]}
            caption = f"At {view.in_words(beside)}."
        if len(over) > 1:
            beside = [c for c in view.inputs if c not in dims[:2]]
            across, up = sides(view, None, dict.fromkeys(beside, 0.0))
            content = field_map(own, across, up, held, FEWER, number)
            panels.append(figures.map(content, proportion(across, up), title, caption))
            continue
        (place,) = over
        content = {
            "kind": "curve",
            "link": "x" if view.is_line else f"x{place.column}",
            "target": "contribution, centred" if view.is_centred(number) else "contribution",
            "axis": axis(place),
            "noise": None,
            "curve": curve(
                _grid_of(view, number, place),
                _degree(view, number),
                of_input(place, held, own.part, number),
                room,
            ),
            "data": None,
        }
        if view.is_centred(number):
            caption = "Less its mean over the data, which the intercept and other terms share."
        panels.append(figures.curve(content, title, caption, True))
    return joined(panels)


def _title(part) -> str:
    """A component by its kernel and scale."""
    if len(part.factors) > 1:
        return " × ".join(f"{type(f).__name__}({f.dim})" for f in part.factors)
    over = "" if part.dim is None else f"({part.dim})"
    return f"{type(part).__name__}{over}, {part.parameters[0]} {shown(part.listed[0], 3)}"


def _parts(view: View) -> int:
    """Panels of components; none where the posterior above shows the only one."""
    kernel = view.layout.kernel
    linear = any(isinstance(effect, Linear) for effect in kernel.effects)
    shown_above = view.is_line or (len(view.inputs) == 2 and bool(view.layout.inputs))
    alone = len(kernel.components) == 1 and not linear and shown_above
    return 0 if alone else len(kernel.components)


def _grid(view: View) -> Grid:
    return view.posterior.stats.grid


def _grid_of(view: View, number: int, place: Input) -> Grid:
    """The cells on which a component of one input is a polynomial."""
    if view.is_line:
        return _grid(view)
    return Grid(place.lower, place.upper, round((place.upper - place.lower) / place.spacing))


def _degree(view: View, number: int) -> int:
    """Of the splines of a component of one input."""
    if view.is_line:
        return view.posterior.model.degrees[number]
    plan = view.posterior.plan
    if number in plan.smooths:
        return plan.smooth_degrees[plan.smooths.index(number)]
    return max(plan.degrees[plan.terms.index(number)])


def held_columns(view: View, shown_columns: tuple[int, ...]) -> dict[int, float]:
    """Values of the other columns: inputs in the middle, covariates at their means."""
    held = {
        column: 0.5 * (place.lower + place.upper)
        for column, place in view.inputs.items()
        if column not in shown_columns
    }
    means = covariate_means(view)
    return held | {c: v for c, v in means.items() if c not in (*held, *shown_columns)}


def covariate_means(view: View) -> dict[int, float]:
    """Means of the columns of linear effects, from the statistics."""
    stats, linear = view.posterior.stats, view.layout.linear
    if not linear:
        return {}
    if view.is_line:
        means = stats.columns[:, :, 0].sum(axis=1) / stats.weight + stats.column_centre
        return dict(zip(linear, means.tolist(), strict=True))
    # Splines of an input add up to one, so that the sums of columns are among the products.
    if stats.grids:
        lowest = (..., *[0] * len(stats.grids), slice(None))
        sums = stats.cross[lowest].reshape(-1, stats.cross.shape[-1]).sum(axis=0)
        weight = stats.weight
    else:
        grid, degree = stats.smooths[0]
        first = stats.column_gram[: grid.cells + degree]
        sums, weight = first.sum(axis=0), float(first[:, : grid.cells + degree].sum())
    out = {}
    effects = view.layout.kernel.effects
    for number, effect in enumerate(effects):
        if isinstance(effect, Linear) and effect.dim in linear:
            out[effect.dim] = float(sums[len(sums) - len(effects) + number] / weight)
    return out
