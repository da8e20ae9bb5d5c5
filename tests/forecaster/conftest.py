"""Tables of people, and a forecaster that is fitted to them in seconds."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from tests.forecaster.air_passengers import AIR_PASSENGERS

from fern.forecaster import FernForecaster


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
