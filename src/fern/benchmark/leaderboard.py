"""The leaderboard of a task: who is ahead, and every figure beside the paper's and the oracle's."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from fern.benchmark.results import RunResult, direction_of, title_of
from fern.benchmark.tables.build import KINDS, in_lyapunov_times, kind_of
from fern.benchmark.tables.cells import Case, Cell, Grid, Spot, fill_grid, mark_best, means_of_case, score_cell
from fern.benchmark.tables.labels import channels_seen
from fern.benchmark.tables.published import PAPER_TABLES, beside_paper, compared_figures
from fern.benchmark.tables.ranking import AgainstBest, Standings
from fern.benchmark.tables.rendering import cell_text
from fern.benchmark.tasks import Task
from fern.html.figures import drawing
from fern.html.markup import Entry, Head, Html, element, figure_entry, join_html, listing, number
from fern.plot.scores import critical_difference_figure

_MARKS = {1: "best", 2: "second best"}
_FLOORS = ("oracle_mse", "regret")
# An error up to so many times the best is shaded so; the rest is plain.
_SHADES = ((1.0, "h1"), (1.1, "h2"), (1.5, "h3"), (3.0, "h4"))


@dataclass(frozen=True)
class Board:
    """The results of one task, sorted into a grid, with the cells that its kind of table shows."""

    name: str
    kind: str
    grid: Grid
    metrics: tuple[str, ...]
    cells: Mapping[Spot, Cell]

    @property
    def floors(self) -> tuple[str, ...]:
        """What is known of the best possible forecast, where it is."""
        return tuple(name for name in _FLOORS if any(spot.metric == name for spot in self.cells))

    def lines(self, case: Case) -> list[str]:
        """The models that have a run of this case."""
        cells = {model: self.cells.get(Spot(*case, model, self.metrics[0])) for model in self.grid.models}
        return [model for model, cell in cells.items() if cell is not None and cell.done + cell.diverged + cell.failed]

    @property
    def missing(self) -> int:
        """Planned runs of these cases, models and seeds that have no result yet."""
        return sum(cell.missing for spot, cell in self.cells.items() if spot.metric == self.metrics[0])

    def paper(self, spot: Spot) -> float | None:
        """The paper's number."""
        cell = self.cells.get(spot)
        return None if cell is None else cell.paper


def board_of(name: str, results: Sequence[RunResult], task: Task | None) -> Board:
    """The board of a task's results; with the task itself, runs that are not there yet are shown as missing."""
    kind = kind_of(name, results)
    grid = fill_grid(results, expected=task)
    known = {metric for result in grid.results for metric in Grid.figures_of(result)}
    metrics = tuple(metric for metric in in_lyapunov_times(KINDS[kind], results) if metric in known) or ("mse",)
    cells = mark_best(grid.cells((*metrics, *_FLOORS, *compared_figures(kind))))
    return Board(name, kind, grid, metrics, beside_paper(kind, cells) if kind in PAPER_TABLES else cells)


def standings_part(ranking: Standings, *, name: str) -> Html:
    """The models of a task in order, what the tests say, and the diagram of ranks."""
    heads = [
        Head("model"),
        Head("average rank", numeric=True),
        Head("cases won", numeric=True),
        Head("cases", numeric=True),
        Head("error over the best", numeric=True, title="geometric mean of this model's error over the best one's"),
    ]
    rows = [
        [
            Entry(standing.model),
            figure_entry(standing.rank, f"{standing.rank:.2f}" if standing.rank else None, blank="–"),
            Entry(str(standing.wins)),
            Entry(str(standing.cases)),
            figure_entry(standing.relative, f"×{standing.relative:.3g}" if standing.relative else None, blank="–"),
        ]
        for standing in ranking.models
    ]
    parts = [listing(heads, rows, caption="Standings by MSE"), element("p", {}, ranking.words)]
    if ranking.critical_difference is not None:
        ranks = [(standing.model, standing.rank) for standing in ranking.models if standing.rank is not None]
        fig = critical_difference_figure(ranks, critical_difference=ranking.critical_difference, alike=ranking.alike)
        ranks_text = ", ".join(f"{model} {rank:.2f}" for model, rank in ranks)
        parts.append(
            drawing(
                fig,
                name=f"{name}-ranks",
                alt=f"Critical-difference diagram. Average ranks: {ranks_text}.",
                caption="Average ranks, best on the left. A thick bar joins models that the test cannot tell apart.",
            )
        )
    return join_html(parts)


def heat_map_part(board: Board, *, anchors: Mapping[str, str]) -> Html:
    """Cases over models: each error over the best of its case, the stronger the colour the closer to it."""
    metric = board.metrics[0]
    models = board.grid.forecasters
    if direction_of(metric) >= 0 or len(models) < 2 or len(board.grid.cases) < 2:
        return Html("")
    rows = []
    for case in board.grid.cases:
        means = means_of_case(board.cells, case, models, metric).values()
        if len(means) < 2 or min(means) <= 0:
            continue
        link = element("a", {"href": f"#{anchors[case[0]]}"}, case[0])
        line = [Entry(join_html([link, f", {case[1]}"]), f"{case[0]}, {case[1]:06d}")]
        for model in models:
            cell = board.cells.get(Spot(*case, model, metric))
            if cell is None or not (cell.done + cell.diverged + cell.failed):
                line.append(Entry("", ""))  # a run that is not done yet is no trouble
            elif cell.mean is None:
                line.append(Entry(cell_text(cell), "", "trouble"))
            else:
                ratio, shade = cell.mean / min(means), _shade(board, case, metric, cell)
                shown = f"×{ratio:.2f}" if ratio < 100 else f"×{ratio:.1e}"
                line.append(Entry(shown, ratio, shade, number(cell.mean)))
        rows.append(line)
    if not rows:
        return Html("")
    heads = [Head("dataset, steps"), *(Head(model, numeric=True) for model in models)]
    caption = f"{title_of(metric)} over the best of the case; the stronger the colour, the closer to it"
    return join_html([element("h3", {}, "At a glance"), listing(heads, rows, caption=caption, tall=len(rows) > 40)])


