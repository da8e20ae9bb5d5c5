"""``python -m benchmarks.results``: write docs/results.md and the README's table from the committed rows.

No figure there is typed by hand.
"""

import json
import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from benchmarks.sections import analyses, evidence, real, rivals
from benchmarks.sections.laws import coverage, ways_to_train
from fern.benchmark.rows import Row
from fern.benchmark.store import Store
from fern.benchmark.tasks import read_task
from fern.report.tables.rendering import render
from fern.report.tables.tables import build_table
from fern.systems import SCENARIOS

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "results.md"
README = ROOT / "README.md"
MARKS = ("<!-- results: python -m benchmarks.results -->\n", "<!-- end of results -->")
COVERAGE_MARKS = ("<!-- coverage: python -m benchmarks.results -->\n", "<!-- end of coverage -->")

HEAD = """# Results

This page is written by `python -m benchmarks.results` from the committed rows: `benchmarks/runs/rows/`, and
`results/` in `benchmarks/forecasters/`, `laws/`, `rivals/`, `accuracy/` and `speed/`. Each row holds its command or its
settings; those of the benchmark also seed, data fingerprint, versions and machine. A test checks that page and rows
agree.
"""

HEADLINE = ("fern", "dlinear", "analog", "polymap", "last-value", "oracle")
SIMPLER = ("dlinear", "analog", "polymap", "last-value")
ORDER = tuple(choice.dataset for choice in read_task("shock").datasets)
SYSTEMS_PER_FAMILY = 2
EXPLAINED = """\
Test MSE at context 336, horizon 336, seed 7, by the paper's protocol; in brackets the paper's number, and ours divided
by it. `polymap` sees all channels, the other models only the one they forecast; `analog` and `polymap` are fitted in
seconds. regret = (MSE − oracle MSE) / training variance, of the best model. The rows are chosen by a rule, not by who
wins: the first two systems of each family (flows, diffusions, recursions), without a shock, and the real series, as far
as every model has run. Command: `fern bench run shock --models
fern,dlinear,analog,polymap,last-value,oracle --seeds 7 --out benchmarks/runs`.
"""
TRAINED = """\
The same Fern on the same series by our default training (`fern bench run training --out benchmarks/runs`), MSE beside
the paper's protocol. """
NOISY = """\
Chaotic flows seen with observation noise (a share of each channel's standard deviation), judged by the true rows, of
the models that have run (`fern bench run noise --out benchmarks/runs`):

"""
TASKS = ("shock", "detailed", "ablation", "recency", "footprint")


def readme() -> str:
    """The README with its table: at most eight datasets, with the oracle's and the paper's figures."""
    text = _between(README.read_text(), MARKS, _headline())
    covered = evidence.covered_in_words(_rows("laws", within="coverage"), _rows("laws", within="single"))
    return _between(text, COVERAGE_MARKS, covered)


def _between(text: str, marks: tuple[str, str], new: str) -> str:
    """The text with what stands between the marks replaced."""
    before, _, rest = text.partition(marks[0])
    return f"{before}{marks[0]}{new}{marks[1]}{rest.partition(marks[1])[2]}"


def headline_datasets() -> list[str]:
    """The rows of the README's table, by a rule that does not look at results.

    Of each family of systems (flows, diffusions, recursions) the first two systems in the order of the task, without a
    shock; and every real series.
    """
    taken: Counter[type] = Counter()
    chosen = []
    for name in ORDER:
        plan = SCENARIOS.get(name)
        if plan is None:
            chosen.append(name)
        elif not plan.shocks and taken[type(plan.source)] < SYSTEMS_PER_FAMILY:
            taken[type(plan.source)] += 1
            chosen.append(name)
    return chosen


def _headline() -> str:
    rows = [row for row in _benchmark_rows() if row.task == "shock" and row.seed == 7 and row.model in HEADLINE]
    # Real series have no oracle, and are not left out for that.
    common = set.intersection(*({row.dataset for row in rows if row.model == model} for model in HEADLINE[:-1]))
    shown = [name for name in headline_datasets() if name in common]
    task = read_task("shock").narrowed(models=HEADLINE, datasets=shown, seeds=[7])
    table = build_table([row for row in rows if row.dataset in shown], task=task, metrics=["mse"], paper=True)
    lines = tuple(line for line in table.lines if line.keys[0] in shown)  # ranks are given over all datasets, below
    text = render(replace(table, lines=lines, notes=()), "md").partition("\n")[2].strip()  # without its heading
    noisy = "\n".join(rivals.best_by_noise([row for row in _benchmark_rows() if row.task == "noise"]))
    ours = f"{TRAINED}{rivals.training_in_words(_benchmark_rows())}"
    told = f"{rivals.what_wins_where(rows)}\n{simpler_wins(rows, common)}\n\n{ours}\n\n{NOISY}{noisy}"
    return f"\n{text}\n\n{EXPLAINED}\n{told}\n\n"


