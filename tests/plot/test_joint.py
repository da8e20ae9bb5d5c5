"""The joint distribution of two steps, coverage along time, repairs and training curves: drawn as measured."""

import numpy as np
import pyarrow as pa
import pytest
from tests.errors import raises_error

from fern.data import clean
from fern.data.auditing.page import find_repair
from fern.errors import FernError
from fern.plot.audit import repair_figure
from fern.plot.canvas import outline
from fern.plot.coverage import CoverageOverTime, coverage_over_time_figure
from fern.plot.forecasts import Ellipse, Fan, Fans, Interval, Joint, fan_figure
from fern.plot.scores import TrainingCurve, training_curves_figure
from fern.training import EpochRecord, History


def offsets(collection):
    return np.asarray(collection.get_offsets())


def fan(**changes):
    steps = np.arange(6.0)
    given = {"intervals": (Interval(steps - 1, steps + 1, 80.0),), "band": Interval(steps - 2, steps + 2, 80.0)}
    return Fan("load", np.arange(-4, 0), np.arange(4.0), np.arange(6), steps, **given | changes)


def test_an_ellipse_holds_its_share_of_the_paths():
    paths = np.random.default_rng(0).normal(size=(2000, 6)).cumsum(axis=1)
    joint = Joint.of(paths, (3, 6), levels=(50.0, 90.0))
    assert [level for level, _ in joint.ellipses] == [90.0, 50.0]
    for level, ellipse in joint.ellipses:
        assert ellipse.holds(paths[:, [2, 5]]).mean() == pytest.approx(level / 100, abs=1e-3)
    assert np.corrcoef(joint.points.T)[0, 1] == pytest.approx(np.sqrt(0.5), abs=0.05)


def test_the_edge_of_an_ellipse_lies_at_its_radius_and_its_axes_end_there():
    ellipse = Ellipse(np.array([3.0, -1.0]), np.array([[2.0, 1.2], [1.2, 1.0]]), 1.5)
    ends = ellipse.centre + ellipse.half_axes()
    for points in (ellipse.outline(), ends):
        away = points - ellipse.centre
        assert np.allclose(np.einsum("ni,ij,nj->n", away, np.linalg.inv(ellipse.covariance), away), 1.5**2)


def test_paths_that_do_not_differ_have_an_ellipse_all_the_same():
    joint = Joint.of(np.ones((20, 4)), (1, 4), levels=(80.0,))
    assert np.isfinite(joint.ellipses[0][1].outline()).all()


@pytest.mark.parametrize("steps", [(0, 3), (2, 2), (1, 7)])
def test_steps_that_are_not_two_of_the_forecast_are_refused(steps):
    with pytest.raises(FernError, match="needs two different steps from 1 to 6"):
        Joint.of(np.ones((10, 6)), steps, levels=(80.0,))


def test_the_fan_shows_two_steps_beside_it():
    paths = np.random.default_rng(0).normal(size=(50, 6))
    drawn = fan_figure(Fans((fan(joint=Joint.of(paths, (1, 6), levels=(80.0,))), fan())))
    assert len(drawn.axes) == 3  # the second fan has no such panel
    beside = next(axis for axis in drawn.axes if axis.get_xlabel() == "step 1")
    assert np.allclose(offsets(beside.collections[0]), paths[:, [0, 5]])
    assert beside.get_ylabel() == "step 6"


def test_the_fan_opens_at_the_last_row_and_draws_what_it_is_given():
    axis = fan_figure(Fans((fan(),), label="Fern")).axes[0]
    lines = {line.get_label(): line for line in axis.lines}
    assert lines["Fern"].get_ydata().tolist() == [3.0, 0.0, 1.0, 2.0, 3.0, 4.0, 5.0]
    assert lines["Fern"].get_xdata()[0] == -1
    assert lines["whole path, 80 %"].get_ydata().tolist()[1:] == [-2.0, -1.0, 0.0, 1.0, 2.0, 3.0]


def test_coverage_along_time_stands_over_what_chance_allows():
    shown = CoverageOverTime(90.0, np.arange(3), np.array([0.95, 0.9, 0.7]), 0.08, 40, 25.0)
    axis = coverage_over_time_figure(shown).axes[0]
    lines = {line.get_label(): line for line in axis.lines}
    assert lines["the newest 40 windows"].get_ydata().tolist() == [0.95, 0.9, 0.7]
    band = next(patch for patch in axis.patches if "n_eff 25" in patch.get_label())
    assert (band.get_y(), band.get_y() + band.get_height()) == pytest.approx((0.82, 0.98))
    assert shown.inside_chance == pytest.approx(2 / 3)


