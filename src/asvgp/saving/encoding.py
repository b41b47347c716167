"""A model as JSON and arrays, and back.

Numbers, text and lists stand for themselves. Whatever else there is becomes an object with
one key, its kind: an array (by name), a tuple, a duration, or one of the classes below with
its fields. What is not listed here cannot be in a model. A field that a file lacks, because it is
older, has its default; classes that have changed are read by `asvgp.saving.migration`.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, date, datetime, timedelta, timezone
from math import inf, isfinite
from typing import Any
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

import numpy as np

from asvgp.basis import Array, Grid
from asvgp.data.columns import Layout
from asvgp.data.response import Response
from asvgp.data.transforms import Transform
from asvgp.degrees import Latitudes, Longitudes
from asvgp.kernels import EFFECTS, PROCESSES, EarthMatern, JointMatern, Kernel
from asvgp.kernels.algebra import Sum
from asvgp.kernels.base import Unset
from asvgp.kernels.product import Product
from asvgp.likelihoods import Gaussian
from asvgp.likelihoods.family import Family
from asvgp.likelihoods.names import FAMILIES, family_from_dict, family_to_dict
from asvgp.model.plan import Plan
from asvgp.model.series.plan import Along, Around, Part, SeriesPlan
from asvgp.posterior.chain import ChainPosterior
from asvgp.posterior.exact import ExactPosterior
from asvgp.posterior.grid import GridPosterior
from asvgp.posterior.series import SeriesPosterior
from asvgp.saving.consistency import check_fields, check_plan
from asvgp.saving.migration import MIGRATIONS
from asvgp.sites.noise import NoiseProcess
from asvgp.sites.train import SiteReport
from asvgp.statistics import Statistics
from asvgp.statistics.ending import Ending
from asvgp.statistics.points import to_points
from asvgp.structures.field import Field
from asvgp.structures.fit_data import FitData
from asvgp.structures.line import Line
from asvgp.structures.series import Series
from asvgp.times import Duration, TimeAxis
from asvgp.training.fit import Fit, no_upper_bound
from asvgp.training.optimise import LBFGS, Report
from asvgp.training.problem import Level

_POSTERIORS = (ChainPosterior, GridPosterior, SeriesPosterior, ExactPosterior)
_CLASSES: dict[str, Any] = {
    cls.__name__: cls
    for cls in (
        *(*PROCESSES, JointMatern, EarthMatern, *EFFECTS, Product, Sum),
        *(
            Grid,
            Longitudes,
            Latitudes,
            Statistics,
            Ending,
            FitData,
            Line,
            Field,
            Series,
            Layout,
            TimeAxis,
            Transform,
            Response,
        ),
        *(
            Fit,
            *_POSTERIORS,
            Plan,
            SeriesPlan,
            Part,
            Along,
            Around,
            LBFGS,
            Report,
            SiteReport,
            NoiseProcess,
            Level,
        ),
    )
}
# Of the classes whose fields do not speak for themselves.
_PARTS: dict[type, tuple[str, ...]] = {
    Line: ("layout", "axes"),
    Field: ("layout", "axes"),
    Series: ("layout", "axes"),
    FitData: (
        *("stats", "structure", "known_noise", "single", "seconds", "targets"),
        *("transforms", "choice", "span", "objective", "kernel_choice", "start", "scaled"),
        *("widening", "summed", "code"),
    ),
    ChainPosterior: ("kernel", "noise", "stats", "degree", "state"),
    GridPosterior: ("kernel", "noise", "plan", "stats", "state"),
    SeriesPosterior: ("kernel", "noise", "plan", "stats", "state"),
    ExactPosterior: ("kernel", "noise", "plan", "stats", "state"),
}
_UNITS = ("Y", "M", "W", "D", "h", "m", "s", "ms", "us", "ns", "ps", "fs", "as")


class Encoder:
    """Values as JSON; the arrays among them are collected in ``arrays``.

    An array that is met twice is kept once; so are statistics, in ``shared``: those of the data
    may be the posterior's, too.

    With ``room``, bytes for arrays, statistics are written as points where that is smaller, and
    of the arrays that a posterior could compute again only those that find room, smallest first.

    Examples
    --------
    >>> encoder = Encoder()
    >>> encoder((1, Duration(60.0), np.ones(3)), "example")
    {'tuple': [1, {'seconds': 60.0}, {'array': 'example.2'}]}
    >>> encoder.arrays
    {'example.2': array([1., 1., 1.])}
    """

    def __init__(self, room: float | None = None) -> None:
        self.room = room
        self.arrays: dict[str, Array] = {}
        self.shared: dict[str, Any] = {}
        self._names: dict[int, str] = {}

    def __call__(self, value: Any, where: str) -> Any:
        """Return the JSON of a value, whose arrays are named after ``where`` it is."""
        name = type(value).__name__
        if value is None or isinstance(value, str | bool | np.bool_):
            return bool(value) if isinstance(value, np.bool_) else value
        if isinstance(value, Duration):
            return {"seconds": float(value)}
        if isinstance(value, Unset):
            return {"unset": float(value)}
        if isinstance(value, int | np.integer) and not isinstance(value, np.timedelta64):
            return int(value)
        if isinstance(value, float | np.floating):
            number = float(value)
            return number if isfinite(number) else {"float": repr(number)}
        if isinstance(value, Statistics):
            return self._share(value, where)
        if isinstance(value, Gaussian | Family):
            words = likelihood_to_dict(value, where)
            if isinstance(kernel := words.get("kernel"), Kernel):
                words["kernel"] = self(kernel, f"{where}.kernel")
            return {"likelihood": words}
        if _CLASSES.get(name) is type(value):
            parts = {k: self(v, f"{where}.{k}") for k, v in self._parts(value)}
            return {name: parts}
        if isinstance(value, np.ndarray):
            return self._array(value, where)
        if isinstance(value, list | tuple):
            items = [self(item, f"{where}.{i}") for i, item in enumerate(value)]
            return {"tuple": items} if isinstance(value, tuple) else items
        if isinstance(value, Mapping):
            pairs = [[self(k, where), self(v, f"{where}.{k}")] for k, v in value.items()]
            return {"dict": pairs}
        found = _time(value)
        if found is not None:
            return found
        if hasattr(value, "tolist"):  # an index of pandas, say
            return self(value.tolist(), where)
        raise TypeError(
            f"{where} is {value!r:.80}, a {type(value).__module__}.{name}, which a model file "
            "cannot hold."
        )

    def _share(self, value: Any, where: str) -> Any:
        if id(value) not in self._names:
            self._names[id(value)] = where
            points = None if self.room is None else to_points(value)
            parts = _fields(value) if points is None else points
            kind = type(value).__name__ if points is None else "PointStatistics"
            self.shared[where] = {kind: {k: self(v, f"{where}.{k}") for k, v in parts.items()}}
        return {"shared": self._names[id(value)]}

    def _parts(self, value: Any) -> Iterator[tuple[str, Any]]:
        """Return the parts of a value; of a posterior's state, which comes last, what fits."""
        for name, part in _fields(value).items():
            if self.room is not None and name == "state" and isinstance(value, _POSTERIORS):
                left = self.room - sum(array.nbytes for array in self.arrays.values())
                sizes = {key: bytes_of(each) for key, each in part.items()}
                for key in sorted(sizes, key=sizes.__getitem__, reverse=True):
                    if sum(sizes.values()) > left:
                        del sizes[key]
                part = {key: each for key, each in part.items() if key in sizes}
            yield name, part

    def _array(self, value: Array, where: str) -> Any:
        if value.dtype.kind in "OU":
            return self(value.tolist(), where)
        known = self._names.setdefault(id(value), where)
        self.arrays[known] = value  # which also keeps its id its own
        return {"array": known}


