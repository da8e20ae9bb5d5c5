"""What is drawn equals what was measured."""

import io

import numpy as np
import pytest
from tests.errors import raises_error

from fern.errors import FernError
from fern.plot.attractor import Attractor, attractor_figure, row_speed
from fern.plot.coverage import Covered, coverage_figure
from fern.plot.forecasts import PatchMap, mechanism_figure
from fern.plot.scores import (
    CaseErrors,
    ErrorGrowth,
    ModelErrors,
    critical_difference_figure,
    error_growth_figure,
    errors_figure,
)


def offsets(collection):
    return np.asarray(collection.get_offsets())


def test_errors_show_every_seed_the_mean_the_paper_and_the_oracle():
    fern, linear = ModelErrors("fern", (1.0, 2.0), paper=0.5), ModelErrors("dlinear", (4.0,))
    axis = errors_figure([CaseErrors("24 steps", (fern, linear), oracle=0.25)]).axes[0]
    seeds, means, paper = axis.collections
    assert offsets(seeds).tolist() == [[1.0, 0.0], [2.0, 0.0], [4.0, 1.0]]
    assert offsets(paper).tolist() == [[0.5, 0.0]]
    assert [segment[0][0] for segment in means.get_segments()] == [1.5, 4.0]
    assert axis.lines[0].get_xdata()[0] == 0.25
    assert [label.get_text() for label in axis.get_yticklabels()] == ["fern", "dlinear"]


@pytest.mark.parametrize(("errors", "scale"), [((1.0, 2.0), "linear"), ((0.01, 2.0), "log"), ((0.0, 2.0), "linear")])
def test_errors_that_differ_much_have_a_logarithmic_axis(errors, scale):
    assert errors_figure([CaseErrors("", (ModelErrors("a", errors),))]).axes[0].get_xscale() == scale


def test_no_errors_are_refused():
    with raises_error("cases"):
        errors_figure([CaseErrors("", ())])


def test_ranks_are_drawn_where_they_are_and_bars_join_those_alike():
    ranks = [("c", 2.75), ("a", 1.25), ("b", 2.0)]
    axis = critical_difference_figure(ranks, critical_difference=0.8, alike=[("a", "b")]).axes[0]
    stems = {line.get_xdata()[0] for line in axis.lines if len(line.get_xdata()) == 3}
    assert stems == {1.25, 2.0, 2.75}
    texts = {text.get_text() for text in axis.texts}
    assert {"a 1.25", "b 2.00", "c 2.75", "critical difference 0.80"} <= texts
    bars = [line.get_xdata() for line in axis.lines if line.get_linewidth() == 3.5]
    assert np.allclose(bars, [[1.23, 2.02]])
    difference = next(line.get_xdata() for line in axis.lines if line.get_linewidth() == 2.0)
    assert difference[1] - difference[0] == pytest.approx(0.8)


def test_coverage_puts_measured_shares_over_levels_and_chance_around_the_level():
    rows = [Covered("margin", 50.0, 0.45, 0.04, 80.0), Covered("margin", 90.0, 0.93, 0.02, 70.0)]
    axis = coverage_figure(rows).axes[0]
    bars, dots = axis.collections
    assert offsets(dots).tolist() == [[0.5, 0.45], [0.9, 0.93]]
    assert np.allclose(bars.get_segments(), [[[0.5, 0.46], [0.5, 0.54]], [[0.9, 0.88], [0.9, 0.92]]])
    assert axis.get_title() == "margin, n_eff 70"


def test_the_pit_is_a_density():
    shares = np.zeros(20)
    shares[10] = 1.0  # all between 0.5 and 0.55
    axis = coverage_figure([], pit=shares).axes[0]
    values, edges, _ = axis.patches[0].get_data()
    assert (values * np.diff(edges)).sum() == pytest.approx(1.0)
    assert edges[np.argmax(values)] == pytest.approx(0.5)


def test_error_growth_draws_each_step_and_counts_lyapunov_times():
    errors = {"fern": np.array([0.1, 0.2, 0.4]), "dlinear": np.array([1.0, 2.0, 3.0])}
    drawn = error_growth_figure(ErrorGrowth(errors, np.array([0.01, 0.02, 0.03]), lyapunov_times_a_step=0.5))
    axis = drawn.axes[0]
    assert {line.get_label(): line.get_ydata().tolist() for line in axis.lines} == {
        "fern": [0.1, 0.2, 0.4],
        "dlinear": [1.0, 2.0, 3.0],
        "oracle": [0.01, 0.02, 0.03],
    }
    assert axis.lines[0].get_xdata().tolist() == [1, 2, 3]
    drawn.savefig(io.BytesIO())
    assert axis.child_axes[0].get_xlim() == pytest.approx((0.5, 1.5))


def test_an_error_of_exactly_zero_leaves_a_gap_on_a_logarithmic_axis():
    axis = error_growth_figure(ErrorGrowth({"polymap": np.array([0.0, 1e-12, 1e-11])})).axes[0]
    assert axis.get_yscale() == "log"
    assert np.array_equal(axis.lines[0].get_ydata(), [np.nan, 1e-12, 1e-11], equal_nan=True)
    assert error_growth_figure(ErrorGrowth({"a": np.zeros(3)})).axes[0].get_yscale() == "linear"


def test_errors_of_different_lengths_are_refused():
    with pytest.raises(FernError, match="all of one length"):
        ErrorGrowth({"a": np.ones(3), "b": np.ones(4)})
    with pytest.raises(FernError, match="'oracle'"):
        ErrorGrowth({"a": np.ones(3)}, oracle=np.ones(4))


@pytest.mark.parametrize("channels", [2, 3, 5])
def test_the_attractor_is_coloured_by_speed_and_by_the_mean_of_the_channels_largest_eigenvalues(channels):
    rng = np.random.default_rng(0)
    truth, forecast, radius = rng.normal(size=(3, 40, channels))
    names = [f"c{place}" for place in range(channels)]
    drawn = attractor_figure(Attractor.of(truth, forecast, radius, channel_names=names, dt=0.1))
    left, right = drawn.axes[::2]  # each is followed by its bar of colours
    assert np.allclose(left.collections[0].get_array(), row_speed(truth, 0.1))
    assert np.allclose(right.collections[0].get_array(), radius.mean(axis=1))
    assert left.get_xlim() == right.get_xlim()
    assert left.get_ylim() == right.get_ylim()
    if channels == 2:
        assert np.allclose(offsets(right.collections[0]), forecast)


def test_an_attractor_of_another_length_is_refused():
    with pytest.raises(FernError, match="spectral_radius"):
        Attractor.of(np.ones((5, 2)), np.ones((5, 2)), np.ones(4), channel_names=("x", "y"))


def test_the_image_of_the_ball_has_the_covariance_of_the_distribution():
    covariance = np.array([[2.0, 1.2], [1.2, 1.0]])
    patch = PatchMap("patch 1", (1, 24), np.array([3.0, -1.0]), covariance, np.array([4.0, 0.0]))
    edge = mechanism_figure([patch], source_deviation=0.5).axes[1].lines[0].get_xydata()
    distance = np.einsum("ni,ij,nj->n", edge - patch.centre, np.linalg.inv(covariance), edge - patch.centre)
    assert np.allclose(distance, 4.0)


def test_the_ball_has_the_radius_of_the_prior():
    patch = PatchMap("patch 1", (1, 24), np.zeros(2), np.eye(2))
    ball = mechanism_figure([patch], source_deviation=0.5).axes[0].lines[0].get_xydata()
    assert np.allclose(np.linalg.norm(ball, axis=1), 1.0)
