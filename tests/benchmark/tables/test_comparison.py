"""Two models are told apart where their windows allow it, and called indistinguishable where they do not."""

import numpy as np
import pytest

from fern.benchmark.results import RunResult
from fern.benchmark.store import Store
from fern.benchmark.tables.comparison import compare, difference_in_words
from fern.errors import FernError

HORIZON = 6


def put(store, model, errors, *, dataset="A", seed=7, keep=True, **changes):
    """A run whose windows have these errors."""
    errors = np.asarray(errors, dtype=np.float32)
    given = {
        "task": "mine",
        "preset": "paper",
        "data_fingerprint": dataset,
        "context_length": 12,
        "horizon": HORIZON,
        "split": "shock",
        "scaling": "none",
        "code_version": "1",
        "status": "done",
        "metrics": {"mse": float(errors.mean()), "mae": float(errors.mean())},
    }
    row = RunResult(**{**given, "model": model, "dataset": dataset, "seed": seed, **changes})
    store.write(row, {"mse": errors, "mae": errors} if keep else None)
    return row


def noise(seed, level=1.0, windows=300):
    return level + 0.1 * np.random.default_rng(seed).normal(size=windows)


def test_a_real_difference_is_called_one_and_noise_is_not(store):
    put(store, "fern", noise(1))
    put(store, "dlinear", noise(2, level=1.5))
    apart = noise(3) - noise(3).mean()
    put(store, "koopa", noise(1) + apart + 0.001)  # differs from window to window, on average by next to nothing
    real = compare("fern", "dlinear", runs=store).verdicts[0]
    assert real.words.endswith("% lower, a real difference")
    assert real.test.high < 0.0
    assert real.test.p_value < 1e-6
    none = compare("fern", "koopa", runs=store).verdicts[0]
    assert none.words.endswith("not distinguishable")
    assert none.test.low < 0.0 < none.test.high


def test_only_seeds_that_both_have_are_paired(store):
    for seed in (7, 8):
        put(store, "fern", noise(seed), seed=seed)
    put(store, "fern", noise(9, level=50.0), seed=9)
    for seed in (7, 8):
        put(store, "dlinear", noise(seed + 20), seed=seed)
    found = compare("fern", "dlinear", runs=store).verdicts[0]
    assert found.seeds == 2
    assert found.first < 1.1


def test_runs_on_other_values_are_never_compared(store):
    put(store, "fern", noise(1))
    put(store, "dlinear", noise(2), data_fingerprint="other")
    with pytest.raises(FernError, match="no finished runs on the same data"):
        compare("fern", "dlinear", runs=store)


def test_two_stores_can_be_compared_also_one_model_with_itself(store, tmp_path):
    other = Store(tmp_path / "other").for_writing()
    put(store, "fern", noise(1))
    put(other, "fern", noise(1, level=1.2), code_version="2")
    found = compare("fern", "fern", runs=store, other=other).verdicts[0]
    assert "lower, a real difference" in found.words


def test_over_three_scenarios_ranks_are_tested_with_every_model_that_has_them_all(store):
    for place, dataset in enumerate("ABCDEFGH"):
        put(store, "fern", noise(place), dataset=dataset)
        put(store, "dlinear", noise(place, level=2.0), dataset=dataset)
        put(store, "koopa", noise(place, level=3.0), dataset=dataset)
    put(store, "pfnn", noise(99), dataset="A")
    put(store, "oracle", noise(99, level=0.5), dataset="A")
    over = compare("fern", "koopa", runs=store).over_scenarios
    assert over.models == ("fern", "koopa", "dlinear")
    assert over.ranks.average == (1.0, 3.0, 2.0)
    assert over.words == "fern ranks better than the critical difference asks for"


def test_two_scenarios_are_too_few_for_ranks(store):
    for dataset in "AB":
        put(store, "fern", noise(1), dataset=dataset)
        put(store, "dlinear", noise(2), dataset=dataset)
    assert compare("fern", "dlinear", runs=store).over_scenarios is None


