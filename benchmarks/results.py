"""``python -m benchmarks.results``: write docs/results.md, docs/paper_claims.md and the README's table from the rows.

No figure there is typed by hand.
"""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

from benchmarks.paper import claims
from benchmarks.sections import analyses, evidence, real, rivals, tables, winners
from benchmarks.sections.distributions import coverage, ways_to_train
from benchmarks.sections.tables import HEADLINE
from benchmarks.sections.winners import ORDER
from fern.benchmark.results import Row
from fern.benchmark.store import Store
from fern.benchmark.tables.build import build_table
from fern.benchmark.tables.rendering import render
from fern.benchmark.tasks import read_task
from fern.systems import SCENARIOS

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "results.md"
README = ROOT / "README.md"
MARKS = ("<!-- results: python -m benchmarks.results -->\n", "<!-- end of results -->")
ABOUT = {
    "presets": " For the times: these runs are older than those of the tables above, whose code rounds otherwise, and "
    "their ETTh1 is not cleaned as the paper's is, so errors are not those of the tables."
}
"""What has to be said of a topic of speed."""

COVERAGE_MARKS = ("<!-- coverage: python -m benchmarks.results -->\n", "<!-- end of coverage -->")

HEAD = """# Results

This page is written by `python -m benchmarks.results` from the committed rows: `benchmarks/runs/rows/`, and
`results/` in `benchmarks/forecasters/`, `distributions/`, `rivals/`, `accuracy/` and `speed/`. Each row holds its
command or its settings; those of the benchmark also seed, data fingerprint ([all of them](#data)), versions and
machine. A test checks that page and rows agree.

Words: *oracle*, the best forecast that knowing the equations and the true state allows; on a single test part of a
random system a model can be below it by chance. *regret*, (MSE − oracle's MSE) / variance of the training part. *WD*,
Wasserstein distance between the values of forecast and truth. *EPT*, the steps until the error first passes the
threshold (at most the horizon). *LT*, Lyapunov times: the time in which small errors grow by e. *×*, our number divided
by the paper's. *[1 missing]*, a seed that has not been run. *missing*, none has.
"""

SYSTEMS_PER_FAMILY = 2
EXPLAINED = """\
Test MSE at context 336, horizon 336, by the paper's protocol, mean over seeds 7 and 1955 ± standard error (of training
seeds alone; `analog`, `polymap` and `last-value` draw nothing); in brackets the paper's number, and ours divided by it.
`polymap` sees all channels, the other models only the one they forecast; `analog` and `polymap` are fitted in seconds.
regret = (MSE − oracle MSE) / training variance, of the best model; below 0 a model is better than the best possible
forecast by the chance of one test part. The rows are chosen by a rule, not by who wins: the first two systems of each
family (flows, diffusions, recursions), without a shock and with their first one, and the real series. Command: `fern
bench run shock --models fern,dlinear,analog,polymap,last-value,oracle --out benchmarks/runs`.
"""
TRAINED = """\
The same Fern on the same series by our default training (`fern bench run training --out benchmarks/runs`), MSE beside
the paper's protocol, seed 7. """
NOISY = """\
Chaotic flows seen with observation noise (a share of each channel's standard deviation), judged by the true rows, of
the models that have run (`fern bench run noise --out benchmarks/runs`, seed 7). `fern (channels_seen=all)` is Fern with
one encoder for all channels; `fern-rolled:chaos` a polynomial map fitted by least squares with a Fern for what it
leaves, rolled over the horizon; `analog:joint` looks for states of all channels. """

FIELD = """\
A field in space, the Kuramoto–Sivashinsky equation on 64 points, without and with noise (`fern bench run field --out
benchmarks/runs`, seed 7). The preset `ring` tells a model that the points lie on a circle and are alike:"""