def bytes_of(value: Any) -> int:
    """Return the bytes of the arrays among nested parts."""
    if isinstance(value, Mapping | list | tuple):
        return sum(map(bytes_of, value.values() if isinstance(value, Mapping) else value))
    return getattr(value, "nbytes", 0)


def _fields(value: Any) -> dict[str, Any]:
    """Return the parts that a value of one of the classes is made from."""
    if type(value) in _PARTS:
        return {name: getattr(value, name) for name in _PARTS[type(value)]}
    if isinstance(value, Fit):
        return _fit_parts(value)
    parts = {f.name: getattr(value, f.name) for f in dataclasses.fields(value) if f.init}
    # Where an array of no dimension is due, arithmetic may have left a number.
    arrays = [f.name for f in dataclasses.fields(value) if f.type == "Array"]
    return parts | {name: np.asarray(parts[name]) for name in arrays}


def _fit_parts(fit: Any) -> dict[str, Any]:
    """Return the parts of a fit, the upper bound only if it is known.

    A Gaussian likelihood is its noise variance.
    """
    known, noise = vars(fit), "noise" if isinstance(fit.likelihood, Gaussian) else "likelihood"
    names = ("kernel", noise, "posterior", "elbo", "evidence", "report", "timings")
    names += ("noise_process",) if fit.noise_process is not None else ()
    parts = {name: getattr(fit, name) for name in names} | {"resolution": known["levels"]}
    return parts | ({"upper": known["upper"]} if "upper" in known else {})


