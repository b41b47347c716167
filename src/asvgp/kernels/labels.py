"""Kernels with the names of columns in place of their numbers."""

from __future__ import annotations

from dataclasses import replace

from asvgp.kernels.effects import Effect
from asvgp.kernels.product import Product


def renamed(part, names: tuple[str, ...] | None):
    """Return a component whose inputs are named instead of numbered."""
    if names is None:
        return part
    if isinstance(part, Product):
        factors = tuple(factor.replace(dim=names[factor.dim]) for factor in part.factors)
        new = Product(factors, part.variance)
        known = dict(zip(part.parameters, new.parameters, strict=True))
        fixed = tuple(known[name] for name in part.fixed)
        return new.replace(fixed=fixed, bounds={known[n]: b for n, b in part.bounds.items()})
    return part.replace(dim=names[part.dim])


def renamed_effect(effect: Effect, names: tuple[str, ...] | None) -> Effect:
    """Return a fixed effect whose column is named instead of numbered."""
    dim = getattr(effect, "dim", None)
    return replace(effect, dim=names[dim]) if names and isinstance(dim, int) else effect  # pyright: ignore[reportCallIssue]
