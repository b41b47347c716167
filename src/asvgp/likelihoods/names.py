"""Families by name, for the command line and for model files."""

from __future__ import annotations

from dataclasses import fields

from asvgp.likelihoods.classes import Bernoulli, Binomial
from asvgp.likelihoods.counts import NegativeBinomial, Poisson
from asvgp.likelihoods.family import Family
from asvgp.likelihoods.heteroscedastic import Heteroscedastic
from asvgp.likelihoods.inflated import ZeroInflatedPoisson
from asvgp.likelihoods.ordinal import Ordinal
from asvgp.likelihoods.positive import Exponential, Gamma, Weibull
from asvgp.likelihoods.proportions import Beta
from asvgp.likelihoods.robust import StudentT

FAMILIES: dict[str, type[Family]] = {
    family.name: family
    for family in (
        Poisson,
        NegativeBinomial,
        ZeroInflatedPoisson,
        Bernoulli,
        Binomial,
        Ordinal,
        Gamma,
        Exponential,
        Weibull,
        Beta,
        StudentT,
        Heteroscedastic,
    )
}


def family_named(name: str, **arguments) -> Family:
    """Return the family of a name, as the command line has it.

    Examples
    --------
    >>> family_named("negative-binomial", dispersion=2.0)
    NegativeBinomial(dispersion=2.0)
    """
    family = FAMILIES.get(str(name).strip().lower().replace("_", "-"))
    if family is None:
        raise ValueError(f"There is no likelihood {name!r}; there are {', '.join(FAMILIES)}.")
    known = {entry.name for entry in fields(family)}
    if unknown := sorted(set(arguments) - known):
        takes = ", ".join(sorted(known - {"free"})) or "no arguments"
        raise ValueError(f"{name} does not take {', '.join(unknown)}; it takes {takes}.")
    return family(**arguments)


def family_to_dict(family: Family) -> dict:
    """Return what `family_from_dict` makes an equal family of: words and numbers for JSON.

    Examples
    --------
    >>> family_to_dict(NegativeBinomial(dispersion=2.0))
    {'name': 'negative-binomial', 'free': [], 'dispersion': 2.0}
    """
    out: dict = {"name": family.name}
    for entry in fields(family):
        given = getattr(family, entry.name)
        out[entry.name] = list(given) if isinstance(given, tuple) else given
    return out


def family_from_dict(given: dict) -> Family:
    """Return the family that `family_to_dict` has described."""
    arguments = {
        name: tuple(value) if isinstance(value, list) else value
        for name, value in given.items()
        if name != "name"
    }
    return family_named(given["name"], **arguments)
