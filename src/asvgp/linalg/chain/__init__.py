"""Elimination along a chain of cells: the linear algebra of models of one input."""