def test_without_errors_of_the_windows_the_difference_is_told_and_not_judged(store):
    put(store, "fern", noise(1), keep=False)
    put(store, "dlinear", noise(2))
    found = compare("fern", "dlinear", runs=store).verdicts[0]
    assert found.test is None
    assert "per-window errors were not kept for fern on A" in found.words


def test_too_few_windows_are_said_to_be_too_few(store):
    put(store, "fern", noise(1, windows=9))
    put(store, "dlinear", noise(2, windows=9))
    assert "got 9 windows, too few to tell" in compare("fern", "dlinear", runs=store).verdicts[0].words


def test_a_damaged_row_is_named_and_left_out(store):
    put(store, "fern", noise(1))
    put(store, "dlinear", noise(2))
    bad = put(store, "koopa", noise(3))
    store.result_path(bad.key).write_text("{")
    found = compare("fern", "dlinear", runs=store)
    assert any(bad.key in note for note in found.notes)
    with pytest.raises(FernError, match=r"unknown model in .* 'koopa'"):
        compare("fern", "koopa", runs=store)


def test_damaged_errors_of_windows_are_named(store):
    bad = put(store, "fern", noise(1))
    put(store, "dlinear", noise(2))
    store.windows_path(bad.key).write_bytes(b"PK nothing")
    assert f"{bad.key}.npz: is damaged" in compare("fern", "dlinear", runs=store).verdicts[0].words


def test_bad_input_is_named(store):
    put(store, "fern", noise(1))
    put(store, "dlinear", noise(2))
    put(store, "pfnn", noise(2), status="diverged", error="nan", metrics={})
    with pytest.raises(FernError, match="did you mean 'dlinear'"):
        compare("fern", "dlinaer", runs=store)
    with pytest.raises(FernError, match="got fern twice"):
        compare("fern", "fern", runs=store)
    with pytest.raises(FernError, match=r"all its runs .* failed or diverged"):
        compare("fern", "pfnn", runs=store)
    with pytest.raises(FernError, match="unknown metric with errors of every window 'wd'"):
        compare("fern", "dlinear", runs=store, metric="wd")
    with pytest.raises(FernError, match=r"unknown task in .* 'mien': did you mean 'mine'"):
        compare("fern", "dlinear", runs=store, task="mien")


@pytest.mark.parametrize(
    ("first", "second", "words"), [(0.5, 1.0, "50 % lower"), (1.05, 1.0, "5 % higher"), (1.0, 0.0, "higher")]
)
def test_differences_are_told_in_words(first, second, words):
    assert difference_in_words(first, second) == words


def test_rows_of_several_tasks_are_not_mixed(store):
    for task in ("mine", "other"):
        put(store, "fern", noise(1), task=task)
        put(store, "dlinear", noise(2), task=task)
    with pytest.raises(FernError, match="has results of the tasks mine, other; choose one with --task"):
        compare("fern", "dlinear", runs=store)
    assert compare("fern", "dlinear", runs=store, task="mine").verdicts[0].seeds == 1


def test_runs_trained_otherwise_are_models_of_their_own(store):
    put(store, "fern", noise(1), train_settings={"epochs": 1})
    put(store, "fern", noise(2, level=0.5), train_settings={"epochs": 50})
    verdict = compare("fern (epochs=50)", "fern (epochs=1)", runs=store).verdicts[0]
    assert verdict.first < verdict.second


def test_three_datasets_on_which_two_models_agree_prove_nothing(store):
    for number, name in enumerate("ABC"):
        put(store, "fern", noise(number), dataset=name)
        put(store, "dlinear", noise(number + 9, level=1.5), dataset=name)
    over = compare("fern", "dlinear", runs=store).over_scenarios
    assert over.ranks.f_p_value == 0.25
    assert over.words == "the 2 models are not distinguishable over 3 datasets"


def test_horizons_of_one_dataset_count_as_one_scenario(store):
    for name in "ABC":
        for horizon in (2, 3, 4, 6):
            put(store, "fern", noise(1), dataset=name, horizon=horizon)
            put(store, "dlinear", noise(2, level=1.5), dataset=name, horizon=horizon)
    over = compare("fern", "dlinear", runs=store).over_scenarios
    assert over.ranks.scenarios == 3
    assert over.ranks.average == (1.0, 2.0)
