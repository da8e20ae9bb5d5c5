"""What a run shows: a bar, lines or nothing, and never anything else."""

import io
import re
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from fern.data.windows import Windows
from fern.models import Forecaster
from fern.training import EpochRecord, TrainConfig, train
from fern.training.logging import Bar, Lines, Mode, Progress, progress_of

Sets = dict[str, Windows]
Builder = Callable[[], Forecaster]


class Terminal(io.StringIO):
    """A stream that says it is a terminal."""

    def isatty(self) -> bool:
        return True


def record(epoch: int, objective: float) -> EpochRecord:
    return EpochRecord(epoch, 0.25, 1e-3, 0.1, validation={"objective": objective}, seconds=2.0)


def test_a_run_without_a_terminal_writes_a_plain_line_an_epoch_to_standard_error(
    windows: Sets, fern: Builder, quick: TrainConfig, capfd: pytest.CaptureFixture[str]
) -> None:
    train(fern(), windows["train"], windows["validation"], quick)
    out, err = capfd.readouterr()
    assert out == ""
    lines = err.splitlines()
    assert len(lines) == 4
    for epoch, line in enumerate(lines[:3], start=1):
        assert re.fullmatch(rf"epoch {epoch}/3  loss [\d.e-]+  objective [\d.e-]+( \*)?  [\d.]+ s", line)
    assert re.fullmatch(r"stopped by epochs, kept epoch \d", lines[3])


def test_a_silent_run_writes_nothing_anywhere(
    windows: Sets, fern: Builder, quick: TrainConfig, capfd: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    train(fern(), windows["train"], windows["validation"], quick, progress="silent")
    assert capfd.readouterr() == ("", "")
    assert list(tmp_path.iterdir()) == []


def test_the_bar_shows_epoch_loss_objective_and_the_time_left() -> None:
    stream = Terminal()
    bar = Bar(stream)
    bar.start(epochs=2, steps=3, done=0)
    for _ in range(3):
        bar.step(epoch=1, loss=0.25)
    bar.epoch(record(1, 1.5), kept=True)
    bar.step(epoch=2, loss=0.125)
    bar.epoch(record(2, 1.75), kept=False)
    bar.stop("stopped by epochs, kept epoch 1")
    shown = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", stream.getvalue())
    assert "epoch 2/2" in shown
    assert "loss 0.125" in shown
    assert "objective 1.75 (best 1.5, epoch 1)" in shown
    assert re.search(r"\d:\d\d:\d\d|-:--:--", shown)
    assert "stopped by epochs, kept epoch 1" in shown


def test_the_bar_stops_when_the_run_fails(windows: Sets, fern: Builder, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stderr", Terminal())
    config = TrainConfig(preset="shock", epochs=2, learning_rate=1e30, loss="mse", threads=1)
    with pytest.raises(ValueError, match="diverged"):
        train(fern(), windows["train"], windows["validation"], config)
    shown = sys.stderr.getvalue()  # type: ignore[attr-defined]
    assert "diverged at epoch 1" in shown.replace("\n", " ")
    assert shown.endswith("\n")


@pytest.mark.parametrize(
    ("mode", "terminal", "kind"),
    [
        ("auto", True, Bar),
        ("auto", False, Lines),
        ("bar", False, Bar),
        ("lines", True, Lines),
        ("silent", True, Progress),
    ],
)
def test_auto_is_a_bar_on_a_terminal_and_lines_elsewhere(
    monkeypatch: pytest.MonkeyPatch, mode: Mode, terminal: bool, kind: type
) -> None:
    monkeypatch.setattr(sys, "stderr", Terminal() if terminal else io.StringIO())
    assert type(progress_of(mode, first=True)) is kind


def test_the_other_processes_are_silent() -> None:
    assert type(progress_of("lines", first=False)) is Progress


def test_an_object_of_one_s_own_hears_every_step_and_epoch(windows: Sets, fern: Builder, quick: TrainConfig) -> None:
    heard: list[str] = []

    class Own(Progress):
        def start(self, *, epochs: int, steps: int, done: int) -> None:
            heard.append(f"start {epochs} {steps} {done}")

        def step(self, *, epoch: int, loss: float) -> None:
            heard.append("step")

        def epoch(self, record: EpochRecord, *, kept: bool) -> None:
            heard.append(f"epoch {record.epoch}")

        def stop(self, message: str) -> None:
            heard.append("stop")

    train(fern(), windows["train"], windows["validation"], quick, progress=Own())
    assert heard[0] == "start 3 4 0"
    assert heard.count("step") == 12
    assert [event for event in heard if event.startswith("epoch")] == ["epoch 1", "epoch 2", "epoch 3"]
    assert heard[-1] == "stop"


def test_the_bar_takes_messages_literally_and_knows_where_a_resumed_run_is() -> None:
    stream = io.StringIO()
    bar = Bar(stream)
    bar.start(epochs=50, steps=10, done=300)
    bar.stop("the last good checkpoint is in runs/lr[/b][red]")
    assert "runs/lr[/b][red]" in stream.getvalue()
    assert "epoch 31/50" in stream.getvalue()
