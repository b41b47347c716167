"""Likelihoods: how observations scatter around the field."""

from asvgp.likelihoods.gaussian import Gaussian, likelihood_of
from asvgp.likelihoods.likelihood import Likelihood

__all__ = ["Gaussian", "Likelihood", "likelihood_of"]
