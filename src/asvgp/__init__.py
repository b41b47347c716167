"""Gaussian processes on millions of observations, by actually sparse B-splines."""
from asvgp.kernels import SHO, Matern12, Matern32, Matern52, Matern72
