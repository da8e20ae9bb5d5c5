"""Where a row comes from: versions, commit and machine.

What makes a row stale, so that its run is done again: another task name, model, preset, setting, dataset, value of the
data, split, scaling, training setting or seed, and another *code version*, which is the package's version and
`REVISION`. A commit alone does not, nor does an uncommitted change: during development most commits do not touch a
figure, and a sweep of days must survive them. Whoever changes what a run computes raises `REVISION` (or the version).
The commit that made a row stands in it all the same, under ``versions``, with ``-dirty`` where files were changed.
"""

import os
import platform
import subprocess
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import Any

from fern._version import __version__
from fern.training.machine.cluster import usable_cores

REVISION = 1
"""Raised when a change of code changes figures between two versions of the package."""


def code_version() -> str:
    """The part of the code's identity that a row's key depends on.

    Example:
        >>> code_version().startswith(__version__)
        True
    """
    return f"{__version__}+r{REVISION}"


@cache
def versions() -> dict[str, str]:
    """Versions of what computes, and the commit where the package runs from a checkout.

    Example:
        >>> sorted(versions().keys() - {"commit"})
        ['fern', 'numba', 'numpy', 'python', 'torch']
    """
    found = {"fern": __version__, "python": platform.python_version()}
    found |= {name: version(name) for name in ("numba", "numpy", "torch")}
    commit = _commit()
    return found | ({"commit": commit} if commit else {})


def machine(*, threads: int, accelerator: str = "cpu") -> dict[str, Any]:
    """What a run was computed on.

    Example:
        >>> machine(threads=1)["threads"]
        1
    """
    return {
        "system": platform.system(),
        "processor": _processor(),
        "cores": usable_cores(),
        "threads": threads,
        "accelerator": accelerator,
    }


def _commit() -> str | None:
    """The commit of the checkout that holds this file, or None when it is an installed copy."""
    folder = Path(__file__).resolve().parents[3]
    if not (folder / ".git").exists():
        return None
    command = ["git", "-C", str(folder), "describe", "--always", "--dirty", "--exclude", "*"]
    try:
        quiet = {**os.environ, "GIT_OPTIONAL_LOCKS": "0"}  # looking must not stand in another git's way
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=30, env=quiet)
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout.strip() or None


@cache
def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        lines = []
    names = [line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor() or platform.machine()
