"""Real series: published data sets, audit, cleaning, frames, splits, windows, scaling.

Public names are imported where they are first used, so that ``import fern.data`` does not load torch. Three functions
have the names of their modules and are bound here at once: an import of the module would otherwise hide the function.
"""

from importlib import import_module
from typing import Any

from fern.data.audit import audit
from fern.data.clean import clean
from fern.data.split import split

_WHERE = {
    "datasets": ("find", "load"),
    "published": ("PUBLISHED", "published"),
    "audit": ("AuditReport",),
    "policy": ("PAPER_POLICY", "Policy", "read_policy"),
    "changes": ("Change", "CleanLog"),
    "frames": ("Panel", "Series", "read_frame"),
    "frequency": ("Frequency",),
    "split": ("PRESETS", "Part", "Split"),
    "windows": ("Windows",),
    "scale": ("Affine", "ScaledLaw", "Scaler", "fit_scaler", "scaler_from_mapping"),
}
_MODULES = {name: module for module, names in _WHERE.items() for name in names}

__all__ = ["audit", "clean", "split", *_MODULES]


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_MODULES[name]}"), name)


def __dir__() -> list[str]:
    return __all__
