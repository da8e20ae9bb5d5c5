"""How good the forecasts of a cross-validation were: errors, CRPS from quantiles, coverage."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from fern.forecaster.output import Asked

Floats = NDArray[np.float64]

GRID = tuple(round(0.05 * number, 2) for number in range(1, 20))
"""The quantiles behind the CRPS."""


@dataclass(frozen=True)
class Score:
    """Of one series or column, or of all: over every forecast step of every window."""

    name: str
    steps: int
    mse: float
    mae: float
    crps: float
    coverage: tuple[float, ...]
    """The share of what came inside each level's interval."""


def shares_for(levels: Sequence[float]) -> tuple[float, ...]:
    """The quantiles to ask `FernForecaster.cross_validation` for: the grid, and the ends of each level's interval.

    Example:
        >>> shares_for([99])[0], len(shares_for([80])), len(shares_for([99]))
        (0.005, 19, 21)
    """
    return tuple(sorted({*GRID, *_ends(levels)}))


def scores_of(
    rows: pa.Table, *, columns: Sequence[tuple[str, str]], levels: Sequence[float], by: str | None = None
) -> list[Score]:
    """The scores of a table that `cross_validation` gave for `shares_for` these levels.

    Arguments:
        columns: for each channel the column of the forecast and that of what came.
        by: a column of names; each gets a score, after the score of all.
    """
    groups: list[tuple[str, pa.Table]] = [("all", rows)]
    if by is not None:
        names = np.asarray(rows[by].cast(pa.string()).to_numpy(zero_copy_only=False))
        found = list(dict.fromkeys(names.tolist()))
        groups += [(name, rows.filter(pa.array(names == name))) for name in found] if len(found) > 1 else []
    scores = [_score(name, part, columns, levels) for name, part in groups]
    if len(columns) > 1:
        scores += [_score(truth.removesuffix("-y"), rows, [(made, truth)], levels) for made, truth in columns]
    return scores


def as_levels(rows: pa.Table, *, columns: Sequence[tuple[str, str]], levels: Sequence[float]) -> pa.Table:
    """The same table with the ends of the levels' intervals in place of all the quantiles."""
    quantiles = {name: column for made, _ in columns for name, column in _quantiles(made, shares_for(levels))}
    keep: dict[str, str] = {}
    for name in rows.column_names:
        if name not in quantiles:
            keep[name] = name
        if name in {made for made, _ in columns}:
            asked = Asked.of(level=list(levels), quantiles=None) if levels else Asked()
            ends = zip(asked.columns(name)[1:], asked.shares, strict=True)
            keep |= {column: _column(name, _rounded(share)) for column, share in ends}
    return pa.table({column: rows[source] for column, source in keep.items()})


def _score(name: str, rows: pa.Table, columns: Sequence[tuple[str, str]], levels: Sequence[float]) -> Score:
    made, truth = (np.concatenate([_values(rows, pair[side]) for pair in columns]) for side in (0, 1))

    def quantile(share: float) -> Floats:
        return np.concatenate([_values(rows, _column(column, share)) for column, _ in columns])

    pinball = [
        np.maximum(share * (truth - q), (share - 1) * (truth - q)).mean() for share in GRID for q in [quantile(share)]
    ]
    inside = tuple(
        float(((quantile(low) <= truth) & (truth <= quantile(high))).mean())
        for low, high in zip(_ends(levels)[::2], _ends(levels)[1::2], strict=True)
    )
    error = made - truth
    return Score(
        name,
        rows.num_rows,
        float(np.square(error).mean()),
        float(np.abs(error).mean()),
        2 * float(np.mean(pinball)),
        inside,
    )


def _values(rows: pa.Table, column: str) -> Floats:
    return np.asarray(rows[column].to_numpy(), dtype=np.float64)


def _ends(levels: Sequence[float]) -> list[float]:
    return [_rounded(0.5 + side * level / 200) for level in levels for side in (-1, 1)]


def _rounded(share: float) -> float:
    """Without rounding dust, so that 0.1 of a level and 0.1 of the grid are one quantile."""
    return round(share, 12)


def _quantiles(made: str, shares: Sequence[float]) -> list[tuple[str, str]]:
    return [(_column(made, share), made) for share in shares]


def _column(made: str, share: float) -> str:
    return Asked(quantiles=(share,)).columns(made)[1]
