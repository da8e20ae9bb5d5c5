"""Fern as a fev model: tasks on local Parquet files, validated and scored by fev."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
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
    learn = FernForecaster.fit

    def counted(self: Any, table: Any, **given: Any) -> Any:
        fits.append(len(table.series[0].values))
        return learn(self, table, **given)

    monkeypatch.setattr(FernForecaster, "fit", counted)
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


def driven_task(folder: Path, **columns: Any) -> Any:
    """Two shops whose sales follow a price that is known ahead; a column of the past, and what a shop is."""
    import fev

    rng, frames = np.random.default_rng(3), []
    for number, kind in enumerate(("small", "large")):
        rows = 260 + 10 * number
        price = rng.standard_normal(rows)
        sales = 10.0 + 20 * number - 2.0 * price + 0.2 * rng.standard_normal(rows)
        stamps = pd.date_range("2020-01-01", periods=rows)
        promo, size = np.where(price > 0, "none", "sale"), 1.0 + number
        own = {"price": price, "promo": promo, "visits": sales + 1, "kind": kind, "size": size}
        frames.append(pd.DataFrame({"id": kind, "timestamp": stamps, "target": sales, **own}))
    path = folder / "shops" / "data.parquet"
    path.parent.mkdir()
    pd.concat(frames).to_parquet(path)
    return fev.Task(
        dataset_path=str(path),
        horizon=7,
        num_windows=2,
        seasonality=7,
        quantile_levels=LEVELS,
        eval_metric="MAE",
        **columns,
    )


def test_covariates_of_a_task_are_used(Model: Any, tmp_path: Path) -> None:
    task = driven_task(
        tmp_path,
        known_dynamic_columns=["price", "promo"],
        past_dynamic_columns=["visits"],
        static_columns=["kind", "size"],
    )
    errors = {}
    for used in (True, False):
        answers = Model(model="last-value", covariates=used).fit_predict(task)
        errors[used] = task.evaluation_summary(answers, model_name="fern")["test_error"]
    assert errors[True] < 0.35 < errors[False]  # the noise alone has an error of 0.16


def test_columns_that_cannot_be_numbers_are_left_out(Model: Any, tmp_path: Path) -> None:
    from fern.integrations import fev as room

    task = driven_task(tmp_path, known_dynamic_columns=["price"], static_columns=["kind"])
    window = next(iter(task.iter_windows()))
    table, ahead = room._table(window, covariates=True)
    assert table.encoding.names.names == ("price", "kind") and ahead["small"].shape == (7, 1)
    names = pa.table({"price": [1.0], "kind": pa.array([None], pa.string())})
    lists = {"known": ["price"], "past": [], "static": ["kind"]}
    assert room._learn_encoding(names, names, lists, calendar=False).names.names == ("price",)


@pytest.mark.parametrize("targets", [["target"], ["a", "b"]], ids=["one target", "two targets"])
def test_the_model_of_the_package_forecasts_a_task_without_a_fit(
    Model: Any, tmp_path: Path, targets: list[str]
) -> None:
    import fev

    from fern.integrations.fev import PretrainedFernModel
    from fern.pretrained import forecast

    path = written(tmp_path, targets=targets)
    task = fev.Task(
        dataset_path=str(path),
        horizon=7,
        num_windows=2,
        seasonality=7,
        quantile_levels=LEVELS,
        target=targets if len(targets) > 1 else targets[0],
    )
    model = PretrainedFernModel()
    answers = model.fit_predict(task)
    assert model.training_time in (None, 0) and model.inference_time > 0 and model.trained_on_datasets == []
    truth = pd.read_parquet(path)
    for number, window in enumerate(answers):
        task.clean_and_validate_predictions(window)
        for target in targets:
            rows = truth[truth["id"] == "series 1"][target].to_numpy()[: 120 - 14 + 7 * number]
            alone = forecast(rows, 7, season=7)
            np.testing.assert_allclose(window[target]["predictions"][1], alone.mean, rtol=1e-4)
            np.testing.assert_allclose(window[target]["0.9"][1], alone.quantile([0.9])[:, 0], rtol=1e-4)
