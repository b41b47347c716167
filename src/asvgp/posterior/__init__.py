"""Answers of a fitted model: means, variances, derivatives, integrals and paths."""
