"""Time columns become nanoseconds or integers; what could mean two days is refused."""

import datetime

import pyarrow as pa
import pytest

from fern.data.timestamps import as_integers, as_text, number_format, time_format, to_stamps
from fern.errors import FernError


@pytest.mark.parametrize(
    ("texts", "expected"),
    [
        (["2020-01-31", "2020-02-01"], "2020-02-01 00:00:00"),
        (["2020-01-31T23:00:00", "2020-02-01T00:00:00"], "2020-02-01 00:00:00"),
        (["2020-01-31 23:59:59.5", "2020-02-01 00:00:00.25"], "2020-02-01 00:00:00.25"),
        (["31.01.2020 23:50:00", "01.02.2020 00:00:00"], "2020-02-01 00:00:00"),
        (["31/01/2020", "01/02/2020"], "2020-02-01 00:00:00"),
        (["01/31/2020", "02/01/2020"], "2020-02-01 00:00:00"),
        (["01/31/2020 11:00 PM", "02/01/2020 12:00 AM"], "2020-02-01 00:00:00"),
        (["2020-01", "2020-02"], "2020-02-01 00:00:00"),
        (["Jan 2020", "Feb 2020"], "2020-02-01 00:00:00"),
        (["20200131", "20200201"], "2020-02-01 00:00:00"),
        (["1990/1/31 0:00", "1990/2/1 0:00"], "1990-02-01 00:00:00"),
    ],
)
def test_usual_ways_to_write_time_are_read(texts: list[str], expected: str) -> None:
    stamps = to_stamps(pa.array(texts), name="ds")
    assert as_text(stamps[1]) == expected
    assert stamps.type == pa.timestamp("ns")


def test_offsets_make_time_in_utc() -> None:
    stamps = to_stamps(pa.array(["2020-01-01T01:00:00+02:00", "2020-01-01T00:00:00Z"]), name="ds")
    assert stamps.type == pa.timestamp("ns", tz="UTC")
    assert as_text(stamps[0]) == "2019-12-31 23:00:00+0000"


def test_the_reading_that_runs_forwards_is_taken() -> None:
    assert time_format(pa.array(["01/02/2020", "01/03/2020", "02/01/2020"]), name="ds") == "%m/%d/%Y"
    # The first two thousand rows do not tell; a later one does.
    days = ["01/02/2020"] * 2_500 + ["13/02/2020"]
    assert time_format(pa.array(days), name="ds") == "%d/%m/%Y"


def test_days_and_months_that_could_be_swapped_are_refused() -> None:
    with pytest.raises(FernError, match="day first or month first"):
        time_format(pa.array(["01/02/2020", "02/02/2020", "03/02/2020"]), name="ds")


def test_text_that_is_no_time_has_no_format() -> None:
    assert time_format(pa.array(["a", "b"]), name="ds") is None
    assert time_format(pa.array([None, None], pa.string()), name="ds") is None


def test_integers_stay_integers() -> None:
    assert to_stamps(pa.array([3, 1], pa.int32()), name="t").type == pa.int64()
    assert number_format(pa.array([20200229]), name="x") == "%Y%m%d"
    assert number_format(pa.array([20210229]), name="x") is None  # no such day
    assert time_format(pa.array(["30.02.2020", "01.03.2020"]), name="ds") is None


@pytest.mark.parametrize(
    ("column", "message"),
    [
        (pa.array(["2020-01-01", "soon"]), "cannot read 'soon'|cannot read"),
        (pa.array([1.5]), "holds double"),
        (pa.array([datetime.datetime(3000, 1, 1)], pa.timestamp("s")), "outside 1678 to 2262"),
    ],
)
def test_other_columns_are_refused(column: pa.Array, message: str) -> None:
    with pytest.raises(FernError, match=message):
        to_stamps(column, name="ds")


def test_a_later_stamp_in_another_format_is_named() -> None:
    with pytest.raises(FernError, match=r"cannot read '2020/02/02', needs the format %d.%m.%Y"):
        to_stamps(pa.array(["01.02.2020", "2020/02/02"]), name="ds", form="%d.%m.%Y")


def test_stamps_as_integers_are_nanoseconds() -> None:
    stamps = to_stamps(pa.array([datetime.date(1970, 1, 2)]), name="ds")
    assert as_integers(stamps).tolist() == [86_400 * 10**9]
    assert as_text(None) is None
    assert as_text(pa.scalar(5)) == "5"
