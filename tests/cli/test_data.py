"""``fern audit`` and ``fern clean``, as a user runs them."""

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import pytest


def table(rows: int = 500) -> pd.DataFrame:
    values = np.arange(rows) + 1.0
    values[10:12] = 0
    values[100:110] = 0
    return pd.DataFrame({"date": pd.date_range("2020-01-01", periods=rows, freq="h"), "load": values, "temp": 20.5})


@pytest.fixture
def file() -> Path:
    table().assign(temp=np.sin(np.arange(500)) + 5).to_csv("load.csv", index=False)
    return Path("load.csv")


def test_audit_prints_a_table(fern: Any, file: Path) -> None:
    ran = fern("audit", file)
    assert ran.code == 0
    assert ran.err == ""
    assert "500 rows × 2 columns, 2020-01-01 00:00:00 to 2020-01-21 19:00:00, one row every hour" in ran.out
    assert "delete 10 rows" in ran.out
    assert "1 run of zeros longer than 3 hours" in ran.out


def test_audit_prints_json_and_writes_html(fern: Any, file: Path) -> None:
    ran = fern("audit", file, "--json", "--html", "out.html")
    assert json.loads(ran.out)["series"][0]["columns"][0]["zeros"]["total"] == 12
    assert "<svg" in Path("out.html").read_text()


def test_audit_of_a_table_with_problems_ends_with_one(fern: Any) -> None:
    table().iloc[[0, 0, *range(1, 500)]].assign(empty=np.nan).to_csv("bad.csv", index=False)
    ran = fern("audit", "bad.csv")
    assert ran.code == 1
    assert "problem: 1 duplicate time stamp" in ran.out
    assert "problem: column 'empty' has no values" in ran.out


def test_clean_writes_csv_parquet_and_the_log(fern: Any, file: Path) -> None:
    before = file.read_bytes()
    ran = fern("clean", file, "-o", "out.csv", "--log", "log.json")
    assert ran.code == 0
    assert "500 rows in, 490 out → out.csv" in ran.out
    cleaned = pd.read_csv("out.csv")
    assert list(cleaned.columns) == ["date", "load", "temp"]
    assert cleaned["date"][0] == "2020-01-01 00:00:00"
    assert (cleaned["load"] > 0).all()
    log = json.loads(Path("log.json").read_text())
    assert [change["action"] for change in log["changes"]] == ["fill", "delete rows"]
    assert fern("clean", file, "-o", "out.parquet").code == 0
    assert pq.read_table("out.parquet").num_rows == 490
    assert file.read_bytes() == before
    # What was cleaned is clean.
    assert "delete" not in fern("audit", "out.csv").out


def test_thresholds_come_from_a_policy_file(fern: Any, file: Path) -> None:
    Path("policy.toml").write_text('delete_run = "1 day"\n')
    assert "500 rows in, 500 out" in fern("clean", file, "-o", "out.csv", "--policy", "policy.toml").out
    Path("policy.toml").write_text('delete_runs = "1 day"\n')
    ran = fern("clean", file, "-o", "other.csv", "--policy", "policy.toml")
    assert ran.code == 2
    assert "did you mean 'delete_run'" in ran.err
    assert not Path("other.csv").exists()


def test_published_sets_go_by_name(fern: Any) -> None:
    from fern.data.datasets import local_folders

    if not any((folder / "ETTh2.csv").is_file() for folder in local_folders()):
        pytest.skip("ETTh2.csv is not on this machine")
    ran = fern("audit", "ETTh2")
    assert ran.code == 0
    assert "zeros in 33.25 % of the rows (more than 15 %)" in ran.out
    ran = fern("clean", "ETTh2", "-o", "etth2.csv")
    assert pd.read_csv("etth2.csv").columns.tolist() == ["date", "HUFL", "MUFL", "MULL", "LUFL", "OT"]


def test_weather_is_cleaned_when_rows_are_taken_as_they_come(fern: Any) -> None:
    from fern.data.datasets import local_folders

    if not any((folder / "weather.csv").is_file() for folder in local_folders()):
        pytest.skip("weather.csv is not on this machine")
    ran = fern("clean", "Weather", "-o", "out.parquet")
    assert ran.code == 2
    assert "1 duplicate time stamp" in ran.err
    assert not Path("out.parquet").exists()
    assert fern("clean", "Weather", "-o", "out.parquet", "--rows").code == 0
    assert pq.read_table("out.parquet").num_rows == 50_381


def test_integer_time_asks_for_its_step(fern: Any) -> None:
    table().drop(columns="date").assign(t=np.arange(500)).to_csv("t.csv", index=False)
    assert "--step" in fern("audit", "t.csv").out
    assert fern("clean", "t.csv", "-o", "out.csv").code == 2
    assert fern("clean", "t.csv", "-o", "out.csv", "--step", "1 hour", "--ignore", "temp").code == 0
    assert fern("audit", "t.csv", "--step", "1 fortnight").code == 2