def simpler_wins(rows: Sequence[Row], common: set[str]) -> str:
    """Where a simpler model is better, over every dataset that all models have."""
    mse = {(row.model, row.dataset): row.metrics.get("mse", math.inf) for row in rows}
    wins = {
        model: [name for name in ORDER if name in common and mse[model, name] < mse["fern", name]] for model in SIMPLER
    }
    told = [f"{model} has a lower MSE than Fern on {', '.join(names)}" for model, names in wins.items() if names]
    return (
        f"On the {len(common)} of {len(ORDER)} datasets that every model has run on so far, "
        + ("; ".join(told) if told else f"none of {', '.join(SIMPLER)} has a lower MSE than Fern")
        + "."
    )


def page() -> str:
    """The whole page as text."""
    laws = [
        *ways_to_train(_rows("laws")),
        *coverage(_rows("laws", within="coverage")),
        *evidence.single_series(_rows("laws", within="single")),
        *evidence.after_shock(_rows("laws", within="after_shock")),
        *evidence.short_series(_rows("laws", within="short")),
        *evidence.latent(_rows("laws", within="latent")),
        *analyses.roughness([row for found in _rows("laws", within="roughness") for row in found["rows"]]),
    ]
    libraries = evidence.libraries(_rows("forecasters"))
    libraries += evidence.trajectories(_rows("forecasters", within="trajectories"))
    rows = _benchmark_rows()
    chaos = [*rivals.training(rows), *rivals.noise(rows), *rivals.long(rows), *rivals.field(rows)]
    chaos += analyses.rolled(_rows("rivals", within="rolled"))
    chaos += analyses.particles(_rows("rivals", within="particles"))
    chaos += analyses.flow_speed(_rows("rivals", within="flow_speed"))
    chaos += analyses.protocol(_rows("rivals", within="protocol"))
    chaos += analyses.pfnn(_rows("rivals", within="pfnn"))
    parts = [HEAD, *_tables(), *chaos, *real.section(rows), *libraries, *laws, *_baselines(), *_speed()]
    return "\n".join(parts).rstrip() + "\n"


def _rows(folder: str, *, within: str = ".") -> list[dict[str, Any]]:
    paths = sorted((ROOT / "benchmarks" / folder / "results" / within).glob("*.json"))
    return [json.loads(path.read_text()) for path in paths]


def _tables() -> list[str]:
    """The paper's tables as far as there are rows, beside the paper's numbers."""
    rows = _benchmark_rows()
    lines = []
    for name in TASKS:
        if any(row.task == name for row in rows):
            lines += [render(build_table(rows, task=read_task(name), paper=True), "md")]
            lines += [f"`fern bench run {name} --out benchmarks/runs` continues from these rows.\n"]
        if name == "shock":
            told = (rivals.what_wins_where(rows), rivals.beside_baselines(rows))
            lines += [f"{text}\n" for text in told if text]
    return lines


def _benchmark_rows() -> tuple[Row, ...]:
    return Store(ROOT / "benchmarks" / "runs").for_reading().contents().rows


def _baselines() -> list[str]:
    return [
        "## Baselines on ETTh1: standardised, the usual ETT split, no window dropped\n",
        "| model | context → horizon | seed | windows | MSE | MAE | published MSE | command |",
        "|---|---|---|---|---|---|---|---|",
        *(_baseline(row) for row in _rows("accuracy")),
        "",
    ]


def _baseline(row: dict[str, Any]) -> str:
    settings, test = row["model_settings"], row["test"]
    return (
        f"| {row['model']} | {settings['context_length']} → {settings['horizon']} | {row['seed']} | "
        f"{row['test_windows']:,} | {test['mse']:.4f} | {test['mae']:.4f} | {row['reported_mse']} | "
        f"`{row['command']}` |"
    )


def _speed() -> list[str]:
    lines = ["## Speed\n", "Ratios are measured in one run against the named peer; above 1, ours is better.\n"]
    for topic in _rows("speed"):
        machine = topic["machine"]
        lines += [
            f"### {topic['topic']}\n",
            f"`{topic['command']}` on {machine['processor']}, {machine['cores']} cores.\n",
            "| what | ours | peer | ratio | target |",
            "|---|---|---|---|---|",
        ]
        for row in topic["measurements"]:
            peer = "" if row["peer"] is None else f"{row['peer']:.4g} {row['unit']} ({row['peer_name']})"
            ratio = "" if row["ratio"] is None else f"{row['ratio']:.2f}"
            lines.append(f"| {row['name']} | {row['ours']:.4g} {row['unit']} | {peer} | {ratio} | {row['target']} |")
        lines.append("")
    return lines


if __name__ == "__main__":
    PAGE.write_text(page())
    README.write_text(readme())
