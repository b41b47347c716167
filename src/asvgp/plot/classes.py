"""Pictures of classifiers: those of the model of f, with labels as zeros and ones."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from inspect import signature
from typing import Any, ParamSpec, TypeVar, cast

from asvgp.estimators.classifier import GPClassifier

Given = ParamSpec("Given")
Drawn = TypeVar("Drawn")


def of_classes_too(draw: Callable[Given, Drawn]) -> Callable[Given, Drawn]:
    """Let a picture of a regressor be one of a classifier with two classes, too.

    Drawn is the probability of the second class; with more classes, an error says where the models
    of each are.
    """
    parameters = signature(draw)

    @wraps(draw)
    def drawn(*args: Any, **options: Any) -> Any:
        if args and isinstance(gp := args[0], GPClassifier):
            given = parameters.bind(*args, **options)
            values = given.arguments
            values["gp"] = gp.regressor_
            if (labels := values.get("y")) is not None:
                _, (values["y"],) = gp._read(values.get("X"), labels, None, gp.classes_)
            args, options = given.args, given.kwargs
        return cast(Any, draw)(*args, **options)

    return drawn
