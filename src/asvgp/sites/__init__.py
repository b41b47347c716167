"""Likelihoods that are not Gaussian: sites in place of observations, and their training."""
