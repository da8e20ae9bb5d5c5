"""Runs that are killed with SIGKILL and resumed, compared with one that was not; prints one JSON line for each kill.

A program of its own: it imports once and forks a child for each run, so a kill costs a second and not ten.
``python kill_rig.py FOLDER KILLS``
"""

import hashlib
import json
import os
import random
import select
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path

import torch

from fern.data.splits import Part
from fern.data.windows import Windows
from fern.models import build_model
from fern.models import storage as tensorfile
from fern.training import TrainConfig, train
from fern.training.evaluation import EpochRecord
from fern.training.logging import Progress

CONFIG = TrainConfig(
    preset="shock",
    epochs=6,
    grace=1,
    patience=3,
    smoothing=0.3,
    batch_size=16,
    learning_rate=3e-3,
    schedule="one-cycle",
    warmup=0.3,
    clip_norm=0.5,
    averaging=0.9,
    loss={"huber": 1.0, "energy": 0.1},
    energy_samples=4,
    checkpoint_steps=3,
    threads=1,
)


class Ticking(Progress):
    """Writes a byte to a pipe at each step, and waits a little so that a step has a middle to be killed in."""

    def __init__(self, pipe: int) -> None:
        self._pipe = pipe

    def step(self, *, epoch: int, loss: float) -> None:
        os.write(self._pipe, b"s")
        time.sleep(0.002)

    def epoch(self, record: EpochRecord, *, kept: bool) -> None:
        os.write(self._pipe, b"e")


def run(directory: Path, *, resume: bool, pipe: int) -> None:
    """Train, and leave the digest of weights and history in the directory."""
    generator = torch.Generator().manual_seed(1)
    series = torch.randn(300, 2, generator=generator).cumsum(0) / 5
    sizes = {"context_length": 12, "horizon": 6}
    sets = [Windows(series, **sizes, part=part) for part in (Part(0, 200), Part(200, 250), Part(250, 300))]
    model = build_model("fern", **sizes, channels=2, hidden=8, latent=3, layers=2, patch_size=3, reflections=2)
    where = {"resume": directory} if resume else {"directory": directory}
    result = train(model, sets[0], sets[1], CONFIG, windows_test=sets[2], progress=Ticking(pipe), **where)
    digest = hashlib.sha256()
    for name, value in result.model.state_dict().items():
        digest.update(name.encode() + value.numpy().tobytes())
    figures = [{k: v for k, v in record.items() if "seconds" not in k} for record in result.history.to_list()]
    outcome = {
        "weights": digest.hexdigest(),
        "history": figures,
        "best_epoch": result.best_epoch,
        "stopped": result.stopped,
    }
    (directory / "outcome.json").write_text(json.dumps(outcome))


def stuck_write(of: str, count: int) -> None:
    """From now on the ``count``-th write of this file stops half-way, for good."""
    whole, seen = tensorfile.save_file, [0]

    def save(tensors: dict[str, torch.Tensor], path: Path, *, metadata: dict[str, str]) -> None:
        whole(tensors, path, metadata=metadata)
        if path.name.startswith(f".{of}."):
            seen[0] += 1
            if seen[0] == count:
                os.truncate(path, path.stat().st_size // 2)
                os.write(PIPE[1], b"w")
                time.sleep(60)

    tensorfile.save_file = save


def forked(work: Callable[[], None]) -> int:
    """A child process that does the work and ends."""
    child = os.fork()
    if child:
        return child
    try:
        work()
        os._exit(0)
    finally:
        os._exit(1)


def finished(child: int) -> bool:
    """Whether a child ended well."""
    return os.waitpid(child, 0)[1] == 0


def killed(child: int, *, letter: str, count: int, delay: float) -> None:
    """Kill a child a little after it has written the letter ``count`` times."""
    while count:
        if not select.select([PIPE[0]], [], [], 60)[0]:
            break
        count -= os.read(PIPE[0], 1).decode() == letter
    time.sleep(delay)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    while select.select([PIPE[0]], [], [], 0)[0]:
        os.read(PIPE[0], 4096)


def main(folder: Path, kills: int) -> None:
    """One run to its end, then the kills: at random steps, and within the writes of both files."""
    whole = folder / "whole"
    run(whole, resume=False, pipe=PIPE[1])  # in this process, so that its children find everything compiled
    steps = os.read(PIPE[0], 65536).decode().count("s")
    expected = json.loads((whole / "outcome.json").read_text())
    plans: list[tuple[str, str, int]] = [("step", "s", random.randint(1, steps - 1)) for _ in range(kills)]
    plans += [("last", "w", random.randint(2, 10)), ("best", "w", random.randint(1, 2))]
    for number, (kind, letter, count) in enumerate(plans):
        directory = folder / f"{number}"

        def work(directory: Path = directory, kind: str = kind, count: int = count) -> None:
            if kind != "step":
                stuck_write(kind, count)
            run(directory, resume=False, pipe=PIPE[1])

        # Within a write the child itself says when it is half-way; a step is killed at some moment of it.
        delay = random.uniform(0.0, 0.01) if kind == "step" else 0.0
        killed(forked(work), letter=letter, count=count if kind == "step" else 1, delay=delay)
        before = sorted(path.name for path in directory.iterdir())
        resumed = finished(forked(lambda d=directory: run(d, resume=True, pipe=PIPE[1])))
        os.read(PIPE[0], 65536)
        outcome = json.loads((directory / "outcome.json").read_text()) if resumed else None
        line = {
            "kind": kind,
            "count": count,
            "steps": steps,
            "delay": delay,
            "before": before,
            "after": sorted(path.name for path in directory.iterdir()),
            "equal": outcome == expected,
            "best_epoch": expected["best_epoch"],
        }
        sys.stdout.write(json.dumps(line) + "\n")


PIPE = os.pipe()

if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]))
