"""Fern as a neuralforecast model: its own checks, saving, and the joint distribution as a loss."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

pytestmark = pytest.mark.filterwarnings("ignore")  # trainers and their dependencies warn of much

QUIET = {"enable_progress_bar": False, "enable_model_summary": False, "logger": False, "accelerator": "cpu"}
SMALL = {"hidden": 16, "latent": 4, "layers": 2, **QUIET}


@pytest.fixture
def room(needs: Callable[..., Any]) -> Any:
    """`fern.integrations.neuralforecast`."""
    needs("neuralforecast")
    return needs("neuralforecast", "fern.integrations.neuralforecast")


@pytest.fixture
def passengers(room: Any) -> Any:
    from neuralforecast.utils import AirPassengersPanel

    return AirPassengersPanel[["unique_id", "ds", "y"]]


def fitted(room: Any, frame: Any, **settings: Any) -> Any:
    from neuralforecast import NeuralForecast

    forecasts = NeuralForecast([room.Fern(h=12, input_size=24, **{"max_steps": 3, **SMALL, **settings})], freq="ME")
    forecasts.fit(frame)
    return forecasts


@pytest.mark.slow
def test_neuralforecasts_own_checks_pass_with_every_loss(room: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    from neuralforecast.common import _model_checks as checks

    run, passed = checks._run_model_tests, []
    shortest = min(frame.groupby("unique_id").size().min() for frame in (checks.Y_TRAIN_DF_1, checks.Y_TRAIN_DF_2))
    room_left = int(shortest) - 24  # rows that the checks keep for validation

    def strictly(model: Any, config: dict[str, Any]) -> None:
        # With its own sizes every model fails on the checks' short series, and the checks pass over that.
        try:
            run(model, {**config, "input_size": room_left, **QUIET})
        except Exception as error:
            raise RuntimeError from error  # the one kind of error that the checks report
        passed.append(type(config["loss"]).__name__)

    whole = checks.NeuralForecast
    months = {"M": "ME"}  # as newer versions of pandas call them; the checks of neuralforecast 3.3 do not
    monkeypatch.setattr(
        checks, "NeuralForecast", lambda models, freq: whole(models=models, freq=months.get(freq, freq))
    )
    monkeypatch.setattr(checks, "_run_model_tests", strictly)
    checks.check_model(room.Fern)
    assert len(passed) == 26 and {"MAE", "MQLoss", "IQLoss", "DistributionLoss", "GMM"} <= set(passed)


@pytest.mark.slow
def test_cross_validation_is_as_good_as_our_own_forecaster_on_the_same_windows(room: Any, passengers: Any) -> None:
    from neuralforecast import NeuralForecast

    from fern import FernForecaster

    def error(made: Any) -> float:
        assert len(made) == 48
        return float(np.abs(made["Fern"] - made["y"]).mean())

    ours, theirs = [], []
    for seed in (1, 2, 3):
        own = FernForecaster(12, context_length=36, seed=seed, progress="silent", threads=1)
        ours.append(error(own.cross_validation(passengers, n_windows=2)))
        model = room.Fern(h=12, input_size=36, max_steps=300, random_seed=seed, **QUIET)
        there = NeuralForecast([model], freq="ME").cross_validation(passengers, n_windows=2, step_size=12)
        theirs.append(error(there))
    season = passengers.groupby("unique_id")["y"].apply(lambda y: np.abs(y.to_numpy()[-24:] - y.to_numpy()[-36:-12]))
    naive = float(np.mean(np.concatenate(season.to_list())))
    assert max(*ours, *theirs) < 0.6 * naive
    # Training noise is what seeds differ by: on 132 rows as much as half of an error.
    noise = np.sqrt((np.var(ours, ddof=1) + np.var(theirs, ddof=1)) / len(ours))
    assert abs(np.mean(theirs) - np.mean(ours)) < 3 * noise


def test_saved_models_forecast_the_same_without_pickle(room: Any, passengers: Any, tmp_path: Any) -> None:
    from neuralforecast import NeuralForecast

    forecasts = fitted(room, passengers)
    made = forecasts.predict()
    assert made.columns.tolist() == [
        "unique_id",
        "ds",
        "Fern",
        "Fern-median",
        *_bounds("lo", 90, 80),
        *_bounds("hi", 80, 90),
    ]
    forecasts.save(str(tmp_path / "saved"))
    loaded = NeuralForecast.load(str(tmp_path / "saved"))
    assert type(loaded.models[0]) is room.Fern and type(loaded.models[0].loss) is room.EllipsoidLoss
    assert loaded.predict().equals(made)


def _bounds(end: str, *levels: int) -> list[str]:
    return [f"Fern-{end}-{level}" for level in levels]


@pytest.mark.parametrize("name", ["MAE", "MQLoss", "DistributionLoss"])
def test_neuralforecasts_losses_train_it(room: Any, passengers: Any, name: str) -> None:
    from neuralforecast.losses import pytorch as losses

    loss = losses.DistributionLoss("StudentT") if name == "DistributionLoss" else getattr(losses, name)()
    forecasts = fitted(room, passengers, loss=loss)
    made = forecasts.predict()
    values = made.drop(columns=["unique_id", "ds"]).to_numpy()
    assert np.isfinite(values).all()
    level = passengers.groupby("unique_id")["y"].last().to_numpy()
    middle = values[:, values.shape[1] // 2].reshape(2, 12).mean(axis=1)
    assert (np.abs(middle / level - 1) < 0.5).all()  # in the unit of the series, whatever scales it


@pytest.mark.parametrize("horizon", [5, 12, 30])
def test_the_loss_sees_the_distribution_of_the_model(room: Any, horizon: int) -> None:
    from fern.training.optimisation import criterion

    model = room.Fern(h=horizon, input_size=24, **SMALL).eval()
    past, future = torch.randn(3, 24, 1) + 4, torch.randn(3, horizon, 1) + 4
    numbers = model({"insample_y": past})
    assert numbers.shape == (3, horizon, model.loss.outputsize_multiplier)
    there, here = model.loss.ellipsoid(numbers), model.fern(past)
    torch.testing.assert_close(there.mean, here.mean[..., 0])
    torch.testing.assert_close(there.stddev, here.stddev[..., 0])
    expected = criterion({"whitened_crps": 1.0})(here, future)
    torch.testing.assert_close(model.loss(future, numbers), expected)
    scaled = model.loss.ellipsoid(
        model.loss.scale_decouple(numbers, loc=torch.full((3, 1, 1), 7.0), scale=torch.full((3, 1, 1), 2.0))
    )
    torch.testing.assert_close(scaled.mean, 2 * there.mean + 7)
    torch.testing.assert_close(scaled.stddev, 2 * there.stddev)


def test_a_patch_with_a_missing_step_does_not_count(room: Any) -> None:
    loss = room.EllipsoidLoss(reflections=2, patch_size=4)
    numbers, y = torch.rand(2, 10, 4) + 0.1, torch.rand(2, 10, 1)
    mask = torch.ones_like(y)
    mask[0, 5] = 0.0  # the second patch of the first window: steps 4 to 7
    known = loss(y, numbers, mask)
    y[0, 4:8] = 1e6
    assert torch.equal(loss(y, numbers, mask), known)
    y[0, 0] = 1e6
    assert loss(y, numbers, mask) > known
    assert loss(y, numbers, torch.zeros_like(y)) == 0


def test_samples_are_joint_and_quantiles_are_the_distributions(room: Any) -> None:
    torch.manual_seed(0)
    loss = room.EllipsoidLoss(quantiles=[0.1, 0.9], reflections=2, patch_size=6)
    numbers = torch.cat((torch.rand(1, 6, 1) + 0.5, torch.zeros(1, 6, 1), torch.randn(1, 6, 2)), dim=2)
    paths, mean, quantiles = loss.sample(numbers, num_samples=20_000)
    distribution = loss.ellipsoid(numbers)
    assert paths.shape == (1, 6, 1, 20_000) and mean.shape == (1, 6, 1, 1) and quantiles.shape == (1, 6, 1, 2)
    covariance = torch.cov(paths[0, :, 0])
    torch.testing.assert_close(covariance, distribution.covariance_matrix[0], atol=0.01, rtol=0.1)
    assert (covariance - covariance.diag().diag()).abs().max() > 0.01
    below = (paths[0, :, 0] < quantiles[0, :, 0, :1]).float().mean(1)
    torch.testing.assert_close(below, torch.full((6,), 0.1), atol=0.01, rtol=0.0)


def driven(seed: int = 0) -> tuple[Any, Any, Any]:
    """Two series that a known column drives: their past, what is known ahead, and the truth there."""
    import pandas as pd

    rng, frames = np.random.default_rng(seed), []
    for name in ("a", "b"):
        x, y = rng.standard_normal(300), np.zeros(300)
        for t in range(1, 300):
            y[t] = 0.5 * y[t - 1] + 2.0 * x[t] + 0.2 * rng.standard_normal()
        stamps = pd.date_range("2024-01-01", periods=300, freq="D")
        frames.append(pd.DataFrame({"unique_id": name, "ds": stamps, "y": 20 + y, "x": x, "past": y + x}))
    whole = pd.concat(frames, ignore_index=True)
    ahead = whole.groupby("unique_id").tail(12)
    return whole.drop(index=ahead.index), ahead[["unique_id", "ds", "x"]], ahead["y"].to_numpy()


@pytest.mark.parametrize("loss", [None, "MAE", "MQLoss", "DistributionLoss"])
def test_a_known_column_that_drives_a_series_is_learnt(room: Any, loss: str | None) -> None:
    from neuralforecast import NeuralForecast
    from neuralforecast.losses import pytorch as losses

    past, ahead, truth = driven()
    own = {} if loss is None else {"loss": getattr(losses, loss)(*(["Normal"] if loss == "DistributionLoss" else []))}
    errors = {}
    for columns in (["x"], []):
        model = room.Fern(
            h=12, input_size=24, max_steps=150, futr_exog_list=columns, learning_rate=1e-2, **SMALL, **own
        )
        forecasts = NeuralForecast([model], freq="D")
        forecasts.fit(past[["unique_id", "ds", "y", *columns]])
        made = forecasts.predict(futr_df=ahead if columns else None)
        middle = next(name for name in ("Fern", "Fern-median") if name in made)
        errors[len(columns)] = np.abs(made[middle].to_numpy() - truth).mean()
    assert errors[1] < 0.6 * errors[0]


def test_every_kind_of_column_enters_the_forecast_and_is_saved(room: Any, tmp_path: Any) -> None:
    import pandas as pd
    from neuralforecast import NeuralForecast

    past, ahead, _ = driven()
    statics = pd.DataFrame({"unique_id": ["a", "b"], "size": [0.0, 1.0]})
    columns = {"futr_exog_list": ["x"], "hist_exog_list": ["past"], "stat_exog_list": ["size"]}
    forecasts = NeuralForecast([room.Fern(h=12, input_size=24, max_steps=5, **columns, **SMALL)], freq="D")
    forecasts.fit(past, static_df=statics)
    made = forecasts.predict(futr_df=ahead)["Fern"]
    other_past = past.assign(past=past["past"] + 5)
    for changed in (
        forecasts.predict(futr_df=ahead.assign(x=ahead["x"] + 1)),
        forecasts.predict(df=other_past, static_df=statics, futr_df=ahead),
        forecasts.predict(df=past, static_df=statics.assign(size=2.0), futr_df=ahead),
    ):
        assert (changed["Fern"] != made).all()
    forecasts.save(str(tmp_path / "saved"))
    again = NeuralForecast.load(str(tmp_path / "saved")).predict(futr_df=ahead)["Fern"]
    assert again.equals(made)


def test_without_columns_the_model_is_as_it_was(room: Any) -> None:
    model = room.Fern(h=12, input_size=24, **SMALL)
    assert model.effects is None and not any("effects" in name for name in model.state_dict())
    with_columns = room.Fern(h=12, input_size=24, futr_exog_list=["x"], **SMALL).eval()
    batch = {"insample_y": torch.randn(3, 24, 1), "futr_exog": torch.randn(3, 36, 1)}
    torch.testing.assert_close(with_columns(batch), model.eval()(batch))  # columns begin without effect
