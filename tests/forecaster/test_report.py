"""The page of a forecast: what was measured while fitting is on it, also after saving, and what is missing is told."""

import json
import re
from dataclasses import replace

import numpy as np
import pytest
from tests.html.support import Seen

from fern.forecaster import FernForecaster
from fern.forecaster.saved_state import join_state, split_state
from fern.forecaster.state import Findings
from fern.plot.interactive import has_plotly

pytest.importorskip("matplotlib")


@pytest.fixture(scope="module")
def shown(fitted: FernForecaster) -> str:
    """The page of the fitted forecaster, under a name that is no markup."""
    return fitted.report(name="<b>sales</b>")


def figures(text: str) -> list[str]:
    return [given["id"] for tag, given in Seen(text).tags if tag == "figure"]


def test_the_page_has_the_fan_the_coverage_and_its_course(shown: str) -> None:
    assert figures(shown)[:3] == ["fan", "coverage-figure", "coverage-figure-course"]
    seen = Seen(shown)
    assert "Forecast of <b>sales</b>" in seen.text
    assert "PIT: where outcomes fall" in seen.text
    assert len(shown.encode()) < 6_000_000


@pytest.mark.skipif(not has_plotly(), reason="needs the extra report")
def test_the_fan_that_moves_is_the_forecast(fitted: FernForecaster, shown: str) -> None:
    held = re.findall(r'<script type="application/json" class="live">(.*?)</script>', shown, re.S)
    fan = json.loads(held[0])
    mean = next(trace for trace in fan["data"] if trace["name"] == "Fern")
    values = mean["y"]
    if isinstance(values, dict):
        import base64

        values = np.frombuffer(base64.b64decode(values["bdata"]), dtype=values["dtype"])
    np.testing.assert_allclose(np.asarray(values, dtype=float)[1:], fitted.predict()["Fern"].to_numpy()[:7])


def test_the_course_is_that_of_the_coverage_and_stays_through_saving(
    fitted: FernForecaster, shown: str, copy: FernForecaster
) -> None:
    before, after = fitted._require_fitted().findings, copy._require_fitted().findings
    assert before is not None
    assert after is not None
    assert before.course is not None
    assert after.course is not None
    row = next(row for row in before.coverage if row.kind == "margin" and row.level == 90.0)
    assert before.course.inside.mean() == pytest.approx(row.coverage)
    assert before.course.pit.sum() == pytest.approx(1.0)
    for name in ("origins", "inside", "pit"):
        np.testing.assert_array_equal(getattr(before.course, name), getattr(after.course, name))
    assert after.course.n_eff == before.course.n_eff
    assert figures(copy.report()) == figures(shown)


def test_a_forecaster_that_was_saved_without_its_course_is_read(fitted: FernForecaster) -> None:
    state = fitted._require_fitted()
    plain, arrays = split_state(state)
    del plain["findings"]["course"]
    read = join_state(plain, arrays, state.model)
    assert read.findings is not None
    assert read.findings.course is None
    assert len(read.findings.coverage) == len(state.findings.coverage)  # type: ignore[union-attr]


def test_what_was_not_measured_is_told(copy: FernForecaster) -> None:
    copy._state = replace(copy._require_fitted(), findings=Findings())
    made = copy.report()
    seen = Seen(made)
    assert "There is no coverage to show" in seen.text
    assert "There is no eigen-profile" in seen.text
    assert figures(made) == ["fan"]


def test_two_steps_can_be_chosen(fitted: FernForecaster) -> None:
    beside = [axis for axis in fitted.plot(joint=(2, 7)).axes if axis.get_xlabel() == "step 2"]
    assert len(beside) == 3
    assert {axis.get_ylabel() for axis in beside} == {"step 7"}