def write(content: bytes | str, name: str = "bad.csv") -> str:
    Path(name).write_bytes(content if isinstance(content, bytes) else content.encode())
    return name


def truncated() -> str:
    table(5_000).to_parquet("whole.parquet")
    return write(Path("whole.parquet").read_bytes()[:9_000], "bad.parquet")


def in_dialect(**options: Any) -> str:
    table().to_csv("bad.csv", index=False, **options)
    return "bad.csv"


def doubled() -> str:
    table().iloc[[0, 0, *range(1, 500)]].to_csv("bad.csv", index=False)
    return "bad.csv"


def mixed() -> str:
    table().iloc[[*range(250), *range(250, 500, 3)]].to_csv("bad.csv", index=False)
    return "bad.csv"


def empty_column() -> str:
    table().assign(temp=np.nan).to_csv("bad.csv", index=False)
    return "bad.csv"


BAD: dict[str, tuple[Callable[[], str], str]] = {
    "empty file": (lambda: write("\n"), "contains only whitespace"),
    "0-byte file": (lambda: write(""), "is empty (0 bytes)"),
    "header only": (lambda: write("date,load\n"), "has a header but no rows"),
    "text column": (lambda: write("date,load,site\n2020-01-01,1,A\n2020-01-02,2,B\n"), "column 'site' holds text"),
    "all-NaN column": (empty_column, "column 'temp' has no values"),
    "mixed frequencies": (mixed, "mixed frequencies"),
    "duplicate stamps": (doubled, "1 duplicate time stamp"),
    "unreadable encoding": (lambda: write(bytes(range(256)) * 4), "unreadable encoding"),
    "truncated Parquet": (truncated, "is not a readable Parquet"),
    "a directory": (lambda: str(Path.cwd()), "is a directory"),
    "no such file": (lambda: "nothing.csv", "no such file"),
    "decimal comma without another separator": (lambda: write("date,a\n2020-01-01,1,5\n"), "has 3 fields"),
    "thousands separators": (lambda: write("date;a\n2020-01-01;1,234\n"), "thousands separator"),
}


@pytest.mark.parametrize("case", BAD)
def test_clean_refuses_bad_input_in_one_line_and_writes_nothing(fern: Any, case: str) -> None:
    make, message = BAD[case]
    path = make()
    before = sorted(Path().iterdir())
    ran = fern("clean", path, "-o", "out.csv", "--log", "log.json")
    assert ran.code == 2
    assert message in ran.err
    assert ran.err.startswith("error: ")
    assert len(ran.err.splitlines()) == 1
    assert "Traceback" not in ran.err
    assert sorted(Path().iterdir()) == before


REPORTED = ("all-NaN column", "mixed frequencies", "duplicate stamps")


@pytest.mark.parametrize("case", BAD)
def test_audit_reports_or_refuses_bad_input_with_the_reason(fern: Any, case: str) -> None:
    make, message = BAD[case]
    path = make()
    ran = fern("audit", path, "--html", "out.html")
    if case in REPORTED:  # findings about a table that can be read
        assert ran.code == 1
        assert f"problem: {message}" in ran.out or message in ran.out
    else:
        assert ran.code == 2
        assert message in ran.err
        assert not Path("out.html").exists()


@pytest.mark.parametrize(
    "options", [{"sep": ";"}, {"sep": ";", "decimal": ","}, {"sep": "\t"}, {"decimal": ","}, {"encoding": "utf-16"}]
)
def test_other_dialects_are_detected(fern: Any, options: dict[str, str]) -> None:
    path = in_dialect(**options)
    found = json.loads(fern("audit", path, "--json").out)["series"][0]["columns"]
    assert [(c["name"], c["zeros"]["total"], c["mean"]) for c in found] == [
        ("load", 12, pytest.approx(table()["load"].mean())),
        ("temp", 0, pytest.approx(20.5)),
    ]


def test_a_path_without_permission_is_refused(fern: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    path = Path(in_dialect())
    path.chmod(0)
    if os.geteuid() == 0:  # root may read everything: give the answer that others get
        plain = Path.open

        def refuse(self: Path, *arguments: Any, **options: Any) -> Any:
            if self == path:
                raise PermissionError(13, "Permission denied")
            return plain(self, *arguments, **options)

        monkeypatch.setattr(Path, "open", refuse)
    ran = fern("clean", path, "-o", "out.csv")
    assert (ran.code, Path("out.csv").exists()) == (2, False)
    assert "no permission" in ran.err


def test_the_output_must_be_another_file_of_a_known_kind(fern: Any, file: Path) -> None:
    before = file.read_bytes()
    assert "files are not changed in place" in fern("clean", file, "-o", file).err
    assert "needs one of .csv, .parquet" in fern("clean", file, "-o", "out.xlsx").err
    assert "does not exist" in fern("clean", file, "-o", "no/such/out.csv").err
    assert "does not exist" in fern("audit", file, "--html", "no/such/out.html").err
    assert file.read_bytes() == before
