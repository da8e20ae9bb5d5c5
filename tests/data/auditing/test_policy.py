"""The policy's thresholds are fields that can be read from a file, strictly."""

from datetime import timedelta
from pathlib import Path

import pytest
from tests.errors import raises_error

from fern.data.auditing.policy import PAPER_POLICY, Policy, in_words, read_policy
from fern.data.frequency import Frequency, to_frequency
from fern.errors import FernError


def test_the_papers_thresholds_are_the_default() -> None:
    assert (PAPER_POLICY.sentinel_share, PAPER_POLICY.zero_share, PAPER_POLICY.asinh_share) == (0.10, 0.15, 0.10)
    assert PAPER_POLICY.drop_run == timedelta(weeks=1)
    assert timedelta(hours=3) == PAPER_POLICY.delete_run


def test_a_value_is_stuck_after_a_day_and_twenty_four_rows() -> None:
    assert PAPER_POLICY.stuck_after(to_frequency(timedelta(minutes=15))) == 96
    assert PAPER_POLICY.stuck_after(to_frequency(timedelta(days=1))) == 24
    assert PAPER_POLICY.stuck_after(Frequency("integer", 1)) == 24


def test_a_policy_file_changes_what_it_names() -> None:
    Path("policy.toml").write_text('zero_share = 0.5\ndelete_run = "6 hours"\nsentinels = "missing"\n')
    assert read_policy(Path("policy.toml")) == Policy(
        zero_share=0.5, delete_run=timedelta(hours=6), sentinels="missing"
    )


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("zero_shar = 0.5", "policy.toml: unknown setting 'zero_shar': did you mean 'zero_share'"),
        ("zero_share = 1.5", "zero_share: got 1.5, needs a fraction from 0 to 1"),
        ("asinh_share = 0.2", "asinh_share: got 0.2, needs at most zero_share"),
        ('delete_run = "soon"', "duration: got 'soon'"),
        ('sentinels = "drop"', "sentinels"),
        ("stuck_steps = 0", "stuck_steps: got 0"),
        ("zero_share = ", "not a valid TOML file"),
    ],
)
def test_a_wrong_policy_file_is_refused(text: str, message: str) -> None:
    Path("policy.toml").write_text(text)
    with pytest.raises(FernError, match=message):
        read_policy(Path("policy.toml"))


def test_negative_durations_are_refused() -> None:
    with raises_error("delete_run"):
        Policy(delete_run=timedelta(hours=-1))


@pytest.mark.parametrize(
    ("duration", "said"),
    [
        (timedelta(weeks=1), "1 week"),
        (timedelta(days=1), "1 day"),
        (timedelta(hours=226), "9.4 days"),
        (timedelta(hours=25), "1.04 days"),
        (timedelta(minutes=90), "1.5 hours"),
        (timedelta(seconds=0.5), "0.5 seconds"),
        (timedelta(weeks=2), "2 weeks"),
    ],
)
def test_durations_are_said_as_readers_do(duration: timedelta, said: str) -> None:
    assert in_words(duration) == said
