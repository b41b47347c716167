"""Sufficient statistics: one pass over the data, then sums that add, subtract and coarsen."""

from asvgp.statistics.statistics import COUNTED, Statistics

__all__ = ["COUNTED", "Statistics"]
