"""Where a forecaster is trained and what computes it: odd answers are refused, the plain path gives the same."""

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from tests.errors import raises_error

from fern.forecaster import FernForecaster

pytestmark = pytest.mark.filterwarnings("ignore::fern.forecaster.FernWarning")

ROWS = pd.DataFrame({"ds": np.arange(90), "y": np.sin(np.arange(90.0)) + 5})
FERN = Path(__file__).parents[1] / "forecaster" / "fixtures" / "fern"


def make_forecaster(**settings: Any) -> FernForecaster:
    return FernForecaster(4, model="dlinear", epochs=1, context_length=8, progress="silent", threads=1, **settings)


ABSENT = [
    name for name, present in {"cuda": torch.cuda, "mps": torch.backends.mps}.items() if not present.is_available()
]
ODD: list[tuple[str, Any]] = [
    *(("accelerator", value) for value in (*ABSENT, "abacus", "CPU", "", 3, b"cpu", ["cpu"])),
    *(("devices", value) for value in (0, -1, 2, 10**9, "2", "auto", True, [0], 1.5, float("nan"))),
    *(("precision", value) for value in ("8", 8, "", b"32-true", ["32-true"])),
]


@pytest.mark.parametrize(("setting", "value"), ODD, ids=lambda value: repr(value))
def test_a_device_that_is_not_there_is_refused_in_a_line(setting: str, value: Any) -> None:
    with raises_error():
        make_forecaster(**{setting: value}).fit(ROWS)


TAKEN: list[dict[str, Any]] = [
    {"accelerator": "auto"},
    {"accelerator": "cpu", "devices": 1},
    *({"precision": name} for name in ("32-true", "64-true", "bf16-mixed", "bf16-true")),
]


@pytest.mark.parametrize("given", TAKEN, ids=repr)
def test_a_device_that_is_there_is_taken(given: dict[str, Any]) -> None:
    made = make_forecaster(**given).fit(ROWS).predict(level=[80])
    assert np.isfinite(made.select_dtypes("number").to_numpy()).all()


@pytest.mark.parametrize("name", ["fern", "dlinear"])
def test_the_plain_path_forecasts_what_the_compiled_kernels_do(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    forecaster = FernForecaster.load(FERN) if name == "fern" else make_forecaster().fit(ROWS)
    made = {}
    for kernels in ("on", "off"):
        monkeypatch.setenv("FERN_KERNELS", kernels)
        made[kernels] = forecaster.predict(level=[80, 95]).select_dtypes("number").to_numpy()
    np.testing.assert_allclose(made["off"], made["on"], rtol=1e-5, atol=1e-5 * np.abs(made["on"]).max())
