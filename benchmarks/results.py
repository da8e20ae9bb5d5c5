"""``python -m benchmarks.results``: write docs/results.md from the committed rows; no figure is typed by hand."""

import json
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "results.md"

HEAD = """# Results

This page is written by `python -m benchmarks.results` from the committed rows: `benchmarks/accuracy/results/` and
`benchmarks/speed/results/`. Each row holds its command, seed, data fingerprint, versions and machine; a test checks
that page and rows agree.
"""


def page() -> str:
    """The whole page as text."""
    return "\n".join([HEAD, *_accuracy(), *_speed()]).rstrip() + "\n"


def _rows(folder: str) -> list[dict[str, Any]]:
    return [json.loads(path.read_text()) for path in sorted((ROOT / "benchmarks" / folder / "results").glob("*.json"))]


def _accuracy() -> list[str]:
    rows = _rows("accuracy")
    fern = [row for row in rows if "scenario" in row]
    baselines = [row for row in rows if "scenario" not in row]
    lines = ["## Fern on the shock scenarios, 336 → 336, raw values\n"]
    lines += [
        "| scenario | training | latent | seed | epochs (kept) | MSE | MAE | WD | EPT | floor (oracle MSE) | command |",
        "|---|---|---|---|---|---|---|---|---|---|---|",
    ]
    for row in sorted(fern, key=lambda row: (row["scenario"], row["training"], row["latent"], row["seed"])):
        test = row["test"]
        lines.append(
            f"| {row['scenario']} | {row['training']} | {row['latent']} | {row['seed']} | "
            f"{row['epochs']} ({row['best_epoch']}) | "
            f"{test['mse']:.3g} | {test['mae']:.3g} | {test['w2']:.3g} | {test['ept']:.0f} | {row['oracle_mse']:.1g} | "
            f"`{row['command']}` |"
        )
    lines.append(
        "\n`shock` is the paper's protocol to the letter: AdamW at a constant 3e-4, batch 95, Huber, patience 5,\n"
        "grace 3; the epoch with the best validation objective is kept. The paper has ROSSLER_BASE 0.019 and\n"
        "LORENZ_BASE 21.66.\n"
    )
    if baselines:
        lines += [
            "## Baselines on ETTh1, standardised, ETT's borders, never dropping a window\n",
            "| model | preset | context → horizon | training | seed | windows | MSE | MAE | published | command |",
            "|---|---|---|---|---|---|---|---|---|---|",
        ]
        lines += [_baseline(row) for row in baselines]
        lines.append("")
    return lines


def _baseline(row: dict[str, Any]) -> str:
    settings, test = row["model_settings"], row["test"]
    sizes = f"{settings['context_length']} → {settings['horizon']}"
    training = row.get("training", row["training_settings"]["preset"])
    return (
        f"| {row['model']} | {row.get('preset', '')} | {sizes} | {training} | {row['seed']} | "
        f"{row.get('windows', '')} | {test['mse']:.4f} | {test['mae']:.4f} | 0.375 | `{row['command']}` |"
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
