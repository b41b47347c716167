"""Classes and methods that name the arguments they do not have, and the closest they have."""

from __future__ import annotations

from abc import ABCMeta
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import wraps
from inspect import Parameter, Signature, getattr_static, isfunction, signature
from typing import TYPE_CHECKING, Any, cast

from asvgp.runtime.checks import closest

_DONE = "__names_arguments__"
_BY_POSITION = (Parameter.POSITIONAL_ONLY, Parameter.POSITIONAL_OR_KEYWORD)


class NamingClass(ABCMeta):
    """The class of kernel and estimator classes: it names arguments that they do not have."""

    if not TYPE_CHECKING:  # or checkers would look at these arguments, not at the class's own

        def __call__(cls, *args, **settings):
            """Return an instance."""
            try:
                return cls.made(*args, **settings)
            except TypeError:
                if message := _misfit(cls.__name__, signature(cls), args, settings):
                    raise TypeError(message) from None
                raise

        @property
        def __signature__(cls) -> Signature:
            return signature(cls.maker)

    @property
    def maker(cls) -> Any:
        """The function whose arguments a call takes."""
        return cast(Any, cls).__init__.__get__(object())

    def made(cls, *args: Any, **settings: Any) -> Any:
        """Return an instance, of this class or of another that the arguments ask for."""
        return super().__call__(*args, **settings)


class NamingEstimator(NamingClass):
    """The class of estimator classes: their public methods name wrong arguments, too.

    Methods of users' own subclasses are left alone.
    """

    def __init__(cls, *args: Any, **settings: Any) -> None:
        super().__init__(*args, **settings)
        for name in dir(cls):
            method = getattr_static(cls, name)
            if not name.startswith("_") and isfunction(method) and _is_ours(method):
                setattr(cls, name, _naming(method))


def _is_ours(method: Callable) -> bool:
    """Return True for methods of this package and of scikit-learn that name nothing yet."""
    package = method.__module__.partition(".")[0]
    return package in (__name__.partition(".")[0], "sklearn") and not hasattr(method, _DONE)


def _naming(method: Callable) -> Callable:
    """Let a method name arguments that it does not have; its signature stays as it is."""

    @wraps(method)
    def called(self: Any, /, *args: Any, **settings: Any) -> Any:
        try:
            return method(self, *args, **settings)
        except TypeError:
            takes = signature(method.__get__(self))
            name = f"{type(self).__name__}.{method.__name__}"
            if message := _misfit(name, takes, args, settings):
                raise TypeError(message) from None
            raise

    setattr(called, _DONE, True)
    return called


def _misfit(what: str, takes: Signature, args: tuple, settings: Mapping[str, Any]) -> str:
    """Say which arguments a class or a method does not take; nothing if it takes them all."""
    try:
        takes.bind(*args, **settings)
    except TypeError as error:
        if message := _too_many(what, args, takes):
            return message
        known = ", ".join(takes.parameters)
        for name in settings:
            if name not in takes.parameters:
                listed = f"; it has {known}" if known else ""
                hint = closest(name, takes.parameters) or _related(name, takes.parameters)
                return f"{what} has no argument {name!r}{listed}.{hint}"
        listed = f"; its arguments are {known}" if known else "; it has no arguments"
        return f"{what}: {error}{listed}."
    return ""


def _related(name: str, names: Iterable[str]) -> str:
    """Ask whether the first argument is meant that has a word in common with a name.

    Examples
    --------
    >>> _related("std", ["X", "return_std"])
    " Did you mean 'return_std'?"
    """
    words = set(name.lower().split("_"))
    found = next((each for each in names if words & set(each.lower().split("_"))), None)
    return f" Did you mean {found!r}?" if found else ""


def _too_many(what: str, args: tuple, takes: Signature) -> str:
    """Say which arguments may be given by position if some that may not are; else nothing."""
    named = [p.name for p in takes.parameters.values() if p.kind is Parameter.KEYWORD_ONLY]
    first = [p.name for p in takes.parameters.values() if p.kind in _BY_POSITION]
    several = any(p.kind is Parameter.VAR_POSITIONAL for p in takes.parameters.values())
    if len(args) <= len(first) or several or not named:
        return ""
    return (
        f"{what}: too many positional arguments. Only {_listed(first)} may "
        f"be given by position; give the others by name: {named[0]}=..."
    )


def _listed(names: Sequence[str]) -> str:
    """Return names as part of a sentence."""
    return " and ".join(filter(None, [", ".join(names[:-1]), *names[-1:]])) or "none"
