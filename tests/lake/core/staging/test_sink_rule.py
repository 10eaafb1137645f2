"""The rule for batch numbers, line by line."""

import pytest

from penstock.lake.core.staging.branch import SinkState
from penstock.lake.core.staging.proposing.sink_rule import Register, Verdict, part_of, register_of, verdict
from penstock.lake.core.staging.records import CommitId, SinkPart

LAST = Register("q", 4, "plan4")


@pytest.mark.parametrize(
    ("last", "batch", "expected"),
    [
        (None, Register("q", 0), Verdict.COMMIT),
        (None, Register("q", 17), Verdict.COMMIT),  # a checkpoint may switch sinks half-way
        (LAST, Register("q", 5, "plan5"), Verdict.COMMIT),
        (LAST, Register("q", 4, "plan4"), Verdict.REPLAY),
        (LAST, Register("q", 4), Verdict.REPLAY),  # nobody knows the plan: the numbers must do
        (LAST, Register("q", 4, "another"), Verdict.OTHER_PLAN),
        (LAST, Register("q", 3, "plan3"), Verdict.STALE),
        (LAST, Register("q", 6, "plan6"), Verdict.STALE),
        (LAST, Register("other", 5, "plan5"), Verdict.OTHER_QUERY),
        (LAST, Register("other", 4, "plan4"), Verdict.OTHER_QUERY),
        (Register("q", -1), Register("q", 0), Verdict.COMMIT),  # adopted before its first batch
    ],
)
def test_verdicts(last: Register | None, batch: Register, expected: Verdict) -> None:
    assert verdict(last, batch) is expected


def test_a_register_survives_the_state_machine() -> None:
    part = part_of("s", LAST, Register("q", 5, "plan5"))
    assert part == SinkPart("s", 5, "q:plan4", "q:plan5")
    assert register_of(SinkState(part.batch, part.end, CommitId("c"))) == Register("q", 5, "plan5")
