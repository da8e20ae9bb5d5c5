"""The figures of a row are those of the whole test part, to the definitions."""

import numpy as np
import pytest
import torch

from fern.benchmark.problem import Problem, load_dataset
from fern.benchmark.scoring import BATCH, References, find_references, score_model, score_oracle
from fern.benchmark.tasks import DatasetChoice
from fern.errors import FernError
from fern.metrics import coverage, crps, ept, mae, mse, nll, sliced_w2_squared, w2_squared
from fern.models import Forecast, Forecaster, ModelConfig, build_model

SIZES = {"context_length": 24, "horizon": 12}


@pytest.fixture(scope="module")
def problem():
    return Problem(load_dataset(DatasetChoice(dataset="LORENZ_BASE", steps=7000)), "shock", "none", 24, 12)


def everything(problem):
    past, future = problem.test.gather(torch.arange(len(problem.test)))
    assert len(past) > BATCH  # so that batches matter
    return past, future


def test_metrics_are_those_of_all_windows_in_one_go(problem):
    model = build_model("fern", **SIZES, channels=3, hidden=8, latent=4, generator=torch.Generator().manual_seed(1))
    score = score_model(model, problem, seed=1)
    past, future = everything(problem)
    with torch.no_grad():
        made = model(past)
    expected = {
        "mse": mse(made.mean, future),
        "mae": mae(made.mean, future),
        "wd": w2_squared(made.mean, future),
        "swd": sliced_w2_squared(made.mean, future),
        "ept": ept(made.mean, future, std=problem.train_std),
        "crps": crps(made.ellipsoid, future),
        "nll": nll(made.ellipsoid, future),
        "coverage_90": coverage(made.ellipsoid, future, level=90),
    }
    assert score.metrics.keys() == expected.keys()
    assert score.windows == len(past)
    for name, value in expected.items():
        # The forecasts of 512 windows at a time differ from those in one go by float32 rounding.
        assert score.metrics[name] == pytest.approx(float(value), rel=1e-4), name


def test_the_errors_of_single_windows_average_to_the_metrics(problem):
    score = score_model(build_model("last-value", **SIZES, channels=3), problem, seed=1)
    past, future = everything(problem)
    squares = (past[:, -1:] - future).square().mean(dim=(1, 2))
    np.testing.assert_allclose(score.mse, squares, rtol=1e-5)
    assert score.mse.dtype == score.mae.dtype == np.float32
    assert score.mse.mean(dtype=np.float64) == pytest.approx(score.metrics["mse"], rel=1e-6)
    assert score.mae.mean(dtype=np.float64) == pytest.approx(score.metrics["mae"], rel=1e-6)


def test_the_last_batch_is_scored_beside_all_windows_under_the_detailed_protocol(problem):
    detailed = Problem(problem.dataset, "detailed", "none", 24, 12)
    model = build_model("last-value", **SIZES, channels=3)
    found = score_model(model, detailed, seed=1).metrics
    past, future = detailed.last_batch.gather(torch.arange(len(detailed.last_batch)))
    last = past[:, -1:].expand_as(future)
    assert found["last_mse"] == pytest.approx(float(mse(last, future)), rel=1e-5)
    assert found["last_mae"] == pytest.approx(float(mae(last, future)), rel=1e-5)
    assert found["last_wd"] == pytest.approx(float(w2_squared(last, future)), rel=1e-5)
    assert found["last_ept"] == pytest.approx(float(ept(last, future, std=detailed.train_std)), rel=1e-5)
    assert found["last_mse"] != pytest.approx(found["mse"], rel=1e-3)  # which is of all windows
    assert score_oracle(detailed).metrics["last_mse"] < 1e-6 * found["last_mse"]
    assert "last_mse" not in score_model(model, problem, seed=1).metrics


def test_a_model_without_a_distribution_has_no_scores_of_one(problem):
    score = score_model(build_model("last-value", **SIZES, channels=3), problem, seed=1)
    assert score.metrics.keys() == {"mse", "mae", "wd", "swd", "ept"}


class Sampled(Forecaster):
    """A distribution that is known by its draws alone."""

    has_distribution = True

    def forecast(self, past, *, samples, generator):
        mean = past[:, -1:].expand(-1, self.config.horizon, -1)
        drawn = mean + torch.randn((samples, *mean.shape), generator=generator) if samples else None
        return Forecast(mean=mean, samples=drawn)


def test_a_distribution_without_a_closed_form_is_scored_by_draws_that_follow_from_the_seed(problem):
    model = Sampled(ModelConfig(**SIZES, channels=3))
    first, again, other = (score_model(model, problem, seed=seed).metrics for seed in (1, 1, 2))
    assert first.keys() == {"mse", "mae", "wd", "swd", "ept", "crps", "coverage_90"}
    assert first == again != other


def test_the_oracle_of_a_deterministic_system_is_wrong_by_rounding_alone(problem):
    score = score_oracle(problem)
    references = find_references(problem)
    assert score.metrics["mse"] == references.oracle_mse < 1e-10
    assert score.metrics["ept"] == 12
    assert "relative_regret" not in references.compare(1.0)


def test_the_last_value_has_no_skill_and_the_oracle_no_regret():
    problem = Problem(load_dataset(DatasetChoice(dataset="OU_PARAM", steps=2000)), "shock", "none", 24, 12)
    references = find_references(problem)
    naive = score_model(build_model("last-value", **SIZES, channels=1), problem, seed=1).metrics["mse"]
    assert references.compare(naive)["skill"] == 0.0
    best = references.compare(score_oracle(problem).metrics["mse"])
    assert (best["regret"], best["relative_regret"]) == (0.0, 0.0)
    assert 0.0 < best["skill"] < 1.0


def test_regret_and_skill_follow_their_definitions():
    found = References(naive_mse=4.0, oracle_mse=0.5, variance=2.0).compare(2.0)
    assert found == {"oracle_mse": 0.5, "excess_mse": 1.5, "regret": 0.75, "relative_regret": 3.0, "skill": 0.5}
    assert References(naive_mse=4.0, oracle_mse=None, variance=1.0).compare(2.0) == {"skill": 0.5}
    assert References(naive_mse=0.0, oracle_mse=1.0, variance=0.0).compare(2.0).keys().isdisjoint({"skill", "regret"})


class Broken(Sampled):
    """Forecasts that are not numbers."""

    def forecast(self, past, *, samples, generator):
        return Forecast(mean=torch.full((len(past), self.config.horizon, self.config.channels), torch.nan))


def test_a_forecast_that_is_not_finite_is_never_scored(problem):
    with pytest.raises(FernError, match="not finite"):
        score_model(Broken(ModelConfig(**SIZES, channels=3)), problem, seed=1)
