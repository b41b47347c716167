"""The former name of `asvgp.statistics.Statistics` for several inputs."""

from asvgp.statistics.statistics import Statistics

FieldStatistics = Statistics
