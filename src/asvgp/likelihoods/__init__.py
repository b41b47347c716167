"""Likelihoods: how observations scatter around the field."""

from asvgp.likelihoods.gaussian import Gaussian

__all__ = ["Gaussian"]
