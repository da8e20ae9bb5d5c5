"""The picture of a forecast: a panel for each series, its intervals, and how many are left out."""

import numpy as np
import pandas as pd
import pytest
from tests.errors import raises_error

from fern.errors import FernError
from fern.forecaster import FernForecaster

pytest.importorskip("matplotlib")


def test_each_series_has_a_panel_with_history_mean_and_intervals(fitted: FernForecaster) -> None:
    drawn = fitted.plot(level=[50, 80], band=True)
    assert [axis.get_title(loc="left") for axis in drawn.axes] == ["zeta", "alpha", "mid"]
    labels = drawn.axes[0].get_legend_handles_labels()[1]
    assert labels == ["80 %", "50 %", "whole path, 80 %", "history", "Fern"]
    mean = drawn.axes[0].lines[-1].get_ydata()
    np.testing.assert_allclose(mean[1:], fitted.predict()["Fern"].to_numpy()[:7])


def test_dates_before_the_forecast_are_those_of_the_rows(fitted: FernForecaster, panel: pd.DataFrame) -> None:
    line = fitted.plot(history=5).axes[0].lines[0]
    own = panel.loc[panel["unique_id"] == "zeta"].tail(5)
    np.testing.assert_array_equal(line.get_xdata(orig=True).astype("datetime64[ns]"), own["ds"].to_numpy())
    np.testing.assert_allclose(line.get_ydata(), own["y"])


@pytest.mark.filterwarnings("ignore::fern.forecaster.FernWarning")
def test_at_most_twelve_panels_are_drawn_and_the_rest_is_counted() -> None:
    frame = pd.DataFrame(
        {
            "unique_id": np.repeat([f"s{i}" for i in range(20)], 12),
            "ds": np.tile(pd.date_range("2022", periods=12), 20),
            "y": np.arange(240.0),
        }
    )
    drawn = FernForecaster(horizon=3, progress="silent").fit(frame).plot(level=80)
    assert len(drawn.axes) == 12
    assert "and 8 more series" in drawn.get_supxlabel()


def test_bad_levels_and_lengths_are_refused(fitted: FernForecaster) -> None:
    with pytest.raises(FernError, match="level"):
        fitted.plot(level=[180])
    with raises_error("history"):
        fitted.plot(history=-1)
