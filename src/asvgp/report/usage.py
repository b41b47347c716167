"""Code that uses a saved model."""

from __future__ import annotations

import numpy as np

from asvgp.plot.inputs import Input
from asvgp.plot.view import View
from asvgp.report.text import Html, joined, tag

_FILE = "model.asvgp"
_SHELL = f"""asvgp info {_FILE}
asvgp predict {_FILE} new.csv -o out.parquet
asvgp report {_FILE} -o report.html"""


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
            _code(_SHELL),
        ]
    )


def _code(text: str) -> Html:
    button = tag("button", "Copy", type="button", hidden="hidden")
    return tag("div", tag("pre", tag("code", text)), button, class_="code")


def python(view: View) -> str:
    """Return lines that load the model and ask it something inside its domain."""
    library, X = _inputs(view)
    lines = [*sorted({"import asvgp", library}), "", f'gp = asvgp.load("{_FILE}")', f"X = {X}"]
    if view.target_names is None:
        lines += [
            "mean, std = gp.predict(X, return_std=True)",
            "parts = gp.predict(X, components=True)[1]  # every component's mean and std",
        ]
    else:  # fitted to a source, the model answers in kind
        lines += [
            "answer = gp.predict(X, components=True)  # a frame, a pair for every component",
            'mean, std = answer["mean"], answer["std"]',
        ]
    what = "f" if view.mean_name == "f" else f"the {view.mean_name}"
    if view.family is not None:
        lines.append("bands = gp.predict_quantiles(X, (0.025, 0.975), include_noise=True)  # of y")
    lines.append(f"draws = gp.sample_y(X, 10, random_state=0)  # joint samples of {what}")
    if view.gp.n_features_in_ == 1 and view.line.axis is None:
        low, high = view.line.lower, view.line.upper
        lines.append(f"total = gp.integrate({low!r}, {high!r})  # of {what}, over an interval")
    return "\n".join([*lines, "print(gp.summary())"])


def _inputs(view: View) -> tuple[str, str]:
    """Return the import that two rows of X need, and these as code."""
    width, names = view.gp.n_features_in_, view.layout.names
    places = [view.inputs.get(column) for column in range(width)]
    zones = [place.axis.tz for place in places if place is not None and place.axis is not None]
    if names is not None or (zones and width > 1):
        pairs = zip(names or range(width), places, strict=True)
        body = ", ".join(f"{key!r}: {_two(place, frame=True)}" for key, place in pairs)
        return "import pandas as pd", f"pd.DataFrame({{{body}}})"
    if zones:
        library = "import pandas as pd" if zones[0] else "import numpy as np"
        return library, _two(places[0], frame=bool(zones[0]))
    if width == 1:
        return "import asvgp", _two(places[0])
    return "import asvgp", repr([list(row) for row in zip(*map(_ends, places), strict=True)])


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
