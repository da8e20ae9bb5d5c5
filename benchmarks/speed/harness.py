"""What every speed measurement shares: timing, a row with its peer, and the record that is committed."""

import json
import os
import platform
import subprocess
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from importlib.metadata import version
from pathlib import Path

RESULTS = Path(__file__).parent / "results"


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


def record(
    topic: str,
    measurements: list[Measurement],
    *,
    packages: tuple[str, ...] = ("numpy",),
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
