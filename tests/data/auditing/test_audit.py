"""The audit reproduces the paper's tables, and says for every column what the policy does and why."""

import json
import subprocess
import sys
from collections.abc import Callable
from datetime import timedelta
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from rich.console import Console

from fern.data.auditing.audit import AuditReport, audit
from fern.data.auditing.output import render, to_dict
from fern.data.auditing.page import audit_page
from fern.data.datasets import load_dataset
from fern.data.splits import Part, split
from fern.errors import FernError

# The paper's tables of zero patterns: total, %, isolated, clustered.
ETTH1 = {
    "HUFL": (89, "0.51", 31, 58),
    "HULL": (410, "2.35", 256, 154),
    "MUFL": (97, "0.56", 19, 78),
    "MULL": (236, "1.35", 137, 99),
    "LUFL": (60, "0.34", 1, 59),
    "LULL": (212, "1.22", 7, 205),
    "OT": (111, "0.64", 28, 83),
}
ETTH2 = {
    "HUFL": (58, "0.33", 1, 57),
    "HULL": (3836, "22.02", 163, 3673),
    "MUFL": (0, "0.00", 0, 0),
    "MULL": (1067, "6.13", 245, 822),
    "LUFL": (1188, "6.82", 184, 1004),
    "LULL": (5792, "33.25", 414, 5378),
    "OT": (1, "0.01", 1, 0),
}
WEATHER = {
    "p (mbar)": (0, "0.00", 0, 0),
    "T (degC)": (6, "0.01", 4, 2),
    "Tpot (K)": (0, "0.00", 0, 0),
    "Tdew (degC)": (39, "0.07", 39, 0),
    "rh (%)": (0, "0.00", 0, 0),
    "VPmax (mbar)": (0, "0.00", 0, 0),
    "VPact (mbar)": (0, "0.00", 0, 0),
    "VPdef (mbar)": (3026, "5.74", 45, 2981),
    "sh (g/kg)": (0, "0.00", 0, 0),
    "H2OC (mmol/mol)": (0, "0.00", 0, 0),
    "rho (g/m**3)": (0, "0.00", 0, 0),
    "wv (m/s)": (0, "0.00", 0, 0),
    "max. wv (m/s)": (1, "0.00", 1, 0),
    "wd (deg)": (1, "0.00", 1, 0),
    "rain (mm)": (50785, "96.37", 177, 50608),
    "raining (s)": (49316, "93.59", 115, 49201),
    "SWDR (W/m²)": (24749, "46.97", 21, 24728),
    "PAR (µmol/m²/s)": (24614, "46.71", 0, 24614),
    "max. PAR (µmol/m²/s)": (24209, "45.94", 0, 24209),
    "Tlog (degC)": (0, "0.00", 0, 0),
    "OT": (0, "0.00", 0, 0),
}


@pytest.mark.parametrize(("name", "table"), [("ETTh1", ETTH1), ("ETTh2", ETTH2), ("Weather", WEATHER)])
def test_zero_patterns_equal_the_papers_in_every_cell(
    name: str, table: dict[str, tuple[int, str, int, int]], published_path: Callable[[str], Path]
) -> None:
    report = audit(published_path(name))
    found = {
        column.name: (
            column.statistics.zeros.total,
            f"{100 * column.statistics.zeros.total / column.statistics.rows:.2f}",
            column.statistics.zeros.isolated,
            column.statistics.zeros.total - column.statistics.zeros.isolated,
        )
        for column in report.series[0].columns
    }
    assert found == table


@pytest.mark.parametrize("name", ["ETTh1", "ETTm1"])
def test_on_etth1_and_ettm1_the_policy_only_fills_and_deletes_rows(
    name: str, published_path: Callable[[str], Path]
) -> None:
    report = audit(published_path(name))
    kinds = [kind for column in report.series[0].columns for kind in column.verdict.kinds]
    assert set(kinds) == {"fill", "delete rows"}
    assert report.problems() == []


