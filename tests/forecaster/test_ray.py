"""An actor's answers, as Ray carries them: the table it made, or the error that it met."""

from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from fern.errors import FernError
from fern.forecaster import FernForecaster
from fern.forecaster.predict_file import Actor, _describe, _unpack
from fern.forecaster.save import pack_forecaster


def answered(forecaster: FernForecaster, frame: pd.DataFrame) -> pa.Table:
    frame.to_parquet("rows.parquet")
    actor = Actor(FernForecaster, pack_forecaster(forecaster), {"level": [80], "future": None, "id_col": "unique_id"})
    schema = pq.ParquetFile("rows.parquet").schema_arrow.remove_metadata().serialize().to_pybytes()
    chunk = {"path": ["rows.parquet"], "first": [0], "rows": [len(frame)], "schema": [schema]}
    (answer,) = actor(pa.table(chunk)).to_pylist()
    return _unpack(answer)


def test_a_table_comes_back_with_every_type_it_had(fitted: FernForecaster, panel: pd.DataFrame) -> None:
    frame = panel.assign(unique_id=panel["unique_id"].astype("category"), y=panel["y"].astype("float32"))
    frame.to_parquet("same.parquet")
    table = answered(fitted, frame)
    assert table.equals(fitted.predict(pa.parquet.read_table(Path("same.parquet")), level=[80]))
    assert pa.types.is_dictionary(table.schema.field("unique_id").type)
    assert table.schema.field("Fern").type == pa.float32()


def test_an_error_comes_back_in_its_own_words(fitted: FernForecaster, panel: pd.DataFrame) -> None:
    with pytest.raises(FernError, match=r"series 'mid'.*1 missing or infinite value"):
        answered(fitted, panel.assign(y=np.where(panel.index == 600, np.nan, panel["y"])))


def test_an_actor_that_falls_is_told_by_the_error_that_felled_it() -> None:
    class TaskError(Exception):
        cause = MemoryError("no room\nfor more")

    assert str(_describe(TaskError("\x1b[36mray::MapWorker\x1b[39m"))) == "engine ray: MemoryError: no room"
    assert str(_describe(OSError("gone"))) == "engine ray: OSError: gone"