def readme() -> str:
    """The README with its table, the oracle's and the paper's figures in it, and with what intervals cover."""
    text = _between(README.read_text(), MARKS, _headline())
    covered = evidence.covered_in_words(
        _rows("distributions", within="coverage"),
        _rows("distributions", within="single"),
        _rows("forecasters"),
        _rows("forecasters", within="trajectories"),
    )
    return _between(text, COVERAGE_MARKS, covered)


def _between(text: str, marks: tuple[str, str], new: str) -> str:
    """The text with what stands between the marks replaced."""
    before, _, rest = text.partition(marks[0])
    return f"{before}{marks[0]}{new}{marks[1]}{rest.partition(marks[1])[2]}"


def headline_datasets() -> list[str]:
    """The rows of the README's table, by a rule that does not look at results.

    Of each family of systems (flows, diffusions, recursions) the first two systems in the order of the task, each
    without a shock and with the first of its shocks; and every real series.
    """
    taken: dict[type, dict[str, list[str]]] = {}
    chosen = []
    for name in ORDER:
        plan = SCENARIOS.get(name)
        if plan is None:
            chosen.append(name)
            continue
        systems = taken.setdefault(type(plan.source), {})
        if plan.source.name not in systems and len(systems) == SYSTEMS_PER_FAMILY:
            continue
        own = systems.setdefault(plan.source.name, [])
        if len(own) < 2:
            own.append(name)
            chosen.append(name)
    return chosen


def _headline() -> str:
    every = _benchmark_rows()
    rows = [row for row in every if row.task == "shock" and row.model in HEADLINE]
    task = read_task("shock").narrowed(models=HEADLINE, datasets=headline_datasets())
    shown = [row for row in rows if row.dataset in headline_datasets()]
    table = build_table(shown, task=task, metrics=["mse"], paper=True)
    # Ranks are given over all datasets, below.
    lines = tuple(line for line in table.lines if line.keys[0] in headline_datasets())
    text = render(replace(table, lines=lines, notes=()), "md").partition("\n")[2].strip()  # without its heading
    noisy = "\n".join(rivals.best_by_noise([row for row in every if row.task == "noise"]))
    told = [
        text,
        EXPLAINED.rstrip(),
        winners.what_wins_where(rows),
        f"{winners.where_fern_loses(rows)} {winners.misses_of_the_paper(rows)}",
        f"{TRAINED}{rivals.training_in_words(every)}",
        f"{NOISY}{rivals.horizons_in_words(every)}",
        noisy,
    ]
    field = rivals.lowest_in_words(every, "field")
    told += [FIELD, "\n".join(field).rstrip()] if field else []
    return "\n" + "\n\n".join(told) + "\n\n"


def page() -> str:
    """The whole page as text."""
    distributions = [
        *ways_to_train(_rows("distributions")),
        *coverage(_rows("distributions", within="coverage")),
        *evidence.single_series(_rows("distributions", within="single")),
        *evidence.after_shock(_rows("distributions", within="after_shock")),
        *evidence.short_series(_rows("distributions", within="short")),
        *evidence.latent(_rows("distributions", within="latent")),
        *analyses.roughness([row for found in _rows("distributions", within="roughness") for row in found["rows"]]),
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
    parts = [
        HEAD,
        *tables.shock_tables(rows),
        *tables.other_tables(rows),
        *chaos,
        *real.section(rows),
        *libraries,
        *distributions,
    ]
    parts += [*_baselines(), *_speed(), *tables.data(rows)]
    return "\n".join(parts).rstrip() + "\n"


def _rows(folder: str, *, within: str = ".") -> list[dict[str, Any]]:
    paths = sorted((ROOT / "benchmarks" / folder / "results" / within).glob("*.json"))
    return [json.loads(path.read_text()) for path in paths]


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
        machine, about = topic["machine"], ABOUT.get(topic["topic"], "")
        lines += [
            f"### {topic['topic']}\n",
            f"`{topic['command']}` on {machine['processor']}, {machine['cores']} cores.{about}\n",
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
    claims.main()
