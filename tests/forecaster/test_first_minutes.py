"""What newcomers met in their first ten minutes."""

import warnings

import numpy as np
import pandas as pd
import pytest
from tests.errors import raises_error

from fern import FernForecaster, FernWarning


def make_frame(rows=90):
    return pd.DataFrame({"ds": pd.date_range("2024-01-01", periods=rows), "y": np.sin(np.arange(rows)) + 5.0})


def make_forecaster(**changes):
    return FernForecaster(3, model="last-value", progress="silent", **changes)


@pytest.fixture(scope="module")
def fitted():
    return make_forecaster().fit(make_frame())


@pytest.mark.parametrize("level", [0.8, [0.8], [80, 0.95]])
def test_a_level_below_one_percent_is_taken_for_a_probability(fitted, level):
    with raises_error("level") as caught:
        fitted.predict(level=level)
    assert "did you mean" in str(caught.value)
    assert "80" in str(caught.value) or "95" in str(caught.value)


def test_the_name_of_another_library_is_answered_with_ours():
    with raises_error("h") as caught:
        FernForecaster(h=12)
    assert "'horizon'" in str(caught.value)


def test_a_misspelt_argument_is_answered_with_the_nearest_right_one():
    with raises_error() as caught:
        FernForecaster(12, epoch=3)
    assert "did you mean 'epochs'" in str(caught.value)


def test_the_signature_is_that_of_the_class():
    import inspect

    assert next(iter(inspect.signature(FernForecaster).parameters)) == "horizon"


@pytest.mark.parametrize("as_path", [str, lambda path: path], ids=["text", "path"])
def test_a_file_is_read_where_a_frame_is_taken(tmp_path, fitted, as_path):
    path = tmp_path / "sales.csv"
    make_frame().to_csv(path, index=False)
    forecaster = make_forecaster().fit(as_path(path))
    forecast = forecaster.predict(as_path(path))
    assert isinstance(forecast, pd.DataFrame)
    np.testing.assert_allclose(forecast["y"], fitted.predict()["y"])
    assert forecaster.plot(as_path(path)).axes
    assert "<!doctype html>" in forecaster.report(as_path(path), level=80)


def test_a_file_that_is_not_there_is_named(tmp_path):
    with raises_error(where="nope.csv"):
        make_forecaster().fit(tmp_path / "nope.csv")


def test_a_report_is_written_to_a_path_and_shows_itself_in_a_notebook(tmp_path, fitted):
    page = fitted.report(path=tmp_path / "report.html", level=80)
    assert (tmp_path / "report.html").read_text(encoding="utf-8") == page
    assert page._repr_html_().startswith("<iframe ")
    with raises_error():
        fitted.report(path=tmp_path / "report.txt", level=80)


def test_too_little_history_is_one_sentence_with_details_under_diagnose():
    months = pd.DataFrame({"ds": pd.date_range("1949-01-01", periods=144, freq="MS"), "y": np.arange(144.0)})
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        forecaster = FernForecaster(12, model="dlinear", epochs=1, progress="silent").fit(months)
        forecaster.predict(level=[80, 95])
    said = [str(warning.message) for warning in caught if issubclass(warning.category, FernWarning)]
    assert len(said) <= 1
    short = [note for note in forecaster.notes_ if "history" in note]
    assert len(short) == 1
    assert not any("n_eff" in text for text in [*forecaster.notes_, *said])
    assert any("n_eff" in note for note in forecaster.diagnose().notes)


@pytest.mark.parametrize("season", ["auto", 12])
def test_seasonal_naive_repeats_the_last_season_of_the_data(season):
    from tests.forecaster.air_passengers import AIR_PASSENGERS

    values = np.asarray(AIR_PASSENGERS, dtype=float)
    frame = pd.DataFrame({"ds": pd.date_range("1949-01-01", periods=len(values), freq="MS"), "y": values})
    model = FernForecaster(12, model="seasonal-naive", season=season, progress="silent", classical=False).fit(frame)
    np.testing.assert_allclose(model.predict()["y"], values[-12:], rtol=1e-5)


def test_levels_that_would_share_a_column_are_refused():
    from fern.forecaster.predict import OutputColumns

    with raises_error("level"):
        OutputColumns.of(level=[80, 80.0000000001], quantiles=None)
    assert len(OutputColumns.of(level=[80, 80.1], quantiles=None).names("Fern")) == 5


TRAINED = {"model": "dlinear", "context_length": 6, "epochs": 1, "progress": "silent", "classical": False}


@pytest.mark.parametrize("setting", [{"learning_rate": 0.5}, {"batch_size": 3}])
def test_the_training_takes_its_own_settings(setting):
    usual, own = (FernForecaster(3, **TRAINED, **one).fit(make_frame()).predict()["y"] for one in ({}, setting))
    assert not np.allclose(usual, own)


def test_where_to_train_is_said_as_in_fabric():
    usual = FernForecaster(3, **TRAINED).fit(make_frame())
    own = FernForecaster(3, **TRAINED, accelerator="cpu", devices=1, precision="bf16-mixed").fit(make_frame())
    np.testing.assert_allclose(own.predict()["y"], usual.predict()["y"], rtol=0.05)


@pytest.mark.parametrize(
    "setting", [{"learning_rate": -1}, {"batch_size": 0}, {"accelerator": "abacus"}, {"devices": 0}, {"precision": "8"}]
)
def test_a_wrong_setting_of_the_training_is_a_plain_error(setting):
    with raises_error() as caught:
        FernForecaster(3, **TRAINED, **setting).fit(make_frame())
    assert next(iter(setting)) in str(caught.value)


def test_demand_with_many_zeros_is_cleaned_by_the_policy_for_counts(fern):
    sold = np.random.default_rng(0).poisson(1.5, 300)
    pd.DataFrame({"date": pd.date_range("2024-01-01", periods=300), "sold": sold}).to_csv("demand.csv", index=False)
    assert "--policy counts" in fern("audit", "demand.csv").out
    assert "counts" in fern("clean", "demand.csv", "-o", "clean.csv").err
    assert "drop" not in fern("audit", "demand.csv", "--policy", "counts").out
    assert fern("clean", "demand.csv", "-o", "clean.csv", "--policy", "counts").code == 0
    assert pd.read_csv("clean.csv")["sold"].tolist() == sold.tolist()
