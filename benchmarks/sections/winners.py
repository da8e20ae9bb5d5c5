"""What wins where on the shock scenarios, and whether ranks over independent sources tell the models apart."""

from collections.abc import Mapping, Sequence
from statistics import fmean

from fern.benchmark.results import Row
from fern.benchmark.significance import friedman, nemenyi, tied_ranks
from fern.benchmark.tables.labels import model_label, seen_by
from fern.benchmark.tables.published import paper_value
from fern.benchmark.tasks import read_task
from fern.systems import SCENARIOS

COMPARED = ("fern", "dlinear", "analog", "polymap")
"""The models of the shock table that have run on all datasets under both seeds."""

BASELINES = ("timemixer", "patchtst", "koopa", "moderntcn", "pfnn")
"""The paper's dear baselines: compared too, under one seed, where they have run on enough datasets."""

SIMPLER = ("dlinear", "analog", "polymap", "last-value")
BASELINE_SEED, BASELINE_DATASETS = 7, 10
ORDER = tuple(choice.dataset for choice in read_task("shock").datasets)

ALPHA = 0.05
LEAST_SOURCES = 3
TIE = 0.01
"""A lead by less than this share is no win: test windows overlap, and hold few independent ones."""

MISS = 0.15
SAME_SOURCE = {"ETTm1": "ETTh1"}  # one transformer, read every hour and every quarter of an hour
KINDS = {"Flow": "flows", "Diffusion": "random systems", "Recursion": "random systems"}
REAL = "real series"

Errors = Mapping[tuple[str, str], float]  # of model and dataset


def what_wins_where(rows: Sequence[Row], models: Sequence[str] = COMPARED) -> str:
    """Which of the models has the lowest MSE on which datasets, and whether ranks tell them apart; from shock rows."""
    own = shock_rows(rows)
    found, sees = mean_errors(own), {row.model: seen_by(row) for row in own}
    present = [model for model in models if model in sees]
    common = [name for name in ORDER if all((model, name) in found for model in present)]
    if len(present) < 2 or not common:
        return ""
    seeds = sorted({row.seed for row in own if row.model in present})
    told = {}
    for kind in dict.fromkeys(kind_of(name) for name in common):
        names = [name for name in common if kind_of(name) == kind]
        told[f"{kind} ({len(names)})"] = _winners(found, present, names)
    lines = [
        f"Lowest MSE of {_listed(present)}, {_seeds_in_words(seeds)}, on the {len(common)} of {len(ORDER)} datasets "
        f"that all of them have run (a lead of less than {TIE:.0%} is a tie). In short: {_counted(told)}.",
        "",
        *(f"- {kind}: {_named(won, sees)}." for kind, won in told.items()),
    ]
    return "\n".join([*lines, "", *_ranked(found, present, common)]).rstrip()


def beside_baselines(rows: Sequence[Row]) -> str:
    """The same with those of `BASELINES` that have run on `BASELINE_DATASETS` or more, under one seed; else empty."""
    own = [row for row in rows if row.seed == BASELINE_SEED]
    ran = {(row.model, row.dataset) for row in shock_rows(own)}
    enough = [name for name in BASELINES if sum(model == name for model, _ in ran) >= BASELINE_DATASETS]
    return what_wins_where(own, (*COMPARED, *enough)) if enough else ""


def where_fern_loses(rows: Sequence[Row]) -> str:
    """On which datasets each simpler model has the lower MSE, by more than a tie."""
    found = mean_errors(shock_rows(rows))
    wins = {
        model: [
            name
            for name in ORDER
            if {(model, name), ("fern", name)} <= found.keys() and found[model, name] < (1 - TIE) * found["fern", name]
        ]
        for model in SIMPLER
    }
    told = [f"{model} on {', '.join(names)}" for model, names in wins.items() if names]
    return (
        f"An MSE more than {TIE:.0%} below Fern's: {'; '.join(told)}."
        if told
        else f"None of {_listed(SIMPLER)} has an MSE more than {TIE:.0%} below Fern's."
    )


def misses_of_the_paper(rows: Sequence[Row]) -> str:
    """Where Fern by the paper's protocol is far from the paper's number, on either side; empty where nowhere."""
    found = mean_errors([row for row in shock_rows(rows) if row.model == "fern"])
    printed = {name: paper_value("shock", "fern", name, 336, "mse") for name in ORDER}
    ratios = {
        name: found["fern", name] / theirs for name, theirs in printed.items() if theirs and ("fern", name) in found
    }
    above = sorted((name for name in ratios if ratios[name] > 1 + MISS), key=lambda name: -ratios[name])
    below = sorted((name for name in ratios if ratios[name] < 1 - MISS), key=lambda name: ratios[name])
    told = [
        f"more than {MISS:.0%} {word} the paper's number on "
        + ", ".join(f"{name} (×{ratios[name]:.2f})" for name in names)
        for word, names in (("above", above), ("below", below))
        if names
    ]
    within = len(ratios) - len(above) - len(below)
    return f"Fern by the paper's protocol is {'; '.join(told)}; within that of it on {within}." if told else ""


