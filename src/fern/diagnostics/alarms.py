"""Warnings learnt from eigen-profiles: rules that flag rows after which the error is about to spike.

A *spike* is a row at which the error rises through a high quantile of the validation errors. A *quiet* row is one
after which no spike starts within ``lead`` rows. A rule's **hit rate** is the share of spikes that it flagged at
least once in the ``lead`` rows before them; its **false-alarm rate** is the share of quiet rows that it flagged. A
rule that knows nothing and flags a share q of all rows has a false-alarm rate of q and a hit rate of up to 1 - (1 -
q)^lead: so a rule's worth is judged row by row as well, by ``lift``: how many times likelier a spike is to follow a
flagged row than any row.
"""

import itertools
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fern.diagnostics.eigenprofile import EigenProfile
from fern.errors import FernError

Flags = NDArray[np.bool_]  # (rows, channels)


@dataclass(frozen=True)
class Rates:
    """How a rule did on a profile with known errors."""

    hit_rate: float
    false_alarm_rate: float
    lift: float
    spikes: int


@dataclass(frozen=True)
class Rule:
    """A condition on a profile, its thresholds for each channel, and its rates on the data they were learnt from."""

    name: str
    explanation: str
    thresholds: tuple[dict[str, float], ...]  # one for each channel
    rates: Rates


@dataclass(frozen=True)
class Rules:
    """Rules learnt together: what counts as a spike, how far ahead they look, and each rule."""

    spike_errors: tuple[float, ...]  # one for each channel
    lead: int
    rules: tuple[Rule, ...]


@dataclass(frozen=True)
class Alarm:
    """A stretch of rows of one channel that a rule flags: ``first_row`` to ``last_row``, both in the data's rows."""

    rule: str
    channel: int
    first_row: int
    last_row: int
    hit_rate: float
    false_alarm_rate: float

    def __str__(self) -> str:
        return (
            f"{self.rule} in channel {self.channel}, rows {self.first_row} to {self.last_row} "
            f"(on validation: {self.hit_rate:.0%} of error spikes, {self.false_alarm_rate:.0%} of quiet rows)"
        )


def learn_rules(
    validation: EigenProfile,
    *,
    lead: int = 24,
    spike_quantile: float = 0.95,
    largest_false_alarm_rate: float = 0.2,
) -> Rules:
    """Choose each rule's thresholds on validation data: the most hits less false alarms, within the alarm limit.

    - *variance collapse*: trace and log-determinant both under low quantiles of their own, the paper's failure mode
      (the model turns overconfident just before it is wrong);
    - *rising spectral radius*: its rise over the last ``lead`` rows above a high quantile.

    Example:
        >>> steps = np.arange(300.0)[:, None]
        >>> error = np.where(steps % 100 > 90, 5.0, 0.1)
        >>> calm = np.where((steps % 100 > 80) & (steps % 100 <= 90), -9.0, 0.0)
        >>> profile = EigenProfile(0, error, error, error, 0 * calm, 10 + calm, calm)
        >>> learn_rules(profile, lead=10, spike_quantile=0.9).rules[0].rates.hit_rate
        1.0
    """
    if not 0.5 <= spike_quantile < 1.0:
        raise FernError(argument="spike_quantile", got=spike_quantile, expected="0.5 to 1")
    if not 0.0 < largest_false_alarm_rate <= 1.0:
        raise FernError(argument="largest_false_alarm_rate", got=largest_false_alarm_rate, expected="0 to 1")
    if not 1 <= lead < len(validation):
        expected = f"1 to {len(validation) - 1}, the rows of the profile less one"
        raise FernError(argument="lead", got=lead, expected=expected)
    spike_errors = np.quantile(validation.error, spike_quantile, axis=0)
    rules = [
        _learn(validation, template, spike_errors=spike_errors, lead=lead, limit=largest_false_alarm_rate)
        for template in _TEMPLATES
    ]
    return Rules(tuple(map(float, spike_errors)), lead, tuple(rules))


def detect_alarms(profile: EigenProfile, rules: Rules) -> list[Alarm]:
    """The stretches that the rules flag, in order of time; needs no truth, so it can run ahead of the data.

    Example:
        >>> steps = np.arange(300.0)[:, None]
        >>> error = np.where(steps % 100 > 90, 5.0, 0.1)
        >>> calm = np.where((steps % 100 > 80) & (steps % 100 <= 90), -9.0, 0.0)
        >>> profile = EigenProfile(0, error, error, error, 0 * calm, 10 + calm, calm)
        >>> rules = learn_rules(profile, lead=10, spike_quantile=0.9)
        >>> [(a.rule, a.first_row, a.last_row) for a in detect_alarms(profile, rules)][0]
        ('variance collapse', 81, 90)
    """
    if profile.channels != len(rules.spike_errors):
        raise FernError(
            f"got {profile.channels} channels, the rules were learnt on {len(rules.spike_errors)}", argument="profile"
        )
    alarms = []
    for rule in rules.rules:
        flags = _flags(profile, rule, rules.lead)
        rates = rule.rates
        for channel in range(profile.channels):
            for start, stop in _stretches(flags[:, channel]):
                rows = profile.first_row + start, profile.first_row + stop - 1
                alarms.append(Alarm(rule.name, channel, *rows, rates.hit_rate, rates.false_alarm_rate))
    return sorted(alarms, key=lambda alarm: (alarm.first_row, alarm.channel, alarm.rule))


