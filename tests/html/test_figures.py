"""Figures that can be turned and zoomed: the script once a page, and the still figure always."""

import json
import re
import time

import numpy as np
import pytest
from tests.benchmark.support import row_for, tiny_plan
from tests.html.support import Seen

from fern.benchmark.page import benchmark_page
from fern.benchmark.store import Store
from fern.html.figures import draw_live
from fern.html.markup import join_html
from fern.html.page import Section, page
from fern.plot.forecasts import Fan, Fans
from fern.plot.interactive import has_plotly, plotly_script
from fern.plot.scores import ErrorGrowth

GROWTH = ErrorGrowth({"fern": np.arange(1.0, 25.0)})
needs_plotly = pytest.mark.skipif(not has_plotly(), reason="needs the extra report")


def page_of(*figures):
    parts = [draw_live(one, name=f"f{place}", alt="errors", caption="Errors.") for place, one in enumerate(figures)]
    return page("One", [Section("one", "One", join_html(parts))])


@needs_plotly
def test_the_bundle_stands_once_in_a_page_however_many_figures_it_has():
    made = page_of(GROWTH, GROWTH, GROWTH)
    assert len(re.findall("<script>", made)) == 3
    assert made.count(plotly_script()) == 1
    assert made.count('class="live"') == 3


@needs_plotly
def test_a_page_of_a_live_figure_stays_below_its_limit():
    values = np.random.default_rng(0).normal(size=2000)
    fan = Fan("load", np.arange(2000), values, np.arange(2000, 4000), values)
    assert len(page_of(Fans((fan,) * 3)).encode()) < 6_000_000


def test_a_page_without_a_live_figure_does_not_hold_the_bundle():
    made = page(
        "One", [Section("one", "One", join_html(["text that says <script type='application/json' class='live'>"]))]
    )
    assert len(made) < 40_000
    assert made.count("<script") == 1


@needs_plotly
def test_the_still_figure_is_there_for_print_and_where_no_script_runs():
    seen = Seen(page_of(GROWTH))
    pictures = [given for tag, given in seen.tags if tag == "svg"]
    assert [given["aria-label"] for given in pictures] == ["errors"]


@needs_plotly
def test_the_data_of_a_figure_can_be_read_and_ends_no_script():
    made = draw_live(ErrorGrowth({"</script><b>": np.arange(1.0, 5.0)}), name="f", alt="", caption="")
    held = re.search(r'<script type="application/json" class="live">(.*?)</script>', made, re.S)[1]
    assert "<" not in held
    assert json.loads(held)["data"][0]["name"] == "&lt;/script&gt;&lt;b&gt;"


def test_without_plotly_the_page_has_the_still_figure_and_says_so(monkeypatch):
    monkeypatch.setattr("fern.html.figures.has_plotly", lambda: False)
    made = page_of(GROWTH)
    seen = Seen(made)
    assert made.count("<script") == 1
    assert sum(tag == "svg" for tag, _ in seen.tags) == 1
    assert "pip install 'fern-forecast[report]'" in seen.text


def test_a_report_over_a_hundred_runs_is_quick_and_small():
    store = Store("runs").for_writing()
    run = tiny_plan(models=["dlinear"]).runs[0]
    rng = np.random.default_rng(0)
    for dataset in range(9):
        for model in ("fern", "dlinear", "analog", "polymap", "last-value", "koopa"):
            for seed in (7, 8):
                figures = {"mse": float(rng.random()) + 0.1, "mae": float(rng.random()), "oracle_mse": 0.05}
                store.write(row_for(run, model=model, dataset=f"D{dataset}", seed=seed, task="shock", metrics=figures))
    began = time.process_time()
    made = benchmark_page(store)
    assert time.process_time() - began < 4
    assert len(made.encode()) < 3_000_000
    assert "108 runs" in Seen(made).text
