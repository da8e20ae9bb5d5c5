"""The pages in headless Chromium: they are quiet, ask for nothing, sort, fit the screen, and show their figures."""

import os
import shutil
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from tests.benchmark.support import row_for, tiny_plan

from fern.benchmark.page import benchmark_page
from fern.benchmark.store import Store
from fern.cli.demo import demo
from fern.data import audit
from fern.data.auditing.audit import audit_source
from fern.data.auditing.page import audit_page, find_repairs
from fern.data.reading import table_source
from fern.forecaster import FernForecaster
from fern.html.figures import draw_live
from fern.html.markup import Head, join_html, listing
from fern.html.page import Section, page
from fern.plot import Attractor, CoverageOverTime, ErrorGrowth, Fan, Fans, Interval, Joint

pytestmark = pytest.mark.browser
HOSTILE = "<script>document.title='owned'</script>"
LINK = '<a href="https://example.org/">here</a> <b>bold</b>'


def of_rows():
    store = Store("runs").for_writing()
    rng = np.random.default_rng(0)
    for run in tiny_plan(seeds=[7, 8]).runs:
        for place, dataset in enumerate(("OU_BASE", "OU_PARAM", "GARCH_BASE", HOSTILE)):
            mse = {"dlinear": 1.0, "last-value": 2.0, "oracle": 0.5}[run.settings.model] + place
            errors = {name: np.float32(mse + 0.1 * rng.normal(size=80)) for name in ("mse", "mae")}
            figures = {"mse": mse, "wd": mse / 2, "oracle_mse": 0.5 + place}
            store.write(row_for(run, dataset=dataset, task="shock", metrics=figures), errors)
    return benchmark_page(store)


def table():
    hours = np.arange(600)
    stamps = np.datetime64("2024-01-01") + hours.astype("timedelta64[h]").astype("timedelta64[s]")
    load = 100 + 10 * np.sin(hours * 2 * np.pi / 24) + np.random.default_rng(0).normal(size=600)
    return pa.table({"ds": pa.array(stamps.astype("datetime64[s]")), HOSTILE: load, "load": load[::-1]})


def of_audit():
    load = np.where(np.arange(600) % 90 < 5, 0.0, np.arange(600) + 1.0)
    source = table_source(table().append_column(f"{HOSTILE} zeros", pa.array(load)), name=HOSTILE)
    report = audit_source(source)
    return audit_page(report, repairs=find_repairs(source, report))


def of_live():
    """Every figure that can be turned or zoomed, with foreign text in all of its names."""
    cloud = np.random.default_rng(0).normal(size=(300, 3)).cumsum(axis=0)
    paths = np.random.default_rng(0).normal(size=(200, 12)).cumsum(axis=1)
    steps = np.arange(1.0, 13.0)
    stamps = np.datetime64("2024-01-01T00:00:00") + np.arange(36) * np.timedelta64(3600, "s")
    fan = Fan(
        HOSTILE, stamps[:24], np.sin(np.arange(24.0)), stamps[24:], np.sin(steps), (Interval(-steps, steps, 80.0),),
        Interval(-2 * steps, 2 * steps, 80.0), Joint.of(paths, (6, 12), levels=(80.0,)),
    )  # fmt: skip
    shown = [
        Attractor.of(cloud, cloud, np.arange(300.0), channel_names=(HOSTILE, "y", "z")),
        Attractor.of(cloud[:, :2], cloud[:, :2], np.arange(300.0), channel_names=(HOSTILE, LINK)),
        ErrorGrowth({HOSTILE: steps, LINK: 2 * steps}, steps / 9, lyapunov_times_a_step=0.1),
        CoverageOverTime(90.0, np.arange(12), 0.8 + steps / 100, 0.06, 40, 25.0),
        Fans((fan, fan), label=LINK, left_out=3),
    ]
    parts = [draw_live(one, name=f"live-{place}", alt=HOSTILE, caption=LINK) for place, one in enumerate(shown)]
    rows = listing([Head("name"), Head("n", numeric=True)], [["a", "1"], ["b", "2"]], caption="rows")
    return page(HOSTILE, [Section("one", HOSTILE, join_html([*parts, rows]))])


