"""Classes that name the arguments they do not have, and the closest one that they have."""

from __future__ import annotations

from abc import ABCMeta
from collections.abc import Mapping, Sequence
from inspect import Parameter, Signature, signature
from typing import TYPE_CHECKING, Any, cast

from asvgp.runtime.checks import closest

_BY_POSITION = (Parameter.POSITIONAL_ONLY, Parameter.POSITIONAL_OR_KEYWORD)


class NamingClass(ABCMeta):
    """The class of kernel and estimator classes: it names arguments that they do not have."""

    if not TYPE_CHECKING:  # or checkers would look at these arguments, not at the class's own

        def __call__(cls, *args, **settings):
            """Return an instance."""
            try:
                return cls.made(*args, **settings)
            except TypeError:
                if message := _misfit(cls, args, settings):
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


def _misfit(cls: type, args: tuple, settings: Mapping[str, Any]) -> str:
    """Say which arguments a class does not take; nothing if it takes them all."""
    takes = signature(cls)
    try:
        takes.bind(*args, **settings)
    except TypeError as error:
        if message := _too_many(cls, args, takes):
            return message
        known = ", ".join(takes.parameters)
        for name in settings:
            if name not in takes.parameters:
                hint = closest(name, takes.parameters)
                return f"{cls.__name__} has no argument {name!r}; it has {known}.{hint}"
        return f"{cls.__name__}: {error}; its arguments are {known}."
    return ""


def _too_many(cls: type, args: tuple, takes: Signature) -> str:
    """Say which arguments may be given by position if some that may not are; else nothing."""
    named = [p.name for p in takes.parameters.values() if p.kind is Parameter.KEYWORD_ONLY]
    first = [p.name for p in takes.parameters.values() if p.kind in _BY_POSITION]
    several = any(p.kind is Parameter.VAR_POSITIONAL for p in takes.parameters.values())
    if len(args) <= len(first) or several or not named:
        return ""
    return (
        f"{cls.__name__}: too many positional arguments. Only {_listed(first)} may "
        f"be given by position; give the others by name: {named[0]}=..."
    )


def _listed(names: Sequence[str]) -> str:
    """Return names as part of a sentence."""
    return " and ".join(filter(None, [", ".join(names[:-1]), *names[-1:]])) or "none"
