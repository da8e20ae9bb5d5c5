"""``python -m benchmarks.results``: write the results pages and the README's table from committed results.

The pages are docs/results.md, docs/results/, docs/paper_claims.md and the figures of docs/pretrained.md. No figure
there is typed by hand. A topic is a page of tables and its verdicts; a new one is an entry of `TOPICS`.
"""

import json
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from benchmarks.paper import claims
from benchmarks.pretrain.card import write_card
from benchmarks.public.table import judge_competition, judge_public, public_parts
from benchmarks.sections import Part, Result, distributions, draw_table, libraries, percent, real, speed, tasks, trials
from fern.benchmark.results import RunResult
from fern.benchmark.store import Store

ROOT = Path(__file__).parents[1]
README = ROOT / "README.md"
DOCS = ROOT / "docs"
PAGE = DOCS / "results.md"
CARD = DOCS / "pretrained.md"
MARKS = ("<!-- results: python -m benchmarks.results -->\n", "<!-- end of results -->")

HEAD = """# Results

Each line is computed from committed results by `python -m benchmarks.results`; its link leads to the tables. A test
checks that pages and results agree. Losses stand beside wins.

"""
FOOT = """
*oracle*: the best possible forecast, which knows the equations and the true state. *regret*: (MSE − oracle MSE) /
training variance. *EPT*: steps until the error first passes the threshold. *LT*: Lyapunov times. *CRPS*: lower is
better, over the whole distribution. What may be claimed of intervals: [uncertainty](uncertainty.md).
"""


class Evidence:
    """The committed results, read when they are used."""

    @cached_property
    def runs(self) -> Sequence[RunResult]:
        """The runs of the benchmark."""
        return Store(ROOT / "benchmarks" / "runs").contents().results

    def read(self, folder: str, within: str = ".") -> list[Result]:
        """The measurements of a folder of ``benchmarks``; ``*`` is within all of its folders."""
        paths = sorted((ROOT / "benchmarks" / folder / "results").glob(f"{within}/*.json"))
        return [json.loads(path.read_text()) for path in paths]


@dataclass(frozen=True)
class Topic:
    """A page of tables, and the verdicts on it: one sentence each."""

    title: str
    parts: Callable[[Evidence], Sequence[Part]]
    verdicts: Callable[[Evidence], Sequence[str]]


def _coverage_parts(evidence: Evidence) -> list[Part]:
    read = evidence.read
    return [
        distributions.many_series_part(read("distributions", "coverage")),
        distributions.scores_part(read("distributions", "coverage")),
        distributions.one_series_part(read("distributions", "single")),
        distributions.after_shock_part(read("distributions", "after_shock")),
        distributions.short_part(read("distributions", "short")),
    ]


def _coverage_verdicts(evidence: Evidence) -> list[str]:
    read = evidence.read
    return [
        distributions.judge_coverage(read("distributions", "coverage"), read("distributions", "single")),
        distributions.judge_shock_coverage(read("distributions", "after_shock")),
    ]


TOPICS: Mapping[str, Topic] = {
    "libraries": Topic(
        "Tables, beside other libraries",
        lambda evidence: [
            libraries.libraries_part(evidence.read("forecasters", "libraries")),
            libraries.trajectories_part(evidence.read("forecasters", "trajectories")),
        ],
        lambda evidence: [libraries.judge_libraries(evidence.read("forecasters", "libraries"))],
    ),
    "public": Topic(
        "Public benchmarks",
        lambda evidence: public_parts(evidence.read("public", "*")),
        lambda evidence: judge_public(evidence.read("public", "*")),
    ),
    "real": Topic(
        "ETT and Weather",
        lambda evidence: [real.real_part(evidence.runs)],
        lambda evidence: [real.judge_real(evidence.runs)],
    ),
    "coverage": Topic("Coverage of intervals", _coverage_parts, _coverage_verdicts),
    "shocks": Topic(
        "Shocks in known dynamics",
        lambda evidence: tasks.shock_parts(evidence.runs),
        lambda evidence: [tasks.judge_shocks(evidence.runs), tasks.judge_baselines(evidence.runs)],
    ),
    "paper": Topic(
        "The paper's tables",
        lambda evidence: [
            *tasks.paper_parts(evidence.runs),
            trials.protocol_part(evidence.read("rivals", "protocol")),
            distributions.latent_part(evidence.read("distributions", "latent")),
            trials.flow_speed_part(evidence.read("rivals", "flow_speed")),
            trials.pfnn_part(evidence.read("rivals", "pfnn")),
        ],
        lambda evidence: [tasks.judge_paper(evidence.runs)],
    ),
    "training": Topic(
        "Training",
        lambda evidence: [
            tasks.training_part(evidence.runs),
            distributions.loss_part(evidence.read("distributions")),
            distributions.roughness_part(evidence.read("distributions", "roughness")),
        ],
        lambda evidence: [tasks.judge_training(evidence.runs)],
    ),
    "chaos": Topic(
        "Chaos with noise, long horizons, fields",
        lambda evidence: [
            *tasks.chaos_parts(evidence.runs),
            trials.rolled_part(evidence.read("rivals", "rolled")),
            trials.particles_part(evidence.read("rivals", "particles")),
        ],
        lambda evidence: [judge(evidence.runs) for judge in (tasks.judge_noise, tasks.judge_long, tasks.judge_field)],
    ),
    "speed": Topic(
        "Speed",
        lambda evidence: [
            *speed.speed_parts(evidence.read("speed")),
            speed.baselines_part(evidence.read("accuracy")),
        ],
        lambda evidence: [speed.judge_speed(evidence.read("speed"))],
    ),
    "data": Topic("Data", lambda evidence: [tasks.data_part(evidence.runs)], lambda evidence: []),
}


