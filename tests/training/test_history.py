"""The history of a run and the paper's table of recency bias."""

import json

import pytest
from tests.errors import raises_error

from fern.errors import FernError
from fern.training import EpochRecord, History
from fern.training.history import history_from_list


def record(epoch: int, validation: float, test: float | None, seconds: float = 1.0) -> EpochRecord:
    return EpochRecord(
        epoch=epoch,
        train_loss=1.0 / epoch,
        learning_rate=1e-3,
        gradient_norm=0.1,
        validation={"mse": validation, "objective": validation / 3},
        test=None if test is None else {"mse": test, "objective": test / 3},
        judged=validation / 3,
        seconds=seconds,
    )


def test_the_recency_table_has_the_paper_s_columns() -> None:
    # The Fern rows of tab:recency-etth1: validation is best at epoch 1, test at epoch 6.
    validation = [8.24, 9.0, 10.0, 11.0, 11.5, 12.10]
    test = [18.88, 14.0, 10.0, 8.0, 6.0, 5.51]
    history = History(record(i + 1, v, t) for i, (v, t) in enumerate(zip(validation, test, strict=True)))
    first, by_validation, by_test = history.recency("mse")
    assert (first.choice, first.epoch, first.validation, first.test) == ("epoch 1", 1, 8.24, 18.88)
    assert (by_validation.epoch, by_validation.test_change) == (1, 0.0)
    assert (by_test.epoch, by_test.validation, by_test.test) == (6, 12.10, 5.51)
    assert by_test.validation_change == pytest.approx(3.86)
    assert by_test.test_change == pytest.approx(-13.37)


def test_the_recency_table_needs_test_figures_and_a_known_metric() -> None:
    with pytest.raises(FernError, match="has no test figures"):
        History([record(1, 1.0, None)]).recency()
    with pytest.raises(FernError, match="unknown metric 'mso': did you mean 'mse'"):
        History([record(1, 1.0, 1.0)]).recency("mso")
    with pytest.raises(FernError, match="has no epochs"):
        History().recency()


def test_a_history_written_as_json_comes_back_to_the_bit() -> None:
    history = History([record(1, 1 / 3, 2 / 7), record(2, 0.1 + 0.2, None)])
    back = history_from_list(json.loads(json.dumps(history.to_list())))
    assert back == history
    assert [r.seconds for r in back] == [r.seconds for r in history]


def test_histories_are_equal_when_their_figures_are_however_long_they_took() -> None:
    assert History([record(1, 1.0, 2.0, seconds=1.0)]) == History([record(1, 1.0, 2.0, seconds=9.0)])
    assert History([record(1, 1.0, 2.0)]) != History([record(1, 1.0, 2.1)])


def test_rows_are_flat_for_a_data_frame() -> None:
    (row,) = History([record(1, 1.5, 2.5)]).rows()
    assert (row["validation_mse"], row["test_mse"], row["epoch"]) == (1.5, 2.5, 1)
    assert not any(isinstance(value, dict) for value in row.values())


def test_an_epoch_is_found_by_its_number() -> None:
    history = History([record(1, 1.0, None), record(2, 2.0, None)])
    assert history.of_epoch(2).validation["mse"] == 2.0
    with raises_error("epoch"):
        history.of_epoch(3)
