"""Likelihoods: how observations scatter around the field."""

from asvgp.likelihoods.classes import Bernoulli, Binomial
from asvgp.likelihoods.counts import NegativeBinomial, Poisson
from asvgp.likelihoods.family import Family
from asvgp.likelihoods.gaussian import Gaussian, likelihood_of
from asvgp.likelihoods.heteroscedastic import Heteroscedastic
from asvgp.likelihoods.inflated import ZeroInflatedPoisson
from asvgp.likelihoods.likelihood import Likelihood
from asvgp.likelihoods.names import FAMILIES, family_from_dict, family_named, family_to_dict
from asvgp.likelihoods.ordinal import Ordinal
from asvgp.likelihoods.positive import Exponential, Gamma, Weibull
from asvgp.likelihoods.proportions import Beta
from asvgp.likelihoods.robust import StudentT

__all__ = [
    "FAMILIES",
    "Bernoulli",
    "Beta",
    "Binomial",
    "Exponential",
    "Family",
    "Gamma",
    "Gaussian",
    "Heteroscedastic",
    "Likelihood",
    "NegativeBinomial",
    "Ordinal",
    "Poisson",
    "StudentT",
    "Weibull",
    "ZeroInflatedPoisson",
    "family_from_dict",
    "family_named",
    "family_to_dict",
    "likelihood_of",
]
