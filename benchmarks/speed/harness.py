"""What every speed measurement shares: timing, a row with its peer, and the record that is committed."""

import contextlib
import importlib
import io
import json
import logging
import os
import pkgutil
import platform
import subprocess
import time
import warnings
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Protocol, cast

import torch
from torch import Tensor, nn

RESULTS = Path(__file__).parent / "results"
TOPICS = sorted(m.name for m in pkgutil.iter_modules([str(Path(__file__).parent)]) if m.name != "harness")
PEERS = ("neuralforecast", "ot", "polars", "scoringrules")
"""Modules to compare with that are no dependency of ours: a topic whose peer is not installed is left out."""


@dataclass(frozen=True)
class Effort:
    """How much a measurement does: all of it, or just enough to see that it runs.

    ``most_rounds``  the most repetitions of one thing, None for as many as the measurement wants.
    ``share``        of the sizes that the measurement wants.
    """

    most_rounds: int | None = None
    share: float = 1.0

    def rounds(self, wanted: int) -> int:
        """How often to repeat."""
        return wanted if self.most_rounds is None else min(wanted, self.most_rounds)

    def size(self, wanted: int, *, least: int) -> int:
        """How large to make something that makes sense from ``least`` on."""
        return max(least, round(self.share * wanted))


FULL = Effort()
SMOKE = Effort(most_rounds=1, share=1e-3)


@dataclass(frozen=True)
class Measurement:
    """One figure: ours against a named peer, measured in the same run; ``ratio`` > 1 means ours is better."""

    name: str
    ours: float
    peer: float | None
    unit: str
    peer_name: str
    target: str

    @property
    def ratio(self) -> float | None:
        """How many times better ours is than the peer's (times are lower-is-better)."""
        return None if self.peer is None else self.peer / self.ours


class Topic(Protocol):
    """A module of measurements. It writes nothing: `record` does, for who wants it."""

    PACKAGES: tuple[str, ...]
    """Those whose versions matter to the figures."""

    def measure(self, effort: Effort) -> list[Measurement]:
        """Every measurement of the topic."""
        ...


def measured(name: str, effort: Effort) -> tuple[Topic, list[Measurement]] | str:
    """A topic and its measurements, or the name of the peer for whose absence it is left out."""
    try:
        topic = cast("Topic", importlib.import_module(f"benchmarks.speed.{name}"))
        return topic, topic.measure(effort)
    except ModuleNotFoundError as error:
        if error.name not in PEERS:
            raise
        return error.name


def best_seconds(
    function: Callable[[], object],
    *,
    repeats: int = 5,
    warmups: int = 1,
    clock: Callable[[], float] = time.perf_counter,
) -> float:
    """The shortest of several timings: the one least disturbed by the rest of the machine.

    ``time.process_time`` as the clock counts processor time, which other processes disturb less still.
    """
    for _ in range(warmups):
        function()
    timings = []
    for _ in range(repeats):
        start = clock()
        function()
        timings.append(clock() - start)
    return min(timings)


@contextlib.contextmanager
def quiet() -> Iterator[None]:
    """neuralforecast and Lightning announce themselves."""
    with (
        warnings.catch_warnings(),
        contextlib.redirect_stdout(io.StringIO()),
        contextlib.redirect_stderr(io.StringIO()),
    ):
        warnings.simplefilter("ignore")
        logging.disable(logging.CRITICAL)
        try:
            yield
        finally:
            logging.disable(logging.NOTSET)


def training_step(model: nn.Module, loss: Callable[[], Tensor]) -> Callable[[], None]:
    """A step of AdamW on the loss."""
    optimiser = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=True)
    model.train()

    def step() -> None:
        optimiser.zero_grad()
        loss().backward()  # type: ignore[no-untyped-call]
        optimiser.step()

    return step


def best_in_turns(
    steps: Mapping[str, Callable[[], object]], *, rounds: int, clock: Callable[[], float] = time.perf_counter
) -> dict[str, float]:
    """The shortest time of each; in turns, so that a busy machine disturbs them alike."""
    best = dict.fromkeys(steps, float("inf"))
    for turn in range(rounds + 2):
        for name, step in steps.items():
            start = clock()
            step()
            if turn >= 2:  # the first are warm-ups
                best[name] = min(best[name], clock() - start)
    return best


def record(
    topic: str,
    measurements: list[Measurement],
    *,
    packages: tuple[str, ...],
    command: str | None = None,
) -> None:
    """Print the measurements and write ``results/<topic>.json`` with the machine, the versions and the command."""
    rows = [{**asdict(m), "ratio": m.ratio} for m in measurements]
    show(measurements)
    document = {
        "topic": topic,
        "command": command or f"python -m benchmarks {topic}",
        "commit": _commit(),
        "machine": {"processor": _processor(), "cores": os.cpu_count(), "python": platform.python_version()},
        "versions": {name: version(name) for name in packages},
        "measurements": rows,
    }
    RESULTS.mkdir(exist_ok=True)
    (RESULTS / f"{topic}.json").write_text(json.dumps(document, indent=2) + "\n")


def show(measurements: list[Measurement]) -> None:
    """Print the measurements."""
    for m in measurements:
        against = "" if m.peer is None else f"   {m.peer_name}: {m.peer:.4g} {m.unit}   ratio {m.ratio:.2f}"
        print(f"  {m.name}: {m.ours:.4g} {m.unit}{against}   (target: {m.target})")


def _commit() -> str:
    done = subprocess.run(["git", "describe", "--always", "--dirty"], capture_output=True, text=True, check=False)
    return done.stdout.strip() or "unknown"


def _processor() -> str:
    info = Path("/proc/cpuinfo")
    names = (
        [line.split(":", 1)[1].strip() for line in info.read_text().splitlines() if line.startswith("model name")]
        if info.exists()
        else []
    )
    return names[0] if names else platform.processor()
