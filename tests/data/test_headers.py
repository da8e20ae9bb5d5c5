"""Tables as people have them: which column is what, and what is asked instead of guessed."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from tests.errors import raises_error

from fern.data.columns import Reading
from fern.data.reading import open_source
from fern.data.series_table import SeriesTable, read_series

ROWS = 40
MONTHS = pd.date_range("2019-01-01", periods=ROWS, freq="MS")
DAYS = pd.date_range("2020-01-01", periods=ROWS)
WEEKS = pd.date_range("2019-12-30", periods=ROWS, freq="7D")
QUARTERS = pd.date_range("1990-01-01", periods=ROWS, freq="QS")


@dataclass(frozen=True)
class Found:
    """The roles that must be detected, the first stamp and the step."""

    time: str | None
    targets: tuple[str, ...] = ("sales",)
    series: str | None = None
    first: str | None = None
    step: str | None = None
    ignored: tuple[str, ...] = ()


@dataclass(frozen=True)
class Asked:
    """The argument that a question is about, and what it names."""

    argument: str
    names: tuple[str, ...] = ()


def table(**columns: Any) -> str:
    """The text of a CSV file with these columns; 40 rows of sales unless given."""
    rows = len(next(iter(columns.values())))
    columns.setdefault("sales", [f"{10 + (i * 7) % 13}.5" for i in range(rows)])
    return pd.DataFrame(columns).to_csv(index=False)


def panel(*, dates: list[str], **names: list[Any]) -> str:
    """Every combination of the names, each with all dates."""
    index = pd.MultiIndex.from_product([*names.values(), dates], names=[*names, "date"])
    frame = index.to_frame(index=False)
    return frame.assign(sales=[float(i % 11) for i in range(len(frame))]).to_csv(index=False)


def written(stamps: pd.DatetimeIndex, form: str) -> list[str]:
    return stamps.strftime(form).tolist()


def iso_weeks(pattern: str) -> list[str]:
    return [pattern.format(year=day.isocalendar()[0], week=day.isocalendar()[1]) for day in WEEKS]


def quarters(pattern: str) -> list[str]:
    return [pattern.format(year=day.year, quarter=day.quarter) for day in QUARTERS]


SHORT = written(DAYS[:20], "%Y-%m-%d")
MONTH, QUARTER, WEEK = "1 month", "3 months", "7 days"

DATES: dict[str, tuple[str, Found]] = {
    "ISO days": (table(date=written(DAYS, "%Y-%m-%d")), Found("date", first="2020-01-01", step="1 day")),
    "ISO with a clock": (
        table(timestamp=written(DAYS, "%Y-%m-%dT%H:%M:%S")),
        Found("timestamp", first="2020-01-01", step="1 day"),
    ),
    "German days": (table(Datum=written(DAYS, "%d.%m.%Y")), Found("Datum", first="2020-01-01", step="1 day")),
    "American days": (table(Date=written(DAYS, "%m/%d/%Y")), Found("Date", first="2020-01-01", step="1 day")),
    "American days, year of two digits": (
        table(Date=written(DAYS, "%m/%d/%y")),
        Found("Date", first="2020-01-01", step="1 day"),
    ),
    "British days, year of two digits": (
        table(Date=written(DAYS, "%d/%m/%y")),
        Found("Date", first="2020-01-01", step="1 day"),
    ),
    "a bank's days": (table(Date=written(DAYS, "%d-%b-%y")), Found("Date", first="2020-01-01", step="1 day")),
    "a day in words": (table(day=written(DAYS, "%B %d, %Y")), Found("day", first="2020-01-01", step="1 day")),
    "days as numbers": (table(date=written(DAYS, "%Y%m%d")), Found("date", first="2020-01-01", step="1 day")),
    "ISO months": (table(month=written(MONTHS, "%Y-%m")), Found("month", first="2019-01-01", step=MONTH)),
    "AirPassengers": (table(Month=written(MONTHS, "%Y-%m")), Found("Month", first="2019-01-01", step=MONTH)),
    "Jan-14": (table(Month=written(MONTHS, "%b-%y")), Found("Month", first="2019-01-01", step=MONTH)),
    "Jan-49, not 2049": (
        table(Month=written(pd.date_range("1949-01-01", periods=ROWS, freq="MS"), "%b-%y")),
        Found("Month", first="1949-01-01", step=MONTH),
    ),
    "January 2014": (table(Month=written(MONTHS, "%B %Y")), Found("Month", first="2019-01-01", step=MONTH)),
    "Jan 2014": (table(period=written(MONTHS, "%b %Y")), Found("period", first="2019-01-01", step=MONTH)),
    "2014M01": (table(TIME=written(MONTHS, "%YM%m")), Found("TIME", first="2019-01-01", step=MONTH)),
    "201401": (table(month=written(MONTHS, "%Y%m")), Found("month", first="2019-01-01", step=MONTH)),
    "01/2014": (table(Month=written(MONTHS, "%m/%Y")), Found("Month", first="2019-01-01", step=MONTH)),
    "shampoo, 1-01": (
        table(Month=[f"{year}-{month:02d}" for year in (1, 2, 3) for month in range(1, 13)]),
        Found("Month", first="2001-01-01", step=MONTH),
    ),
    "months by their first days, day first": (
        table(date=written(MONTHS, "%d/%m/%Y")),
        Found("date", first="2019-01-01", step=MONTH),
    ),
    "1990Q1": (table(Quarter=quarters("{year}Q{quarter}")), Found("Quarter", first="1990-01-01", step=QUARTER)),
    "1990-Q1": (table(date=quarters("{year}-Q{quarter}")), Found("date", first="1990-01-01", step=QUARTER)),
    "Q1 1990": (table(period=quarters("Q{quarter} {year}")), Found("period", first="1990-01-01", step=QUARTER)),
    "2020-W05": (table(week=iso_weeks("{year}-W{week:02d}")), Found("week", first="2019-12-30", step=WEEK)),
    "2020W5": (table(week=iso_weeks("{year}W{week}")), Found("week", first="2019-12-30", step=WEEK)),
    "202005 in a column called week": (
        table(yearweek=iso_weeks("{year}{week:02d}")),
        Found("yearweek", first="2019-12-30", step=WEEK),
    ),
    "years": (table(Year=range(1885, 1925), Water=range(40)), Found("Year", ("Water", "sales"), first="1885")),
    "years with a fraction of nothing": (
        table(Year=[f"{year}.0" for year in range(1885, 1925)]),
        Found("Year", first="1885"),
    ),
    "weeks that count on": (table(week=range(1, ROWS + 1)), Found("week", first="1", step="integer step of 1")),
    "newest row first": (
        table(date=written(DAYS[::-1], "%Y-%m-%d")),
        Found("date", first="2020-01-01", step="1 day"),
    ),
    "hours of a day in another zone": (
        table(utc=written(pd.date_range("2020-01-01", periods=ROWS, freq="h"), "%Y-%m-%dT%H:%M:%SZ")),
        Found("utc", first="2020-01-01 00:00:00+0000", step="1 hour"),
    ),
}

NUMBERS: dict[str, tuple[str, Found]] = {
    "1,234.50": (
        table(date=written(DAYS, "%Y-%m-%d"), sales=[f"{900 + 37 * i:,}.50" for i in range(ROWS)]),
        Found("date"),
    ),
    "1.234,50": (
        table(
            date=written(DAYS, "%Y-%m-%d"), sales=[f"{900 + 37 * i:,}".replace(",", ".") + ",5" for i in range(ROWS)]
        ),
        Found("date"),
    ),
    "1 234,50": (
        table(
            date=written(DAYS, "%Y-%m-%d"), sales=[f"{900 + 37 * i:,}".replace(",", " ") + ",5" for i in range(ROWS)]
        ),
        Found("date"),
    ),
    "$1,234.50": (
        table(date=written(DAYS, "%Y-%m-%d"), sales=[f"${900 + 37 * i:,}.50" for i in range(ROWS)]),
        Found("date"),
    ),
    "987 before 1,024": (
        table(date=written(DAYS, "%Y-%m-%d"), sales=[f"{900 + 37 * i:,}" for i in range(ROWS)]),
        Found("date"),
    ),
}

NAMES: dict[str, tuple[str, Found]] = {
    "parts of the date beside it": (
        table(date=written(DAYS, "%Y-%m-%d"), year=DAYS.year, month=DAYS.month, dayofweek=DAYS.day_of_week),
        Found("date", ignored=("year", "month", "dayofweek")),
    ),
    "a row's number called id": (
        table(id=range(ROWS), date=written(DAYS, "%Y-%m-%d")),
        Found("date", ignored=("id",)),
    ),
    "one shop by number": (
        table(store=[3] * ROWS, date=written(DAYS, "%Y-%m-%d")),
        Found("date", series="store"),
    ),
    "shops by name": (panel(dates=SHORT, shop=["north", "south"]), Found("date", series="shop")),
    "shops by number": (panel(dates=SHORT, store_nbr=[1, 2]), Found("date", series="store_nbr")),
    "shops and items by number": (
        panel(dates=SHORT, store=[1, 2], item=[1, 2, 3]),
        Found("date", series="store / item"),
    ),
    "shops, families and a row's number": (
        pd.read_csv(pd.io.common.StringIO(panel(dates=SHORT, store_nbr=[1, 2], family=["bread", "milk"])))
        .reset_index(names="id")
        .to_csv(index=False),
        Found("date", series="store_nbr / family", ignored=("id",)),
    ),
    "countries by year": (
        "country,Year,sales\n" + "".join(f"{c},{y},{y % 7}.0\n" for c in ("NO", "SE") for y in range(1980, 2000)),
        Found("Year", series="country", first="1980"),
    ),
    "an index of pandas": (
        pd.DataFrame({"date": written(DAYS, "%Y-%m-%d"), "sales": 1.5}).to_csv(),
        Found("date", ignored=("",)),
    ),
    "many targets": (
        table(date=written(DAYS, "%Y-%m-%d"), HUFL=range(ROWS), OT=range(ROWS)),
        Found("date", ("HUFL", "OT", "sales")),
    ),
    "prices of everything": (
        table(Date=written(DAYS, "%Y-%m-%d"), oil_price=range(ROWS), sales=range(ROWS)).replace("sales", "gas price"),
        Found("Date", ("oil_price", "gas price")),
    ),
    "a column with the word store in it": (
        table(date=written(DAYS, "%Y-%m-%d"), sales=range(ROWS)).replace("sales", "Store Sales"),
        Found("date", ("Store Sales",)),
    ),
}

QUESTIONS: dict[str, tuple[str, Asked]] = {
    "3/4/19: April or March?": (
        table(Date=["1/1/19", "2/1/19", "3/1/19", "4/1/19"]),
        Asked("time_col", ("2019-02-01", "2019-01-02")),
    ),
    "Jan-01 to Jan-31 without a year": (
        table(date=written(pd.date_range("2020-01-01", periods=90), "%b-%d")),
        Asked("time_col", ("Jan-01",)),
    ),
    "months without a year": (table(month=written(MONTHS[:12], "%b")), Asked("time_col", ("'Jan'", "year"))),
    "two formats in a column": (
        table(date=[*written(DAYS[:20], "%Y-%m-%d"), *written(DAYS[20:], "%d/%m/%Y")]),
        Asked("time_col", ("'21/01/2020'", "21", "2020-01-01")),
    ),
    "a date that is none": (
        table(date=[*written(DAYS[:-1], "%Y-%m-%d"), "total"]),
        Asked("time_col", ("'total'", "40")),
    ),
    "year and month in two columns": (
        table(year=MONTHS.year, month=MONTHS.month),
        Asked("time_col", ("year", "month")),
    ),
    "fractions of a year": (
        table(year=[f"{1958 + i / 12:.4f}" for i in range(ROWS)]),
        Asked("time_col", ("'year'",)),
    ),
    "2020-05 in a column called week": (
        table(week=[f"2020-{week:02d}" for week in range(1, 12)]),
        Asked("time_col", ("2020-01",)),
    ),
    "1,234: decimal comma or thousands?": (
        table(date=written(DAYS, "%Y-%m-%d"), sales=[f"{1000 + 37 * i:,}" for i in range(ROWS)]),
        Asked("decimal", ("1,000",)),
    ),
    "price and promo beside sales": (
        table(date=written(DAYS, "%Y-%m-%d"), price=[2.5] * ROWS, promo=[0, 1] * 20),
        Asked("target_col, futr_exog_list, hist_exog_list", ("price", "promo", "sales")),
    ),
    "regions and states": (
        panel(dates=SHORT, region=["N", "S"], state=["a", "b"]),
        Asked("id_col", ("region", "state")),
    ),
    "weather in words": (
        table(date=written(DAYS, "%Y-%m-%d"), weather=["sun", "rain"] * 20),
        Asked("ignore_columns", ("weather",)),
    ),
    "a shop that changes, each day once": (
        table(date=written(DAYS, "%Y-%m-%d"), store=[1, 2, 3, 4] * 10),
        Asked("id_col, ignore_columns", ("store",)),
    ),
    "shops without time": (table(store=[1] * 20 + [2] * 20), Asked("id_col, ignore_columns", ("store",))),
    "nothing but identifiers and dates": (
        table(date=written(DAYS, "%Y-%m-%d"), sales=DAYS.year).replace("sales", "year"),
        Asked("target_col", ("year",)),
    ),
    "a long table with two numbers": (
        panel(dates=SHORT, store=[1, 2])
        .replace("sales", "sold")
        .replace("\n", ",1.0\n")
        .replace("sold,1.0", "sold,cost"),
        Asked("target_col", ("sold", "cost")),
    ),
}


def read(text: str, **options: Any) -> SeriesTable:
    Path("table.csv").write_text(text)
    source = open_source("table.csv", Reading(forecast=True, guess_id=True, **options))
    return read_series(source, lone=True)


FOUND = {**DATES, **NUMBERS, **NAMES}


@pytest.mark.parametrize("case", FOUND)
def test_roles_are_detected(case: str) -> None:
    text, expected = FOUND[case]
    made = read(text)
    assert (made.time_col, made.channel_names, made.id_col) == (expected.time, expected.targets, expected.series)
    assert {*expected.ignored} <= {*made.ignored}
    stamps = made.series[0].stamps
    if expected.first is not None:
        from fern.data.timestamps import as_text

        assert stamps is not None
        assert str(as_text(stamps[0])).removesuffix(" 00:00:00") == expected.first
    if expected.step is not None:
        assert str(made.frequency) == expected.step


@pytest.mark.parametrize("case", QUESTIONS)
def test_what_could_be_meant_in_two_ways_is_asked(case: str) -> None:
    text, expected = QUESTIONS[case]
    with raises_error(expected.argument) as caught:
        read(text)
    assert all(name in str(caught.value) for name in expected.names), str(caught.value)


def test_the_table_of_headers_has_at_least_forty_lines() -> None:
    assert len(FOUND) + len(QUESTIONS) >= 60


@pytest.mark.parametrize("case", NUMBERS)
def test_numbers_with_marks_are_the_numbers_meant(case: str) -> None:
    values = read(NUMBERS[case][0]).series[0].values[:, 0]
    assert values[:4].round().tolist() in ([900, 937, 974, 1011], [900, 938, 974, 1012])


def test_a_decimal_mark_that_is_said_settles_what_thousands_are() -> None:
    text = QUESTIONS["1,234: decimal comma or thousands?"][0]
    assert read(text, decimal=".").series[0].values[:2, 0].tolist() == [1000.0, 1037.0]
    assert read(text, decimal=",").series[0].values[:2, 0].tolist() == [1.0, 1.037]


def test_columns_of_text_are_numbers_in_a_frame_too() -> None:
    from fern.data.series_table import read_frame

    frame = pd.DataFrame({"date": DAYS, "sales": [f"{900 + 37 * i:,}.50" for i in range(ROWS)]})
    assert read_frame(frame).series[0].values[:2, 0].tolist() == [900.5, 937.5]


def test_identifiers_that_are_said_are_taken() -> None:
    text = QUESTIONS["regions and states"][0]
    made = read(text, id_col=("region", "state"))
    assert [series.name for series in made.series] == ["N / a", "N / b", "S / a", "S / b"]
