"""The cores there are to use: of this machine, and by a Ray session those of others."""

import os
import socket
from importlib import import_module
from types import ModuleType
from typing import Any

from fern.errors import FernError

_PATIENCE = 10.0  # seconds for a cluster to answer


def usable_cores() -> int:
    """The cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


class RaySession:
    """Ray, joined: a cluster, the session of this process, or a new one; `leave` ends what was not there before.

    Arguments:
        address: of a cluster (``HOST:PORT``, ``ray://HOST:PORT`` or ``auto``); without one the session that this
            process has already, or a new one of this machine's cores.
    """

    def __init__(self, address: str | None = None) -> None:
        self.ray = _imported_ray()
        self._own = not self.ray.is_initialized()
        if self._own:
            self._join(address)
        elif address is not None:
            raise FernError(f"address: got {address!r}, but this process already has a Ray session")

    def leave(self) -> None:
        """End the session, if it is our own."""
        if self._own:
            self.ray.shutdown()

    def _join(self, address: str | None) -> None:
        options: dict[str, Any] = {"log_to_driver": False, "logging_level": "ERROR"}
        if address is None:
            os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
            options |= {"address": "local", "num_cpus": usable_cores(), "include_dashboard": False}
        else:
            _require_listener(address)
            options["address"] = address
        try:
            self.ray.init(**options)
        except (ConnectionError, ValueError, RuntimeError, TimeoutError) as error:
            wanted = "a local Ray session" if address is None else f"the Ray cluster at {address}"
            raise FernError(f"engine ray: {wanted} cannot be reached ({str(error).splitlines()[0]})") from None


def _require_listener(address: str) -> None:
    """Refuse an address at which nothing listens: Ray itself would try for minutes."""
    host, _, port = address.removeprefix("ray://").rpartition(":")
    if not host or not port.isdecimal():
        if address == "auto":
            return
        raise FernError(f"address: got {address!r}, needs HOST:PORT, ray://HOST:PORT or auto")
    try:
        socket.create_connection((host, int(port)), timeout=_PATIENCE).close()
    except (OSError, OverflowError) as error:
        raise FernError(f"engine ray: the Ray cluster at {address} cannot be reached ({error})") from None


def _imported_ray() -> ModuleType:
    try:
        return import_module("ray")
    except ImportError:
        raise FernError("engine ray: the package 'ray' is not installed (pip install 'fern-forecast[ray]')") from None
