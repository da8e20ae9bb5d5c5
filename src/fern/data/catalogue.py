"""The published data sets: which file, which bytes, which columns, from where."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Literal

from fern.data.tables.headers import DAMAGED_IN_CIRCULATION
from fern.errors import unknown_name


@dataclass(frozen=True)
class Variant:
    """A choice of columns of a data set, and the scaling that goes with it (a kind of `fern.data.fit_scaler`)."""

    columns: tuple[str, ...]
    scaling: str
    why: str


@dataclass(frozen=True)
class Published:
    """One data set as published.

    ``grid`` says how its rows are used: ``time`` where its time stamps form a grid, ``rows`` where they do not
    and, as in the literature, the rows are taken as equally spaced.
    """

    name: str
    file: str
    sha256: str
    address: str
    licence: str
    columns: tuple[str, ...]
    rows: int
    grid: Literal["time", "rows"] = "time"
    variants: Mapping[str, Variant] = field(default_factory=dict)

    def variant(self, name: str) -> Variant:
        """The variant of this name.

        Example:
            >>> len(PUBLISHED["Weather"].variant("air_parcel").columns)
            14
        """
        if name not in self.variants:
            raise unknown_name(f"variant of {self.name}", name, self.variants)
        return self.variants[name]


_ETT = ("HUFL", "HULL", "MUFL", "MULL", "LUFL", "LULL", "OT")
_ETT_ADDRESS = "https://raw.githubusercontent.com/zhouhaoyi/ETDataset/main/ETT-small/"
_ETT_LICENCE = "CC BY-ND 4.0, zhouhaoyi/ETDataset"

_AIR_PARCEL = (
    *("p (mbar)", "T (degC)", "Tpot (K)", "Tdew (degC)", "rh (%)", "VPmax (mbar)", "VPact (mbar)"),
    *("sh (g/kg)", "H2OC (mmol/mol)", "rho (g/m**3)", "wv (m/s)", "max. wv (m/s)", "wd (deg)", "Tlog (degC)"),
)
_WEATHER = (
    *("p (mbar)", "T (degC)", "Tpot (K)", "Tdew (degC)", "rh (%)", "VPmax (mbar)", "VPact (mbar)", "VPdef (mbar)"),
    *("sh (g/kg)", "H2OC (mmol/mol)", "rho (g/m**3)", "wv (m/s)", "max. wv (m/s)", "wd (deg)"),
    *("rain (mm)", "raining (s)", *DAMAGED_IN_CIRCULATION, "Tlog (degC)", "OT"),
)


def _ett(name: str, rows: int, sha256: str) -> Published:
    return Published(
        name=name,
        file=f"{name}.csv",
        sha256=sha256,
        address=f"{_ETT_ADDRESS}{name}.csv",
        licence=_ETT_LICENCE,
        columns=_ETT,
        rows=rows,
    )


PUBLISHED: Mapping[str, Published] = MappingProxyType(
    {
        dataset.name: dataset
        for dataset in (
            _ett("ETTh1", 17_420, "f18de3ad269cef59bb07b5438d79bb3042d3be49bdeecf01c1cd6d29695ee066"),
            _ett("ETTh2", 17_420, "a3dc2c597b9218c7ce1cd55eb77b283fd459a1d09d753063f944967dd6b9218b"),
            _ett("ETTm1", 69_680, "6ce1759b1a18e3328421d5d75fadcb316c449fcd7cec32820c8dafda71986c9e"),
            _ett("ETTm2", 69_680, "db973ca252c6410a30d0469b13d696cf919648d0f3fd588c60f03fdbdbadd1fd"),
            Published(
                name="Weather",
                file="weather.csv",
                sha256="34ee981d07313e51da2a50bb600072c8ae4a69cb4b0651f4cb93a069d7a2ba63",
                address="https://huggingface.co/datasets/thuml/Time-Series-Library/resolve/main/weather/weather.csv",
                licence="CC BY 4.0, Max Planck Institute for Biogeochemistry, Jena",
                columns=_WEATHER,
                rows=52_696,
                grid="rows",  # one time stamp comes twice (12 May 2020), nine are not there (29 May 2020)
                variants={
                    "air_parcel": Variant(
                        columns=_AIR_PARCEL,
                        scaling="robust",
                        why="the state variables of one air parcel, as the paper selects and scales them",
                    )
                },
            ),
        )
    }
)


def published(name: str) -> Published:
    """The data set of this name.

    Example:
        >>> published("ETTh1").columns
        ('HUFL', 'HULL', 'MUFL', 'MULL', 'LUFL', 'LULL', 'OT')
    """
    if name not in PUBLISHED:
        raise unknown_name("data set", name, PUBLISHED)
    return PUBLISHED[name]
