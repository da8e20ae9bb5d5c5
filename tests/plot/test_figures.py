"""Figures show what they are given; a picture is written whole or not at all."""

from pathlib import Path

import numpy as np
import pytest
from tests.errors import raises_error

from fern.diagnostics import Alarm, EigenProfile
from fern.errors import FernError
from fern.plot.attractor import trajectory_figure
from fern.plot.canvas import save_figure
from fern.plot.diagnostics import diagnostics_figure
from fern.plot.forecasts import Interval, forecast_figure
from fern.systems import StateShock, scenario, simulate


def labels(axis):
    return axis.get_legend_handles_labels()[1]


def test_a_trajectory_is_cut_and_coloured_at_its_shock():
    t = simulate(scenario("ROSSLER_BASE", steps=2000, shocks=(StateShock(700, 0.5),)))
    series = trajectory_figure(t).axes[0]
    before, after, mark = series.lines
    assert (len(before.get_xdata()), len(after.get_xdata())) == (700, 1300)
    assert before.get_color() != after.get_color()
    assert mark.get_xdata()[0] == pytest.approx(t.dt * 701)


def test_a_trajectory_with_many_channels_is_a_map():
    assert trajectory_figure(simulate(scenario("KS_BASE", steps=500))).axes[0].images


def test_a_forecast_is_drawn_beside_the_truth_with_its_band():
    past, future = np.zeros((20, 2)), np.ones((10, 2))
    drawn = forecast_figure(
        past,
        future,
        {"fern": future, "naive": 0 * future},
        channel_names=("x", "y"),
        band=Interval(future - 1, future + 1, 90),
    )
    assert labels(drawn.axes[0]) == ["truth", "90 %", "fern", "naive"]
    assert len(drawn.axes) == 2


def test_a_forecast_of_another_shape_is_refused():
    with raises_error("forecasts"):
        forecast_figure(np.zeros((5, 1)), np.ones((10, 1)), {"naive": np.ones((9, 1))}, channel_names=("x",))


def profile(rows=60):
    values = np.arange(rows * 2, dtype=float).reshape(rows, 2)
    return EigenProfile(100, values, values, values, values, values, values)


def test_diagnostics_shade_the_alarms_of_their_channel_only():
    alarms = [Alarm("variance collapse", channel, 110, 115, 0.5, 0.1) for channel in (0, 1)]
    drawn = diagnostics_figure(profile(), channel=1, alarms=alarms)
    assert [len(axis.patches) for axis in drawn.axes] == [1] * 5
    assert labels(drawn.axes[0]) == ["truth", "forecast", "variance collapse"]


def test_diagnostics_draw_the_stretch_that_is_asked_for():
    drawn = diagnostics_figure(profile(), rows=slice(10, 30))
    assert drawn.axes[0].lines[0].get_xdata().tolist() == list(range(110, 130))


def test_an_unknown_channel_is_refused():
    with raises_error("channel"):
        diagnostics_figure(profile(), channel=2)


def test_a_picture_of_an_unknown_kind_is_refused_and_nothing_is_written():
    with pytest.raises(FernError, match=r"a plot needs one of \.png, \.svg, \.pdf"):
        save_figure(diagnostics_figure(profile()), "out.gif")
    assert not list(Path().iterdir())


@pytest.mark.parametrize("name", ["out.png", "out.svg", "out.pdf"])
def test_a_picture_is_written_in_the_format_of_its_name(name):
    save_figure(diagnostics_figure(profile()), name)
    assert [path.name for path in Path().iterdir()] == [name]
