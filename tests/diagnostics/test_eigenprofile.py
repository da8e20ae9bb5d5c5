"""The eigen-profile is the plain average, over the windows that forecast each row, of what the ellipsoids say."""

import numpy as np
import pytest
import torch
from tests.errors import raises_error

from fern.diagnostics import eigenprofile
from fern.errors import FernError
from fern.models import build_model


def small_fern(**settings):
    sizes = {
        "context_length": 12,
        "horizon": 10,
        "channels": 2,
        "patch_size": 4,
        "reflections": 2,
        "hidden": 8,
        "latent": 3,
    }
    return build_model("fern", generator=torch.Generator().manual_seed(3), **{**sizes, **settings})


def by_hand(model, series, stride):
    """The same averages by a loop over windows, patches and rows."""
    length, horizon, p = model.config.context_length, model.config.horizon, model.config.patch_size
    seen = {}
    model.eval()
    for first in range(length, len(series) - horizon + 1, stride):
        forecast = model(series[None, first - length : first])
        distribution = forecast.ellipsoid
        for h in range(horizon):
            patch = h // p
            seen.setdefault(first + h, []).append(
                torch.stack(
                    [
                        forecast.mean[0, h],
                        (forecast.mean[0, h] - series[first + h]).abs(),
                        distribution.spectral_radius[0, :, patch],
                        distribution.trace[0, :, patch],
                        distribution.log_det[0, :, patch],
                    ]
                )
            )
    return np.stack([torch.stack(seen[row]).mean(0).detach().numpy() for row in sorted(seen)]), min(seen)


@pytest.mark.parametrize("stride", [1, 3, 10])
def test_every_figure_is_the_mean_over_the_windows_that_forecast_the_row(stride):
    model, series = small_fern(), torch.randn(60, 2, generator=torch.Generator().manual_seed(1))
    profile = eigenprofile(model, series, stride=stride, batch_size=7)
    expected, first_row = by_hand(model, series, stride)
    found = np.stack([profile.forecast, profile.error, profile.spectral_radius, profile.trace, profile.log_det], axis=1)
    assert profile.first_row == first_row == 12
    # float32 forecasts averaged in float64 against float32 means.
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5)
    np.testing.assert_array_equal(profile.truth, series[12 : 12 + len(profile)].double().numpy())


def test_the_model_is_left_in_the_mode_it_was_in():
    model = small_fern().train()
    eigenprofile(model, torch.randn(40, 2))
    assert model.training


def test_arrays_and_tensors_give_the_same_profile():
    model, series = small_fern(), np.random.default_rng(0).standard_normal((40, 2))
    a, b = eigenprofile(model, series), eigenprofile(model, torch.as_tensor(series))
    np.testing.assert_array_equal(a.trace, b.trace)


@pytest.mark.parametrize(
    ("series", "options", "argument"),
    [
        (torch.zeros(40, 3), {}, "series"),
        (torch.zeros(40), {}, "series"),
        (torch.zeros(21, 2), {}, "series"),
        (torch.zeros(40, 2), {"stride": 0}, "stride"),
        (torch.zeros(40, 2), {"stride": 11}, "stride"),
        (torch.zeros(40, 2), {"batch_size": 0}, "batch_size"),
        (torch.full((40, 2), float("nan")), {}, "past"),
    ],
)
def test_bad_input_is_named(series, options, argument):
    with raises_error(argument):
        eigenprofile(small_fern(), series, **options)


def test_a_model_without_ellipsoids_is_refused():
    naive = build_model("last-value", context_length=12, horizon=10, channels=2)
    with pytest.raises(FernError, match="LastValue has no ellipsoids"):
        eigenprofile(naive, torch.zeros(40, 2))