def measure_rates(profile: EigenProfile, rules: Rules) -> dict[str, Rates]:
    """Each rule's rates on another profile with known errors, a test part say."""
    spike_errors = np.array(rules.spike_errors)
    return {
        rule.name: _rates(_flags(profile, rule, rules.lead), profile.error, spike_errors, rules.lead)
        for rule in rules.rules
    }


# --- the rules ---------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Template:
    """A rule before its thresholds are known: which figures it reads, on which side, and the quantiles to try."""

    name: str
    explanation: str
    figures: dict[str, Callable[[EigenProfile, int], NDArray[np.float64]]]
    quantiles: tuple[float, ...]
    low: bool


def _rise(profile: EigenProfile, lead: int) -> NDArray[np.float64]:
    """How much the spectral radius has risen over the last ``lead`` rows (0 before there are as many)."""
    rise = np.zeros_like(profile.spectral_radius)
    rise[lead:] = profile.spectral_radius[lead:] - profile.spectral_radius[:-lead]
    return rise


_TEMPLATES = (
    _Template(
        name="variance collapse",
        explanation="trace and log-determinant are both low: sure of itself, often just before it is wrong",
        figures={"trace": lambda profile, _: profile.trace, "log_det": lambda profile, _: profile.log_det},
        quantiles=(0.02, 0.05, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5),
        low=True,
    ),
    _Template(
        name="rising spectral radius",
        explanation="the strongest stretching grows: the model expects violent motion",
        figures={"rise": _rise},
        quantiles=(0.6, 0.7, 0.8, 0.85, 0.9, 0.95, 0.98),
        low=False,
    ),
)
_BY_NAME = {template.name: template for template in _TEMPLATES}


def _learn(
    profile: EigenProfile, template: _Template, *, spike_errors: NDArray[np.float64], lead: int, limit: float
) -> Rule:
    figures = {name: read(profile, lead) for name, read in template.figures.items()}
    best: tuple[float, Rule] | None = None
    for levels in itertools.product(template.quantiles, repeat=len(figures)):
        chosen = [np.quantile(v, level, axis=0) for v, level in zip(figures.values(), levels, strict=True)]
        per_channel = tuple(dict(zip(figures, map(float, values), strict=True)) for values in zip(*chosen, strict=True))
        rates = _rates(_compare(figures, per_channel, low=template.low), profile.error, spike_errors, lead)
        score = rates.hit_rate - rates.false_alarm_rate
        within = rates.false_alarm_rate <= limit
        if best is None or (within and score > best[0]):
            best = (score if within else -1.0, Rule(template.name, template.explanation, per_channel, rates))
    assert best is not None  # there is at least one level
    return best[1]


def _flags(profile: EigenProfile, rule: Rule, lead: int) -> Flags:
    template = _BY_NAME[rule.name]
    figures = {name: read(profile, lead) for name, read in template.figures.items()}
    return _compare(figures, rule.thresholds, low=template.low)


def _compare(figures: dict[str, NDArray[np.float64]], thresholds: tuple[dict[str, float], ...], *, low: bool) -> Flags:
    """The rows at which every figure is beyond its channel's threshold."""
    limits = {name: np.array([channel[name] for channel in thresholds]) for name in figures}
    beyond = np.less if low else np.greater
    together: Flags = np.logical_and.reduce([beyond(values, limits[name]) for name, values in figures.items()])
    return together


def _rates(flags: Flags, error: NDArray[np.float64], spike_errors: NDArray[np.float64], lead: int) -> Rates:
    above = error > spike_errors
    onset = above & ~np.vstack([np.zeros_like(above[:1]), above[:-1]])
    onset[0] = False  # nothing was seen before the first row
    # ahead[t]: a spike starts in rows t + 1 … t + lead; flagged_before[t]: a flag in rows t - lead … t - 1.
    ahead, flagged_before = _within(onset, lead, ahead=True), _within(flags, lead, ahead=False)
    spikes = int(onset.sum())
    hit_rate = float(flagged_before[onset].mean()) if spikes else 0.0
    false_alarm_rate = float(flags[~ahead].mean()) if (~ahead).any() else 0.0
    usual = float(ahead.mean())
    lift = float(ahead[flags].mean()) / usual if flags.any() and usual > 0 else 1.0
    return Rates(hit_rate, false_alarm_rate, lift, spikes)


def _within(marks: Flags, lead: int, *, ahead: bool) -> Flags:
    """Whether a mark lies in the ``lead`` rows after (or before) each row."""
    counts = np.vstack([np.zeros((1, marks.shape[1]), dtype=np.int64), marks.cumsum(axis=0)])
    rows = np.arange(len(marks))
    low = rows + 1 if ahead else np.maximum(rows - lead, 0)
    high = np.minimum(rows + 1 + lead, len(marks)) if ahead else rows
    marked: Flags = counts[high] > counts[np.minimum(low, len(marks))]
    return marked


def _stretches(flags: NDArray[np.bool_]) -> list[tuple[int, int]]:
    """Where runs of True start and stop."""
    edges = np.flatnonzero(np.diff(np.concatenate([[0], flags.astype(np.int8), [0]])))
    return [(int(start), int(stop)) for start, stop in zip(edges[::2], edges[1::2], strict=True)]
