"""The gallery: a hook of mkdocs that draws every figure while the site is built, by the functions of the reports.

Results are small and made here: a Lorenz system that a small Fern learns in seconds, a table, and the committed rows of
the benchmark. ``<!-- figure: name -->`` in gallery.md becomes the picture, ``<!-- page: name -->`` a link to a page.
"""

import io
import re
import warnings
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import torch

from fern import plot as figures
from fern.benchmark.leaderboard import board_of
from fern.benchmark.problem import Problem, load_dataset
from fern.benchmark.store import Store
from fern.benchmark.stress import shock_response
from fern.benchmark.tables.cells import Spot
from fern.benchmark.tables.ranking import standings
from fern.benchmark.tasks import ORACLE, DatasetChoice, read_task
from fern.cli.demo_page import Findings, errors_by_step, findings_of, window_figures
from fern.data import audit, clean
from fern.data.auditing.audit import audit_source
from fern.data.auditing.page import audit_page, find_repair, find_repairs
from fern.data.reading import table_source
from fern.data.samples import sample_load
from fern.diagnostics import detect_alarms
from fern.forecaster import FernForecaster
from fern.models import Forecaster, build_model
from fern.plot.scores import CaseErrors, ModelErrors
from fern.synthetic import FAMILIES, generate
from fern.training import TrainConfig, train

if TYPE_CHECKING:
    from matplotlib.figure import Figure

ROWS = Path(__file__).parents[2] / "benchmarks" / "runs"
CONTEXT_LENGTH, HORIZON, STEPS = 96, 48, 9000
FITTED = ("dlinear", "analog")


@cache
def problem() -> Problem:
    """Forecasts of a Lorenz system whose parameters change."""
    choice = DatasetChoice(dataset="LORENZ_PARAM", steps=STEPS)
    return Problem(load_dataset(choice), "shock", "none", CONTEXT_LENGTH, HORIZON)


@cache
def trained() -> tuple[dict[str, Forecaster], Any]:
    """Fern and two others, briefly, and the history of Fern's epochs."""
    asked, made, history = problem(), {}, None
    for name in ("fern", *FITTED):
        extra = {"latent": 12, "smoothing": 5} if name == "fern" else {}
        sizes = {"context_length": CONTEXT_LENGTH, "horizon": HORIZON, "channels": asked.values.shape[1]}
        made[name] = build_model(name, **sizes, **extra)
        config = TrainConfig(preset="default", epochs=6, seed=7, threads=1, patience=6)
        test = asked.test if name == "fern" else None
        result = train(made[name], asked.train, asked.validation, config, windows_test=test, progress="silent")
        made[name].eval()
        history = result.history if name == "fern" else history
    return made, history


@cache
def found() -> Findings:
    """The calibration, coverage and profile of Fern's distribution."""
    return findings_of(trained()[0]["fern"], problem())


@cache
def forecaster() -> FernForecaster:
    """A forecaster of a table."""
    made = FernForecaster(48, context_length=168, epochs=4, seed=7, threads=1, progress="silent")
    return made.fit(sample_load(70, temperature=True))


def trajectory() -> "Figure":
    """A simulated series around its shock, and the attractor before and after."""
    known = problem().dataset.trajectory
    assert known is not None
    return figures.trajectory_figure(known)


def forecast() -> "Figure":
    """A test window: each model's forecast beside what came."""
    return window_figures(trained()[0], problem(), found(), title="")[0]


def mechanism() -> "Figure":
    """What the map does in that window, patch by patch."""
    return window_figures(trained()[0], problem(), found(), title="")[1]


def attractor() -> "Figure":
    """The test part and its reconstruction."""
    profile, names = found().profile, problem().dataset.channel_names
    shown = figures.Attractor.of(profile.truth, profile.forecast, profile.spectral_radius, channel_names=names, dt=0.01)
    return figures.attractor_figure(shown)


def diagnostics() -> "Figure":
    """The stack of diagnostics with its alarms."""
    profile = found().profile
    alarms = tuple(detect_alarms(profile, found().rules))
    return figures.diagnostics_figure(profile, alarms=alarms, rows=slice(0, 600))


def error_growth() -> "Figure":
    """Errors by step against the oracle."""
    errors = errors_by_step(trained()[0], problem())
    oracle = errors.pop("oracle")
    return figures.error_growth_figure(figures.ErrorGrowth(errors, oracle, lyapunov_times_a_step=0.01 * 0.9))


def coverage() -> "Figure":
    """Coverage of every kind of region, and the PIT."""
    return figures.coverage_figure(found().covered, pit=found().pit)


def coverage_over_time() -> "Figure":
    """Coverage as time goes on."""
    return figures.coverage_over_time_figure(found().course)


def training_curves() -> "Figure":
    """Errors by epoch, and the epochs that validation and test choose."""
    return figures.training_curves_figure([figures.TrainingCurve.of("fern", trained()[1])])


def fan() -> "Figure":
    """A forecast with its intervals, its band and two steps together."""
    return forecaster().plot(band=True, joint=(24, 48))


def faulty_table() -> pa.Table:
    """A table with zeros and a sensor that is stuck."""
    table = sample_load(70, temperature=True)
    raw = table["load"].to_numpy().copy()
    raw[1200:1203], raw[1300:1312], raw[1450], raw[1500:1540] = 0.0, 0.0, 0.0, raw[1500]
    return table.set_column(1, "load", pa.array(raw))


