"""Pictures of classifiers and of Cox processes: those of the model of f, in their own words."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from inspect import signature
from typing import Any, ParamSpec, TypeVar, cast

from asvgp.estimators.classifier import GPClassifier
from asvgp.estimators.cox import CoxProcess
from asvgp.plot.view import labelled

Given = ParamSpec("Given")
Drawn = TypeVar("Drawn")


def of_classes_too(draw: Callable[Given, Drawn]) -> Callable[Given, Drawn]:
    """Let a picture of a regressor be one of a classifier or of a Cox process, too.

    Drawn is the probability of the second of two classes; with more classes, an error says where
    the models of each are. Of a Cox process, the intensity is drawn.
    """
    parameters = signature(draw)

    @wraps(draw)
    def drawn(*args: Any, **options: Any) -> Any:
        gp = args[0] if args else options.get("gp")
        label = None
        if isinstance(gp, CoxProcess):
            given = parameters.bind_partial(*args, **options)
            if any(given.arguments.get(name) is not None for name in ("X", "y")):
                raise ValueError(
                    "Events have no y: pictures of a CoxProcess show its intensity and take no X "
                    "and y, such as plot.series(cox), plot.map(cox) and plot.components(cox)."
                )
            given.arguments["gp"] = gp._model()
            args, options, label = given.args, given.kwargs, f"events per {_unit(gp)}"
        elif isinstance(gp, GPClassifier):
            given = parameters.bind(*args, **options)
            values = given.arguments
            values["gp"] = gp.regressor_
            if (labels := values.get("y")) is not None:
                _, (values["y"],) = gp._read(values.get("X"), labels, None, gp.classes_)
            args, options = given.args, given.kwargs
            label = f"probability of {gp.classes_[1]}"
        with labelled(label):
            return cast(Any, draw)(*args, **options)

    return drawn


def _unit(cox: CoxProcess) -> str:
    """Return the unit that intensities of a Cox process are per, in words."""
    seen = cox._seen
    timed = [axis is not None for axis in seen.axes]
    if seen.latitude is not None:
        unit = "square degree"
    elif len(timed) == 1:
        name = seen.names[0] if seen.names else "X"
        unit = "second" if timed[0] else f"unit of {name}"
    elif any(timed):
        unit = "second and unit of the other inputs"
    else:
        unit = "unit of area" if len(timed) == 2 else "unit of volume"
    return unit if cox.exposure is None else f"{unit} and of exposure"
