"""What a forecast's ellipsoids say about it: eigen-profiles along time, and warnings learnt from them.

Example:
    >>> import torch
    >>> from fern.models import build_model
    >>> model = build_model("fern", context_length=48, horizon=24, channels=1, patch_size=8)
    >>> profile = eigenprofile(model, torch.randn(400, 1))
    >>> rules = learn_rules(profile, lead=8)
    >>> print(*(rule.name for rule in rules.rules), sep=", ")
    variance collapse, rising spectral radius
"""

from fern.diagnostics.alarms import Alarm, Rules, detect_alarms, learn_rules, measure_rates
from fern.diagnostics.eigenprofile import EigenProfile, eigenprofile

__all__ = [
    "Alarm",
    "EigenProfile",
    "Rules",
    "detect_alarms",
    "eigenprofile",
    "learn_rules",
    "measure_rates",
]
