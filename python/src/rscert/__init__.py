"""Certify classifiers by randomized smoothing.

These functions run the program ``rscert``, which is part of this package, and read its files. All numbers come from
the program.
"""

from rscert._certify import CertifyOptions, Run, certify
from rscert._program import Failed, InputError, RequirementNotMet, RscertError, program
from rscert._statistics import Calibration, cce, metrics, radius

__version__ = "0.1.0.dev0"

__all__ = [
    "Calibration",
    "CertifyOptions",
    "Failed",
    "InputError",
    "RequirementNotMet",
    "RscertError",
    "Run",
    "cce",
    "certify",
    "metrics",
    "program",
    "radius",
]