def _fit(parts: dict[str, Any]) -> Any:
    """Return a fit; an upper bound that was not known is computed when it is first used."""
    upper = {"upper": parts.pop("upper")} if "upper" in parts else {}
    levels, posterior = parts.pop("resolution"), parts["posterior"]
    bound = no_upper_bound if isinstance(parts["likelihood"], Family) else posterior.upper_bound
    fit = Fit(levels=levels, upper_bound=bound, **parts)
    vars(fit).update(upper)
    return fit


def _time(value: Any) -> Any:
    """Return the JSON of times and durations of the standard library, NumPy and pandas."""
    if isinstance(value, datetime):
        fixed = value.tzinfo is None or isinstance(value.tzinfo, timezone)
        zone = None if fixed else str(value.tzinfo)
        exact = getattr(value, "to_datetime64", None)  # of pandas, which keeps nanoseconds
        if exact is None or (fixed and value.tzinfo is not None):
            return {"datetime": [value.isoformat(), zone]}
        return {"timestamp": [*_ticks(exact()), zone]}
    if isinstance(value, np.datetime64):
        return {"datetime64": _ticks(value)}
    if isinstance(value, np.timedelta64):
        return {"timedelta64": _ticks(value)}
    if isinstance(value, date):
        return {"date": value.isoformat()}
    if isinstance(value, timedelta):
        return {"timedelta": [value.days, value.seconds, value.microseconds]}
    return None


def _ticks(value: Any) -> list:
    """Return a time of NumPy as a whole number, its unit and the number of those."""
    unit, count = np.datetime_data(value.dtype)
    return [int(value.astype(np.int64)), unit, count]


class Decoder:
    """Values from the JSON of an `Encoder`, and the arrays and shared parts that it collected.

    Posteriors are factored on the ``device``, when that is needed.

    Examples
    --------
    >>> Decoder({})({"Matern32": {"lengthscale": {"seconds": 3600.0}, "variance": 2.0}})
    Matern32(lengthscale='1 hour', variance=2.0)
    >>> Decoder({})({"os.system": {}})
    Traceback (most recent call last):
    ValueError: unknown class 'os.system' (was the file written by a newer asvgp?)
    """

    def __init__(
        self,
        arrays: Mapping[str, Array],
        shared: Mapping[str, Any] | None = None,
        device: str = "cpu",
    ):
        self.arrays, self.shared, self.device = arrays, shared or {}, device
        self._decoded: dict[str, Any] = {}

    def __call__(self, node: Any) -> Any:
        """Return the value that JSON stands for."""
        if isinstance(node, list):
            return [self(item) for item in node]
        if not isinstance(node, dict):
            return node
        if len(node) != 1:
            raise ValueError(f"{', '.join(map(repr, node))}: one kind is wanted")
        ((kind, content),) = node.items()
        if kind in _NESTED:
            return getattr(self, _NESTED[kind])(content)
        if kind in _PLAIN:
            return _PLAIN[kind](content)
        if kind not in _CLASSES and kind not in MIGRATIONS:
            raise ValueError(f"unknown class {kind!r} (was the file written by a newer asvgp?)")
        parts = {name: self(item) for name, item in content.items()}
        if kind in MIGRATIONS:
            kind, parts = MIGRATIONS[kind](parts)
        return self._made(_CLASSES[kind], parts)

    def _array(self, name: str) -> Array:
        return self.arrays[name]

    def _tuple(self, items: Any) -> tuple[Any, ...]:
        return tuple(self(item) for item in items)

    def _dict(self, pairs: Any) -> dict[Any, Any]:
        return {self(key): self(value) for key, value in pairs}

    def _likelihood(self, given: Any) -> Gaussian | Family:
        if isinstance(given, dict) and isinstance(given.get("kernel"), dict):
            given = given | {"kernel": self(given["kernel"])}
        return likelihood_from_dict(given)

    def _shared(self, name: str) -> Any:
        if name not in self._decoded:
            self._decoded[name] = self(self.shared[name])
        return self._decoded[name]

    def _made(self, cls: Any, parts: dict[str, Any]) -> Any:
        if cls in _POSTERIORS or (cls is Fit and "noise" in parts):
            parts["likelihood"] = likelihood_from(parts.pop("noise"))
        if cls in _POSTERIORS:
            check_plan(parts)
            return cls.restored(**parts, device=self.device)
        made = _fit(parts) if cls is Fit else cls(**parts)
        if dataclasses.is_dataclass(cls):
            check_fields(made)
        for name, part in parts.items():
            # Some classes put zeros where nothing was given: never in place of something.
            if isinstance(part, np.ndarray) and part.size and getattr(made, name) is not part:
                raise ValueError(f"{name} of {cls.__name__} cannot have shape {part.shape}")
        return made


