"""The table, row by row, and that what the page shows is what the code decides."""

import re
from pathlib import Path

import pytest

from penstock.messages.outcome import SequenceOutcome, decide
from penstock.messages.read_state import NO_SPAN

OUTSIDE, CONTINUE, ACK = 0, 1, 2


@pytest.mark.parametrize(
    ("flags", "clock", "begin", "outcome"),
    [
        (OUTSIDE, 10, NO_SPAN, SequenceOutcome.OUTSIDE_DUPLICATE),
        (OUTSIDE, 11, NO_SPAN, SequenceOutcome.OUTSIDE_COMMIT),
        (OUTSIDE, 11, 5, SequenceOutcome.OUTSIDE_CLOBBERS),
        (CONTINUE, 10, 5, SequenceOutcome.CONTINUE_ALREADY_ACKED),
        (CONTINUE, 15, 5, SequenceOutcome.CONTINUE_DUPLICATE),
        (CONTINUE, 16, NO_SPAN, SequenceOutcome.CONTINUE_BEGIN),
        (CONTINUE, 16, 5, SequenceOutcome.CONTINUE_EXTEND),
        (ACK, 9, 5, SequenceOutcome.ACK_DEEP_ROLLBACK),
        (ACK, 10, 5, SequenceOutcome.ACK_CLEAN_ROLLBACK),
        (ACK, 11, NO_SPAN, SequenceOutcome.ACK_EMPTY),
        (ACK, 11, 5, SequenceOutcome.ACK_COMMIT),
        (77, 10, NO_SPAN, SequenceOutcome.OUTSIDE_DUPLICATE),
        (77, 11, 5, SequenceOutcome.OUTSIDE_CLOBBERS),
    ],
)
def test_the_row_a_message_falls_into(flags: int, clock: int, begin: int, outcome: SequenceOutcome) -> None:
    last_clock = 15 if begin != NO_SPAN else 10
    assert decide(flags, clock, 10, last_clock, begin) is outcome


def test_the_page_names_every_outcome() -> None:
    page = (Path(__file__).parents[2] / "docs/explanation/design/messages.md").read_text(encoding="utf-8")
    assert {outcome.name for outcome in SequenceOutcome} <= set(re.findall(r"[A-Z_]{5,}", page))


def test_what_commits_and_what_is_wrong() -> None:
    assert [outcome.name for outcome in SequenceOutcome if outcome.is_anomaly] == [
        "OUTSIDE_CLOBBERS",
        "ACK_DEEP_ROLLBACK",
    ]
    assert {outcome.name for outcome in SequenceOutcome if outcome.is_commit} == {
        "OUTSIDE_COMMIT", "OUTSIDE_CLOBBERS", "ACK_EMPTY", "ACK_COMMIT", "ACK_REPLAY", "UNTRACKED",
    }  # fmt: skip
