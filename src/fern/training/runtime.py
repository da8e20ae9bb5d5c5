"""Where and how a run computes: cores, threads, devices, precision and processes; random streams, and the order of
windows in an epoch.
"""

import hashlib
import logging
import os
import socket
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Literal, TypeVar

import numpy as np
import torch
from torch import Generator, Tensor

from fern.data.windows import ROUNDS, Integers, Permutation, Windows
from fern.errors import FernError, require_memory, show_value
from fern.extras import import_optional
from fern.training.config import TrainConfig

Purpose = Literal["init", "order", "noise", "foreign"]
"""What is drawn: starting weights, the order of the windows, noise within the model (dropout, Fern's z and y0), and
whatever a model of someone else's draws without asking for a generator (``torch.nn.Dropout`` does)."""


def generator_for(
    seed: int, purpose: Purpose, *, rank: int = 0, epoch: int = 0, device: torch.device | str = "cpu"
) -> Generator:
    """A new generator for one purpose of a run; purposes, ranks and epochs draw independently of each other."""
    digest = hashlib.sha256(f"fern {seed} {purpose} {rank} {epoch}".encode()).digest()
    return Generator(device=device).manual_seed(int.from_bytes(digest[:8], "big") >> 1)


@contextmanager
def seed_global_generators(seed: int, *, rank: int, device: torch.device) -> Iterator[None]:
    """Within the block torch's global generator has a state that follows from the seed; its own comes back after it."""
    with torch.random.fork_rng(devices=[device] if device.type == "cuda" else []):
        set_foreign_state(generator_for(seed, "foreign", rank=rank, device=device).get_state(), device)
        yield


def foreign_state(device: torch.device) -> Tensor:
    """The state of torch's global generator for a device."""
    return torch.cuda.get_rng_state(device) if device.type == "cuda" else torch.get_rng_state()


def set_foreign_state(state: Tensor, device: torch.device) -> None:
    """Give torch's global generator for a device this state."""
    if device.type == "cuda":
        torch.cuda.set_rng_state(state, device)
    else:
        torch.set_rng_state(state)


AHEAD = 8192
"""Places in the order that are looked up together: for one small batch alone that costs more than its windows."""


class Share:
    """What one process takes of a batch.

    Not a dataclass: Fabric would cast the tensors inside one, and for mixed precision that rounds the data itself.

    ``weight`` makes the mean of the processes' weighted losses the mean over the batch's windows, whatever their
    counts: own windows · processes / windows of the batch. A process without a window of its own takes one at
    weight 0, because every process must take part in every step.
    """

    __slots__ = ("future", "past", "weight", "windows")

    def __init__(
        self,
        past: Tensor,  # (n, L, C)
        future: Tensor,  # (n, H, C)
        *,
        windows: int,
        weight: float,
    ) -> None:
        self.past, self.future, self.windows, self.weight = past, future, windows, weight