def test_on_etth2_the_policy_drops_the_two_heavily_zero_columns(published_path: Callable[[str], Path]) -> None:
    report = audit(published_path("ETTh2"))
    dropped = {c.name: c.verdict.actions[0].reason for c in report.series[0].columns if "drop" in c.verdict.kinds}
    assert list(dropped) == ["HULL", "LULL"]
    assert dropped["HULL"] == "zeros in 22.02 % of the rows (more than 15 %)"
    # The stuck sensor of the paper: 88.298, 1,025 times in one run (the paper writes 10k).
    (stuck, *_) = report["MUFL"].statistics.stuck
    assert (round(stuck.value, 3), stuck.count, stuck.longest_run) == (88.298, 1025, 1025)
    assert report["MUFL"].verdict.kinds == ("keep",)
    assert "6.33 % of the rows), kept as in the paper" in report["MUFL"].verdict.actions[0].reason


def test_weathers_codes_and_time_stamps_are_found(published_path: Callable[[str], Path]) -> None:
    report = audit(published_path("Weather"))
    codes = {c.name: [(v.value, v.count) for v in c.statistics.codes] for c in report.series[0].columns}
    assert {name: found for name, found in codes.items() if found} == {
        "wv (m/s)": [(-9999.0, 1)],
        "max. PAR (µmol/m²/s)": [(-9999.0, 30)],
        "OT": [(-9999.0, 50)],
    }
    grid = report.series[0].grid
    assert (grid.duplicates, grid.gaps, grid.missing_rows) == (1, 1, 9)
    assert report.problems() == ["1 duplicate time stamp"]
    assert str(report.series[0].frequency) == "10 minutes"


@pytest.mark.parametrize("kind", ["pandas", "polars", "pyarrow"])
def test_frames_and_files_give_the_same_report(kind: str, published_path: Callable[[str], Path]) -> None:
    path = published_path("ETTh1")
    frame, file = to_dict(audit(load_dataset("ETTh1", kind=kind))), to_dict(audit(path))
    for found in (frame, file):
        del found["source"]
    assert frame == file


HOURS = pd.date_range("2020-01-01", periods=1000, freq="h")


def table(**columns: object) -> pa.Table:
    base = np.random.default_rng(0).normal(10, 1, 1000)
    return pa.table({"ds": HOURS, **{name: make(base.copy()) for name, make in columns.items()}})  # type: ignore[operator]


def with_zeros(*places: slice) -> Callable[[np.ndarray], np.ndarray]:
    def make(values: np.ndarray) -> np.ndarray:
        for place in places:
            values[place] = 0
        return values

    return make


@pytest.mark.parametrize(
    ("make", "kinds"),
    [
        (with_zeros(), ("keep",)),
        (with_zeros(slice(10, 13)), ("fill",)),  # 3 hours
        (with_zeros(slice(10, 14)), ("delete rows",)),  # 4 hours
        (with_zeros(slice(10, 13), slice(50, 54)), ("delete rows", "fill")),
        (with_zeros(slice(0, 168)), ("drop",)),  # 16.8 %
        (with_zeros(slice(0, 1000, 10)), ("asinh",)),  # exactly 10 %
        (with_zeros(slice(0, 750, 5)), ("asinh",)),  # exactly 15 %
        (with_zeros(slice(0, 755, 5)), ("drop",)),  # 15.1 %
        (with_zeros(slice(0, 495, 5)), ("fill",)),  # 9.9 %
    ],
)
def test_the_policy_decides_by_share_and_by_run(make: Callable[[np.ndarray], np.ndarray], kinds: tuple[str]) -> None:
    assert audit(table(a=make))["a"].verdict.kinds == kinds


def long_zero_run(hours: int) -> pa.Table:
    values = np.random.default_rng(0).normal(10, 1, 5000)
    values[100 : 100 + hours] = 0
    return pa.table({"ds": pd.date_range("2020-01-01", periods=5000, freq="h"), "a": values})


def test_a_zero_run_of_more_than_a_week_drops_the_column() -> None:
    assert audit(long_zero_run(168))["a"].verdict.kinds == ("delete rows",)
    verdict = audit(long_zero_run(169))["a"].verdict
    assert verdict.kinds == ("drop",)
    assert verdict.actions[0].reason == "a run of zeros lasting 7.04 days (more than 1 week)"


