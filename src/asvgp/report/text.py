"""Numbers, times and whatever users named, as text of a page."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime
from html import escape

import numpy as np

from asvgp.plot.inputs import Input
from asvgp.times import Duration, in_short

# Seconds to round times to, and the spans from which on that is fine enough.
_FINEST = ((60.0, 86_400.0), (1.0, 600.0), (1e-3, 1.0))

_RAISED = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")


class Html(str):
    """Text that is markup already: everything else is escaped."""

    __slots__ = ()


def safe(value) -> str:
    """Return anything as text between tags or quotes."""
    return value if isinstance(value, Html) else escape(str(value), quote=True)


def tag(name: str, *content, **attributes) -> Html:
    """Return an element; content that is not markup is escaped.

    Examples
    --------
    >>> tag("p", "1 < 2 ", tag("b", "&"), class_="small")
    '<p class="small">1 &lt; 2 <b>&amp;</b></p>'
    """
    pairs = [
        f' {key.rstrip("_").replace("_", "-")}="{safe(value)}"' for key, value in attributes.items()
    ]
    return Html(f"<{name}{''.join(pairs)}>{''.join(safe(part) for part in content)}</{name}>")


def joined(parts: Iterable) -> Html:
    """Return pieces of a page, one per line."""
    return Html("\n".join(safe(part) for part in parts))


def table(head: Sequence[str], rows: Iterable[Sequence], numbers: Sequence[int] = ()) -> Html:
    """Return a table that may be wider than a phone; ``numbers`` are columns set to the right."""
    sides = ["right" if column in numbers else "left" for column in range(len(head))]

    def row(cells, name: str) -> Html:
        return tag("tr", *(tag(name, c, class_=s) for c, s in zip(cells, sides, strict=True)))

    body = tag("tbody", *(row(cells, "td") for cells in rows))
    whole = tag("table", tag("thead", row(head, "th")), body)
    return tag("div", whole, class_="wide")


def shown(value, digits: int = 5) -> str:
    """Return a number, a duration or a time as people read it.

    Examples
    --------
    >>> shown(1234567), shown(0.000123456789), shown(Duration(5400.0), 3)
    ('1,234,567', '0.00012346', '1.5 hours')
    >>> shown(np.datetime64("2024-03-31T12:00:00.000000000"))
    '2024-03-31 12:00'
    """
    if isinstance(value, Duration):
        number, _, unit = str(value).partition(" ")
        return f"{_rounded(float(number), digits)} {unit}"
    if isinstance(value, np.datetime64):
        return in_short(value.astype("M8[ns]")).replace("T", " ")
    if isinstance(value, datetime):
        return f"{shown(np.datetime64(value.replace(tzinfo=None)))} {value:%Z}".rstrip()
    if isinstance(value, int | np.integer) and not isinstance(value, bool):
        return f"{value:,}"
    if isinstance(value, float | np.floating):
        return _rounded(float(value), digits)
    return str(value)


def _rounded(value: float, digits: int) -> str:
    """Return a number with so many digits; with separators of thousands up to a billion."""
    if not np.isfinite(value):
        return "∞" if value > 0 else "−∞" if value < 0 else "not known"
    text = f"{value:.{digits}g}"
    if "e" in text and 1e3 <= abs(value) < 1e9:
        text = f"{float(text):.0f}"
    if "e" not in text and abs(value) >= 1e4:
        whole, point, rest = text.partition(".")
        text = f"{int(whole):,}{point}{rest}"
    digits_of, _, power = text.partition("e")
    raised = f" × 10{str(int(power)).translate(_RAISED)}" if power else ""
    return digits_of.replace("-", "−") + raised


def fixed(value: float, digits: int = 2) -> str:
    """Return a number with so many decimals; zero has no sign.

    Examples
    --------
    >>> fixed(-0.001), fixed(-1.5, 1)
    ('0.00', '−1.5')
    """
    text = f"{value:.{digits}f}"
    return text.replace("-", "−") if float(text) else text.lstrip("-")


def at(place: Input, value: float) -> str:
    """Return a place along an input, as people write it."""
    if place.axis is None:
        span = max(place.upper - place.lower, 1e-300)
        digits = 3 - int(np.floor(np.log10(span)))
        plain = 0 <= digits <= 6 and abs(value) < 1e4
        return fixed(value, digits) if plain else shown(float(value), 6)
    unit = next((u for u, span in _FINEST if place.upper - place.lower >= span), 0.0)
    rounded = round(value / unit) * unit if unit else value
    if place.axis.tz is None:
        return shown(place.axis.to_times(np.array([rounded]))[0])
    return shown(place.axis.span(rounded, rounded)[0])


def share(value: float) -> str:
    """Return a share in per cent, however small."""
    if value == 0.0 or 0.001 <= value <= 0.999 or value >= 1.0:
        return f"{100.0 * value:.3g} %"
    return f"{_rounded(100.0 * value, 2 if value < 0.5 else 4)} %"


def counted(number: int, what: str) -> str:
    """Return a number of things.

    Examples
    --------
    >>> counted(1, "output"), counted(12_000, "row")
    ('1 output', '12,000 rows')
    """
    return f"{number:,} {what if number == 1 else what + 's'}"


def listed(parts: Sequence[str]) -> str:
    """Return a list of things as part of a sentence."""
    parts = [str(part) for part in parts]
    if len(parts) < 2:
        return parts[0] if parts else "none"
    return ", ".join(parts[:-1]) + " and " + parts[-1]
