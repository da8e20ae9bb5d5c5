"""sktime forecasters as forecasters of windows."""

import sys
import warnings
from typing import Any

import numpy as np
import pytest
import torch
from tests.errors import raises_error
from torch import Generator, Tensor

from fern.benchmark.adapters.windowwise import SktimeForecaster
from fern.errors import FernError

# What sktime and its dependencies will change one day is theirs to warn of.
pytestmark = [
    pytest.mark.filterwarnings("ignore::FutureWarning"),
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
]

SIZES = {"context_length": 30, "horizon": 6, "channels": 2}


@pytest.fixture
def naive() -> Any:
    """sktime's NaiveForecaster; the test is skipped where sktime is not installed."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # its dependencies deprecate things at import
        module = pytest.importorskip("sktime.forecasting.naive", reason="needs the extra sktime")
    return module.NaiveForecaster


def walks(windows: int = 3, channels: int = 2) -> Tensor:
    return torch.randn(windows, 30, channels, generator=Generator().manual_seed(3)).cumsum(1)


def test_without_the_library_the_error_says_how_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in [name for name in sys.modules if name.partition(".")[0] == "sktime"]:
        monkeypatch.delitem(sys.modules, module)
    monkeypatch.setitem(sys.modules, "sktime", None)
    with pytest.raises(FernError, match=r"sktime is not installed: pip install 'fern-forecast\[sktime\]'"):
        SktimeForecaster(object(), **SIZES)


@pytest.mark.parametrize("channels", [1, 2])
def test_each_window_and_channel_is_fitted_on_its_own(naive: Any, channels: int) -> None:
    past = walks(channels=channels)
    forecaster = naive("drift")
    mean = SktimeForecaster(forecaster, **{**SIZES, "channels": channels})(past).mean
    slope = (past[:, -1:] - past[:, :1]) / 29
    expected = past[:, -1:] + slope * torch.arange(1.0, 7.0)[None, :, None]
    assert torch.allclose(mean, expected, atol=1e-5)
    assert not forecaster.is_fitted


def test_a_seasonal_forecaster_repeats_the_season_of_the_context(naive: Any) -> None:
    past = walks()
    mean = SktimeForecaster(naive("last", sp=5), **SIZES)(past).mean
    assert torch.allclose(mean, torch.cat((past[:, -5:], past[:, -5:-4]), dim=1))


def test_a_forecaster_of_several_series_takes_the_channels_together(naive: Any) -> None:
    from sktime.forecasting.base import BaseForecaster

    class Together(BaseForecaster):
        _tags = {  # noqa: RUF012
            "y_inner_mtype": "pd.DataFrame",
            "scitype:y": "both",
            "capability:multivariate": True,
            "requires-fh-in-fit": False,
        }

        def _fit(self, y: Any, X: Any = None, fh: Any = None) -> Any:
            self.total_ = y.to_numpy()[-1].sum()
            self.columns_ = y.columns
            return self

        def _predict(self, fh: Any, X: Any = None) -> Any:
            import pandas as pd

            index = fh.to_absolute_index(self.cutoff)
            return pd.DataFrame(self.total_, index=index, columns=self.columns_)

    past = walks()
    mean = SktimeForecaster(Together(), **SIZES)(past).mean
    assert torch.allclose(mean, past[:, -1:].sum(dim=2, keepdim=True).expand(-1, 6, 2), atol=1e-5)


def test_what_is_no_forecaster_is_refused_by_name(naive: Any) -> None:
    with raises_error("forecaster"):
        SktimeForecaster(naive, **SIZES)
    with raises_error("forecaster"):
        SktimeForecaster("naive", **SIZES)


def test_a_fit_that_fails_names_forecaster_and_window(naive: Any) -> None:
    with (
        warnings.catch_warnings(),
        pytest.raises(FernError, match=r"sktime NaiveForecaster: (raised ValueError for|returned nan for) window 0"),
    ):
        warnings.simplefilter("ignore")
        SktimeForecaster(naive("no such strategy"), **SIZES)(walks())


def test_forecasts_of_float64_windows_stay_float64(naive: Any) -> None:
    mean = SktimeForecaster(naive("mean"), **SIZES)(walks().double()).mean
    assert mean.dtype == torch.float64
    np.testing.assert_allclose(mean[:, 0], walks().double().mean(dim=1), rtol=1e-12)