def of_forecast():
    forecaster = FernForecaster(12, context_length=48, epochs=1, threads=1, progress="silent").fit(table())
    return forecaster.report(name=HOSTILE, audit=audit(table()))


def of_demo():
    demo(out=Path("demo"), epochs=1, seed=7, steps=6_000)
    return Path("demo/report.html").read_text(encoding="utf-8")


PAGES = {"rows": of_rows, "audit": of_audit, "forecast": of_forecast, "live": of_live, "demo": of_demo}


@pytest.fixture(scope="module")
def chromium():
    api = pytest.importorskip("playwright.sync_api", reason="make test-browser installs playwright")
    path = os.environ.get("FERN_CHROMIUM") or shutil.which("chromium")
    if path is None:
        pytest.skip("no chromium; make test-browser installs it")
    with api.sync_playwright() as started:
        browser = started.chromium.launch(executable_path=path, args=["--no-sandbox"])
        yield browser
        browser.close()


@pytest.fixture(scope="module", params=PAGES.values(), ids=PAGES)
def file(request, tmp_path_factory):
    folder = tmp_path_factory.mktemp("page")
    before = Path.cwd()
    os.chdir(folder)
    try:
        (folder / "page.html").write_text(request.param(), encoding="utf-8")
    finally:
        os.chdir(before)
    return folder / "page.html"


class Opened:
    """A page as it was opened, and all that it said and asked for."""

    def __init__(self, browser, file, *, width=1280, scheme="light", media="screen", script=True):
        self.context = browser.new_context(
            viewport={"width": width, "height": 900}, color_scheme=scheme, java_script_enabled=script
        )
        self.page, self.said, self.asked = self.context.new_page(), [], []
        # A graphics driver's advice on speed is no word of the page.
        self.page.on("console", lambda message: message.type == "error" and self.said.append(message.text))
        self.page.on("pageerror", lambda error: self.said.append(str(error)))
        self.page.on("request", lambda request: self.asked.append(request.url))
        self.page.emulate_media(media=media, color_scheme=scheme)
        self.page.goto(file.as_uri())

    def scroll(self):
        """Go down the page, so that every figure is drawn, and back."""
        height = self.page.evaluate("document.documentElement.scrollHeight")
        for place in range(0, height + 600, 600):
            self.page.evaluate(f"window.scrollTo(0, {place})")
            self.page.wait_for_timeout(50)
        self.page.evaluate("window.scrollTo(0, 0)")
        there = "[...document.querySelectorAll('figure.moves .plotly')].every(one => one.querySelector('.main-svg'))"
        self.page.wait_for_function(there)

    def __enter__(self):
        return self

    def __exit__(self, *exception):
        self.context.close()


@pytest.mark.parametrize("width", [390, 1280])
@pytest.mark.parametrize(("scheme", "media"), [("light", "screen"), ("dark", "screen"), ("light", "print")])
def test_a_page_is_quiet_asks_for_nothing_and_fits(chromium, file, width, scheme, media):
    with Opened(chromium, file, width=width, scheme=scheme, media=media) as opened:
        assert opened.said == []
        assert opened.asked == [file.as_uri()]
        assert "owned" not in opened.page.title().split("<")[0]
        if media == "screen":
            opened.scroll()
            assert opened.page.evaluate("document.documentElement.scrollWidth") <= width
            assert opened.said == []
            assert opened.asked == [file.as_uri()]


def test_every_figure_has_a_size(chromium, file):
    sizes = """selector => [...document.querySelectorAll(selector)]
        .map(one => one.getBoundingClientRect()).map(box => [box.width, box.height])"""
    with Opened(chromium, file) as opened:
        opened.scroll()
        still = opened.page.evaluate(sizes, "figure:not(.moves) .still svg, svg.plot")
        moving = opened.page.evaluate(sizes, "figure.moves .plotly")
        assert still + moving
        assert all(width > 40 and height > 20 for width, height in still)
        assert all(width > 300 and height > 200 for width, height in moving)


