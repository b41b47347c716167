"""Sums over the points of every cell, and polynomials evaluated cell by cell."""
