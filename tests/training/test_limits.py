"""Runs that end before their epochs do: by time, by an interruption, or with epochs of few steps."""

from collections.abc import Callable
from dataclasses import replace

import pytest
import torch

from fern.data.windows import Windows
from fern.errors import FernError
from fern.models import Forecaster
from fern.training import TrainConfig, train, trainer
from fern.training.evaluation import EpochRecord
from fern.training.logging import Progress
from fern.training.runtime import EpochOrder

Sets = dict[str, Windows]
Builder = Callable[[], Forecaster]


class PressedCtrlC(Progress):
    """Ctrl-C after so many steps."""

    def __init__(self, steps: int) -> None:
        self._left = steps

    def step(self, *, epoch: int, loss: float) -> None:
        self._left -= 1
        if self._left == 0:
            raise KeyboardInterrupt


class Clock(Progress):
    """A clock that every step sets forward by a tenth of a second, and the learning rates of the epochs."""

    def __init__(self) -> None:
        self.now, self.rates = 100.0, [0.0]

    def monotonic(self) -> float:
        return self.now

    perf_counter = process_time = monotonic

    def step(self, *, epoch: int, loss: float) -> None:
        self.now += 0.1

    def epoch(self, record: EpochRecord, *, kept: bool) -> None:
        self.rates.append(record.learning_rate)


def test_a_time_limit_ends_the_run_and_the_learning_rate_falls_towards_it(
    windows: Sets, fern: Builder, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = Clock()
    monkeypatch.setattr(trainer, "time", clock)
    config = TrainConfig(epochs=100_000, patience=None, batch_size=16, time_limit=6.05, threads=1)
    result = train(fern(), windows["train"], windows["validation"], config, progress=clock)
    assert result.stopped == "time"
    assert clock.now == pytest.approx(106.1)  # the first step after the limit
    assert clock.rates[-1] < 0.05 * max(clock.rates)


def test_epochs_of_few_steps_see_another_part_of_the_windows_each_time(windows: Sets, fern: Builder) -> None:
    data = windows["train"]
    parts = [EpochOrder(data, batch_size=16, seed=7, epoch=epoch, most_steps=2) for epoch in (1, 2)]
    assert [part.steps for part in parts] == [2, 2]
    assert parts[0].windows_until(2) == 32
    first, second = (part.share(0).past for part in parts)
    assert not torch.equal(first, second)
    config = TrainConfig(epochs=3, patience=None, batch_size=16, steps_per_epoch=2, threads=1)
    result = train(fern(), data, windows["validation"], config, progress="silent")
    assert len(result.history) == 3


def test_more_steps_than_there_are_change_nothing(windows: Sets, fern: Builder, quick: TrainConfig) -> None:
    plain, capped = (
        train(fern(), windows["train"], windows["validation"], config, progress="silent").model
        for config in (quick, replace(quick, steps_per_epoch=1_000))
    )
    for one, other in zip(plain.parameters(), capped.parameters(), strict=True):
        assert torch.equal(one, other)


@pytest.mark.parametrize("steps", [1, 10])  # within the first epoch, of four steps, and after it
def test_an_interrupted_run_keeps_the_best_so_far(windows: Sets, fern: Builder, quick: TrainConfig, steps: int) -> None:
    model = fern()
    result = train(
        *(model, windows["train"], windows["validation"], quick), progress=PressedCtrlC(steps), on_interrupt="keep"
    )
    assert result.stopped == "interrupted"
    assert result.best_epoch == (
        0 if steps == 1 else min(result.history, key=lambda r: r.validation["objective"]).epoch
    )
    past, _ = windows["validation"].gather(torch.arange(3))
    assert bool(torch.isfinite(model(past).mean).all())


def test_an_interruption_is_passed_on_unless_told_otherwise(windows: Sets, fern: Builder, quick: TrainConfig) -> None:
    with pytest.raises(KeyboardInterrupt):
        train(fern(), windows["train"], windows["validation"], quick, progress=PressedCtrlC(2))


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"time_limit": 0}, "time_limit: got 0, needs a number above 0, or None"),
        ({"time_limit": "60"}, "time_limit: got '60'"),
        ({"time_limit": 9.0, "devices": 2}, "time_limit: got 9.0 with 2 devices"),
        ({"steps_per_epoch": 0}, "steps_per_epoch: got 0, needs a whole number of at least 1"),
    ],
)
def test_limits_that_make_no_sense_are_refused(settings: dict[str, object], message: str) -> None:
    with pytest.raises(FernError, match=message.replace("(", r"\(")):
        TrainConfig(**settings)  # type: ignore[arg-type]
