"""Forecasts of Parquet tables in bounded memory: the rows of `predict`, whatever the chunks, or a reason."""

import sys
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from fern.errors import FernError
from fern.forecaster import FernForecaster, predict_file
from fern.forecaster.predict_file import find_chunks, read_chunk


def written(frame: pd.DataFrame, name: str = "many.parquet", *, row_group: int = 37) -> Path:
    path = Path(name)
    frame.to_parquet(path, row_group_size=row_group)
    return path


# Some processors round a product of float32 otherwise when it has another number of rows.
ROUNDING: Any = {"rtol": 1e-5, "atol": 1e-6}


@pytest.mark.parametrize("series_at_once", [1, 2, 512])
def test_a_file_has_the_forecasts_of_its_frame_whatever_the_chunks(
    fitted: FernForecaster, panel: pd.DataFrame, series_at_once: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(predict_file, "SERIES_AT_ONCE", series_at_once)
    rows = fitted.predict_file(written(panel), "out.parquet", level=[80], h=5)
    expected = fitted.predict(panel, level=[80], h=5)
    assert rows == len(expected) == 15
    pd.testing.assert_frame_equal(pq.read_table("out.parquet").to_pandas(), expected, **ROUNDING)


def test_a_folder_of_files_is_one_table(fitted: FernForecaster, panel: pd.DataFrame) -> None:
    Path("parts").mkdir()
    for number, (_, rows) in enumerate(panel.groupby("unique_id", sort=False)):
        written(rows, f"parts/{number}.parquet")
    fitted.predict_file("parts", "out.parquet")
    expected = fitted.predict(panel)
    pd.testing.assert_frame_equal(pq.read_table("out.parquet").to_pandas(), expected, **ROUNDING)


def test_the_row_labels_that_pandas_writes_beside_a_table_are_no_column_of_it(
    fitted: FernForecaster, panel: pd.DataFrame
) -> None:
    labelled = panel.set_index(np.arange(len(panel)) % 100)
    fitted.predict_file(written(labelled), "out.parquet")
    assert "__index_level_0__" in pq.read_schema("many.parquet").names
    expected = fitted.predict(panel)
    pd.testing.assert_frame_equal(pq.read_table("out.parquet").to_pandas(), expected, check_exact=True)


@pytest.mark.parametrize("row_group", [1, 7, 1000])
def test_chunks_hold_whole_series_and_every_row_once(panel: pd.DataFrame, row_group: int) -> None:
    chunks = find_chunks(written(panel, row_group=row_group), id_col="unique_id", series_at_once=2)
    tables = [read_chunk(chunk) for chunk in chunks]
    assert [set(table["unique_id"].to_pylist()) for table in tables] == [{"zeta", "alpha"}, {"mid"}]
    assert pa.concat_tables(tables).to_pandas()["y"].tolist() == panel["y"].tolist()


def test_memory_does_not_grow_with_the_number_of_series(
    fitted: FernForecaster, panel: pd.DataFrame, monkeypatch: pytest.MonkeyPatch
) -> None:
    sizes = []
    read = predict_file.read_chunk
    monkeypatch.setattr(predict_file, "SERIES_AT_ONCE", 4)
    monkeypatch.setattr(predict_file, "read_chunk", lambda chunk: sizes.append(chunk.rows) or read(chunk))
    rows = panel[panel["unique_id"] == "alpha"]
    many = pd.concat([rows.assign(unique_id=f"s{i:02d}") for i in range(30)], ignore_index=True)
    assert fitted.predict_file(written(many), "out.parquet") == 30 * 7
    assert sizes == [4 * 150] * 7 + [2 * 150]


def scattered(panel: pd.DataFrame) -> pd.DataFrame:
    return pd.concat([panel, panel.tail(3).assign(unique_id="zeta")], ignore_index=True)


def nameless(panel: pd.DataFrame) -> pd.DataFrame:
    names = panel["unique_id"].astype(object).copy()
    names[5] = None
    return panel.assign(unique_id=names)


MISTAKES: dict[str, tuple[Any, dict[str, Any], str]] = {
    "scattered rows": (scattered, {}, r"rows of series 'zeta' do not lie together \(again in data row 611\)"),
    "no name": (nameless, {}, r"column 'unique_id' is empty in data row 6"),
    "no such column": (lambda panel: panel.rename(columns={"unique_id": "uniqe_id"}), {}, "unknown column 'unique_id'"),
    "no rows": (lambda panel: panel.head(0), {}, "has no rows"),
    "engine": (None, {"engine": "spark"}, "unknown engine 'spark'.*local, ray"),
    "address without ray": (None, {"address": "auto"}, "address: got 'auto', which is for engine='ray'"),
    "both": (None, {"level": 80, "quantiles": 0.1}, "level"),
    "level": (None, {"level": 180}, "level"),
}


@pytest.mark.parametrize("name", MISTAKES)
def test_a_mistake_is_told_and_nothing_is_written(fitted: FernForecaster, panel: pd.DataFrame, name: str) -> None:
    change, options, message = MISTAKES[name]
    path = written(panel if change is None else change(panel))
    with pytest.raises(FernError, match=message):
        fitted.predict_file(path, "out.parquet", **options)
    assert sorted(item.name for item in Path().iterdir()) == ["many.parquet"]


def test_paths_that_make_no_sense_are_told(fitted: FernForecaster, panel: pd.DataFrame) -> None:
    path = written(panel)
    Path("text.parquet").write_text("ds,y")
    Path("empty").mkdir()
    for source, out, message in (
        (path, path, "is also an input"),
        (path, Path("out.csv"), "needs one of .parquet"),
        (path, Path("no/out.parquet"), "the folder no does not exist"),
        (Path("absent.parquet"), Path("out.parquet"), "no such file"),
        (Path("text.parquet"), Path("out.parquet"), "not a readable Parquet file"),
        (Path("empty"), Path("out.parquet"), "holds no .parquet file"),
    ):
        with pytest.raises(FernError, match=message):
            fitted.predict_file(source, out)
    assert not Path("out.parquet").exists()
    assert pq.read_table(path).num_rows == len(panel)


def test_a_series_that_cannot_be_forecast_leaves_the_former_file(fitted: FernForecaster, panel: pd.DataFrame) -> None:
    fitted.predict_file(written(panel), "out.parquet")
    before = Path("out.parquet").read_bytes()
    with pytest.raises(FernError, match="missing"):
        fitted.predict_file(written(panel.assign(y=np.where(panel.index == 600, np.nan, panel["y"]))), "out.parquet")
    assert Path("out.parquet").read_bytes() == before
    assert sorted(item.name for item in Path().iterdir()) == ["many.parquet", "out.parquet"]


def test_ray_that_is_not_installed_is_told(fitted: FernForecaster, panel: pd.DataFrame, monkeypatch: Any) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(FernError, match=r"ray is not installed: pip install 'fern-forecast\[ray\]'"):
        fitted.predict_file(written(panel), "out.parquet", engine="ray")
    assert not Path("out.parquet").exists()


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::DeprecationWarning:ray")  # Ray Data sets its own settings that it has given up
def test_a_ray_cluster_gives_the_same_rows(
    fitted: FernForecaster, panel: pd.DataFrame, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("ray.data")
    monkeypatch.setattr(predict_file, "SERIES_AT_ONCE", 1)
    path = written(panel)
    fitted.predict_file(path, "here.parquet", level=[80, 95])
    fitted.predict_file(path, "there.parquet", level=[80, 95], engine="ray")
    assert pq.read_table("there.parquet").equals(pq.read_table("here.parquet"))
    with pytest.raises(FernError, match="missing"):
        bad = written(panel.assign(y=np.where(panel.index == 600, np.nan, panel["y"])))
        fitted.predict_file(bad, "there.parquet", engine="ray")
