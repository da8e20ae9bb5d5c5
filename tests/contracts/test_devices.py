"""What holds of every model on any device: the plain path, shapes without values, export, threads and forks."""

import multiprocessing
from concurrent.futures import ThreadPoolExecutor
from multiprocessing.connection import Connection

import pytest
import torch
from tests.contracts.test_models import EVERY_MODEL, oscillators, small
from torch import Generator, Tensor, nn

from fern.models import Forecaster
from fern.training.optimisation import criterion

# Some windows here are outside of what a polynomial was fitted to.
pytestmark = pytest.mark.filterwarnings("ignore:polymap. .* windows had values held:RuntimeWarning")

SIZES = {"context": 50, "horizon": 24, "channels": 3}
LOOKS_AT_VALUES = {
    "analog": "which states are neighbours depends on values",
    "fern-pretrained": "the season and the scale are read off the context in NumPy",
}


def windows() -> tuple[Tensor, Tensor]:
    return oscillators(windows=4, **SIZES)


def loss_and_gradients(model: Forecaster) -> list[Tensor]:
    """In evaluation mode, where nothing is dropped."""
    past, future = windows()
    loss = model.loss(past, future, criterion({"huber": 1.0}), generator=Generator().manual_seed(1))
    learnt = [parameter for parameter in model.parameters() if parameter.requires_grad]
    gradients = torch.autograd.grad(loss, learnt, allow_unused=True)
    return [loss.detach(), *(gradient for gradient in gradients if gradient is not None)]


@EVERY_MODEL
def test_the_plain_path_gives_what_the_compiled_kernels_give(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FERN_KERNELS", "on")
    model = small(name, **SIZES)
    compiled = model(windows()[0])
    graded = loss_and_gradients(model) if model.trainable else []
    monkeypatch.setenv("FERN_KERNELS", "off")
    plain = model(windows()[0])
    torch.testing.assert_close(plain.mean, compiled.mean, rtol=1e-5, atol=1e-5)
    if compiled.ellipsoid is not None:
        torch.testing.assert_close(plain.stddev, compiled.stddev, rtol=1e-5, atol=1e-5)
    for ours, theirs in zip(loss_and_gradients(model) if model.trainable else [], graded, strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-4, atol=1e-5)


@EVERY_MODEL
def test_shapes_are_known_without_values(name: str) -> None:
    if name in LOOKS_AT_VALUES:
        pytest.skip(LOOKS_AT_VALUES[name])
    model = small(name, **SIZES).to("meta")
    made = model(windows()[0].to("meta"))
    assert made.mean.is_meta
    assert made.mean.shape == (4, 24, 3)
    if made.ellipsoid is not None:
        assert made.stddev.shape == (4, 24, 3)


class PointForecasts(nn.Module):
    """What an exported program computes: tensors in, tensors out."""

    def __init__(self, model: Forecaster) -> None:
        super().__init__()
        self.model = model

    def forward(self, past: Tensor) -> Tensor:
        return self.model(past).mean


@pytest.mark.parametrize("name", ["fern", "patchtst", "dlinear"])
def test_an_exported_model_gives_the_same_forecast(name: str) -> None:
    model, past = small(name, **SIZES), windows()[0]
    exported = torch.export.export(PointForecasts(model).eval(), (past,), strict=False)
    torch.testing.assert_close(exported.module()(past), model(past).mean, rtol=1e-5, atol=1e-5)


@EVERY_MODEL
def test_eight_threads_forecast_what_one_does(name: str) -> None:
    model, past = small(name, **SIZES), oscillators(windows=16, **SIZES)[0]
    parts = torch.split(past, 1)
    alone = [model(part).mean for part in parts]
    with ThreadPoolExecutor(8) as pool:
        together = list(pool.map(lambda part: model(part).mean, parts * 3))
    assert all(torch.equal(ours, theirs) for ours, theirs in zip(together, alone * 3, strict=True))


def _forecast_in_child(model: Forecaster, past: Tensor, pipe: Connection) -> None:
    pipe.send(model(past).mean.tolist())


@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
@pytest.mark.parametrize("name", ["fern", "dlinear", "patchtst"])
def test_a_forked_process_forecasts_what_its_parent_does(name: str) -> None:
    model, past = small(name, **SIZES), windows()[0]
    own = model(past).mean.tolist()
    context = multiprocessing.get_context("fork")
    ours, theirs = context.Pipe()
    child = context.Process(target=_forecast_in_child, args=(model, past, theirs))
    child.start()
    try:
        assert ours.poll(60), "the child does not answer"
        assert ours.recv() == own
    finally:
        child.kill()
        child.join()
