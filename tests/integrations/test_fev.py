"""Fern as a fev model: tasks on local Parquet files, validated and scored by fev."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

pytestmark = pytest.mark.filterwarnings("ignore")  # datasets and its dependencies warn of much

LEVELS = [0.1, 0.5, 0.9]


@pytest.fixture
def Model(needs: Callable[..., Any], monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Any:
    needs("fev")
    import datasets

    monkeypatch.setattr(datasets.config, "HF_DATASETS_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    return needs("fev", "fern.integrations.fev").FernModel


def written(folder: Path, *, targets: list[str]) -> Path:
    """Three seasonal series of unequal lengths, as a long table."""
    generator, frames = np.random.default_rng(3), []
    for number, rows in enumerate((150, 120, 200)):
        time = np.arange(rows)
        columns = {
            name: 10.0 * (number + 1) + np.sin(2 * np.pi * time / 7 + c) + 0.05 * generator.standard_normal(rows)
            for c, name in enumerate(targets)
        }
        stamps = pd.date_range("2020-01-01", periods=rows)
        frames.append(pd.DataFrame({"id": f"series {number}", "timestamp": stamps, **columns}))
    path = folder / "sales" / "data.parquet"
    path.parent.mkdir()
    pd.concat(frames).to_parquet(path)
    return path


@pytest.mark.parametrize("targets", [["target"], ["a", "b"]], ids=["one target", "two targets"])
def test_a_task_on_a_local_file_is_validated_and_on_the_leaderboard(
    Model: Any, tmp_path: Path, targets: list[str]
) -> None:
    import fev

    task = fev.Task(
        dataset_path=str(written(tmp_path, targets=targets)),
        horizon=7,
        num_windows=2,
        seasonality=7,
        eval_metric="MASE",
        extra_metrics=["WQL"],
        quantile_levels=LEVELS,
        target=targets if len(targets) > 1 else targets[0],
    )
    rows = []
    models = {
        "fern": Model(epochs=4, context_length=21),
        "seasonal_naive": Model(model="seasonal-naive", model_settings={"season": 7}, context_length=21),
    }
    for name, model in models.items():
        predictions = model.fit_predict(task)
        for window in predictions:
            task.clean_and_validate_predictions(window)
            for target in targets:
                made = {key: np.array(window[target][key]) for key in map(str, LEVELS)}
                assert made["0.5"].shape == (3, 7)
                assert (made["0.1"] < made["0.5"]).all() and (made["0.5"] < made["0.9"]).all()
                assert (np.abs(made["0.5"].mean(axis=1) - [10, 20, 30]) < 2).all()  # series keep their places
        assert model.training_time > 0 and model.inference_time > 0
        rows.append(task.evaluation_summary(predictions, model_name=name))
    board = fev.leaderboard(rows, baseline_model="seasonal_naive")
    assert set(board.index) == {"fern", "seasonal_naive"}
    assert board.loc["seasonal_naive", "skill_score"] == 0 and board.loc["fern", "skill_score"] > 0
    assert rows[0]["num_forecasts"] == 6 * len(targets)


def test_later_windows_are_forecast_from_their_own_past_and_refit_learns_anew(
    Model: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import fev

    from fern import FernForecaster

    fits = []
    learn = FernForecaster.fit_table

    def counted(self: Any, table: Any, **given: Any) -> Any:
        fits.append(len(table.series[0].values))
        return learn(self, table, **given)

    monkeypatch.setattr(FernForecaster, "fit_table", counted)
    path = written(tmp_path, targets=["target"])
    task = fev.Task(dataset_path=str(path), horizon=7, num_windows=3, quantile_levels=LEVELS)
    answers = Model(model="last-value").fit_predict(task)
    assert fits == [150 - 21]
    truth = pd.read_parquet(path)
    first = truth[truth["id"] == "series 0"]["target"].to_numpy()
    for number, window in enumerate(answers):
        np.testing.assert_allclose(window["target"]["predictions"][0], first[129 + 7 * number - 1], rtol=1e-5)
    Model(model="last-value", refit=True).fit_predict(task)
    assert fits[1:] == [129, 136, 143]
