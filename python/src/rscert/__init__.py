"""Certify classifiers by randomized smoothing.

These functions run the program ``rscert``, which is part of this package, and read its files. All numbers come from
the program.
"""

from rscert._certify import Check, Finding, Run, certify, check
from rscert._export import Exported, export
from rscert._options import CceOptions, CertifyOptions, MetricsOptions, RadiusOptions
from rscert._program import Failed, InputError, Requirement, RequirementNotMet, RscertError, program
from rscert._statistics import Calibration, cce, metrics, radius

__version__ = "0.1.0.dev0"

__all__ = [
    "Calibration",
    "CceOptions",
    "CertifyOptions",
    "Check",
    "Exported",
    "Failed",
    "Finding",
    "InputError",
    "MetricsOptions",
    "RadiusOptions",
    "Requirement",
    "RequirementNotMet",
    "RscertError",
    "Run",
    "cce",
    "certify",
    "check",
    "export",
    "metrics",
    "program",
    "radius",
]