def shock_rows(rows: Sequence[Row]) -> list[Row]:
    """Finished runs of the task `shock` with the models as they are, no variants."""
    return [row for row in rows if row.task == "shock" and row.status == "done" and row.preset in ("paper", "default")]


def mean_errors(rows: Sequence[Row], metric: str = "mse") -> Errors:
    """The mean over seeds of a metric, by model and dataset."""
    gathered: dict[tuple[str, str], list[float]] = {}
    for row in rows:
        gathered.setdefault((model_label(row), row.dataset), []).append(row.metrics[metric])
    return {place: fmean(values) for place, values in gathered.items()}


def kind_of(dataset: str) -> str:
    """Flows, random systems or real series."""
    plan = SCENARIOS.get(dataset)
    return REAL if plan is None else KINDS[type(plan.source).__name__]


def source_of(dataset: str) -> str:
    """What the dataset is made from: scenarios of one system are no independent evidence."""
    plan = SCENARIOS.get(dataset)
    return SAME_SOURCE.get(dataset, dataset) if plan is None else plan.source.name


def _winners(found: Errors, models: Sequence[str], names: Sequence[str]) -> dict[tuple[str, ...], list[str]]:
    """The datasets of each winner, most first; where several are within a tie they win together, at the end."""
    won: dict[tuple[str, ...], list[str]] = {}
    for name in names:
        lowest = min(found[model, name] for model in models)
        near = tuple(model for model in models if found[model, name] * (1 - TIE) <= lowest)
        won.setdefault(near, []).append(name)
    return dict(sorted(won.items(), key=lambda entry: (len(entry[0]) > 1, -len(entry[1]))))


def _counted(told: Mapping[str, Mapping[tuple[str, ...], Sequence[str]]]) -> str:
    """Of each kind how many datasets each model wins, and how many nobody does."""
    parts = []
    for kind, won in told.items():
        counts = [f"{models[0]} {len(names)}" for models, names in won.items() if len(models) == 1]
        ties = sum(len(names) for models, names in won.items() if len(models) > 1)
        parts.append(f"{kind} {', '.join([*counts, *([f'ties {ties}'] if ties else [])])}")
    return "; ".join(parts)


def _named(won: Mapping[tuple[str, ...], Sequence[str]], sees: Mapping[str, str | None]) -> str:
    """Who wins on which datasets, with what they see."""
    told = [
        f"{models[0]} ({_channels(sees[models[0]])}) on {', '.join(names)}"
        for models, names in won.items()
        if len(models) == 1
    ]
    ties = [f"{name} ({', '.join(models)})" for models, names in won.items() if len(models) > 1 for name in names]
    return "; ".join([*told, *([f"ties on {', '.join(ties)}"] if ties else [])])


def _ranked(found: Errors, models: Sequence[str], datasets: Sequence[str]) -> list[str]:
    """The Friedman test over the sources, and which models Nemenyi's critical difference keeps apart from the first.

    A source counts once, by each model's mean rank over its datasets.
    """
    sources: dict[str, list[list[float]]] = {}
    for name in datasets:
        ranks = tied_ranks([found[model, name] for model in models])
        sources.setdefault(source_of(name), []).append([float(rank) for rank in ranks])
    if len(sources) < LEAST_SOURCES:
        return []
    blocks = [[fmean(own) for own in zip(*ranks, strict=True)] for ranks in sources.values()]
    tested = friedman(blocks)
    critical = nemenyi(models=len(models), scenarios=len(blocks), alpha=ALPHA)
    average = dict(zip(models, (float(rank) for rank in tested.average), strict=True))
    told = ", ".join(f"{model} {average[model]:.2f}" for model in sorted(models, key=lambda model: average[model]))
    head = (
        f"Average ranks over the {len(blocks)} systems and sites that these are of, each counted once: {told}; "
        f"critical difference (Nemenyi, {ALPHA:.0%}) {critical:.2f}."
    )
    if tested.f_p_value >= ALPHA:
        return [f"{head} The models are not distinguishable (Friedman's test, p = {tested.f_p_value:.2g})."]
    first = models[0]
    apart = [model for model in models[1:] if abs(average[model] - average[first]) > critical]
    alike = [model for model in models[1:] if model not in apart]
    better = [model for model in apart if average[model] < average[first]]
    worse = [model for model in apart if model not in better]
    verdicts = [
        f"{word} {first}: {', '.join(names)}"
        for word, names in (("better than", better), ("not distinguishable from", alike), ("worse than", worse))
        if names
    ]
    return [f"{head} By it, {'; '.join(verdicts)}. Ranks do not tell by how much."]


def _seeds_in_words(seeds: Sequence[int]) -> str:
    if len(seeds) == 1:
        return f"seed {seeds[0]}"
    return f"mean over seeds {', '.join(map(str, seeds[:-1]))} and {seeds[-1]}"


def _listed(names: Sequence[str]) -> str:
    return ", ".join(names[:-1]) + f" and {names[-1]}"


def _channels(sees: str | None) -> str:
    known = {"own": "own channel", "near": "all channels by its neighbours", "all": "all channels"}
    return known.get(sees or "", "unknown channels")
