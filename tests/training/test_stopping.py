"""The stopping rules, on scripted validation values with the exact outcome, and as properties."""

import json
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.errors import raises_error

from fern.errors import FernError
from fern.training.stopping import Reason, StoppingRule, StoppingState, stopping_state

VALUES = st.lists(st.floats(0.0, 100.0), min_size=1, max_size=30)


def play(rule: StoppingRule, values: list[float]) -> tuple[StoppingState, Reason | None]:
    """The state and reason after as many of the values as the rule takes."""
    state, reason = StoppingState(), None
    for value in values:
        state, reason = rule.after_epoch(state, value)
        if reason is not None:
            break
    return state, reason


def test_patience_stops_after_so_many_epochs_without_a_new_best() -> None:
    state, reason = play(StoppingRule(epochs=50, patience=3), [5.0, 4.0, 4.5, 4.2, 4.1, 1.0])
    assert (state.epoch, state.kept_epoch, reason) == (5, 2, "patience")


def test_a_new_best_starts_the_patience_anew() -> None:
    state, reason = play(StoppingRule(epochs=50, patience=2), [5.0, 6.0, 4.0, 6.0, 3.0, 6.0, 6.0])
    assert (state.epoch, state.kept_epoch, reason) == (7, 5, "patience")


def test_an_equal_value_is_not_a_new_best() -> None:
    state, reason = play(StoppingRule(epochs=50, patience=2), [2.0, 2.0, 2.0])
    assert (state.epoch, state.kept_epoch, reason) == (3, 1, "patience")


def test_the_grace_period_can_neither_be_kept_nor_use_up_the_patience() -> None:
    # Epoch 1 is deceptively good, as the paper found on ETTh1: without grace it is kept and the run ends at epoch 3.
    values = [1.0, 9.0, 8.0, 7.0, 6.0, 6.5, 6.4]
    naive, why = play(StoppingRule(epochs=50, patience=2), values)
    assert (naive.epoch, naive.kept_epoch, why) == (3, 1, "patience")
    state, reason = play(StoppingRule(epochs=50, patience=2, grace=3), values)
    assert (state.epoch, state.kept_epoch, reason) == (7, 5, "patience")


def test_the_first_epoch_after_the_grace_period_is_kept_whatever_its_value() -> None:
    state, reason = play(StoppingRule(epochs=9, patience=5, grace=2), [1.0, 1.0, 50.0])
    assert (state.epoch, state.kept_epoch, state.waited, reason) == (3, 3, 0, None)


def test_smoothing_rides_over_an_oscillation_that_would_stop_the_run() -> None:
    values = [10.0, 4.0, 8.0, 8.0, 3.0, 3.0, 9.0, 9.0]
    plain, why = play(StoppingRule(epochs=8, patience=2), values)
    assert (plain.epoch, plain.kept_epoch, why) == (4, 2, "patience")
    # s = 10, 7, 7.5, 7.75, 5.375, 4.1875, 6.59375, 7.796875: two epochs without a new best at the very end.
    smooth, reason = play(StoppingRule(epochs=8, patience=3, smoothing=0.5), values)
    assert (smooth.epoch, smooth.kept_epoch, reason) == (8, 6, "epochs")
    assert smooth.judged == 7.796875
    assert smooth.best == 4.1875


def test_smoothing_starts_after_the_grace_period() -> None:
    state, _ = play(StoppingRule(epochs=9, grace=2, smoothing=0.5), [100.0, 100.0, 4.0, 2.0])
    assert state.judged == 3.0


def test_a_tolerance_keeps_the_earlier_of_two_epochs_that_validation_hardly_tells_apart() -> None:
    # 1 % of 4.0 is 0.04: 3.97 is no new best, 3.95 is, and 3.92 again is not.
    values = [4.0, 3.97, 3.95, 3.92, 3.92, 3.92]
    state, reason = play(StoppingRule(epochs=50, patience=3, tolerance=0.01), values)
    assert (state.epoch, state.kept_epoch, state.best, reason) == (6, 3, 3.95, "patience")
    exact, _ = play(StoppingRule(epochs=50, patience=3), values)
    assert exact.kept_epoch == 4


def test_a_fixed_number_of_epochs_runs_to_its_end_and_keeps_the_best_or_the_last() -> None:
    values = [3.0, 1.0, 2.0, 5.0]
    best, why = play(StoppingRule(epochs=4), values)
    assert (best.epoch, best.kept_epoch, why) == (4, 2, "epochs")
    last, reason = play(StoppingRule(epochs=4, keep="last"), values)
    assert (last.epoch, last.kept_epoch, reason) == (4, 4, "epochs")


@given(VALUES, st.integers(1, 6), st.integers(0, 4), st.none() | st.floats(0.05, 0.95))
def test_the_kept_epoch_is_the_first_lowest_after_the_grace_period(
    values: list[float], patience: int, grace: int, smoothing: float | None
) -> None:
    rule = StoppingRule(epochs=40, patience=patience, grace=grace, smoothing=smoothing)
    judged: list[float] = []
    state = StoppingState()
    for value in values:
        state, reason = rule.after_epoch(state, value)
        if state.epoch > grace and state.judged is not None:
            judged.append(state.judged)
        if reason is not None:
            break
    if not judged:
        assert state.kept_epoch is None
        return
    lowest = judged.index(min(judged))
    assert state.kept_epoch == grace + 1 + lowest
    assert (reason == "patience") == (len(judged) - 1 - lowest >= patience)


@given(VALUES, st.integers(0, 30), st.none() | st.floats(0.05, 0.95))
def test_a_state_written_as_json_continues_to_the_same_bits(
    values: list[float], cut: int, smoothing: float | None
) -> None:
    rule = StoppingRule(epochs=40, patience=4, grace=2, smoothing=smoothing)
    whole, reason = play(rule, values)
    state = StoppingState()
    resumed: Reason | None = None
    for position, value in enumerate(values):
        if position == cut:
            state = stopping_state(json.loads(json.dumps(state.to_mapping())))
        state, resumed = rule.after_epoch(state, value)
        if resumed is not None:
            break
    assert (state, resumed) == (whole, reason)


def test_a_value_that_is_not_finite_is_refused() -> None:
    with raises_error("validation objective", where="epoch 1"):
        StoppingRule(epochs=2).after_epoch(StoppingState(), math.nan)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"epochs": 0}, "epochs: "),
        ({"epochs": 5, "patience": 0}, "patience: "),
        ({"epochs": 3, "grace": 3}, "grace: "),
        ({"epochs": 3, "grace": -1}, "grace: "),
        ({"epochs": 3, "smoothing": 1.0}, "smoothing: "),
        ({"epochs": 3, "tolerance": 1.0}, "tolerance: "),
        ({"epochs": 3, "tolerance": -0.1}, "tolerance: "),
        ({"epochs": 3, "keep": "bets"}, "unknown keep 'bets': did you mean 'best'"),
    ],
)
def test_rules_that_cannot_work_are_refused(settings: dict[str, object], message: str) -> None:
    with pytest.raises(FernError, match=message):
        StoppingRule(**settings)  # type: ignore[arg-type]
