"""Column names are given once: to the constructor or to fit; frames that follow are read by the same columns."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from tests.errors import raises_error

from fern.forecaster import FernForecaster

NAIVE = {"horizon": 4, "context_length": 8, "model": "last-value", "progress": "silent"}


@pytest.fixture
def shops() -> pd.DataFrame:
    """Two shops with a price, which is no target."""
    days = pd.date_range("2021-01-01", periods=60, freq="D")
    wave = np.sin(np.arange(60) / 3)
    return pd.concat(
        [pd.DataFrame({"shop": shop, "day": days, "sold": wave, "price": 2.0}) for shop in ("u", "v")],
        ignore_index=True,
    )


def test_columns_given_to_fit_are_those_of_the_constructor(shops: pd.DataFrame) -> None:
    columns = {"id_col": "shop", "time_col": "day", "target_col": "sold"}
    by_call = FernForecaster(**NAIVE, ignore_columns=True).fit(shops, **columns)
    by_constructor = FernForecaster(**NAIVE, ignore_columns=True, **columns).fit(shops)
    pd.testing.assert_frame_equal(by_call.predict(level=[80]), by_constructor.predict(level=[80]))
    pd.testing.assert_frame_equal(by_call.predict(shops), by_constructor.predict(shops))
    assert by_call.get_params()["id_col"] == "unique_id"


def test_frames_after_the_fit_are_read_by_its_columns_after_saving_too(shops: pd.DataFrame) -> None:
    forecaster = FernForecaster(**NAIVE, ignore_columns=True).fit(shops, id_col="shop", target_col="sold")
    forecaster.save("saved")
    expected = forecaster.predict(shops)
    assert expected.columns.tolist()[:2] == ["shop", "day"]
    pd.testing.assert_frame_equal(FernForecaster.load("saved").predict(shops), expected)


def test_cross_validation_takes_columns_too(shops: pd.DataFrame) -> None:
    rows = FernForecaster(**NAIVE, ignore_columns=True).cross_validation(shops, id_col="shop", target_col="sold")
    assert rows.columns.tolist() == ["shop", "day", "cutoff", "LastValue", "sold"]


def test_a_column_that_is_not_there_is_an_error_that_names_the_argument(shops: pd.DataFrame) -> None:
    with raises_error("id_col", where="frame"):
        FernForecaster(**NAIVE).fit(shops, id_col="store")


def test_a_new_fit_forgets_the_columns_of_the_former(shops: pd.DataFrame) -> None:
    forecaster = FernForecaster(**NAIVE, ignore_columns=True).fit(shops, id_col="shop", target_col="sold")
    first = shops[shops["shop"] == "u"].drop(columns="shop").rename(columns={"sold": "load", "price": "heat"})
    assert forecaster.fit(first).predict().columns.tolist() == ["day", "load", "heat"]


def test_a_file_is_read_as_its_frame_and_its_only_text_may_name_the_series(shops: pd.DataFrame) -> None:
    frame = shops.drop(columns="price")
    frame.to_csv("shops.csv", index=False)
    table = FernForecaster(**NAIVE).read("shops.csv")
    assert (table.id_col, table.time_col, table.channel_names, table.time_format) == (
        "shop",
        "day",
        ("sold",),
        "%Y-%m-%d",
    )
    by_file = FernForecaster(**NAIVE).fit(Path("shops.csv")).predict()
    by_frame = FernForecaster(**NAIVE).fit(frame, id_col="shop").predict()
    np.testing.assert_array_equal(by_file["LastValue"], by_frame["LastValue"])


def test_columns_may_come_in_another_order_than_at_the_fit() -> None:
    days = pd.date_range("2021-01-01", periods=60, freq="D")
    wide = pd.DataFrame({"ds": days, "a": np.arange(60.0), "b": -np.arange(60.0)})
    forecaster = FernForecaster(**NAIVE).fit(wide)
    pd.testing.assert_frame_equal(forecaster.predict(wide[["b", "ds", "a"]]), forecaster.predict(wide))
