"""Code that uses a saved model."""

from __future__ import annotations

import numpy as np

from asvgp.plot.inputs import Input
from asvgp.plot.view import View
from asvgp.report.text import Html, joined, tag

_FILE = "model.asvgp"


def usage(view: View) -> Html:
    """Return code for Python and the shell, to be copied."""
    return joined(
        [
            tag(
                "p",
                "Save the model once with ",
                tag("code", f'gp.save("{_FILE}")'),
                "; then, from Python:",
            ),
            _code(python(view)),
            tag("p", "From the shell, for a file whose columns are named as in the data:"),
            _code(shell()),
        ]
    )


def _code(text: str) -> Html:
    button = tag("button", "Copy", type="button", hidden="hidden")
    return tag("div", tag("pre", tag("code", text)), button, class_="code")


def shell() -> str:
    """Return commands for the shell."""
    return "\n".join(
        [
            f"asvgp info {_FILE}",
            f"asvgp predict {_FILE} new.csv -o out.parquet",
            f"asvgp report {_FILE} -o report.html",
        ]
    )


def python(view: View) -> str:
    """Return lines that load the model and ask it something inside its domain."""
    lines, X = _inputs(view)
    numbers = view.gp.n_features_in_ == 1 and view.line.axis is None
    more = ["import asvgp", "", f'gp = asvgp.load("{_FILE}")', *lines]
    if view.target_names is None:
        more += [
            f"mean, std = gp.predict({X}, return_std=True)",
            f"parts = gp.predict({X}, components=True)[1]  # every component's mean and std",
        ]
    else:  # fitted to a source, the model answers in kind
        more += [
            f"answer = gp.predict({X}, components=True)  # a frame, a pair for every component",
            'mean, std = answer["mean"], answer["std"]',
        ]
    more += [
        f"draws = gp.sample_y({X}, 10, random_state=0)  # joint samples of f",
        "print(gp.summary())",
    ]
    if numbers:
        low, high = view.line.lower, view.line.upper
        more.insert(-1, f"total = gp.integrate({low!r}, {high!r})  # of f, over an interval")
    imports = [line for line in more if line.startswith("import ")]
    rest = [line for line in more if not line.startswith("import ")]
    return "\n".join([*sorted(imports), *rest])


def _inputs(view: View) -> tuple[list[str], str]:
    """Return lines that make two rows of X, and its name."""
    names = view.layout.names
    width = view.gp.n_features_in_
    columns = [view.inputs.get(column) for column in range(width)]
    if names is not None:
        body = ", ".join(
            f"{name!r}: {_two(place, frame=True)}"
            for name, place in zip(names, columns, strict=True)
        )
        return ["import pandas as pd", "", f"X = pd.DataFrame({{{body}}})"], "X"
    if width == 1:
        if columns[0] is not None and columns[0].axis is not None:
            timed = "pd." if columns[0].axis.tz else "np."
            library = "import pandas as pd" if timed == "pd." else "import numpy as np"
            return [library, "", f"X = {_two(columns[0], frame=timed == 'pd.')}"], "X"
        return [f"X = {_two(columns[0])}"], "X"
    if any(place is not None and place.axis is not None for place in columns):
        body = ", ".join(f"{i}: {_two(place, frame=True)}" for i, place in enumerate(columns))
        return ["import pandas as pd", "", f"X = pd.DataFrame({{{body}}})"], "X"
    pairs = [_ends(place) for place in columns]
    rows = [[pair[i] for pair in pairs] for i in (0, 1)]
    return [f"X = {rows!r}"], "X"


def _ends(place: Input | None) -> tuple[float, float]:
    """Return two places inside the domain in few digits, or any values for covariates."""
    if place is None:
        return 0.0, 1.0
    span = place.upper - place.lower
    digits = max(0, 2 - int(np.floor(np.log10(span))))
    low, high = (round(place.lower + part * span, digits) for part in (0.25, 0.75))
    return float(low), float(high)


def _two(place: Input | None, frame: bool = False) -> str:
    """Return two values of a column, as code."""
    low, high = _ends(place)
    if place is None or place.axis is None:
        return f"[{low!r}, {high!r}]"
    unit = "s" if place.upper - place.lower > 60.0 else "ns"
    times = place.axis.to_times(np.array([low, high])).astype(f"M8[{unit}]")
    texts = [str(time) for time in times]
    if not frame:
        return f'np.array({texts!r}, dtype="datetime64[{unit}]")'
    made = f"pd.to_datetime({texts!r})"
    return f"{made}.tz_localize('UTC').tz_convert({place.axis.tz!r})" if place.axis.tz else made
