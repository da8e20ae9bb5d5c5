"""What every registered model must do under the loop: train, and resume to the same bits."""

import pytest
import torch
from tests.training.support import InterruptedAt, InterruptionError

from fern.data.splits import Part
from fern.data.windows import Windows
from fern.models import Forecaster, build_model, model_names
from fern.training import TrainConfig, train

SIZES = {"context_length": 48, "horizon": 24}
CONFIG = TrainConfig(
    preset="shock", epochs=2, grace=0, batch_size=40, learning_rate=1e-3, checkpoint_steps=1, threads=1
)


def new(name: str) -> Forecaster:
    return build_model(name, **SIZES, channels=2)


@pytest.fixture(scope="module")
def sets() -> tuple[Windows, Windows]:
    time = torch.arange(260.0)
    series = torch.stack((torch.sin(time / 4), torch.cos(time / 9)), dim=1)
    train_windows = Windows(series, **SIZES, part=Part(0, 180))
    return train_windows, Windows(series, **SIZES, part=Part(180, 260))


@pytest.mark.parametrize("name", model_names())
def test_it_trains_and_resumes_to_the_same_bits(name: str, sets: tuple[Windows, Windows]) -> None:
    whole = train(new(name), *sets, CONFIG, progress="silent")
    if whole.stopped == "nothing to train":
        assert not whole.model.trainable
        return
    assert len(whole.history) == 2
    with pytest.raises(InterruptionError):
        train(new(name), *sets, CONFIG, directory="run", progress=InterruptedAt(3))
    resumed = train(new(name), *sets, CONFIG, resume="run", progress="silent")
    assert resumed.history == whole.history
    for (entry, a), (_, b) in zip(whole.model.state_dict().items(), resumed.model.state_dict().items(), strict=True):
        assert torch.equal(a, b), entry
