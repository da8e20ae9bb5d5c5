"""Every page is whole, leads nowhere, and runs one script; foreign text stays text on all of them."""

import base64
import hashlib
import io
import re
from functools import cache

import numpy as np
import pyarrow as pa
import pytest
from tests.benchmark.support import row_for, tiny_plan
from tests.html.support import Seen

from fern.benchmark.page import benchmark_page
from fern.benchmark.store import Store
from fern.benchmark.tables.build import Column, Line, Table
from fern.benchmark.tables.cells import Cell
from fern.benchmark.tables.rendering import render
from fern.data import audit
from fern.data.auditing.audit import audit_source
from fern.data.auditing.page import audit_page, find_repairs
from fern.data.reading import table_source
from fern.diagnostics import Alarm, EigenProfile
from fern.errors import FernError
from fern.forecaster.report import Profile, render_coverage, render_diagnostics, render_forecast, render_importance
from fern.html.figures import draw_live, drawing
from fern.html.markup import Entry, Head, element, join_html, listing
from fern.html.page import Section, content_security_policy, page
from fern.plot.attractor import Attractor
from fern.plot.coverage import CoverageOverTime, Covered
from fern.plot.forecasts import Fan, Fans, Joint, fan_figure
from fern.plot.scores import ErrorGrowth

HOSTILE = (
    "<script>alert(1)</script>"
    "</script><script>alert(1)</script>"
    '"><img src=x onerror=alert(1)>'
    "' onmouseover='alert(1)"
    "</svg><script>alert(1)</script>"
    "</style><style>*{display:none}"
    "&lt;script&gt;<!--"
)


TWO_STEPS = Joint.of(np.random.default_rng(0).normal(size=(50, 4)), (1, 4), levels=(80.0,))


def of_rows(name):
    store = Store("runs").for_writing()
    plan = tiny_plan(models=["dlinear", "last-value"])
    for run, model in zip(plan.runs, (name, "plain"), strict=True):
        store.write(row_for(run, model=model, dataset=f"{name} data", task=name, metrics={"mse": 1.0}))
    store.write(row_for(plan.runs[0], model="third", task=name, status="failed", error=f"it said {name}", metrics={}))
    return benchmark_page(store)


def of_audit(name):
    return audit_page(audit(pa.table({"unique_id": [name] * 40, "ds": np.arange(40), "y": np.arange(1.0, 41.0)})))


def of_columns(name):
    return audit_page(audit(pa.table({name: np.arange(1.0, 41.0)})))


def of_table(name):
    line = Line((name,), (Cell(mean=1.0, done=1, place=1),))
    return render(Table(name, (name,), (Column("mse", name),), (line,), notes=(name,)), "html")


def of_figure(name):
    values = np.arange(8.0)
    fan = Fan(name, np.arange(8), values, np.arange(8, 12), values[:4])
    drawn = fan_figure(Fans((fan,), label=name))
    return page(name, [Section("one", name, drawing(drawn, name="fan", alt=name, caption=name))], lead=name)


def of_repairs(name):
    load = np.where(np.arange(300) % 50 < 4, 0.0, np.arange(300) + 1.0)
    hours = np.datetime64("2024-01-01", "ns") + np.arange(300) * np.timedelta64(1, "h")
    source = table_source(pa.table({"ds": hours, name: load}), name=name)
    report = audit_source(source)
    return audit_page(report, repairs=find_repairs(source, report))


def of_forecast(name):
    values, flat = np.arange(8.0), np.ones((30, 1))
    alarm = Alarm("variance collapse", 0, 5, 9, 0.5, 0.1)
    fans = Fans((Fan(name, np.arange(8), values, np.arange(8, 12), values[:4], joint=TWO_STEPS),), label=name)
    course = CoverageOverTime(90.0, np.arange(8), np.full(8, 0.8), 0.05, 4, 4.0)
    covered = [Covered(name, 90.0, 0.8, 0.05, 40.0)]
    profile = Profile(name, EigenProfile(0, flat, flat, flat, flat, flat, flat), 0, (alarm,))
    parts = {
        "Forecast": render_forecast(fans, pa.table({name: [name], "Fern": [1.0]}), notes=[name], made_by=name),
        "Coverage": render_coverage(covered, course=course, pit=np.full(20, 0.05)),
        "Covariates": render_importance([(name, 0.5, 0.1)]),
        "Diagnostics": render_diagnostics([profile], pa.table({"rule": [name], "lift": [1.0]})),
    }
    return page(name, [Section(title.lower(), title, part) for title, part in parts.items()], lead=name)


