"""The paper's preprocessing policy: what is done with zeros, stuck values, sentinels and missing values, and why."""

from dataclasses import dataclass, replace
from datetime import timedelta
from pathlib import Path
from typing import Annotated, Any, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import BeforeValidator

from fern.data.auditing.scan import ColumnStatistics
from fern.data.auditing.scan_runs import RunLengths, RunScan, runs_of
from fern.data.frequency import Frequency, parse_duration
from fern.errors import FernError, require_number, require_whole
from fern.settings import STRICT, from_mapping, read_toml

SentinelKind = Literal["code", "stuck"]


@dataclass(frozen=True)
class Sentinel:
    """A run of one value that is no measurement."""

    kind: SentinelKind
    first: int
    length: int
    value: float

    @property
    def reason(self) -> str:
        """Why it is none."""
        return "missing-value code" if self.kind == "code" else f"stuck for {self.length:,} rows"


def sentinels(
    values: NDArray[np.float64],  # (T,), missing ones NaN
    *,
    stuck_after: float,
) -> list[Sentinel]:
    """Runs of missing-value codes, and of one value other than zero for more than ``stuck_after`` rows.

    Example:
        >>> values = np.concatenate([np.arange(1.0, 50.0), [-9999.0, 7.0, 7.0, 7.0, 7.0]])
        >>> [(found.kind, found.first, found.length) for found in sentinels(values, stuck_after=3)]
        [('code', 49, 1), ('stuck', 50, 4)]
    """
    scan = RunScan()
    scan.add(values)
    scan.close()
    codes = np.array([code for code, _, _ in scan.codes()], dtype=np.float32)
    runs = runs_of(values)
    coded = np.isin(runs.values.astype(np.float32), codes)
    stuck = np.isfinite(runs.values) & (runs.values != 0) & (runs.lengths > stuck_after)
    return [
        Sentinel("code" if np.float32(value) in codes else "stuck", first, length, value)
        for first, length, value in runs.where(coded | stuck)
    ]


def _duration(value: Any) -> Any:
    if isinstance(value, str):
        return parse_duration(value)
    if not isinstance(value, timedelta):
        raise FernError(got=value, expected="a duration such as '3 hours'")  # a bare number has no unit
    return value


Duration = Annotated[timedelta, BeforeValidator(_duration)]

ActionKind = Literal["keep", "drop", "asinh", "delete rows", "fill", "undecided"]


@dataclass(frozen=True)
class Policy:
    """The paper's rules (appendix "Preprocessing policy"), their thresholds as fields. The first that fits decides:

    1. sentinel values in more than ``sentinel_share`` of the rows, or zeros in more than ``zero_share``: drop the
       column;
    2. a run of zeros longer than ``drop_run``: drop the column;
    3. zeros in ``asinh_share`` to ``zero_share`` of the rows: asinh transform, zeros stay;
    4. else run by run: rows of a zero run longer than ``delete_run`` are deleted, zeros of a shorter one filled with
       the value before (at the start of the series: after).

    A **sentinel** is what the paper calls a stuck sensor, or a missing-value code: a value other than zero that
    stands unchanged for more than ``stuck_run`` and more than ``stuck_steps`` rows (its entries in such runs count),
    or a code such as -9999 that lies outside all other values by more than half their range. A day is the shortest
    time that no daily cycle leaves flat by itself; many of ETT's columns repeat a value for some hours.
    Sentinels below the share are reported and, as in the paper's experiments, kept; ``sentinels="missing"``
    treats them as missing values instead.

    ``zeros="keep"`` leaves zeros alone: of counts and demand they are true values (`COUNTS_POLICY`).

    The paper is silent on missing values; ``missing="like zeros"`` puts their share and runs under the same
    thresholds (without asinh), ``missing="keep"`` leaves them.
    """

    __pydantic_config__ = STRICT

    sentinel_share: float = 0.10
    zero_share: float = 0.15
    asinh_share: float = 0.10
    drop_run: Duration = timedelta(weeks=1)
    delete_run: Duration = timedelta(hours=3)
    stuck_run: Duration = timedelta(days=1)
    stuck_steps: int = 24
    sentinels: Literal["keep", "missing"] = "keep"
    missing: Literal["like zeros", "keep"] = "like zeros"
    zeros: Literal["clean", "keep"] = "clean"

    def __post_init__(self) -> None:
        for name in ("sentinel_share", "zero_share", "asinh_share"):
            require_number(name, getattr(self, name), "a fraction from 0 to 1", lambda value: 0 <= value <= 1)
        if self.asinh_share > self.zero_share:
            most = f"at most zero_share ({self.zero_share})"
            raise FernError(argument="asinh_share", got=self.asinh_share, expected=most)
        for name in ("drop_run", "delete_run", "stuck_run"):
            duration = getattr(self, name)
            if not isinstance(duration, timedelta) or duration < timedelta(0):
                raise FernError(argument=name, got=duration, expected="a duration of 0 or more")
        require_whole("stuck_steps", self.stuck_steps, 1)

    def stuck_after(self, frequency: Frequency) -> float:
        """How many rows a value may repeat before it counts as stuck."""
        return max(frequency.steps(self.stuck_run) or 0.0, float(self.stuck_steps))


PAPER_POLICY = Policy()
"""The paper's thresholds, which are for sensors."""

COUNTS_POLICY = Policy(zeros="keep", sentinel_share=1.0)
"""For counts and demand: zeros, and a number that is sold day after day, are true values."""