def test_a_sensor_stuck_for_a_tenth_of_the_time_drops_its_column() -> None:
    def stuck(rows: int) -> Callable[[np.ndarray], np.ndarray]:
        return lambda values: np.concatenate([np.full(rows, 7.5), values[rows:]])

    assert audit(table(a=stuck(100)))["a"].verdict.kinds == ("keep",)
    verdict = audit(table(a=stuck(101)))["a"].verdict
    assert verdict.kinds == ("drop",)
    assert verdict.actions[0].reason == "sentinel values in 10.1 % of the rows (more than 10 %)"
    short = np.repeat(np.random.default_rng(0).normal(size=42), 24)[:1000]  # each value for a day, none longer
    assert audit(table(a=lambda _: short))["a"].verdict.sentinel_entries == 0


def test_missing_values_go_by_the_same_thresholds() -> None:
    def holes(rows: int) -> Callable[[np.ndarray], np.ndarray]:
        return lambda values: np.concatenate([values[:5], np.full(rows, np.nan), values[5 + rows :]])

    kinds = {rows: audit(table(a=holes(rows)))["a"].verdict.kinds for rows in (3, 4, 151)}
    assert kinds == {3: ("fill",), 4: ("delete rows",), 151: ("drop",)}


def test_rules_on_durations_need_steps_that_last() -> None:
    values = np.arange(1.0, 101)
    values[50] = 0
    integers = pa.table({"t": np.arange(100), "a": values})
    assert audit(integers)["a"].verdict.kinds == ("undecided",)
    assert audit(integers, step=timedelta(hours=1))["a"].verdict.kinds == ("fill",)
    assert audit(integers, step=timedelta(hours=4))["a"].verdict.kinds == ("delete rows",)


def test_random_walks_are_called_so() -> None:
    rng = np.random.default_rng(1)
    report = audit(table(walk=lambda _: rng.standard_normal(1000).cumsum() + 50, noise=lambda values: values))
    assert report["walk"].statistics.walk is not None
    assert report["walk"].statistics.walk.near
    assert "Close to a random walk: walk." in text(report)


def test_changes_after_a_border_change_nothing_before_it() -> None:
    part = split(1000, "shock").train
    before = to_dict(audit(table(a=with_zeros(slice(10, 20))), part=part))
    after = to_dict(audit(table(a=with_zeros(slice(10, 20), slice(700, 1000))), part=part))
    assert before == after
    assert before["rows"] == 700
    assert to_dict(audit(table(a=with_zeros(slice(10, 20), slice(700, 1000)))))["series"] != after["series"]
    with pytest.raises(FernError, match="no rows in the part"):
        audit(table(a=with_zeros()), part=Part(2000, 3000))


def test_a_long_table_is_audited_series_by_series() -> None:
    frame = pl.DataFrame(
        {
            "unique_id": ["x"] * 100 + ["y"] * 50,
            "ds": [*HOURS[:100], *HOURS[:50]],
            "y": [0.0] * 3 + [float(i) for i in range(1, 98)] + [5.0] * 50,
        }
    )
    report = audit(frame)
    assert [(s.name, s.grid.rows, s.columns[0].verdict.kinds) for s in report.series] == [
        ("x", 100, ("fill",)),
        ("y", 50, ("drop",)),
    ]
    assert report.rows == 150
    assert "150 rows in 2 series" in text(report)


def test_time_stamps_in_disorder_are_reported_not_refused() -> None:
    frame = pd.DataFrame({"ds": HOURS[[0, 1, 1, 3, 2, *range(4, 1000)]], "a": np.arange(1001.0) + 1})
    problems = audit(frame).problems()
    assert "1 duplicate time stamp" in problems
    assert "1 time stamp earlier than the one before" in problems


def test_one_row_is_audited_too() -> None:
    report = audit(pa.table({"ds": HOURS[:1], "a": [5.0]}))
    assert report.rows == 1
    assert report["a"].verdict.kinds == ("keep",)
    assert "1 rows × 1 columns" in text(report) or "1 row" in text(report)


def test_what_is_left_out_or_infinite_is_said() -> None:
    frame = pd.DataFrame({"": np.arange(1000), "ds": HOURS, "a": [np.inf, *np.arange(1.0, 1000)]})
    said = text(audit(frame))
    assert "Infinite values, counted as missing: a." in said
    assert "Ignored: (unnamed)." in said


def test_a_column_without_a_value_is_a_problem() -> None:
    report = audit(table(a=lambda values: values, b=lambda values: values * np.nan))
    assert report.problems() == ["column 'b' has no values"]
    assert report["b"].verdict.actions[0].reason == "no values"
    assert json.dumps(to_dict(report), allow_nan=False)
    assert audit_page(report)