def of_live(name):
    """Every figure that can be turned or zoomed, with foreign names wherever they may stand."""
    cloud = np.random.default_rng(0).normal(size=(30, 3))
    shown = [
        Attractor.of(cloud[:, :2], cloud[:, :2], np.ones(30), channel_names=(name, name)),
        ErrorGrowth({name: np.arange(1.0, 9.0)}, oracle=np.ones(8), lyapunov_times_a_step=0.1),
        Fans((Fan(name, np.arange(8), cloud[:8, 0], np.arange(8, 12), cloud[:4, 1]),) * 2, label=name, left_out=3),
    ]
    parts = [draw_live(one, name=f"live-{place}", alt=name, caption=name) for place, one in enumerate(shown)]
    return page(name, [Section("one", name, join_html(parts))])


PAGES = {
    "forecast": of_forecast,
    "rows": of_rows,
    "series": of_audit,
    "columns": of_columns,
    "table": of_table,
    "figure": of_figure,
    "repairs": of_repairs,
    "live": of_live,
}


@cache
def plain_page(made):
    return made("plain")


def scripts_of(text):
    """The scripts that a page runs; data for them is none."""
    return re.findall(r"<script>(.*?)</script>", text, re.S)


@pytest.mark.filterwarnings("ignore:constrained_layout")  # so long a name leaves a figure no room
@pytest.mark.parametrize("made", PAGES.values(), ids=PAGES)
def test_foreign_text_stays_text_on_every_page(made):
    text = made(HOSTILE)
    seen = Seen(text)
    kinds = {tag for tag, _ in seen.tags}
    assert not kinds & {"img", "iframe", "object", "embed", "form", "link", "base"}
    running = [given for tag, given in seen.tags if tag == "script" and given.get("type") != "application/json"]
    assert len(running) == len(scripts_of(text)) in (1, 3)
    assert not [given for given in running if given]
    assert [tag for tag, _ in seen.tags].count("style") == 1
    assert not [key for _, given in seen.tags for key in given if key.startswith("on")]
    assert HOSTILE in seen.text


@pytest.mark.parametrize("made", PAGES.values(), ids=PAGES)
def test_no_page_leads_anywhere_and_every_link_within_it_has_an_end(made):
    seen = Seen(plain_page(made))
    named = [given["id"] for _, given in seen.tags if "id" in given]
    assert len(named) == len(set(named))
    for _, given in seen.tags:
        for key in ("href", "src", "xlink:href"):
            if key in given:
                assert given[key].startswith(("#", "data:"))
                assert not given[key].startswith("#") or given[key][1:] in named


@pytest.mark.parametrize("made", PAGES.values(), ids=PAGES)
def test_the_policy_lets_nothing_leave_and_names_the_script_by_its_hash(made):
    text = plain_page(made)
    policy = next(given["content"] for tag, given in Seen(text).tags if given.get("http-equiv"))
    scripts = scripts_of(text)
    digests = [base64.b64encode(hashlib.sha256(script.encode()).digest()).decode() for script in scripts]
    rules = dict(rule.split(" ", 1) for rule in policy.split("; "))
    assert rules["default-src"] == "'none'"
    assert rules["script-src"] == " ".join(f"'sha256-{digest}'" for digest in digests)
    assert policy == content_security_policy(scripts)


@pytest.mark.parametrize(
    ("tag", "attributes"),
    [("a", {"href": "https://x"}), ("a", {"href": "data:text/html;base64,"}), ("p", {"onclick": "x"}), ("b c", {})],
)
def test_markup_that_could_lead_out_or_run_is_refused(tag, attributes):
    with pytest.raises(FernError):
        element(tag, attributes)


def test_a_table_keeps_what_it_is_sorted_by():
    made = listing(
        [Head("a"), Head("b", numeric=True)], [["x", Entry("1,000", 1000.0)], ["y", Entry("–", "")]], caption="c"
    )
    cells = [given.get("data-sort") for tag, given in Seen(made).tags if tag == "td"]
    assert cells == ["1000.0", ""]


def test_a_figure_is_drawn_with_identifiers_of_its_own():
    values = np.arange(8.0)
    fan = Fan("load", np.arange(8), values, np.arange(8, 12), values[:4])
    both = [Seen(drawing(fan_figure(Fans((fan,))), name=name, alt="fan")) for name in ("first", "second")]
    names = [{given["id"] for _, given in seen.tags if "id" in given} for seen in both]
    assert names[0]
    assert not names[0] & names[1]


def test_a_figure_in_a_page_is_the_same_every_time():
    values = np.arange(8.0)
    fan = Fan("load", np.arange(8), values, np.arange(8, 12), values[:4])
    made = {drawing(fan_figure(Fans((fan,))), name="fan", alt="fan") for _ in range(2)}
    assert len(made) == 1
    assert io.StringIO(made.pop()).read().startswith("<figure")
