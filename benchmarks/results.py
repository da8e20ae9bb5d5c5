"""``python -m benchmarks.results``: write docs/results.md and the README's table from the committed rows.

No figure there is typed by hand.
"""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

from fern.benchmark.rows import Row
from fern.benchmark.store import Store
from fern.benchmark.tasks import read_task
from fern.report.tables.rendering import render
from fern.report.tables.tables import build_table

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "results.md"
README = ROOT / "README.md"
MARKS = ("<!-- results: python -m benchmarks.results -->\n", "<!-- end of results -->")

HEAD = """# Results

This page is written by `python -m benchmarks.results` from the committed rows: `benchmarks/runs/rows/`,
`benchmarks/accuracy/results/` and `benchmarks/speed/results/`. Each row holds its command or its settings, seed, data
fingerprint, versions and machine; a test checks that page and rows agree.
"""

HEADLINE = ("fern", "dlinear", "last-value", "oracle")
ORDER = tuple(choice.dataset for choice in read_task("shock").datasets)
COMMAND = (
    "336 rows from 336 by the paper's protocol, seed 7; in brackets the paper's number and ours over it:\n"
    "`fern bench run shock --models fern,dlinear,last-value,oracle --seeds 7 --out benchmarks/runs`."
)
TASKS = ("shock", "detailed", "ablation", "recency", "footprint")


def readme() -> str:
    """The README with the scenarios that Fern and DLinear both have, the oracle's and the paper's figures beside."""
    before, _, rest = README.read_text().partition(MARKS[0])
    after = rest.partition(MARKS[1])[2]
    return f"{before}{MARKS[0]}{_headline()}{MARKS[1]}{after}"


def _headline() -> str:
    rows = [row for row in _benchmark_rows() if row.task == "shock" and row.seed == 7 and row.model in HEADLINE]
    # Real series have no oracle, and are not left out for that.
    both = set.intersection(*({row.dataset for row in rows if row.model == model} for model in HEADLINE[:-1]))
    task = read_task("shock").narrowed(models=HEADLINE, datasets=[name for name in ORDER if name in both], seeds=[7])
    table = build_table([row for row in rows if row.dataset in both], task=task, metrics=["mse"], paper=True)
    text = render(replace(table, notes=()), "md").partition("\n")[2].strip()  # without its heading
    return f"\n{text}\n\nTest MSE on the {len(both)} of {len(ORDER)} datasets that all have so far, {COMMAND}\n\n"


def page() -> str:
    """The whole page as text."""
    return "\n".join([HEAD, *_tables(), *_baselines(), *_speed()]).rstrip() + "\n"


def _rows(folder: str) -> list[dict[str, Any]]:
    return [json.loads(path.read_text()) for path in sorted((ROOT / "benchmarks" / folder / "results").glob("*.json"))]


def _tables() -> list[str]:
    """The paper's tables as far as there are rows, beside the paper's numbers."""
    rows = _benchmark_rows()
    lines = []
    for name in TASKS:
        if any(row.task == name for row in rows):
            lines += [render(build_table(rows, task=read_task(name), paper=True), "md")]
            lines += [f"`fern bench run {name} --out benchmarks/runs` goes on where these rows end.\n"]
    return lines


def _benchmark_rows() -> tuple[Row, ...]:
    return Store(ROOT / "benchmarks" / "runs").for_reading().contents().rows


def _baselines() -> list[str]:
    return [
        "## Baselines on ETTh1, standardised, ETT's borders, never dropping a window\n",
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
    lines = ["## Speed\n", "Ratios are measured in one run against the named peer; above 1 ours is better.\n"]
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