def test_coverage_of_no_window_is_refused():
    with pytest.raises(FernError, match="when, coverage"):
        CoverageOverTime(90.0, np.arange(0), np.arange(0.0), 0.1, 1, 1.0)


def column():
    """Hours of load with an isolated zero, a long run of zeros, a code and a stuck stretch."""
    load = 10 + np.sin(np.arange(4000) / 5.0)
    load[20], load[100:112], load[200], load[300:340] = 0.0, 0.0, -9999.0, 7.0
    hours = np.datetime64("2024-01-01", "s") + np.arange(4000) * np.timedelta64(1, "h")
    return pa.table({"ds": hours, "load": load, "other": load + 5}), load


def test_a_repair_shows_what_was_found_and_what_is_left():
    table, load = column()
    frame, log = clean(table)
    found = find_repair(load, frame["load"].to_numpy(), log, column="load", stuck_after=24)
    assert {kind: np.flatnonzero(mask).tolist() for kind, mask in found.masks.items()} == {
        "zeros": [20, *range(100, 112)],
        "missing-value code": [200],
        "stuck": list(range(300, 340)),
    }
    assert np.flatnonzero(np.isnan(found.mended)).tolist() == list(range(100, 112))
    assert found.mended[20] == load[19]
    drawn = repair_figure(found)
    raw, cleaned = drawn.axes
    for axis, values in ((raw, load), (cleaned, found.mended)):
        rows = axis.lines[0].get_xdata()
        assert len(rows) < 3200
        assert np.array_equal(axis.lines[0].get_ydata(), values[rows], equal_nan=True)
    assert offsets(cleaned.collections[0]).tolist() == [[20.0, load[19]]]
    assert {patch.get_label() for patch in raw.patches} >= {"zeros", "stuck", "missing-value code"}


def test_a_column_that_goes_is_shown_with_the_reason_and_a_reconstruction_beside_the_truth():
    table, load = column()
    load = np.where(np.arange(4000) % 4 == 0, 0.0, load)
    frame, log = clean(table.set_column(1, "load", pa.array(load)))
    assert "load" not in frame.column_names
    found = find_repair(load, None, log, column="load", reconstruction=load + 1)
    first, second = repair_figure(found).axes
    assert "dropped: zeros in" in first.get_title(loc="left")
    truth, made = second.lines
    assert np.array_equal(truth.get_ydata(), load[truth.get_xdata()])
    assert np.array_equal(made.get_ydata(), load[made.get_xdata()] + 1)
    part = found.cut(slice(10, 20))
    assert part.reconstruction.tolist() == (load[10:20] + 1).tolist()
    assert "zeros in" in found.in_words()


def test_a_cleaned_column_of_another_length_is_refused():
    table, load = column()
    _, log = clean(table)
    with raises_error("cleaned"):
        find_repair(load, load, log, column="load")


def test_a_long_line_keeps_its_peaks_and_its_gaps():
    values = np.zeros(10_000)
    values[4321], values[777], values[5000:5100] = 9.0, -3.0, np.nan
    places = outline(values, 500)
    assert len(places) < 700
    assert {777, 4321, 0, 9999} <= set(places.tolist())
    assert np.isnan(values[places]).any()


def history(*figures):
    records = enumerate(figures, start=1)
    return History(EpochRecord(epoch, 1.0, None, None, {"mse": val}, {"mse": test}) for epoch, (val, test) in records)


def test_training_curves_mark_the_epochs_that_validation_and_test_choose():
    curve = TrainingCurve.of("fern", history((6.5, 6.9), (8.0, 6.5), (9.2, 6.2), (9.0, 6.4)))
    assert curve.at("best by validation") == (1, 6.9)
    assert curve.at("best by test") == (3, 6.2)
    axis = training_curves_figure([curve, curve]).axes[0]
    assert axis.lines[0].get_ydata().tolist() == [6.5, 8.0, 9.2, 9.0]
    assert axis.lines[1].get_ydata().tolist() == [6.9, 6.5, 6.2, 6.4]
    assert [offsets(mark).tolist() for mark in axis.collections[:2]] == [[[1.0, 6.9]], [[3.0, 6.2]]]


def test_a_run_that_did_not_test_every_epoch_has_no_curve():
    with pytest.raises(FernError, match="dlinear has no mse of every epoch"):
        TrainingCurve.of("dlinear", History([EpochRecord(1, 1.0, None, None, {"mse": 1.0})]))
    with raises_error("curves"):
        training_curves_figure([])
