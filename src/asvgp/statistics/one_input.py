"""The former place of `asvgp.statistics.Statistics`."""

from asvgp.statistics.statistics import Statistics

__all__ = ["Statistics"]
