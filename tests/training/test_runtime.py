"""``compile=True``: by what it gains, and without a trace on the run."""

from collections.abc import Callable
from dataclasses import replace

import pytest
import torch
from torch import Generator, Tensor, nn

from fern.data.windows import Windows
from fern.models import Forecaster, ModelConfig, PointForecaster
from fern.training import TrainConfig, train
from fern.training import runtime as compiling
from fern.training.logging import Silent

Sets = dict[str, Windows]


class Noisy(PointForecaster):
    """A linear forecaster with a batch normalisation, whose buffers a trial must not move, and torch's dropout."""

    def __init__(self) -> None:
        super().__init__(ModelConfig(context_length=12, horizon=6, channels=2))
        self.map, self.norm, self.drop = nn.Linear(12, 6), nn.BatchNorm1d(2), nn.Dropout(0.2)

    def predict(self, past: Tensor) -> Tensor:
        return self.map(self.drop(self.norm(past.mT))).mT


class Notes(Silent):
    """Keeps what a run notes."""

    def __init__(self) -> None:
        self.heard: list[str] = []

    def note(self, message: str) -> None:
        self.heard.append(message)


def scripted(monkeypatch: pytest.MonkeyPatch, *, eager: float, compiled: float) -> None:
    """Both timings as given, though the passes are really made."""
    real, values = compiling._seconds, iter((eager, compiled))

    def seconds(step: Callable[..., Tensor], share: object, generator: Generator) -> float:
        real(step, share, generator)  # type: ignore[arg-type]
        return next(values)

    monkeypatch.setattr(compiling, "_seconds", seconds)


@pytest.fixture
def quickly(monkeypatch: pytest.MonkeyPatch) -> None:
    """torch.compile without its slow part: the code is captured and run as it is."""
    whole = torch.compile
    # Fabric hands the settings of the first call on to its own.
    monkeypatch.setattr(torch, "compile", lambda module, **_: whole(module, backend="eager"))


def weights(model: Forecaster) -> Tensor:
    return torch.cat([value.double().flatten() for value in model.state_dict().values()])


@pytest.mark.usefixtures("quickly")
def test_a_gain_is_taken_and_gives_the_same_training(
    windows: Sets, quick: TrainConfig, monkeypatch: pytest.MonkeyPatch
) -> None:
    scripted(monkeypatch, eager=2e-3, compiled=1e-3)
    model = Noisy()
    model.drop.p = 0.0
    plain = train(model, windows["train"], windows["validation"], quick, progress="silent")
    losses = [record.train_loss for record in plain.history]
    notes = Notes()
    fast = train(model, windows["train"], windows["validation"], replace(quick, compile=True), progress=notes)
    assert notes.heard == ["compiled: a forward and backward pass takes 1 ms compiled and 2 ms as it is"]
    # The compiler sums in another order: float32 rounding, amplified by a dozen steps.
    assert [record.train_loss for record in fast.history] == pytest.approx(losses, rel=1e-4)


@pytest.mark.usefixtures("quickly")
@pytest.mark.parametrize("compiled", [1.9e-3, 4e-3])
def test_no_gain_leaves_the_run_as_it_would_have_been_to_the_bit(
    windows: Sets, quick: TrainConfig, monkeypatch: pytest.MonkeyPatch, compiled: float
) -> None:
    plain = train(Noisy(), windows["train"], windows["validation"], quick, progress="silent")
    scripted(monkeypatch, eager=2e-3, compiled=compiled)
    notes = Notes()
    tried = train(Noisy(), windows["train"], windows["validation"], replace(quick, compile=True), progress=notes)
    assert notes.heard[0].startswith("not compiled: a forward and backward pass takes")
    assert torch.equal(weights(plain.model), weights(tried.model))
    assert plain.history == tried.history


def test_a_machine_without_a_compiler_trains_all_the_same(
    windows: Sets, quick: TrainConfig, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(_: nn.Module) -> nn.Module:
        raise RuntimeError("No working C++ compiler found\nand more")

    monkeypatch.setattr(torch, "compile", broken)
    notes = Notes()
    result = train(Noisy(), windows["train"], windows["validation"], replace(quick, compile=True), progress=notes)
    assert notes.heard == ["not compiled: No working C++ compiler found"]
    assert len(result.history) == 3


@pytest.mark.slow
def test_the_real_compiler_gives_the_same_training(
    windows: Sets, quick: TrainConfig, monkeypatch: pytest.MonkeyPatch
) -> None:
    test_a_gain_is_taken_and_gives_the_same_training(windows, quick, monkeypatch)