POLICIES = {"paper": PAPER_POLICY, "counts": COUNTS_POLICY}


def read_policy(path: Path) -> Policy:
    """A policy by its name (``paper``, ``counts``), or from a TOML file.

    Fields that the file leaves out are the paper's, durations are written as in "3 hours".
    """
    if str(path) in POLICIES and not path.exists():
        return POLICIES[str(path)]
    return from_mapping(Policy, read_toml(path), where=str(path))


@dataclass(frozen=True)
class Action:
    """One thing the policy does to a column, to how many entries, and why."""

    kind: ActionKind
    entries: int
    reason: str


@dataclass(frozen=True)
class ColumnVerdict:
    """What the policy does to a column; ``sentinel_entries`` are the rows that hold a sentinel."""

    actions: tuple[Action, ...]
    sentinel_entries: int

    @property
    def kinds(self) -> tuple[ActionKind, ...]:
        """The actions' kinds."""
        return tuple(action.kind for action in self.actions)


def judge(column: ColumnStatistics, frequency: Frequency, policy: Policy) -> ColumnVerdict:
    """Apply the policy to what is known of a column."""
    if policy.zeros == "keep":
        none = np.zeros_like(column.zeros.entries)
        column = replace(column, zeros=replace(column.zeros, longest=0, runs=none, entries=none))
    stuck = column.values.entries_longer_than(policy.stuck_after(frequency))
    sentinels = stuck + sum(code.count for code in column.codes)
    for action in (
        _by_share(column, sentinels, policy),
        _by_run("zeros", column.zeros, frequency, policy),
        _by_run("missing", column.missing, frequency, policy) if policy.missing == "like zeros" else None,
    ):
        if action is not None:
            return ColumnVerdict((action,), sentinels)
    actions = []
    share = column.zeros.total / column.rows
    if share >= policy.asinh_share and column.zeros.total:
        limits = f"{_percent(policy.asinh_share)} to {_percent(policy.zero_share)}"
        actions.append(Action("asinh", column.zeros.total, f"zeros in {_percent(share)} of the rows ({limits})"))
    else:
        actions += _run_by_run("zeros", column.zeros, frequency, policy)
    if policy.missing == "like zeros":
        actions += _run_by_run("missing values", column.missing, frequency, policy)
    return ColumnVerdict(tuple(actions) or (Action("keep", 0, _explain_keep(column, sentinels)),), sentinels)


def _by_share(column: ColumnStatistics, sentinels: int, policy: Policy) -> Action | None:
    if column.finite == 0:
        return Action("drop", column.rows, "no values")
    for name, entries, limit in (
        ("sentinel values", sentinels, policy.sentinel_share),
        ("zeros", column.zeros.total, policy.zero_share),
        ("missing values", column.missing.total if policy.missing == "like zeros" else 0, policy.zero_share),
    ):
        share = entries / column.rows
        if share > limit:
            return Action("drop", entries, f"{name} in {_percent(share)} of the rows (more than {_percent(limit)})")
    return None


def _by_run(name: str, runs: RunLengths, frequency: Frequency, policy: Policy) -> Action | None:
    limit = frequency.steps(policy.drop_run)
    if limit is None or runs.longest <= limit:
        return None
    length = timedelta(microseconds=runs.longest * (frequency.nanoseconds or 0.0) / 1000)
    reason = f"a run of {name} lasting {in_words(length)} (more than {in_words(policy.drop_run)})"
    return Action("drop", runs.total, reason)


def _run_by_run(name: str, runs: RunLengths, frequency: Frequency, policy: Policy) -> list[Action]:
    if runs.total == 0:
        return []
    limit = frequency.steps(policy.delete_run)
    if limit is None:
        reason = f"{runs.total:,} {name}, but the time column does not give the duration of a step (give step)"
        return [Action("undecided", runs.total, reason)]
    long = runs.entries_longer_than(limit)
    actions = []
    if long:
        count = runs.runs_longer_than(limit)
        reason = f"{count:,} run{'s' * (count > 1)} of {name} longer than {in_words(policy.delete_run)}"
        actions.append(Action("delete rows", long, reason))
    if runs.total > long:
        actions.append(Action("fill", runs.total - long, f"{name} in runs up to {in_words(policy.delete_run)}"))
    return actions


def _explain_keep(column: ColumnStatistics, sentinels: int) -> str:
    if not sentinels:
        return "nothing to clean"
    values = f"{sentinels:,} sentinel value{'s' * (sentinels != 1)}"
    return f"{values} ({_percent(sentinels / column.rows)} of the rows), kept as in the paper"


def _percent(share: float) -> str:
    if 0 < share < 5e-5:
        return "< 0.01 %"
    return f"{100 * share:.2f}".rstrip("0").rstrip(".") + " %"


def in_words(duration: timedelta) -> str:
    """A duration as a reader says it.

    Example:
        >>> in_words(timedelta(hours=3)), in_words(timedelta(days=9, hours=10))
        ('3 hours', '9.4 days')
    """
    seconds = duration.total_seconds()
    for size, name in ((604_800, "week"), (86_400, "day"), (3_600, "hour"), (60, "minute"), (1, "second")):
        if seconds >= size and (size != 604_800 or seconds % size == 0):
            count = seconds / size
            # One decimal, or two where one would make 25 hours a day.
            amount = f"{count:.{1 if round(count, 1) % 1 else 2}f}".removesuffix(".00")
            return f"{amount} {name}{'' if amount == '1' else 's'}"
    return f"{seconds:g} seconds"
