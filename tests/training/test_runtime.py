"""``compile=True``, the order of the windows and their division over processes."""

from collections.abc import Callable
from dataclasses import replace

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Generator, Tensor, nn

from fern.data.windows import Windows
from fern.models import Forecaster, ModelConfig, PointForecaster
from fern.training import TrainConfig, train
from fern.training import runtime as compiling
from fern.training.logging import Silent
from fern.training.runtime import EpochOrder

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


def numbered(count: int) -> Windows:
    """Windows whose past is their own number."""
    return Windows(torch.arange(float(count + 1))[:, None], context_length=1, horizon=1)


def numbers(order: EpochOrder, step: int) -> list[int]:
    share = order.share(step)
    return [int(value) for value in share.past[:, 0, 0]] if share.windows else []


@given(st.integers(1, 30), st.integers(2, 20), st.integers(1, 4), st.integers(0, 5))
def test_the_processes_together_see_every_window_of_the_one_process_order_once(
    count: int, batch_size: int, processes: int, seed: int
) -> None:
    windows = numbered(count)
    whole = EpochOrder(windows, batch_size=batch_size, seed=seed, epoch=1)
    parts = [
        EpochOrder(windows, batch_size=batch_size, seed=seed, epoch=1, rank=rank, processes=processes)
        for rank in range(processes)
    ]
    seen: list[int] = []
    for step in range(whole.steps):
        batch = numbers(whole, step)
        assert sorted(n for part in parts for n in numbers(part, step)) == sorted(batch)
        # The mean over processes of the weighted mean losses is the mean over the batch's windows.
        shares = [part.share(step) for part in parts]
        weighted = sum(share.weight * share.past.mean().item() for share in shares) / processes
        assert abs(weighted - sum(batch) / len(batch)) < 1e-4
        assert all(len(share.past) >= 1 for share in shares)
        seen += batch
    assert sorted(seen) == list(range(count))
    assert whole.steps == -(-count // batch_size)


def test_epochs_and_seeds_have_orders_of_their_own() -> None:
    windows = numbered(100)
    orders = {
        (seed, epoch): tuple(numbers(EpochOrder(windows, batch_size=100, seed=seed, epoch=epoch), 0))
        for seed in (7, 8)
        for epoch in (1, 2)
    }
    assert len(set(orders.values())) == 4


def test_a_step_can_be_asked_for_without_those_before_it() -> None:
    order = EpochOrder(numbered(50), batch_size=8, seed=7, epoch=3)
    forwards = [numbers(order, step) for step in range(order.steps)]
    assert [numbers(order, step) for step in reversed(range(order.steps))] == forwards[::-1]
