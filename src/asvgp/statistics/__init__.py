"""Sufficient statistics: one pass over the data, then sums that add, subtract and coarsen."""