class EpochOrder:
    """The batches of one epoch in random order, each window once; the last batch may be smaller.

    Nothing is drawn as it goes, so an interrupted epoch continues at any step. With ``most_steps`` an epoch has no more
    batches than that: another random part of the windows each time.

    Example:
        >>> windows = Windows(torch.arange(10.0)[:, None], context_length=3, horizon=2)
        >>> order = EpochOrder(windows, batch_size=4, seed=7, epoch=1)
        >>> [order.share(step).windows for step in range(order.steps)]
        [4, 2]
    """

    def __init__(
        self,
        windows: Windows,
        *,
        batch_size: int,
        seed: int,
        epoch: int,
        most_steps: int | None = None,
        rank: int = 0,
        processes: int = 1,
    ) -> None:
        self._most_steps = most_steps
        self._windows, self._batch_size = windows, batch_size
        self._rank, self._processes = rank, processes
        keys = torch.randint(2**32, (ROUNDS,), generator=generator_for(seed, "order", epoch=epoch))
        self._order = Permutation(len(windows), keys=keys.tolist())
        self._known = range(0), np.empty(0, np.int64)

    @property
    def steps(self) -> int:
        """Batches in the epoch."""
        all_windows = -(-len(self._windows) // self._batch_size)
        return all_windows if self._most_steps is None else min(all_windows, self._most_steps)

    def windows_until(self, step: int) -> int:
        """Windows in the first ``step`` batches, over all processes."""
        return min(step * self._batch_size, len(self._windows))

    def share(self, step: int) -> Share:
        """This process's part of the batch of step 0, 1, … ``steps`` - 1: every ``processes``-th window of it."""
        first = step * self._batch_size
        total = min(self._batch_size, len(self._windows) - first)
        batch = self._items(first, first + total)
        items = batch[self._rank :: self._processes]
        count = len(items)
        past, future = self._windows.gather(torch.from_numpy(items if count else batch[:1]))
        return Share(past, future, windows=count, weight=count * self._processes / total)

    def _items(self, first: int, stop: int) -> Integers:  # (stop - first,)
        """The windows at these places of the order, found together with those that come next."""
        places, items = self._known
        if not places.start <= first <= stop <= places.stop:
            places = range(first, min(max(stop, first + AHEAD), len(self._windows)))
            items = self._order(np.arange(places.start, places.stop))
            self._known = places, items
        return items[first - places.start : stop - places.start]


if TYPE_CHECKING:
    from lightning_fabric import Fabric

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
        self.ray = import_optional("ray", extra="ray")
        self._own = not self.ray.is_initialized()
        if self._own:
            self._join(address)
        elif address is not None:
            raise FernError(f"got {address!r}, but this process already has a Ray session", argument="address")

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
            session = "a local Ray session" if address is None else f"the Ray cluster at {address}"
            problem = f"{session} cannot be reached ({str(error).splitlines()[0]})"
            raise FernError(problem, argument="address", where="engine ray") from None


def _require_listener(address: str) -> None:
    """Refuse an address at which nothing listens: Ray itself would try for minutes."""
    host, _, port = address.removeprefix("ray://").rpartition(":")
    if not host or not port.isdecimal():
        if address == "auto":
            return
        raise FernError(argument="address", got=address, expected="HOST:PORT, ray://HOST:PORT or auto")
    try:
        socket.create_connection((host, int(port)), timeout=_PATIENCE).close()
    except (OSError, OverflowError) as error:
        problem = f"the Ray cluster at {address} cannot be reached ({error})"
        raise FernError(problem, argument="address", where="engine ray") from None


V = TypeVar("V")


def run_on_first(work: Callable[[], None], fabric: "Fabric") -> None:
    """Have the first process do something; where it cannot, every process says why."""
    problem: FernError | None = None
    if fabric.is_global_zero:
        try:
            work()
        except FernError as error:
            problem = error
    first = gather_all(problem, fabric)[0]
    if first is not None:
        raise first


def gather_all(value: V, fabric: "Fabric") -> list[V]:
    """The value that each process has, in the order of their ranks; every process must ask."""
    if fabric.world_size == 1:
        return [value]
    values: list[Any] = [None] * fabric.world_size
    torch.distributed.all_gather_object(values, value)
    return values


MOST_THREADS = 256
PROCESS_BYTES = 300e6
"""About what a process with torch in it takes."""


@contextmanager
def threads(count: int | None) -> Iterator[None]:
    """Within the block torch uses ``count`` threads; None leaves them as they are."""
    before = torch.get_num_threads()
    if count is not None:
        require_threads(count)
        torch.set_num_threads(count)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def require_threads(count: int) -> None:
    """Refuse more threads than a machine of this size could ever use: starting them ends the process."""
    most = max(MOST_THREADS, 8 * usable_cores())
    if count > most:
        needs = f"at most {most} on this machine of {usable_cores()} cores"
        raise FernError(argument="threads", got=count, expected=needs)


def require_devices(config: TrainConfig) -> None:
    """Refuse more processes on the CPU than it has cores; a strategy that is named says that they are meant."""
    cores = usable_cores()
    if config.accelerator in ("cpu", "auto") and config.devices > cores and not torch.cuda.is_available():
        if config.strategy == "auto":
            raise FernError(
                f"got {show_value(config.devices)}, which are processes on the CPU, and this machine has {cores} "
                "cores; where that is meant, give a strategy too, such as strategy='ddp'",
                argument="devices",
            )
        require_memory(f"devices: {show_value(config.devices)} processes", PROCESS_BYTES * min(config.devices, 10**9))


@contextmanager
def quiet(*names: str) -> Iterator[None]:
    """Within the block these libraries' loggers report nothing but errors."""
    loggers = {name: logging.getLogger(name) for name in names}
    before = {name: logger.level for name, logger in loggers.items()}
    for logger in loggers.values():
        logger.setLevel(logging.ERROR)
    try:
        yield
    finally:
        for name, logger in loggers.items():
            logger.setLevel(before[name])


def launch(config: TrainConfig) -> "Fabric":
    """The devices and processes of a run, ready to use."""
    require_devices(config)
    from lightning_fabric import Fabric  # takes seconds to import, so not before it is needed

    try:
        with quiet("lightning_fabric"), warnings.catch_warnings():
            warnings.filterwarnings("ignore", module="lightning_fabric")
            settings = {name: getattr(config, name) for name in ("accelerator", "devices", "strategy", "precision")}
            fabric = Fabric(**settings)
            fabric.launch()
    except (ValueError, RuntimeError, TypeError, ImportError) as error:
        request = f"accelerator {config.accelerator!r}, devices {config.devices}, strategy {config.strategy!r}"
        raise FernError(f"not available here ({error})", where=request) from None
    return fabric
