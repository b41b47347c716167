"""Sufficient statistics: one pass over the data, then sums that add, subtract and coarsen."""

from asvgp.statistics.statistics import Statistics

__all__ = ["Statistics"]