def importance() -> "Figure":
    """What the temperature and a column of noise are worth in a forecast of the load."""
    table = sample_load(70, temperature=True)
    noise = np.random.default_rng(7).normal(size=table.num_rows)
    columns = ["temperature", "noise"]
    made = FernForecaster(24, model="dlinear", epochs=2, seed=7, progress="silent", futr_exog_list=columns)
    return made.fit(table.append_column("noise", pa.array(noise)), target_col="load").plot_importance()


def repair() -> "Figure":
    """A column with zeros and a stuck sensor, cleaned, and as a model reconstructs it."""
    table = faulty_table()
    raw = table["load"].to_numpy()
    cleaned, log = clean(table)
    model = forecaster()._require_fitted()
    profile, scale = model.findings.profiled[0].profile, next(iter(model.scales.values()))  # type: ignore[union-attr]
    made = np.full(len(raw), np.nan)
    made[profile.first_row : profile.first_row + len(profile)] = scale.invert(profile.forecast)[:, 0]
    shown = find_repair(
        raw,
        cleaned["load"].to_numpy(),
        log,
        column="load",
        when=table["time"].to_numpy(),
        stuck_after=24,
        reconstruction=made,
    )
    return figures.repair_figure(shown.cut(slice(1150, 1680)))


def shock() -> "Figure":
    """Errors around a shock, and of the twin without it."""
    known = problem().dataset.trajectory
    assert known is not None
    model = trained()[0]["dlinear"]

    def forecast_of(past: Any) -> Any:
        with torch.no_grad():
            return model(torch.as_tensor(past, dtype=torch.float32)).mean.numpy()

    sizes = {"context_length": CONTEXT_LENGTH, "horizon": HORIZON}
    return figures.shock_response_figure(shock_response(forecast_of, known, stride=4, **sizes), name="dlinear")


def errors() -> "Figure":
    """Every seed of every model on one dataset, beside the paper and the oracle."""
    board = board_of(
        "shock", [row for row in Store(ROWS).contents().results if row.task == "shock"], read_task("shock")
    )
    case = next(case for case in board.grid.cases if case[0] == "OU_PARAM")
    shown = [
        ModelErrors(
            model,
            tuple(row.metrics["mse"] for row in board.grid.runs(case, model) if row.status == "done"),
            board.paper(Spot(*case, model, "mse")),
        )
        for model in board.lines(case)
    ]
    oracle = next((one.mean for one in shown if one.model == ORACLE and one.errors), None)
    return figures.errors_figure(
        [CaseErrors("OU_PARAM", tuple(one for one in shown if one.errors and one.model != ORACLE), oracle)]
    )


def critical_difference() -> "Figure":
    """Average ranks over the committed rows."""
    board = board_of(
        "shock", [row for row in Store(ROWS).contents().results if row.task == "shock"], read_task("shock")
    )
    placed = standings(board.grid)
    ranks = [(one.model, one.rank) for one in placed.models if one.rank is not None]
    assert placed.critical_difference is not None
    return figures.critical_difference_figure(ranks, critical_difference=placed.critical_difference, alike=placed.alike)


def families() -> "Figure":
    """Six series of each synthetic family."""
    drawn = {name: generate(6, length=512, seed=5, only=[name]).values for name in FAMILIES}
    return figures.families_figure({name: list(values) for name, values in drawn.items()})


FIGURES: dict[str, Callable[[], "Figure"]] = {
    "trajectory_figure": trajectory,
    "forecast_figure": forecast,
    "attractor_figure": attractor,
    "error_growth_figure": error_growth,
    "mechanism_figure": mechanism,
    "diagnostics_figure": diagnostics,
    "fan_figure": fan,
    "importance_figure": importance,
    "coverage_figure": coverage,
    "coverage_over_time_figure": coverage_over_time,
    "repair_figure": repair,
    "training_curves_figure": training_curves,
    "shock_response_figure": shock,
    "errors_figure": errors,
    "critical_difference_figure": critical_difference,
    "families_figure": families,
}
"""The function of `fern.plot` that draws each, and what is drawn of it."""


def _forecast_page() -> str:
    made = forecaster()
    return made.report(name="load.csv", audit=audit(sample_load(70, temperature=True)))


def _audit_page() -> str:
    source = table_source(faulty_table(), name="load.csv")
    report = audit_source(source)
    return audit_page(report, repairs=find_repairs(source, report))


PAGES: dict[str, Callable[[], str]] = {"forecast": _forecast_page, "audit": _audit_page}


def on_files(files: Any, config: Any) -> Any:
    """Adds the pictures, and the pages that are shown as examples."""
    from mkdocs.structure.files import File

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for name, draw in FIGURES.items():
            held = io.BytesIO()
            draw().savefig(held, format="png", dpi=110)
            files.append(File.generated(config, f"gallery/{name}.png", content=held.getvalue()))
        for name, make in PAGES.items():
            files.append(File.generated(config, f"gallery/{name}-page.html", content=make()))
    return files


def on_page_markdown(markdown: str, page: Any, config: Any, files: Any) -> str:
    """Puts pictures and links into the page of the gallery."""
    if page.file.src_path != "gallery.md":
        return markdown
    shown = re.sub(
        r"<!-- figure: (\w+) -->",
        lambda found: f"![{(FIGURES[found[1]].__doc__ or '').rstrip('.')}](gallery/{found[1]}.png)",
        markdown,
    )
    return re.sub(r"<!-- page: (\w+) -->", lambda found: f"[Open it](gallery/{found[1]}-page.html).", shown)
