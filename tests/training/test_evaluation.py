"""What judges an epoch: a distribution by its CRPS where the objective gives that a weight."""

from collections.abc import Callable
from dataclasses import replace

import pytest
import torch

from fern.data.windows import Windows
from fern.metrics import ObjectiveWeights, crps, mse
from fern.models import Forecaster, build_model
from fern.training import TrainConfig, train

OF_DISTRIBUTIONS = ObjectiveWeights(mse=0.0, mae=0.0, distance=0.0, crps=1.0)


def test_an_objective_of_the_crps_judges_the_distribution(
    windows: dict[str, Windows], fern: Callable[[], Forecaster], quick: TrainConfig
) -> None:
    config = replace(quick, objective=OF_DISTRIBUTIONS, loss={"crps": 1.0}, epochs=2)
    result = train(fern(), windows["train"], windows["validation"], config, progress="silent")
    kept = result.history[result.best_epoch - 1].validation
    past, future = windows["validation"].gather(torch.arange(len(windows["validation"])))
    with torch.no_grad():
        distribution = result.model(past.float()).ellipsoid
    assert distribution is not None
    assert kept["objective"] == kept["crps"] == pytest.approx(crps(distribution, future.float()).item(), rel=1e-6)


@pytest.mark.parametrize(("most", "judged"), [(3, [0, 1, 2]), (None, None), (10_000, None)])
def test_so_many_validation_windows_spread_evenly_judge_an_epoch(
    windows: dict[str, Windows], quick: TrainConfig, most: int | None, judged: list[int] | None
) -> None:
    validation = windows["validation"]
    places = torch.arange(len(validation)) if judged is None else torch.tensor(judged) * len(validation) // 3
    sizes = {"context_length": validation.context_length, "horizon": validation.horizon}
    model = build_model("last-value", channels=validation.channels, **sizes)
    config = replace(quick, validation_windows=most)
    figures = train(model, windows["train"], validation, config, progress="silent").history[0]
    past, future = validation.gather(places)
    assert figures.validation["mse"] == pytest.approx(float(mse(model(past).mean, future)), rel=1e-5)


def test_without_a_distribution_the_crps_is_the_absolute_error(windows: dict[str, Windows], quick: TrainConfig) -> None:
    sizes = {"context_length": windows["train"].context_length, "horizon": windows["train"].horizon}
    model = build_model("last-value", channels=windows["train"].channels, **sizes)
    config = replace(quick, objective=OF_DISTRIBUTIONS)
    figures = train(model, windows["train"], windows["validation"], config, progress="silent").history[0]
    assert figures.validation["objective"] == figures.validation["mae"]
    assert "crps" not in figures.validation


def test_without_a_weight_no_distribution_is_looked_at(
    windows: dict[str, Windows], fern: Callable[[], Forecaster], quick: TrainConfig
) -> None:
    config = replace(quick, epochs=1)
    figures = train(fern(), windows["train"], windows["validation"], config, progress="silent").history[0]
    assert list(figures.validation) == ["mse", "mae", config.distance, "objective"]
