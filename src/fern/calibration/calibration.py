"""Fitting a calibration on held-out windows."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from fern.calibration.forecast import CalibratedForecast
from fern.calibration.radii import (
    KINDS,
    POOLED_STEPS,
    Kind,
    Radii,
    Reference,
    Shape,
    blocks_of,
    fit_radii,
    fit_shape,
    measure_pooled_sizes,
)
from fern.calibration.residuals import LEVELS, RadiusTable, Residuals
from fern.calibration.settings import CalibrationSettings
from fern.errors import FernError, require_level, require_whole
from fern.settings import from_mapping
from fern.transport import Ellipsoid

FORMAT = 2
DEFAULT = CalibrationSettings()

MOST_WINDOWS = 4000
"""More windows than this are thinned evenly: overlapping windows hold little news."""

WINDOWS_PER_CHANNEL = 40
"""A channel has radii of its own where its windows are worth so many independent ones; else all channels share theirs.
A 95 % level needs 19, and twice as many before it is steady."""

SPLIT_FROM = 40
"""One held-out set of so many windows with disjoint targets is split: the first half refits shapes, the second gives
quantiles. A smaller one serves for both, and then scales alone are refitted."""

MOST_KEPT = 1000
MOST_KEPT_VALUES = 2**24
"""Residuals of so many windows are kept for paths and functionals; they take at most about 64 MB, but for at least
`LEAST_KEPT` windows."""
LEAST_KEPT = 64


@dataclass(frozen=True)
class Calibration:
    """What held-out windows taught about a distribution: its shape, its radii, and residuals to draw paths from.

    `fit_calibration` makes one. ``apply(distribution)`` gives the `CalibratedForecast` of new windows. ``notes``
    lists decisions and shortcomings in plain words.
    """

    settings: CalibrationSettings
    patch_size: int
    group: NDArray[np.int64]  # (C,) the group of each channel
    shape: Shape
    radii: Radii
    kept: Residuals
    """The standardised residuals of calibration windows (``whitened`` is left empty)."""
    windows: int
    """Calibration windows, before any were thinned for ``kept``."""
    pooled_n_eff: Mapping[Kind, float]
    """The effective number of calibration windows behind the mean coverage of each kind, all channels and steps
    together (``n_eff`` is that of the least supported step); 0 without windows."""
    notes: tuple[str, ...]

    @property
    def channels(self) -> int:
        """C."""
        return len(self.group)

    @property
    def horizon(self) -> int:
        """H."""
        return int(self.shape.step_scale.shape[1])

    def apply(
        self,
        distribution: Ellipsoid,  # batch (N, C), event (H,)
    ) -> CalibratedForecast:
        """The calibrated forecast of these windows; computed lazily."""
        if not isinstance(distribution, Ellipsoid):
            raise FernError(argument="distribution", got=distribution, expected="a fern.transport.Ellipsoid")
        if len(distribution.batch_shape) != 2:
            problem = f"batch shape {tuple(distribution.batch_shape)}"
            raise FernError(problem, argument="distribution", expected="(windows, channels)")
        fitted = (self.channels, self.horizon, self.patch_size)
        got = (distribution.batch_shape[1], distribution.horizon, distribution.patch_size)
        if fitted != got:
            problem = f"channels, horizon and patch size are {got}, the calibration was fitted for {fitted}"
            raise FernError(problem, argument="distribution")
        return CalibratedForecast(distribution, self, self.radii)

    def calibrated(self, level: float) -> dict[str, bool]:
        """For each kind of region, whether n_eff supports the level; where not, its radii are Gaussian."""
        return {kind: self.radii.supports(kind, require_level(level)) for kind in KINDS}

    def require(self, level: float, *, kind: str = "margin") -> None:
        """An error that says how many windows a level needs, where they are too few."""
        chosen = next((known for known in KINDS if known == kind), None)
        if chosen is None:
            raise FernError(argument="kind", got=kind, expected=f"one of {', '.join(KINDS)}")
        if not self.radii.supports(chosen, require_level(level)):
            raise FernError(f"too few held-out windows: {self.radii.shortfall(chosen, level)}", argument="level")

    @property
    def n_eff(self) -> dict[str, float]:
        """The effective number of values behind each kind's radii, the least over channels and steps."""
        return {kind: self.radii.table(kind).least for kind in KINDS}

    # --- saving ---------------------------------------------------------------------------------------------

    def to_parts(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        """All of it as a mapping that JSON can hold, and named arrays; `from_parts` gives it back exactly."""
        plain: dict[str, Any] = {
            "format": FORMAT,
            "settings": asdict(self.settings),
            "patch_size": self.patch_size,
            "windows": self.windows,
            "pooled_n_eff": dict(self.pooled_n_eff),
            "notes": list(self.notes),
            "full": self.shape.full,
            "shape_n_eff": self.shape.n_eff,
            "shape_believed": self.shape.believed,
        }
        arrays: dict[str, NDArray[Any]] = {"group": self.group}
        arrays |= {f"shape.{name}": getattr(self.shape, name) for name in _arrays(Shape)}
        reference = self.radii.reference
        arrays |= {f"reference.{name}": reference.margin for name in ("low", "high")}
        arrays |= {"reference.patch": reference.patch}
        for kind, name in SAVED_AS.items():
            table = self.radii.table(kind)
            plain[name] = {"n": table.n, "tails": 1}
            arrays |= {f"{name}.{entry}": getattr(table, entry) for entry in _arrays(RadiusTable)}
        arrays |= {f"kept.{name}": getattr(self.kept, name) for name in ("standardised", "origins", "series")}
        return plain, arrays

    @classmethod
    def from_parts(cls, plain: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> Self:
        """The calibration that `to_parts` took apart."""
        if plain.get("format") != FORMAT:
            raise FernError(f"format {plain.get('format')!r} is not known", argument="calibration", expected=FORMAT)
        try:
            settings = from_mapping(CalibrationSettings, _current_settings(plain["settings"]), where="calibration")
            return cls._from_read(plain, arrays, settings)
        except FernError:
            raise
        except (KeyError, TypeError, AttributeError, OverflowError, IndexError, ValueError) as error:
            raise FernError(f"a part is missing or of the wrong kind ({error})", argument="calibration") from None

    @classmethod
    def _from_read(
        cls, plain: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]], settings: CalibrationSettings
    ) -> Self:
        """Every array is checked: its type, its size, and that its values can be those of a calibration."""
        patch_size = int(plain["patch_size"])
        require_whole("patch_size", patch_size, 1)
        channels, horizon = arrays["shape.step_scale"].shape
        patches, blocks = -(-horizon // patch_size), len(blocks_of(horizon))
        group = read_array(arrays, "group", (channels,), least=0, most=channels - 1, whole=True)
        groups = int(group.max()) + 1
        shape = Shape(
            step_scale=_read_bounded(arrays, "shape.step_scale", (channels, horizon), least=0.0),
            patch_scale=_read_bounded(arrays, "shape.patch_scale", (channels, patches), least=0.0),
            whitener=_read_bounded(arrays, "shape.whitener", (patches, patch_size, patch_size)),
            full=bool(plain["full"]),
            shrinkage=_read_bounded(arrays, "shape.shrinkage", (patches,)),
            bias=_read_bounded(arrays, "shape.bias", (channels,)),
            n_eff=float(plain["shape_n_eff"]),
            believed=float(plain["shape_believed"]),
        )
        units = {"margin": blocks, "patch": patches, "band": 1, "region": 1}
        tables: dict[str, RadiusTable] = {}
        for kind, name in SAVED_AS.items():
            size = groups * units[kind]
            tables[kind] = RadiusTable(
                values=_read_bounded(arrays, f"{name}.values", (size, len(LEVELS))),
                n_eff=_read_bounded(arrays, f"{name}.n_eff", (size,), least=0.0),
                spread=_read_bounded(arrays, f"{name}.spread", (size,), least=0.0),
                freedom=read_array(arrays, f"{name}.freedom", (size,), least=1, whole=True),
                count=read_array(arrays, f"{name}.count", (size,), least=1, whole=True),
                n=int(plain[name]["n"]),
            )
        margin, _ = (_read_bounded(arrays, f"reference.{name}", (groups, blocks)) for name in ("high", "low"))
        reference = Reference(margin, _read_bounded(arrays, "reference.patch", (groups, patches)))
        windows = len(arrays["kept.origins"])
        errors = _read_bounded(arrays, "kept.standardised", (windows, channels, horizon))
        origins, series = (read_array(arrays, f"kept.{name}", (windows,), whole=True) for name in ("origins", "series"))
        return cls(
            settings,
            patch_size,
            group,
            shape,
            Radii(**tables, reference=reference),
            Residuals(errors[..., :0], errors, origins, series, patch_size),
            int(plain["windows"]),
            {kind: float(plain["pooled_n_eff"][kind]) for kind in KINDS},
            tuple(str(note) for note in plain["notes"]),
        )


LARGEST = 1e100
"""Of a saved number: no calibration has a larger one, and the product of two is a number still."""


def _read_bounded(
    arrays: Mapping[str, NDArray[Any]], name: str, shape: tuple[int, ...], *, least: float = -LARGEST
) -> NDArray[Any]:
    return read_array(arrays, name, shape, least=least, most=LARGEST)


def read_array(
    arrays: Mapping[str, NDArray[Any]],
    name: str,
    shape: tuple[int, ...],
    *,
    least: float = -np.inf,
    most: float = np.inf,
    whole: bool = False,
    where: str = "calibration",
) -> NDArray[Any]:
    """A saved array of this shape, of finite numbers within these bounds; anything else is an error by its name."""
    values = arrays.get(name)
    if values is None:
        raise FernError("is missing", argument=name, where=where)
    if values.shape != shape:
        raise FernError(f"got shape {values.shape}", argument=name, expected=shape, where=where)
    if values.dtype not in ((np.int64,) if whole else (np.float64, np.float32)):
        needs = "whole numbers of 64 bits" if whole else "floating-point numbers of 32 or 64 bits"
        raise FernError(f"got {values.dtype}", argument=name, expected=needs, where=where)
    if values.size and not (np.isfinite(values).all() and least <= float(values.min()) <= float(values.max()) <= most):
        needs = f"finite numbers from {least:g} to {most:g}"
        raise FernError("holds other values", argument=name, expected=needs, where=where)
    return values


SAVED_AS: Mapping[Kind, str] = {"margin": "high", "patch": "patch", "band": "band", "region": "region"}
"""The names of the radii of each kind in a file."""

FORMER = {"pooled_steps": POOLED_STEPS, "symmetric": True, "forgetting": 1.0}
"""Settings of earlier versions that decide what saved radii mean, and the values that are fixed now."""

NO_LONGER_NEEDED = ("pooling", "rows_per_channel", "one_set", "split_from", "most_windows", "most_paths")
"""Settings of earlier versions that had their effect when the calibration was fitted."""


def _current_settings(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Settings that an earlier version saved, under today's names and without those that are fixed now."""
    for name, value in FORMER.items():
        if settings.get(name, value) != value:
            raise FernError(argument=name, got=settings[name], expected=value, where="calibration")
    needed = {name: value for name, value in settings.items() if name not in (*FORMER, *NO_LONGER_NEEDED)}
    return {{"law_windows": "distribution_windows"}.get(name, name): value for name, value in needed.items()}


def fit_calibration(
    calibration: Residuals,
    validation: Residuals | None = None,
    *,
    settings: CalibrationSettings = DEFAULT,
) -> Calibration:
    """Calibrate a distribution on held-out windows.

    ``validation`` windows refit the shape, ``calibration`` windows, which must not have been used for training or
    choosing the model, give the quantiles. Validation windows whose targets share rows with a calibration target are
    left out. With one set only, see `SPLIT_FROM`; with no window at all every level is Gaussian and says so.

    Example: distributions that promise half the spread that the series has.
        >>> import torch
        >>> n, rng = 400, torch.Generator().manual_seed(0)
        >>> distribution = Ellipsoid(0.5 * torch.ones(n, 1, 2, 4), torch.zeros(n, 1, 2, 4), torch.zeros(n, 1, 2, 0, 4),
        ...                 base_variance=1.0)
        >>> y = torch.randn(n, 8, 1, generator=rng)
        >>> calibration = fit_calibration(Residuals.of(distribution, y, origins=range(0, 8 * n, 8)))
        >>> low, high = calibration.apply(distribution).interval(90)
        >>> bool(abs(high.mean() - 1.645) < 0.1)
        True
    """
    notes: list[str] = []
    calibration = calibration.thinned(MOST_WINDOWS)
    correlated = settings.correlation == "auto"
    if validation is None:
        early, late, correlated = _from_one_set(calibration, correlated, notes)
    else:
        validation.require_like(calibration)
        thin = validation.thinned(MOST_WINDOWS)
        early, late = thin.apart_from(calibration), calibration
        if dropped := len(thin) - len(early):
            notes.append(f"{dropped} validation windows were left out: their targets overlap with calibration's")
    shape = fit_shape(
        early,
        correlated=correlated,
        distribution_windows=settings.distribution_windows,
        unseen_variance=settings.unseen_variance,
    )
    radii, group = _fit_pooled(early, late, shape)
    notes += _remarks(shape, radii, len(late), pooled=bool(group.max() == 0 and len(group) > 1))
    thin = late.thinned(min(MOST_KEPT, max(LEAST_KEPT, MOST_KEPT_VALUES // (late.channels * late.horizon))))
    kept = Residuals(thin.standardised[..., :0], thin.standardised, thin.origins, thin.codes(), thin.patch_size)
    pooled = measure_pooled_sizes(late, shape)
    return Calibration(settings, late.patch_size, group, shape, radii, kept, len(late), pooled, tuple(notes))


def _from_one_set(held_out: Residuals, correlated: bool, notes: list[str]) -> tuple[Residuals, Residuals, bool]:
    if held_out.disjoint() >= SPLIT_FROM:
        return *held_out.halves(), correlated
    if len(held_out):
        notes.append(
            f"one held-out set of {len(held_out)} windows gave both scales and quantiles; coverage may fall short "
            f"a little of what is stated"
        )
    return held_out, held_out, False


def _fit_pooled(early: Residuals, late: Residuals, shape: Shape) -> tuple[Radii, NDArray[np.int64]]:
    """Radii for each channel if its own windows suffice, else for all channels together."""
    apart = [np.array([channel]) for channel in range(late.channels)]
    # One channel tells for all: with shared origins they differ little in how long they remember.
    if late.channels == 1 or fit_radii(early, late, shape, apart[:1]).patch.least >= WINDOWS_PER_CHANNEL:
        return fit_radii(early, late, shape, apart), np.arange(late.channels)
    return fit_radii(early, late, shape, [np.arange(late.channels)]), np.zeros(late.channels, dtype=np.int64)


def _remarks(shape: Shape, radii: Radii, windows: int, *, pooled: bool) -> list[str]:
    remarks = []
    if windows == 0:
        remarks.append("no held-out windows: every region is the distribution's own and not calibrated")
    if pooled:
        remarks.append("too few windows for each channel on its own: all channels share their radii")
    worst = int(np.abs(shape.bias).argmax())
    if shape.n_eff and abs(shape.bias[worst]) > 3 / max(shape.n_eff, 1.0) ** 0.5:
        remarks.append(
            f"forecasts of channel {worst} were off by {shape.bias[worst]:+.2f} standard deviations on average on "
            f"validation windows; intervals are wider for it, not moved"
        )
    remarks += [
        radii.shortfall(kind, level) for level in (80.0, 95.0) for kind in KINDS if not radii.supports(kind, level)
    ]
    return remarks


def _arrays(kind: type[Any]) -> list[str]:
    """The names of a dataclass's array fields: all but its plain numbers."""
    return [field.name for field in fields(kind) if field.type not in (int, float, bool)]
