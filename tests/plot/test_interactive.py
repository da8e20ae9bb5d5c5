"""What Plotly draws is what the still figure draws: the same data, and foreign names stay text."""

import base64
import json

import numpy as np
import pytest

from fern.errors import FernError
from fern.plot import interactive as canvas
from fern.plot.attractor import Attractor
from fern.plot.coverage import CoverageOverTime
from fern.plot.forecasts import Fan, Fans, Interval, Joint
from fern.plot.interactive import attractor_plot, coverage_over_time_plot, error_growth_plot, fan_plot
from fern.plot.scores import ErrorGrowth

pytest.importorskip("plotly", reason="needs the extra report")


def read(figure):
    """The figure as the page's script gets it."""
    return json.loads(figure.to_json())


def values(entry):
    if isinstance(entry, dict):
        return np.frombuffer(base64.b64decode(entry["bdata"]), dtype=entry["dtype"]).tolist()
    return entry


def test_errors_by_step_are_those_given():
    errors = {"fern": np.array([0.1, 0.2, 0.4]), "<b>": np.array([1.0, 2.0, 3.0])}
    made = read(error_growth_plot(ErrorGrowth(errors, np.array([0.01, 0.02, 0.03]), lyapunov_times_a_step=0.5)))
    drawn = {trace.get("name"): values(trace["y"]) for trace in made["data"] if trace.get("showlegend", True)}
    assert drawn == {"fern": [0.1, 0.2, 0.4], "&lt;b&gt;": [1.0, 2.0, 3.0], "oracle": [0.01, 0.02, 0.03]}
    assert made["layout"]["yaxis"]["type"] == "log"
    assert made["layout"]["xaxis2"]["range"] == [0.5, 1.5]


def test_the_attractor_has_the_points_and_colours_of_the_still_one():
    rng = np.random.default_rng(0)
    shown = Attractor.of(*rng.normal(size=(2, 40, 3)), rng.random(40), channel_names=("x", "<y>", "z"))
    made = read(attractor_plot(shown))
    for trace, cloud in zip(made["data"], (shown.truth, shown.reconstruction), strict=True):
        assert trace["type"] == "scatter3d"
        assert np.allclose(values(trace["z"]), cloud.points[:, 2])
        assert np.allclose(values(trace["marker"]["color"]), cloud.colour)
    assert made["layout"]["scene"]["yaxis"]["title"]["text"] == "<y>"  # painted, not read


def test_two_channels_are_a_plane():
    shown = Attractor.of(*np.random.default_rng(0).normal(size=(2, 40, 2)), np.ones(40), channel_names=("x", "<y>"))
    made = read(attractor_plot(shown))
    assert {trace["type"] for trace in made["data"]} == {"scatter"}
    assert made["layout"]["yaxis"]["title"]["text"] == "&lt;y&gt;"


def test_coverage_along_time_is_what_was_measured():
    shown = CoverageOverTime(90.0, np.arange(3), np.array([0.95, 0.9, 0.7]), 0.08, 40, 25.0)
    made = read(coverage_over_time_plot(shown))
    assert values(made["data"][0]["y"]) == [0.95, 0.9, 0.7]
    chance = next(shape for shape in made["layout"]["shapes"] if shape["type"] == "rect")
    assert (chance["y0"], chance["y1"]) == pytest.approx((0.82, 0.98))


def test_the_fan_has_its_intervals_its_band_and_two_steps_together():
    steps = np.arange(4.0)
    paths = np.random.default_rng(0).normal(size=(30, 4))
    joint = Joint.of(paths, (1, 4), levels=(80.0,))
    one = Fan(
        "load", np.arange(-2, 0), np.array([7.0, 8.0]), np.arange(4), steps,
        (Interval(steps - 1, steps + 1, 80.0),), Interval(steps - 2, steps + 2, 80.0), joint,
    )  # fmt: skip
    made = read(fan_plot(Fans((one, one), label="<Fern>", left_out=2)))
    names = [trace["name"] for trace in made["data"]]
    by_name = {name: made["data"][names.index(name)] for name in reversed(names)}
    assert values(by_name["&lt;Fern&gt;"]["y"]) == [8.0, 0.0, 1.0, 2.0, 3.0]
    assert values(by_name["history"]["y"]) == [7.0, 8.0]
    upper, lower = [trace for trace in made["data"] if trace.get("legendgroup") == "80 %"][:2]
    assert (values(upper["y"])[1:], values(lower["y"])[1:]) == ([1.0, 2.0, 3.0, 4.0], [-1.0, 0.0, 1.0, 2.0])
    assert np.allclose(values(by_name["paths"]["y"]), paths[:, 3])
    assert sum(trace.get("showlegend", True) for trace in made["data"]) == 4  # each name once, for all panels
    assert any("2 more series" in note["text"] for note in made["layout"]["annotations"])


def test_without_plotly_the_extra_is_named(monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "plotly.graph_objects", None)
    with pytest.raises(FernError, match=r"pip install 'fern-forecast\[report\]'"):
        canvas.plotly()
