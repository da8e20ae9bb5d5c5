"""Models that are fitted to rows serve people's own tables as any model does."""

import numpy as np
import pandas as pd
import pytest

from fern.forecaster import FernForecaster
from fern.forecaster.fit import FitSettings, fit_model
from fern.forecaster.plan import make_plan, measure_scales
from fern.models import FittedForecaster, model_names
from fern.models.registry import model_entry

FITTED = [name for name in model_names() if issubclass(model_entry(name).model, FittedForecaster)]
EVERY_FITTED = pytest.mark.parametrize("model", FITTED)


def wheel(rows: int = 420) -> pd.DataFrame:
    angle = 0.37 * np.arange(rows)
    noise = 0.02 * np.random.default_rng(1).standard_normal((rows, 2))
    stamps = pd.date_range("2024-01-01", periods=rows, freq="h")
    return pd.DataFrame({"ds": stamps, "a": 40 + 9 * np.cos(angle) + noise[:, 0], "b": np.sin(angle) + noise[:, 1]})


def forecaster(model: str) -> FernForecaster:
    return FernForecaster(horizon=12, model=model, context_length=40, threads=1, progress="silent")


@EVERY_FITTED
def test_a_table_is_forecast_with_intervals_and_comes_back_from_disk(model: str, tmp_path) -> None:
    frame = wheel()
    fitted = forecaster(model).fit(frame[:-12])
    made = fitted.predict(level=[80])
    assert (made["a"].to_numpy() - frame["a"][-12:].to_numpy()).std() < 1.0
    assert (made["a-lo-80"] < made["a-hi-80"]).all()
    fitted.save(tmp_path / "kept")
    pd.testing.assert_frame_equal(FernForecaster.load(tmp_path / "kept").predict(level=[80]), made, check_exact=True)


@EVERY_FITTED
def test_the_model_on_all_rows_keeps_what_validation_chose(model: str) -> None:
    """Fitted to the validation rows too, it would otherwise choose to repeat them."""
    table = forecaster(model).read(wheel())
    plan = make_plan(table.series, horizon=12, context_length=40)
    settings = FitSettings(model=model, threads=1, progress="silent")
    found = fit_model(table.series, measure_scales(table.series, plan), plan, settings)
    assert any("trained once more on all rows" in note for note in found.notes)
    assert isinstance(found.model, FittedForecaster)
    assert None not in found.model.chosen.values()
    assert found.model._asked == found.model.config  # nothing was left open when it was fitted to all rows
