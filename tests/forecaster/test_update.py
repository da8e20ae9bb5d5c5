"""Rows that came later move contexts and radii; rows that do not follow are refused."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from fern.errors import FernError
from fern.forecaster import FernForecaster


def later(panel: pd.DataFrame, name: str, rows: int, *, noise: float = 0.2, skip: int = 0) -> pd.DataFrame:
    """What could follow a series of the panel."""
    own = panel.loc[panel["unique_id"] == name]
    stamps = pd.date_range(own["ds"].iloc[-1], periods=rows + skip + 1, freq="D")[1 + skip :]
    wave = np.sin((len(own) + np.arange(rows)) * 2 * np.pi / 7)
    wave += noise * np.random.default_rng(1).standard_normal(rows)
    return pd.DataFrame({"unique_id": name, "ds": stamps, "y": own["y"].mean() + own["y"].std() * 1.4 * wave})


def width(forecast: pd.DataFrame, name: str) -> float:
    own = forecast.loc[forecast["unique_id"] == name]
    return float((own["Fern-hi-80"] - own["Fern-lo-80"]).mean())


def test_an_updated_series_is_forecast_from_its_new_end(copy: FernForecaster, panel: pd.DataFrame) -> None:
    before = copy.predict(level=[80])
    more = later(panel, "zeta", 3)
    after = copy.update(more).predict(level=[80])
    own = after.loc[after["unique_id"] == "zeta"]
    assert own["ds"].iloc[0] == more["ds"].iloc[-1] + pd.Timedelta(days=1)
    same = before["unique_id"] != "zeta"
    pd.testing.assert_frame_equal(after.loc[same], before.loc[same])
    whole = pd.concat([panel.loc[panel["unique_id"] == "zeta"], more])
    pd.testing.assert_frame_equal(
        copy.predict(whole), after.loc[~same, ["unique_id", "ds", "Fern"]].reset_index(drop=True)
    )


def test_radii_widen_where_errors_grow(copy: FernForecaster, panel: pd.DataFrame) -> None:
    before = copy.predict(level=[80])
    after = copy.update(later(panel, "mid", 60, noise=3.0)).predict(level=[80])
    assert width(after, "mid") > 1.5 * width(before, "mid")
    assert width(after, "zeta") == pytest.approx(width(before, "zeta"), rel=1e-6)  # other neighbours in a batch


def test_one_row_at_a_time_is_the_same_as_all_at_once(
    fitted: FernForecaster, copy: FernForecaster, panel: pd.DataFrame
) -> None:
    more = later(panel, "mid", 12)
    at_once = FernForecaster(**fitted.get_params())
    at_once._state = fitted._require_fitted()  # states do not change: `update` makes a new one
    at_once.update(more)
    for row in range(12):
        copy.update(more.iloc[row : row + 1])
    one, other = (forecaster.predict(level=[50, 80]) for forecaster in (at_once, copy))
    # Distributions of one window and of twelve differ in the last bits, and so do the factors.
    pd.testing.assert_frame_equal(one, other, rtol=1e-5)


def test_windows_of_rows_that_were_fitted_teach_nothing(copy: FernForecaster, panel: pd.DataFrame) -> None:
    copy.update(later(panel, "mid", 6))  # a patch is 7 rows: none is whole yet
    assert not copy._require_fitted().online
    assert copy.predict()["ds"].iloc[-1] == later(panel, "mid", 13)["ds"].iloc[-1]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda rows: rows.assign(unique_id="new"), "unknown series 'new'.*predict\\(df\\) forecasts new ones"),
        (
            lambda rows: rows.assign(ds=rows["ds"] - pd.Timedelta(days=1)),
            "series 'mid': row 1 has the stamp 2021-11-15 00:00:00, which is known already: the rows overlap",
        ),
        (
            lambda rows: rows.assign(ds=rows["ds"] + pd.Timedelta(days=2)),
            "series 'mid': row 1 has the stamp 2021-11-18 00:00:00, which leaves a gap; after 2021-11-15",
        ),
        (lambda rows: rows.drop(rows.index[1]), "row 2 has the stamp 2021-11-18 00:00:00, which leaves a gap"),
        (lambda rows: rows.iloc[::-1], "row 1 has the stamp 2021-11-18 00:00:00, which leaves a gap"),
        (lambda rows: rows.assign(ds=rows["ds"].dt.tz_localize("UTC")), "its time column holds timestamp"),
        (lambda rows: rows.assign(ds=range(3)), "its time column holds int64"),
        (lambda rows: rows.assign(y=[1.0, np.nan, 1.0]), "missing"),
        (lambda rows: rows.drop(columns="unique_id"), "fitted to a long"),
    ],
)
def test_rows_that_do_not_follow_are_refused_and_change_nothing(
    copy: FernForecaster, panel: pd.DataFrame, change: object, message: str
) -> None:
    before = copy.predict()
    with pytest.raises(FernError, match=message):
        copy.update(change(later(panel, "mid", 3)))  # type: ignore[operator]
    pd.testing.assert_frame_equal(copy.predict(), before)


def test_the_distribution_of_several_series_has_the_radii_of_each(copy: FernForecaster, panel: pd.DataFrame) -> None:
    copy.update(later(panel, "mid", 10))
    whole = pd.concat([panel, later(panel, "mid", 10)])
    together = copy.forecast_distribution()
    for place, (_, rows) in enumerate(whole.groupby("unique_id", sort=False)):
        alone = copy.forecast_distribution(rows)
        for kind in ("interval", "band"):
            for among, own in zip(getattr(together, kind)(90), getattr(alone, kind)(90), strict=True):
                np.testing.assert_allclose(among[place], own[0], rtol=1e-5, atol=1e-6)
        for joint in (True, False):
            among, own = (made.region(90).half_axes(joint=joint) for made in (together, alone))
            np.testing.assert_allclose(among[place], own[0], rtol=1e-5, atol=1e-6)
        among, own = (made.functional(np.ones(7)) for made in (together, alone))
        np.testing.assert_allclose(among.high[place], own.high[0], rtol=1e-5)


def test_thousands_of_updated_series_are_saved_and_loaded(tmp_path):
    days = pd.date_range("2024-01-01", periods=70, freq="D")
    week = np.sin(2 * np.pi * np.arange(70) / 7)
    frame = pd.concat([pd.DataFrame({"unique_id": name, "ds": days, "y": week + k}) for k, name in enumerate("ab")])
    model = FernForecaster(4, model="dlinear", epochs=1, context_length=8, progress="silent")
    model.fit(frame[frame["ds"] < days[60]]).update(frame[frame["ds"] >= days[60]])
    state = model._require_fitted()
    assert state.online
    names = [f"s{number}" for number in range(4000)]
    recent, online = state.recent[0], next(iter(state.online.values()))
    model._state = replace(
        state,
        recent=tuple(replace(recent, name=name) for name in names),
        online=dict.fromkeys(names, online),
        scales=dict.fromkeys(names, next(iter(state.scales.values()))),
    )
    model.save(tmp_path / "model")
    again = FernForecaster.load(tmp_path / "model")
    rows = frame[frame["unique_id"] == "a"].assign(unique_id="s3999")
    pd.testing.assert_frame_equal(again.predict(rows, level=[80]), model.predict(rows, level=[80]))
