"""Tables of people, and a forecaster that is fitted to them in seconds."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from fern.forecaster import FernForecaster

AIR_PASSENGERS = [
    *(112, 118, 132, 129, 121, 135, 148, 148, 136, 119, 104, 118),
    *(115, 126, 141, 135, 125, 149, 170, 170, 158, 133, 114, 140),
    *(145, 150, 178, 163, 172, 178, 199, 199, 184, 162, 146, 166),
    *(171, 180, 193, 181, 183, 218, 230, 242, 209, 191, 172, 194),
    *(196, 196, 236, 235, 229, 243, 264, 272, 237, 211, 180, 201),
    *(204, 188, 235, 227, 234, 264, 302, 293, 259, 229, 203, 229),
    *(242, 233, 267, 269, 270, 315, 364, 347, 312, 274, 237, 278),
    *(284, 277, 317, 313, 318, 374, 413, 405, 355, 306, 271, 306),
    *(315, 301, 356, 348, 355, 422, 465, 467, 404, 347, 305, 336),
    *(340, 318, 362, 348, 363, 435, 491, 505, 404, 359, 310, 337),
    *(360, 342, 406, 396, 420, 472, 548, 559, 463, 407, 362, 405),
    *(417, 391, 419, 461, 472, 535, 622, 606, 508, 461, 390, 432),
]
"""Monthly airline passengers, 1949 to 1960 (Box and Jenkins, 1976)."""


@pytest.fixture(scope="session")
def air() -> pd.DataFrame:
    """AirPassengers, long."""
    stamps = pd.date_range("1949-01-31", periods=144, freq="ME")
    return pd.DataFrame({"unique_id": "air", "ds": stamps, "y": np.array(AIR_PASSENGERS, dtype=float)})


@pytest.fixture(scope="session")
def panel() -> pd.DataFrame:
    """Three daily series of unequal lengths and scales, not in alphabetical order."""
    rng = np.random.default_rng(3)
    parts = []
    for name, rows, scale, level in (("zeta", 200, 1.0, 0.0), ("alpha", 150, 100.0, 5e3), ("mid", 260, 1e-3, 1.0)):
        wave = np.sin(np.arange(rows) * 2 * np.pi / 7) + 0.2 * rng.standard_normal(rows)
        stamps = pd.date_range("2021-03-01", periods=rows, freq="D")
        parts.append(pd.DataFrame({"unique_id": name, "ds": stamps, "y": level + scale * wave}))
    return pd.concat(parts, ignore_index=True)


@pytest.fixture(scope="session")
def fitted(panel: pd.DataFrame) -> FernForecaster:
    """A forecaster of the panel, one week ahead."""
    return FernForecaster(horizon=7, epochs=4, progress="silent", threads=1).fit(panel)


@pytest.fixture(scope="session")
def saved(fitted: FernForecaster, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the fitted forecaster, for tests that only read it."""
    folder = tmp_path_factory.mktemp("saved") / "model"
    fitted.save(folder)
    return folder


@pytest.fixture
def copy(saved: Path) -> FernForecaster:
    """The fitted forecaster, to be changed."""
    return FernForecaster.load(saved)
