"""The rule for batch numbers, line by line."""

import pytest

from penstock.lake.core.staging.branch import SinkState
from penstock.lake.core.staging.proposing.sink_rule import (
    BatchOffer,
    Register,
    SinkVerdict,
    part_of,
    register_of,
    verdict,
)
from penstock.lake.core.staging.records import CommitId, SinkPart

LAST = Register("q", 4, "plan4")
ENDED = Register("q", 4, "plan4", '[{"a":7}]')


@pytest.mark.parametrize(
    ("last", "batch", "expected"),
    [
        (None, BatchOffer("q", 0), SinkVerdict.COMMIT),
        (None, BatchOffer("q", 17), SinkVerdict.COMMIT),  # a checkpoint may switch sinks half-way
        (LAST, BatchOffer("q", 5, "plan5"), SinkVerdict.COMMIT),
        (LAST, BatchOffer("q", 4, "plan4"), SinkVerdict.REPLAY),
        (LAST, BatchOffer("q", 4), SinkVerdict.REPLAY),  # the plan is unknown: the numbers must do
        (LAST, BatchOffer("q", 4, "another"), SinkVerdict.OTHER_PLAN),
        (LAST, BatchOffer("q", 3, "plan3"), SinkVerdict.STALE),
        (LAST, BatchOffer("q", 6, "plan6"), SinkVerdict.STALE),
        (LAST, BatchOffer("other", 5, "plan5"), SinkVerdict.OTHER_QUERY),
        (LAST, BatchOffer("other", 4, "plan4"), SinkVerdict.OTHER_QUERY),
        (Register("q", -1), BatchOffer("q", 0), SinkVerdict.COMMIT),  # adopted before its first batch
        (ENDED, BatchOffer("q", 5, "p", '[{"a":7}]'), SinkVerdict.COMMIT),
        (ENDED, BatchOffer("q", 5, "p", '[{"a":7,"b":0}]'), SinkVerdict.COMMIT),  # a journal that came later
        (ENDED, BatchOffer("q", 5, "p"), SinkVerdict.COMMIT),  # its begin is unknown
        (ENDED, BatchOffer("q", 5, "p", '[{"a":6}]'), SinkVerdict.OTHER_BEGIN),
        (ENDED, BatchOffer("q", 5, "p", '[{"b":7}]'), SinkVerdict.OTHER_BEGIN),
        (ENDED, BatchOffer("q", 5, "p", '[{"a":7},{"b":0}]'), SinkVerdict.OTHER_BEGIN),
        (ENDED, BatchOffer("q", 5, "p", "sha256:00"), SinkVerdict.OTHER_BEGIN),
        (ENDED, BatchOffer("q", 4, "plan4", '[{"a":1}]'), SinkVerdict.REPLAY),
        (ENDED, BatchOffer("other", 0, "p", '[{"a":7}]'), SinkVerdict.COMMIT),  # as a stream follows a backfill
        (ENDED, BatchOffer("other", 0, "p", '[{"a":0}]'), SinkVerdict.OTHER_QUERY),
        (ENDED, BatchOffer("other", 0, "p", "[null]"), SinkVerdict.OTHER_QUERY),
        (ENDED, BatchOffer("other", 1, "p", '[{"a":7}]'), SinkVerdict.OTHER_QUERY),
        (LAST, BatchOffer("other", 0, "p", '[{"a":7}]'), SinkVerdict.OTHER_QUERY),
    ],
)
def test_verdicts(last: Register | None, batch: BatchOffer, expected: SinkVerdict) -> None:
    assert verdict(last, batch) is expected


def test_a_register_survives_the_state_machine() -> None:
    part = part_of("s", LAST, BatchOffer("q", 5, "plan5"))
    assert part == SinkPart("s", 5, "q:plan4", "q:plan5")
    assert register_of(SinkState(part.batch, part.end, CommitId("c"))) == Register("q", 5, "plan5")


def test_numbers_of_the_state_machine_rise_whichever_query_comes() -> None:
    part = part_of("s", ENDED, BatchOffer("other", 0, "plan", '[{"a":7}]', '[{"a":9}]'))
    assert part == SinkPart("s", 5, 'q:plan4:0:[{"a":7}]', 'other:plan:5:[{"a":9}]')
    heir = register_of(SinkState(part.batch, part.end, CommitId("c")))
    assert heir == Register("other", 0, "plan", '[{"a":9}]', 5)
    following = part_of("s", heir, BatchOffer("other", 1, "", '[{"a":9}]'))
    assert following == SinkPart("s", 6, part.end, "other::5:")
    assert register_of(SinkState(6, following.end, CommitId("d"))) == Register("other", 1, "", "", 5)
