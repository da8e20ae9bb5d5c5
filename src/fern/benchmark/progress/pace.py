"""The remaining time of a sweep, estimated from finished runs."""

from collections.abc import Iterable, Sequence

from fern.benchmark.rows import Row
from fern.benchmark.run import Run


class Pace:
    """Estimates from finished runs: those of the same model and dataset, else of the same model, else of all.

    Example:
        >>> in_words(4000)
        '1 h 6 min'
    """

    def __init__(self, rows: Iterable[Row] = ()) -> None:
        self._seen: dict[tuple[str, ...], list[float]] = {}
        for row in rows:
            self.add(row)

    def add(self, row: Row) -> None:
        """Learn from a finished run; failed runs are ignored."""
        if row.status != "done" or "total" not in row.seconds:
            return
        spent = max(row.seconds["total"], row.seconds.get("train", 0.0) + row.seconds.get("evaluate", 0.0))
        for place in ((row.model, row.dataset), (row.model,), ()):
            self._seen.setdefault(place, []).append(spent)

    def seconds(self, run: Run) -> float | None:
        """The expected duration of a run, or None if nothing is known yet."""
        for place in ((run.settings.model, run.settings.dataset), (run.settings.model,), ()):
            if place in self._seen:
                return sum(self._seen[place]) / len(self._seen[place])
        return None

    def remaining(self, waiting: Iterable[Run], under_way: Sequence[tuple[Run, float]], *, slots: int) -> float | None:
        """Seconds until all are done; ``under_way`` holds the active runs and their elapsed time."""
        estimates = [(self.seconds(run), 0.0) for run in waiting]
        estimates += [(self.seconds(run), spent) for run, spent in under_way]
        known = [max(0.0, whole - spent) for whole, spent in estimates if whole is not None]
        if len(known) < len(estimates) or not estimates:
            return None
        return max(sum(known) / slots, max(known))


def in_words(seconds: float) -> str:
    """A length of time in two units at most.

    Example:
        >>> in_words(9.4), in_words(75), in_words(200_000)
        ('9 s', '1 min 15 s', '2 d 7 h')
    """
    whole = round(seconds)
    for size, name, part, small in ((86_400, "d", 3600, "h"), (3600, "h", 60, "min"), (60, "min", 1, "s")):
        if whole >= size:
            return f"{whole // size} {name} {whole % size // part} {small}"
    return f"{whole} s"