def write_pages(evidence: Evidence) -> dict[Path, str]:
    """Every generated page with its text."""
    lines = []
    pages: dict[Path, str] = {}
    for name, topic in TOPICS.items():
        verdicts = topic.verdicts(evidence)
        lines += [f"- {verdict}. [{topic.title}](results/{name}.md)" for verdict in verdicts]
        head = "\n\n".join([f"# {topic.title}", *(f"{verdict}." for verdict in verdicts)])
        tables = "\n".join(part.markdown() for part in topic.parts(evidence))
        pages[DOCS / "results" / f"{name}.md"] = f"{head}\n\n[All verdicts](../results.md)\n\n{tables}"
    links = f"Fingerprints of all data: [{TOPICS['data'].title}](results/data.md).\n"
    pages[PAGE] = HEAD + "\n".join(lines) + "\n" + FOOT + "\n" + links
    pages[claims.PAGE] = claims.page(evidence.runs)
    pages[README] = _between_marks(README, _quality(evidence))
    pages[CARD] = _between_marks(CARD, write_card(evidence.read("public", "*"), evidence.read("pretrain")))
    return pages


def _between_marks(path: Path, text: str) -> str:
    """A page with this text between its marks."""
    before, _, rest = path.read_text().partition(MARKS[0])
    return f"{before}{MARKS[0]}{text}{MARKS[1]}{rest.partition(MARKS[1])[2]}"


def _quality(evidence: Evidence) -> str:
    """The README's six lines: where Fern is better than others, and where it is not."""
    runs, counts = evidence.runs, tasks.count_wins(evidence.runs)
    pairs = libraries.count_verdicts(evidence.read("forecasters", "libraries"))
    figures = real.Figures.of(runs)
    common = figures.shared((real.FERN, *real.TRAINED))
    means = {name: figures.average(name, common) for name in (real.FERN, *real.TRAINED)}
    best = min(real.TRAINED, key=lambda name: means[name])
    covered = [result["mean"]["margin/80"] for result in evidence.read("distributions", "coverage")]
    noisy = [run for run in runs if run.task == "noise" and run.data_settings.get("noise") == 0.05]
    winners = [next(iter(errors)) for errors in tasks.rank_by_dataset(noisy, "noise").values()]
    ours = sum(name.startswith("fern") for name in winners)
    lines = [
        [
            "Tables, quantile loss beside other libraries",
            f"lower in {pairs['better']}, higher in {pairs['worse']} of {sum(pairs.values())} comparisons",
            "libraries",
        ],
        [
            "M4 competition, overall weighted average",
            judge_competition(evidence.read("public", "*")),
            "public",
        ],
        [
            f"ETT and Weather, mean MSE of {len(common)} cells",
            f"{means[real.FERN]:.3f}; {real.TITLES[best]} {means[best]:.3f}",
            "real",
        ],
        [
            f"Coverage of 80 % intervals, {len(covered)} systems",
            f"{100 * min(covered):.1f} to {percent(max(covered))}",
            "coverage",
        ],
        ["Chaotic flows with 5 % noise, MSE", f"best on {ours} of {len(winners)}", "chaos"],
        [
            "The paper's series, shocked or not, MSE by its protocol",
            _count_ours(sum(map(Counter, counts.values()), Counter())),
            "shocks",
        ],
    ]
    shown = [[what, f"[{figure}](docs/results/{page}.md)"] for what, figure, page in lines]
    return "\n".join(["", *draw_table(["measured", "Fern"], shown, words=2), "", ""])


def _count_ours(counts: Mapping[str, int]) -> str:
    """How many datasets Fern wins, and who wins most of the others."""
    others = {model: n for model, n in counts.items() if model != tasks.FERN and n}
    listed = ", ".join(f"{model} {n}" for model, n in sorted(others.items(), key=lambda item: -item[1]))
    return f"best on {counts[tasks.FERN]} of {sum(counts.values())}; {listed}"


def main() -> None:
    """Write every page."""
    for path, text in write_pages(Evidence()).items():
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)


if __name__ == "__main__":
    main()
