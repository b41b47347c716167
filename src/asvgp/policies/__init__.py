"""Thresholds of the automatic choices, each with its unit, its reason and its measurement.

There is one frozen dataclass for each kind of choice, and one instance of it that the library
uses: `DATA`, `START`, `LINE`, `FIELD`, `PILOT`, `MEMORY`, `VERDICT`, `SAMPLE`. The comment on a
threshold says "[unit] reason Measured: where"; without the last part no measurement is recorded.
"By inputs" means one entry per number of inputs. Tolerances of the linear algebra stay beside the
code that they belong to.

Examples
--------
>>> from asvgp.policies import FIELD
>>> FIELD.accepted_gradient
1.0
"""

from __future__ import annotations

from asvgp.policies.data import (
    CODES,
    DATA,
    MEMORY,
    SAVING,
    TRANSFORM,
    CodePolicy,
    DataPolicy,
    MemoryPolicy,
    SavingPolicy,
    TransformPolicy,
)
from asvgp.policies.defaults import (
    DEFAULT,
    SAMPLE,
    SERIES,
    DefaultPolicy,
    SamplePolicy,
    SeriesPolicy,
)
from asvgp.policies.likelihoods import EVENTS, NOISE, SITES, EventsPolicy, NoisePolicy, SitesPolicy
from asvgp.policies.training import (
    FIELD,
    LINE,
    PILOT,
    START,
    FieldPolicy,
    LinePolicy,
    PilotPolicy,
    StartPolicy,
    halvings,
)
from asvgp.policies.verdicts import VERDICT, VerdictPolicy

__all__ = [
    "CODES",
    "DATA",
    "DEFAULT",
    "EVENTS",
    "FIELD",
    "LINE",
    "MEMORY",
    "NOISE",
    "PILOT",
    "SAMPLE",
    "SAVING",
    "SERIES",
    "SITES",
    "START",
    "TRANSFORM",
    "VERDICT",
    "CodePolicy",
    "DataPolicy",
    "DefaultPolicy",
    "EventsPolicy",
    "FieldPolicy",
    "LinePolicy",
    "MemoryPolicy",
    "NoisePolicy",
    "PilotPolicy",
    "SamplePolicy",
    "SavingPolicy",
    "SeriesPolicy",
    "SitesPolicy",
    "StartPolicy",
    "TransformPolicy",
    "VerdictPolicy",
    "halvings",
]