def text(report: AuditReport, width: int = 140) -> str:
    console = Console(width=width, record=True, file=open("/dev/null", "w"))  # noqa: SIM115, PTH123
    console.print(render(report))
    console.file.close()
    return console.export_text()


def test_the_terminal_table_says_what_was_found(published_path: Callable[[str], Path]) -> None:
    said = text(audit(published_path("ETTh2")))
    assert "17,420 rows × 7 columns, 2016-07-01 00:00:00 to 2018-06-26 19:00:00, one row every hour" in said
    assert all(word in said for word in ("3,836", "22.02", "163", "3,673", "9.4 days", "88.298", "42.7 days"))
    assert "drop" in said
    assert any(block in said for block in "▁▂▃▄▅▆▇█")
    assert max(map(len, said.splitlines())) <= 140


def test_many_columns_are_cut_short_in_the_terminal() -> None:
    report = audit(table(**{f"c{i}": with_zeros(slice(10, 12)) if i == 70 else with_zeros() for i in range(80)}))
    said = text(report)
    assert "… 30 more: see --json or --html" in said
    assert "c70" in said  # the one that the policy touches comes first


class _Balance(HTMLParser):
    """Counts tags that are opened and closed."""

    def __init__(self) -> None:
        super().__init__()
        self.stack: list[str] = []
        self.seen: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.seen.append(tag)
        if tag not in ("meta", "br", "input"):
            self.stack.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.seen.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.stack.pop() == tag


def test_the_html_page_is_whole_and_needs_nothing_from_outside(published_path: Callable[[str], Path]) -> None:
    page = audit_page(audit(published_path("Weather")))
    parser = _Balance()
    parser.feed(page)
    parser.close()
    assert parser.stack == []
    assert parser.seen.count("svg") == 21
    assert parser.seen.count("tr") == 22
    assert "default-src &#x27;none&#x27;" in page
    assert "50,785 (96.37 %) = 177 + 50,608" in page
    assert "1 duplicate time stamp" in page


def test_names_cannot_break_the_html_page() -> None:
    page = audit_page(audit(pa.table({"ds": HOURS, "<script>alert(1)</script>": np.arange(1000.0)})))
    assert "<script>alert" not in page


def test_json_has_its_schema(published_path: Callable[[str], Path]) -> None:
    found = to_dict(audit(published_path("ETTh2")))
    assert found["schema"] == "fern.audit/1"
    assert set(found) == {
        *("schema", "source", "rows", "problems", "time_column", "series_column", "ignored", "policy", "series"),
    }
    assert found["policy"]["delete_run"] == 3 * 3600
    (series,) = found["series"]
    assert series["time"]["step_seconds"] == 3600
    column = series["columns"][1]
    assert set(column) == {
        *("name", "rows", "mean", "std", "min", "max", "distinct", "zeros", "missing", "sentinels", "repeated"),
        *("flat", "outliers", "random_walk", "actions"),
    }
    assert column["zeros"] == {
        "total": 3836,
        "share": 3836 / 17420,
        "isolated": 163,
        "clustered": 3673,
        "longest_run": 226,
        "longest_run_start": column["zeros"]["longest_run_start"],
    }
    json.dumps(found, allow_nan=False)


# VmHWM and not getrusage: the latter counts the memory of the process that started this one.
MEMORY = """
import re, sys
from fern.data.auditing.audit import audit
def peak(): return int(re.search(r"VmHWM:\\s+(\\d+) kB", open("/proc/self/status").read())[1]) / 1024
audit(sys.argv[1]); small = peak()
audit(sys.argv[2]); print(peak() - small)
"""


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="peak memory is read from Linux's /proc")
def test_memory_does_not_grow_with_the_file() -> None:
    rng = np.random.default_rng(0)
    for name, rows in (("small", 150_000), ("large", 1_500_000)):
        columns = {f"c{i}": rng.standard_normal(rows) for i in range(4)}
        pq.write_table(pa.table({"t": np.arange(rows), **columns}), f"{name}.parquet")
    done = subprocess.run(
        [sys.executable, "-c", MEMORY, "small.parquet", "large.parquet"], capture_output=True, text=True, check=True
    )
    # Ten times the rows (48 MB of values); a little for what the allocator keeps.
    assert float(done.stdout) < 32
