"""The naive references, and the oracle."""

import pytest
import torch
from tests.errors import raises_error
from torch import Generator

from fern.errors import FernError
from fern.models import build_model

SIZES = {"context_length": 10, "horizon": 7, "channels": 2}


def series(*shape: int) -> torch.Tensor:
    return torch.randn(*shape, generator=Generator().manual_seed(1))


def test_last_value_repeats_the_last_value() -> None:
    past = series(3, 10, 2)
    mean = build_model("last-value", **SIZES)(past).mean
    assert torch.equal(mean, past[:, -1:].repeat(1, 7, 1))


@pytest.mark.parametrize("season", [1, 3, 10])
def test_seasonal_naive_repeats_what_was_seen_whole_seasons_before(season: int) -> None:
    past = series(3, 10, 2)
    mean = build_model("seasonal-naive", season=season, **SIZES)(past).mean
    for h in range(1, 8):
        back = -(-h // season) * season
        assert torch.equal(mean[:, h - 1], past[:, 10 + h - 1 - back])


def test_a_season_longer_than_the_context_is_refused() -> None:
    with raises_error("season"):
        build_model("seasonal-naive", season=11, **SIZES)


def test_training_mean_is_the_best_constant_whatever_the_batches() -> None:
    past, future = series(9, 10, 2), 3 + series(9, 7, 2)
    model = build_model("training-mean", **SIZES)
    model.prepare([(past[:4], future[:4]), (past[4:], future[4:])])
    mean = model(past).mean
    assert torch.allclose(mean, future.mean(dim=(0, 1)).expand(9, 7, 2))


def test_training_mean_must_be_prepared_with_windows() -> None:
    model = build_model("training-mean", **SIZES)
    with pytest.raises(FernError, match=r"call prepare\(batches\) first"):
        model(series(3, 10, 2))
    with raises_error("batches"):
        model.prepare([])
