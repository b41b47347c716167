"""Small charts of residuals and bounds, as SVG in the colours of the page."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from scipy.special import erf, ndtri
from scipy.stats import beta, binom

from asvgp.basis import Array
from asvgp.report.text import Html, fixed, safe, shown, tag

_WIDTH, _HEIGHT = 320, 220
_LEFT, _RIGHT, _TOP, _BOTTOM = 66, 12, 10, 40
_LETTER = 6.4  # the widest that one of a label is


class Chart:
    """Axes with ticks, and what is drawn on them.

    Parameters
    ----------
    across, up : pair of float
        Limits.
    labels : pair of str
    ticks : sequence of (float, str), optional
        Along the horizontal; by default round numbers.
    """

    def __init__(self, across, up, labels: tuple[str, str], ticks=None):
        self.across, self.up, self.parts = across, up, []
        free = float("inf")  # from the right, where the resolution that was chosen stands
        for at, text in (ticks or _ticks(*across))[::-1]:
            x, half = self.x(at), 0.5 * _LETTER * len(text)
            if x + half > free:
                continue
            free = x - half - _LETTER
            self._line((x, _TOP), (x, _HEIGHT - _BOTTOM), "grid")
            self._text(min(x, _WIDTH - half - 2), _HEIGHT - _BOTTOM + 14, text, "middle")
        for at, text in _ticks(*up):
            y = self.y(at)
            self._line((_LEFT, y), (_WIDTH - _RIGHT, y), "grid")
            self._text(_LEFT - 5, y + 4, text, "end")
        self._text((_LEFT + _WIDTH - _RIGHT) / 2, _HEIGHT - 8, labels[0], "middle", "name")
        turned = f' transform="rotate(-90 11 {_HEIGHT / 2 - 14:.0f})"'
        self._text(11, _HEIGHT / 2 - 14, labels[1], "middle", "name", turned)

    def x(self, value) -> float:
        """Place along the horizontal."""
        low, high = self.across
        return _LEFT + (value - low) / (high - low) * (_WIDTH - _LEFT - _RIGHT)

    def y(self, value) -> float:
        """Place along the vertical."""
        low, high = self.up
        return _HEIGHT - _BOTTOM - (value - low) / (high - low) * (_HEIGHT - _TOP - _BOTTOM)

    def _line(self, start, stop, kind: str) -> None:
        (a, b), (c, d) = start, stop
        self.parts.append(
            f'<line class="{kind}" x1="{a:.1f}" y1="{b:.1f}" x2="{c:.1f}" y2="{d:.1f}"/>'
        )

    def _text(self, x, y, text: str, anchor: str, kind: str = "", turned: str = "") -> None:
        named = f' class="{kind}"' if kind else ""
        self.parts.append(
            f'<text{named} x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}"{turned}>'
            f"{safe(text)}</text>"
        )

    def _points(self, x, y) -> str:
        y = np.clip(y, *self.up)
        return " ".join(f"{self.x(a):.1f},{self.y(b):.1f}" for a, b in zip(x, y, strict=True))

    def line(self, x, y, kind: str = "model") -> None:
        """A line through points."""
        self.parts.append(f'<polyline class="{kind}" points="{self._points(x, y)}"/>')

    def area(self, x, low, high, kind: str = "chance") -> None:
        """What lies between two lines."""
        x, low, high = (np.asarray(part, dtype=float) for part in (x, low, high))
        points = self._points(np.append(x, x[::-1]), np.append(low, high[::-1]))
        self.parts.append(f'<polygon class="{kind}" points="{points}"/>')

    def bars(self, edges, heights) -> None:
        """A histogram."""
        x, y = np.repeat(edges, 2), np.concatenate([[0.0], np.repeat(heights, 2), [0.0]])
        self.area(x, np.zeros(len(x)), y, "bars")

    def stems(self, x, y) -> None:
        """Lines from zero, and dots at their ends."""
        for a, b in zip(x, y, strict=True):
            self._line((self.x(a), self.y(0.0)), (self.x(a), self.y(b)), "model")
        self.dots(x, y)

    def dots(self, x, y) -> None:
        """Dots."""
        for a, b in zip(x, np.clip(y, *self.up), strict=True):
            self.parts.append(
                f'<circle class="dot" cx="{self.x(a):.1f}" cy="{self.y(b):.1f}" r="2.6"/>'
            )

    def figure(self, title: str, caption: str) -> Html:
        """The chart with its title, and what it shows in words."""
        head = f'<svg viewBox="0 0 {_WIDTH} {_HEIGHT}" role="img" aria-label="{safe(title)}">'
        picture = Html("".join([head, *self.parts, "</svg>"]))
        return tag("figure", tag("h3", title), picture, tag("figcaption", caption))


def _ticks(low: float, high: float, count: int = 4) -> list[tuple[float, str]]:
    """Round numbers between two others."""
    raw = 0.7 * (high - low) / count
    unit = 10.0 ** np.floor(np.log10(raw))
    step = unit * next(times for times in (1, 2, 5, 10) if times * unit >= 0.999 * raw)
    first, last = np.ceil(low / step - 1e-9), np.floor(high / step + 1e-9)
    places = step * np.arange(first, last + 1)
    digits = max(0, int(np.ceil(-np.log10(step) - 1e-9)))
    if max(abs(low), abs(high)) >= 1e5 or digits > 4:
        return [(float(at), shown(float(at) + 0.0, 3)) for at in places]
    return [(float(at), fixed(float(at), digits)) for at in places]


def coverage(z: Array, what: str) -> Html:
    """Share of residuals inside central bands, against what it should be."""
    n = len(z)
    level = np.linspace(0.0, 1.0, 101)
    touched = np.sort(erf(np.abs(z) / 2.0**0.5))  # level of the band that each just touches
    inside = np.searchsorted(touched, level, side="right") / n
    chart = Chart((0.0, 1.0), (0.0, 1.0), ("probability of the band", "share inside"))
    low, high = (binom.ppf(p, n, level) / n for p in (0.025, 0.975))
    chart.area(level, low, high)
    chart.line([0.0, 1.0], [0.0, 1.0], "expected")
    chart.line(level, inside)
    found = float(np.mean(touched <= 0.95))
    caption = f"The 95 % band holds {100 * found:.1f} % of {n:,} {what}. Orange: a right model."
    return chart.figure("Coverage", caption)


def quantiles(z: Array, what: str) -> Html:
    """Quantiles of residuals, against the standard normal's."""
    n = len(z)
    steps = np.unique(np.concatenate([np.arange(min(n, 20)), np.geomspace(1, n, 60).astype(int)]))
    ranks = np.unique(np.clip(np.concatenate([steps, n - 1 - steps]), 0, n - 1))
    expected, found = ndtri((ranks + 0.5) / n), np.sort(z)[ranks]
    low, high = (ndtri(beta.ppf(p, ranks + 1, n - ranks)) for p in (0.025, 0.975))
    most = 1.05 * float(np.abs(expected).max())
    tall = 1.05 * max(float(np.abs(found).max()), most)
    labels = ("expected of a right model", "residual (std)")
    chart = Chart((-most, most), (-tall, tall), labels)
    chart.area(expected, low, high)
    chart.line(expected, expected, "expected")
    chart.dots(expected, found)
    caption = (
        f"Extremes {shown(float(z.min()), 3)} and {shown(float(z.max()), 3)} standard deviations; "
        f"of {n:,} {what} about ±{expected[-1]:.1f} is usual. Shaded: what chance allows."
    )
    return chart.figure("Quantiles", caption)


