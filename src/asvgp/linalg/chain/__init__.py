"""Elimination along a chain of cells: the linear algebra of models of one input.

`cell` moves forms and covariances across one cell; `prior` and `elimination` factor the
prior's and the posterior's chain, `square_root` does the latter where digits are short;
`covariance` and `sweep` answer questions about several cells.
"""
