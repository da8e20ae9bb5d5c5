"""What held-out rows show of a distribution: eigen-profile, warnings with measured rates, coverage."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import pyarrow as pa
import torch
from numpy.typing import NDArray

from fern.calibration import Calibration, CalibrationSettings, Residuals, coverage_report, fit_calibration
from fern.calibration.coverage import CoverageCourse, CoverageRow, coverage_course
from fern.data.frames import Series
from fern.diagnostics import EigenProfile, Rules, eigenprofile, learn_rules, measured_rates
from fern.diagnostics.alarms import Rates
from fern.forecaster.distributions import distribution_of
from fern.forecaster.fitting.windows import HeldOut, Learnt
from fern.models import Forecaster

MOST_SERIES, MOST_ROWS = 12, 2000
"""Series that are profiled, and the newest rows of each."""

PROFILE_WINDOWS = 500
"""Of each series, about; rows between them are profiled by the windows around."""

COVERAGE_WINDOWS = 300
LEAD = 24
"""Rows that warnings look ahead, at most; shorter horizons look as far as they reach."""

LEVELS = (50.0, 80.0, 90.0, 95.0)
COURSE_LEVEL = 90.0
"""Whose coverage is followed along time."""


@dataclass(frozen=True, eq=False)
class Profiled:
    """The eigen-profile of a series in model units, and the rules that were learnt on its earlier part.

    ``rules`` is None where there are too few rows to learn any; ``measured`` are their rates on the later part.
    """

    name: str
    stamps: pa.Array | None  # of the profile's rows
    profile: EigenProfile
    rules: Rules | None = None
    measured: Mapping[str, Rates] = field(default_factory=dict)


@dataclass(frozen=True, eq=False)
class Findings:
    """Profiles of some series (none for a model without a distribution), and coverage on windows the radii are not
    from.

    ``course`` is how the coverage of 90 % intervals went, window by window, and the PIT.
    """

    profiled: tuple[Profiled, ...] = ()
    coverage: tuple[CoverageRow, ...] = ()
    course: CoverageCourse | None = None


def findings_of(
    model: Forecaster,
    series: Sequence[Series],
    learnt: Learnt,
    calibration: Residuals,
    validation: Residuals,
    settings: CalibrationSettings,
) -> Findings:
    """What a fit can say of its distribution before the model is trained once more on all rows.

    Rules are learnt on validation rows and measured on calibration rows. Coverage is that of radii from the earlier
    half of the calibration windows on the later half, so a little pessimistic: the forecaster has radii from all.
    """
    profiled = []
    if model.has_distribution:
        kept = [one for one, parts in zip(series, learnt.plan.parts, strict=True) if parts is not None]
        for one, values, parts in list(zip(kept, learnt.values, learnt.parts, strict=True))[:MOST_SERIES]:
            first = max(parts.validation.start - learnt.plan.context_length, 0)
            found = profile_of(model, one, values, first=first, split=parts.calibration.start)
            if found is not None:
                profiled.append(found)
    measured = _held_out_coverage(model, learnt, calibration, validation, settings)
    return Findings(tuple(profiled)) if measured is None else Findings(tuple(profiled), *measured)


def profile_of(
    model: Forecaster,
    series: Series,
    values: NDArray[np.float32],  # (T, C), model units
    *,
    first: int = 0,
    split: int | None = None,
    rules: Rules | None = None,
) -> Profiled | None:
    """The profile of the newest rows from ``first`` on; None where there is no room for a window.

    Without ``rules`` they are learnt on the rows before ``split`` (the middle unless given) and measured on those after
    it; with rules they are measured on all rows.
    """
    length, horizon = model.config.context_length, model.config.horizon
    start = max(first, len(values) - length - MOST_ROWS, series.breaks[-1] if series.breaks else 0)
    rows = len(values) - start
    if rows < length + horizon:
        return None
    stride = min(horizon, max(1, (rows - length) // PROFILE_WINDOWS))
    found = eigenprofile(model, values[start:], stride=stride)
    profile = replace(found, first_row=found.first_row + start)
    stamps = None
    if series.stamps is not None:  # copied: a slice would hold on to the whole column
        stamps = pa.concat_arrays([series.stamps.slice(profile.first_row, len(profile))])
    made = Profiled(series.name, stamps, profile)
    if rules is not None:
        return replace(made, rules=rules, measured=measured_rates(profile, rules))
    lead = min(LEAD, horizon)
    middle = (len(profile) // 2) if split is None else split - profile.first_row
    if middle < 4 * lead or len(profile) - middle <= lead:
        return made
    learned = learn_rules(_rows(profile, 0, middle), lead=lead)
    return replace(made, rules=learned, measured=measured_rates(_rows(profile, middle, len(profile)), learned))


def covered(
    calibration: Calibration,
    model: Forecaster,
    past: torch.Tensor,  # (n, L, C)
    future: torch.Tensor,  # (n, H, C)
    *,
    origins: NDArray[np.int64],
    series: NDArray[np.int64],
) -> tuple[tuple[CoverageRow, ...], CoverageCourse]:
    """The coverage of every kind of region at the usual levels, with n_eff and error bars, and its course."""
    forecast = calibration.apply(distribution_of(model, past))
    report = coverage_report(forecast, future, origins=origins.tolist(), series=series.tolist(), levels=LEVELS, paths=0)
    course = coverage_course(forecast, future, origins=origins.tolist(), row=report.row("margin", COURSE_LEVEL))
    return report.rows, course


def _held_out_coverage(
    model: Forecaster,
    learnt: Learnt,
    calibration: Residuals,
    validation: Residuals,
    settings: CalibrationSettings,
) -> tuple[tuple[CoverageRow, ...], CoverageCourse] | None:
    if len(calibration) < 2:
        return None
    early, late = calibration.halves()
    if not len(early) or not len(late):
        return None
    late = late.thinned(COVERAGE_WINDOWS)
    wanted = set(zip(late.series.tolist(), late.origins.tolist(), strict=True))
    pasts, futures, origins, names = [], [], [], []
    part: HeldOut = "calibration"
    for past, future, rows, codes in learnt.held_out(part, most=len(calibration)):
        chosen = [i for i, key in enumerate(zip(codes.tolist(), rows.tolist(), strict=True)) if key in wanted]
        pasts.append(past[chosen])
        futures.append(future[chosen])
        origins.append(rows[chosen])
        names.append(codes[chosen])
    return covered(
        fit_calibration(early, validation, settings=settings),
        model,
        torch.cat(pasts),
        torch.cat(futures),
        origins=np.concatenate(origins),
        series=np.concatenate(names),
    )


def _rows(profile: EigenProfile, start: int, stop: int) -> EigenProfile:
    cut = {
        name: getattr(profile, name)[start:stop]
        for name in ("forecast", "truth", "error", "spectral_radius", "trace", "log_det")
    }
    return EigenProfile(first_row=profile.first_row + start, **cut)
