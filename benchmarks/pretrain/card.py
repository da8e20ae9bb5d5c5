"""The figures of the model card, docs/pretrained.md, from committed results."""

from collections.abc import Mapping, Sequence
from typing import Any

from benchmarks.pretrain.fits import draw_fits
from benchmarks.pretrain.validation import Score, mean_relative
from benchmarks.sections import draw_table, percent
from fern.pretrained import training_record

MODEL, NAIVE = "fern-pretrained", "seasonal-naive"


def write_card(public: Sequence[Mapping[str, Any]], measured: Sequence[Mapping[str, Any]]) -> str:
    """The tables: public tasks without a fit, what each trick of inference is worth, what the network adds to a default
    fit, and how long it was trained."""
    rows = {(row["task"], row["model"]): row["metrics"] for row in public if row["seed"] == 0 and "metrics" in row}
    lines = []
    for task in sorted({task for task, model in rows if model == MODEL}):
        own, naive = rows[task, MODEL], rows.get((task, NAIVE), {})
        figures = [f"{row[name]:.3g}" if name in row else "" for name in ("MASE", "WQL") for row in (own, naive)]
        lines.append([f"`{task}`", *figures, percent(own["coverage_80"])])
    head = ["task", "MASE", "seasonal naive", "WQL", "seasonal naive", "80 % intervals cover"]
    told = ["", *draw_table(head, lines), ""]
    for result in measured:
        if "fits" in result:
            told += [
                "What the network adds to a default fit, on two windows *before* the test parts; MASE / WQL /",
                f"processor seconds of the fit relative to the default's (`{result['command']}`):",
                "",
                *draw_fits(result["fits"]),
                "",
            ]
            continue
        told += [
            "What the tricks of inference are worth, on the windows *before* the test parts, relative to the",
            f"seasonal naive (`{result['command']}`):",
            "",
        ]
        parts = []
        for name, scores in result["scores"].items():
            mase, wql, cover = mean_relative({task: Score(**score) for task, score in scores.items()})
            parts.append([name, f"{mase:.4f}", f"{wql:.4f}", percent(cover)])
        told += [*draw_table(["", "MASE", "WQL", "80 % intervals cover"], parts), ""]
    runs = [training_record()]
    while runs[-1].get("start"):  # each from the weights of the one before
        runs.append(runs[-1]["start"])
    hours, steps, windows = (sum(run[name] for run in runs) for name in ("processor_hours", "steps", "windows"))
    how = "one run" if len(runs) == 1 else f"{len(runs)} runs"
    told += [
        f"Trained for {hours:.1f} processor hours in {how}: {steps:,} steps, {windows / 1e6:.1f} million windows.",
        "",
    ]
    return "\n".join(told)