def likelihood_to_dict(likelihood: Gaussian | Family, where: str) -> dict[str, Any]:
    """Return a likelihood as words and numbers."""
    if type(likelihood) is Gaussian:
        return {"name": "gaussian", "noise": float(likelihood.noise)}
    if isinstance(likelihood, Family) and FAMILIES.get(likelihood.name) is type(likelihood):
        return family_to_dict(likelihood)
    raise TypeError(f"{where} is {likelihood!r}, a likelihood that a model file cannot hold.")


def likelihood_from_dict(given: Any) -> Gaussian | Family:
    """Return the likelihood that words and numbers stand for, if it is written by them, too."""
    if not isinstance(given, dict) or not isinstance(given.get("name"), str):
        raise TypeError(f"{given!r:.80} is no likelihood")
    if given["name"] == "gaussian":
        if set(given) != {"name", "noise"}:
            raise ValueError(f"{given!r:.80} is no likelihood")
        return likelihood_from(given["noise"])
    family = family_from_dict(given)
    if family_to_dict(family) != given:
        raise ValueError(f"{given!r:.80} is no likelihood: {family!r} is not written so")
    return family


def likelihood_from(noise: Any) -> Gaussian:
    """Return the likelihood with the noise variance that a file holds."""
    if isinstance(noise, bool) or not isinstance(noise, int | float) or not 0.0 < noise < inf:
        raise ValueError(f"noise is {noise!r:.40}")
    return Gaussian(noise)


def _special(text: str) -> float:
    if text not in ("nan", "inf", "-inf"):
        raise ValueError(f"{text!r} is no number")
    return float(text)


def _number(value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise TypeError(f"{value!r} is no number")
    return float(value)


def _integer(value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, int):
        raise TypeError(f"{value!r} is no whole number")
    return value


def _unit(name: str, count: int) -> Any:
    if name not in _UNITS or _integer(count) < 1:
        raise ValueError(f"{count!r} {name!r} is no unit of time")
    return name if count == 1 else (name, count)


def _timestamp(value: np.datetime64, zone: str | None) -> Any:
    """Return a time of pandas; without pandas an equal one, to the microsecond in a zone."""
    try:
        from pandas import Timestamp
    except ImportError:
        if zone is None:
            return value
        return _in_zone(value.astype("M8[us]").astype(datetime).replace(tzinfo=UTC), zone)
    return Timestamp(value) if zone is None else Timestamp(value, tz="UTC").tz_convert(zone)


def _in_zone(value: datetime, zone: str | None) -> datetime:
    """Return a time in the zone it came in, or by its offset where the zone is unknown."""
    if zone is None or value.tzinfo is None:
        return value
    try:
        return value.astimezone(ZoneInfo(zone))
    except (ZoneInfoNotFoundError, ValueError):
        return value


# Methods of a decoder by name: bound ones, kept by itself, would keep all arrays for long.
_NESTED = {
    "array": "_array",
    "shared": "_shared",
    "tuple": "_tuple",
    "dict": "_dict",
    "likelihood": "_likelihood",
}
_PLAIN: dict[str, Callable[[Any], Any]] = {
    "float": _special,
    "seconds": lambda x: Duration(_number(x)),
    "unset": lambda x: Unset(_number(x)),
    "datetime64": lambda x: np.datetime64(_integer(x[0]), _unit(*x[1:])),
    "timedelta64": lambda x: np.timedelta64(_integer(x[0]), _unit(*x[1:])),
    "timestamp": lambda x: _timestamp(np.datetime64(_integer(x[0]), _unit(*x[1:3])), x[3]),
    "datetime": lambda x: _in_zone(datetime.fromisoformat(x[0]), x[1]),
    "date": date.fromisoformat,
    "timedelta": lambda x: timedelta(*map(_integer, x)),
}