def correlation(found: Array, pairs: int, near: str) -> Html:
    """Correlation of residuals with their neighbours."""
    lags, reach = np.arange(1, len(found) + 1), 1.96 / pairs**0.5
    most = 1.15 * max(0.1, float(np.abs(found).max(initial=0.0)), 1.2 * reach)
    chart = Chart((0.0, len(found) + 1.0), (-most, most), (near, "correlation"))
    ends = np.array([0.0, len(found) + 1.0])
    chart.area(ends, [-reach] * 2, [reach] * 2)
    chart.line(ends, [0.0, 0.0], "expected")
    chart.stems(lags, found)
    caption = (
        f"With the next neighbour {shown(float(found[0]), 2)}; chance allows ±{shown(reach, 2)}."
    )
    return chart.figure("Correlation of residuals", caption)


def resolution(counts: Sequence[int], lower: Array, upper: float) -> Html:
    """The bound per observation that every resolution reached."""
    low, high = float(lower.min()), float(lower.max())
    top = upper if upper <= high + 2.0 * (high - low) else high
    room = 0.08 * (top - low) or 0.01 * abs(high) or 0.01
    logs = np.log10(np.asarray(counts, dtype=float))
    edge = 0.06 * float(logs[-1] - logs[0])
    marks = [(float(a), f"{n:,}") for a, n in zip(logs, counts, strict=True)]
    chart = Chart(
        (float(logs[0]) - edge, float(logs[-1]) + edge),
        (low - room, top + room),
        ("basis functions", "nats per observation"),
        marks,
    )
    if top == upper:
        ends = np.array([logs[0] - edge, logs[-1] + edge])
        chart.line(ends, [upper, upper], "upper")
    chart.line(logs, lower)
    chart.dots(logs, lower)
    shared = "Dashed: the upper bound." if top == upper else f"Upper bound: {shown(upper, 4)}."
    caption = f"Where the curve has become flat, more would change nothing. {shared}"
    return chart.figure("Resolution", caption)