def test_figures_that_move_are_drawn_by_plotly_and_the_still_ones_are_printed(chromium, file):
    shown = "selector => [...document.querySelectorAll(selector)].map(one => getComputedStyle(one).display)"
    with Opened(chromium, file) as opened:
        page = opened.page
        opened.scroll()
        held = page.locator("script.live").count()
        assert page.locator("figure.moves").count() == held
        assert set(page.evaluate(shown, "figure.moves .still")) <= {"none"}
        page.emulate_media(media="print")
        assert set(page.evaluate(shown, "figure.moves .moving")) <= {"none"}
        assert "none" not in page.evaluate(shown, "figure .still")


def test_foreign_text_stays_text_in_a_figure_that_moves(chromium, file):
    with Opened(chromium, file) as opened:
        opened.scroll()
        links = opened.page.evaluate(
            "[...document.querySelectorAll('.plotly a')].map(one => String(one.href.baseVal ?? one.href))"
        )
        assert [link for link in links if link] == []
        assert opened.page.locator(".plotly b, .plotly script").count() == 0
        told = " ".join(opened.page.locator(".plotly text").all_text_contents())
        if opened.page.locator("script.live").count() == 5:
            assert HOSTILE in told
            assert LINK in told
        assert "owned" not in opened.page.title().split("<")[0]


def test_each_header_sorts_in_both_directions(chromium, file):
    column = """([table, place]) => [...document.querySelectorAll('table.sortable')[table].tBodies[0].rows]
        .map(row => row.cells[place].dataset.sort ?? row.cells[place].textContent.trim())"""
    with Opened(chromium, file) as opened:
        page = opened.page
        page.evaluate("for (const one of document.querySelectorAll('details')) one.open = true")
        for table in range(page.locator("table.sortable").count()):
            heads = page.locator("table.sortable").nth(table).locator("thead th")
            for place in range(heads.count()):
                numeric = "n" in (heads.nth(place).get_attribute("class") or "").split()
                for direction in ("ascending", "descending"):
                    heads.nth(place).locator("button").evaluate("button => button.click()")
                    assert heads.nth(place).get_attribute("aria-sort") == direction
                    shown = page.evaluate(column, [table, place])
                    there = [value for value in shown if value != ""]
                    assert shown == there + [""] * (len(shown) - len(there))  # what is missing comes last
                    if numeric:
                        numbers = [float(value.replace(",", "")) for value in there]
                        assert numbers == sorted(numbers, reverse=direction == "descending")
                    elif len(set(there)) > 1:
                        first, last = there[0].casefold(), there[-1].casefold()
                        assert first != last
        assert opened.said == []


def test_tables_can_be_filtered_by_words_and_by_metric(chromium, file):
    with Opened(chromium, file) as opened:
        page = opened.page
        if not page.locator("table.filterable").count():
            return
        table = page.locator("table.filterable").first
        name = table.locator("tbody tr").last.locator("th").inner_text()
        page.locator(".controls input").first.fill(name)
        shown = table.locator("tbody tr:not([hidden])")
        assert 0 < shown.count() < table.locator("tbody tr").count() or table.locator("tbody tr").count() == 1
        assert all(name.lower() in text.lower() for text in shown.all_inner_texts())
        if page.locator(".controls select").count():
            page.locator(".controls select").first.select_option("WD")
            heads = table.locator("thead th:not([hidden])").all_inner_texts()
            assert any("WD" in head for head in heads)
            assert not any(head.startswith("MSE") for head in heads)


def test_tables_are_readable_without_the_script(chromium, file):
    with Opened(chromium, file, script=False) as opened:
        heads = opened.page.locator("table thead th").all_inner_texts()
        assert heads
        assert any(head for head in heads)
        assert opened.page.locator("button").count() == 0


def test_a_policy_that_is_tried_holds(chromium, file):
    with Opened(chromium, file) as opened:
        ran = opened.page.evaluate(
            """async () => {
                const script = document.createElement('script');
                script.textContent = 'window.ran = true';
                document.body.append(script);
                const left = await fetch('http://127.0.0.1:9/').then(() => true, () => false);
                return [Boolean(window.ran), left];
            }"""
        )
        assert ran == [False, False]
        assert any("Content Security Policy" in text for text in opened.said)