def leaderboard_part(
    board: Board, against: Mapping[tuple[Case, str], AgainstBest], *, anchors: Mapping[str, str]
) -> Html:
    """Every case and model in a line: each metric with the paper's number, the oracle's, regret, rank, verdict."""
    spots = [(case, model) for case in board.grid.cases for model in board.lines(case)]
    printed = {
        metric: any(board.paper(Spot(*case, model, metric)) is not None for case, model in spots)
        for metric in board.metrics
    }
    heads = [Head("dataset"), Head("steps", numeric=True), Head("model"), Head("sees")]
    for metric in board.metrics:
        group = title_of(metric)
        titles = [group, f"paper {group}", "ours / paper"] if printed[metric] else [group]
        heads += [Head(title, numeric=True, group=group) for title in titles]
    heads += [Head(title, numeric=True, group="MSE") for title in (*map(title_of, board.floors), "rank")]
    heads.append(Head("against the best", group="MSE"))
    ranks = {case: _ranks(board, case) for case in board.grid.cases}
    rows = [_line(board, case, model, printed, ranks[case], against, anchors) for case, model in spots]
    caption = (
        f"{len(rows)} lines: mean over seeds ± standard error; "
        "the stronger a cell's colour, the closer to the best of its case"
    )
    if any(cell.by_last_batch for cell in board.cells.values()):
        caption += "; ours / paper: of the last batch of test windows, which the paper's numbers are of"
    return listing(heads, rows, caption=caption, filterable=True, tall=len(rows) > 40)


def _line(
    board: Board,
    case: Case,
    model: str,
    printed: Mapping[str, bool],
    ranks: Mapping[str, int],
    against: Mapping[tuple[Case, str], AgainstBest],
    anchors: Mapping[str, str],
) -> list[Entry]:
    dataset, horizon = case
    runs = board.grid.runs(case, model)
    line = [
        Entry(element("a", {"href": f"#{anchors[dataset]}"}, dataset), dataset),
        Entry(str(horizon)),
        Entry(model, kind="short"),
        Entry((channels_seen(runs[0]) if runs else None) or "–"),
    ]
    for metric in board.metrics:
        spot = Spot(dataset, horizon, model, metric)
        cell, paper = board.cells.get(spot), board.paper(spot)
        line.append(_figure(board, case, metric, cell))
        if printed[metric]:
            ratio = None if cell is None else cell.ratio
            line += [figure_entry(paper), figure_entry(ratio, f"×{ratio:.2f}" if ratio else None)]
    floors = [board.cells.get(Spot(dataset, horizon, model, metric)) for metric in board.floors]
    line += [figure_entry(None if cell is None else cell.mean) for cell in floors]
    rank, verdict = ranks.get(model), against.get((case, model))
    line.append(figure_entry(rank))
    if rank == 1:
        line.append(Entry("the best", "", "short"))
    elif verdict is None:
        line.append(Entry("", ""))
    elif verdict.p_value is None:
        line.append(Entry("not tested", "", "short", verdict.words))
    else:
        text = f"{'differs' if verdict.differs else 'not told apart'}, p = {verdict.p_value:.2g}"
        line.append(Entry(text, None, "short", verdict.words))
    return line


def _figure(board: Board, case: Case, metric: str, cell: Cell | None) -> Entry:
    if cell is None:
        return Entry("", "")
    shown: str = cell_text(replace(cell, paper=None))  # which has a column of its own
    if cell.place is not None:
        tag = "strong" if cell.place == 1 else "u"
        shown = element(tag, {}, shown)
    kind = "trouble" if cell.trouble() else _shade(board, case, metric, cell)
    sort = "" if cell.mean is None else float(cell.mean)
    return Entry(shown, sort, kind, _MARKS.get(cell.place or 0))


def _shade(board: Board, case: Case, metric: str, cell: Cell) -> str | None:
    """How close a figure is to the best of its case, where it is an error above 0."""
    means = means_of_case(board.cells, case, board.grid.models, metric).values()
    if direction_of(metric) >= 0 or cell.mean is None or not means or min(means) <= 0 or len(means) < 2:
        return None
    ratio = cell.mean / min(means)
    return next((kind for most, kind in _SHADES if 1.0 <= ratio <= most), None)


def _ranks(board: Board, case: Case) -> dict[str, int]:
    """Places by the first metric; diverged runs last, those that failed or are missing without one."""
    metric = board.metrics[0]
    direction = direction_of(metric)
    cells = {model: board.cells.get(Spot(*case, model, metric)) for model in board.grid.forecasters if direction}
    scores = {model: score for model, cell in cells.items() if (score := score_cell(cell, direction)) is not None}
    return {model: 1 + sum(rival < value for rival in scores.values()) for model, value in scores.items()}
