"""Our results beside published ones: ranks over the same tasks, spread over seeds, and what is not run."""

import math

import pytest
from benchmarks.public.published import published_figures
from benchmarks.public.table import find_place, judge_public, list_models, public_parts, published_means
from benchmarks.public.tasks import TASKS


def result(task, model, *, share, seed=0, **changes):
    """A model whose figures are this share of the published seasonal naive's."""
    metrics = {"MASE_error": 0.1, "coverage_80": 0.8, "SQL": 1.0}
    for benchmark in ("fev", "gift", "chronos"):
        if benchmark in TASKS[task].published:
            naive = published_figures(benchmark, TASKS[task])["seasonal_naive"].metrics
            metrics |= {name: share * value for name, value in naive.items()}
    about = {"windows": 1, "series": 8, "spread_over": "series", "fit_seconds": 5.0, "predict_seconds": 1.0}
    return {"task": task, "model": model, "seed": seed, "metrics": metrics, **about, **changes}


def test_a_model_is_ranked_over_the_tasks_that_it_has_run_on():
    results = [result("ETTh", "fern", share=0.1), result("exchange_rate", "fern", share=0.1)]
    place = find_place("chronos", "fern", results)
    assert (place.tasks, place.rank) == (2, 1)
    assert place.relative == pytest.approx((0.1, 0.1))
    assert place.best_relative[1] == min(
        relative[1] for relative in published_means("chronos", [TASKS["ETTh"], TASKS["exchange_rate"]]).values()
    )
    assert find_place("fev", "fern", results) is None


def test_means_are_geometric_and_over_seeds_first():
    results = [result("ETTh", "fern", share=0.5), result("ETTh", "fern", share=0.7, seed=1)]
    results.append(result("exchange_rate", "fern", share=0.4))
    assert find_place("chronos", "fern", results).relative[0] == pytest.approx(math.sqrt(0.6 * 0.4))


def test_models_that_were_trained_on_a_task_are_not_ranked_there():
    assert "moirai_large" in published_means("chronos", [TASKS["ETTh"]])
    assert "moirai_large" not in published_means("chronos", [TASKS["ETTh"], TASKS["hospital"]])
    assert "chronos_bolt_small" not in published_means("gift", [TASKS["m4_hourly"]])


def test_tables_show_the_spread_over_seeds_and_what_is_not_run():
    results = [result("ETTh", "fern", share=0.5), result("ETTh", "fern", share=0.7, seed=1)]
    results += [result("ETTh", "seasonal-naive", share=1.0), result("hospital", "seasonal-naive", share=1.0)]
    assert list_models(results) == ["fern", "seasonal-naive"]
    parts = {part.title: part.markdown() for part in public_parts(results)}
    line = next(line for line in parts["Chronos Benchmark II, task by task"].splitlines() if "| ETTh |" in line)
    assert "0.559 ± 0.13 /" in line
    line = next(line for line in parts["Chronos Benchmark II, task by task"].splitlines() if "| hospital |" in line)
    assert line.split(" | ")[1] == "not run"
    ranks = parts["Chronos Benchmark II, ranks"]
    assert "not run on all: fern" in ranks
    assert "**Fern: seasonal-naive** | 1.000 | 1.000" in ranks


def test_a_verdict_has_our_models_and_the_best_published_one_but_not_the_baseline():
    results = [result("epf_NP", "fern", share=0.5), result("epf_NP", "seasonal-naive", share=1.0)]
    (sentence,) = judge_public(results)
    assert "`fern` 0.500 / 0.500 (rank " in sentence
    assert "6 s a task); best published TiRex-2 0.452 / 0.400" in sentence
    assert "seasonal-naive" not in sentence
