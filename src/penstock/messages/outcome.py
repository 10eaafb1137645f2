"""What a message does to its producer: the table of the Sequencer, literally. Design: exactly-once.md, gazette.md 2.8.

| flags    | condition             | outcome                | what happens                                          |
|----------|-----------------------|------------------------|-------------------------------------------------------|
| OUTSIDE  | clock ≤ last_ack      | OUTSIDE_DUPLICATE      | ignored                                               |
| OUTSIDE  | else                  | OUTSIDE_COMMIT         | it is committed; an open span is discarded (misuse)   |
| CONTINUE | clock ≤ last_ack      | CONTINUE_ALREADY_ACKED | ignored                                               |
| CONTINUE | clock ≤ last_clock    | CONTINUE_DUPLICATE     | ignored                                               |
| CONTINUE | no span / one is open | CONTINUE_BEGIN/_EXTEND | pending                                               |
| ACK      | clock < last_ack      | ACK_DEEP_ROLLBACK      | span dropped, last_ack goes BACK (a loss upstream)    |
| ACK      | clock = last_ack      | ACK_CLEAN_ROLLBACK     | span dropped                                          |
| ACK      | no span is open       | ACK_EMPTY              | the ACK alone is committed                            |
| ACK      | span in ring / else   | ACK_COMMIT/_REPLAY     | the span is committed up to the ACK's clock           |
| (none)   | no UUID               | UNTRACKED              | delivered, at least once                              |

An unknown producer has last_ack = last_clock = clock - 1. Unknown flags count as OUTSIDE. The outcome is decided here
without changing anything; `sequencer.py` has one handler for each.
"""

from enum import Enum

from penstock.messages.read_state import NO_SPAN
from penstock.messages.uuid import ACK_TXN, CONTINUE_TXN

__all__ = ["SequenceOutcome", "decide"]


class SequenceOutcome(Enum):
    """A row of the table, and whether something is committed by it."""

    OUTSIDE_DUPLICATE = "outside-duplicate", False
    OUTSIDE_COMMIT = "outside-commit", True
    OUTSIDE_CLOBBERS = "outside-clobbers", True  # as OUTSIDE_COMMIT, and a span was open: a producer mixes both ways
    CONTINUE_ALREADY_ACKED = "continue-already-acked", False
    CONTINUE_DUPLICATE = "continue-duplicate", False
    CONTINUE_BEGIN = "continue-begin", False
    CONTINUE_EXTEND = "continue-extend", False
    ACK_DEEP_ROLLBACK = "ack-deep-rollback", False
    ACK_CLEAN_ROLLBACK = "ack-clean-rollback", False
    ACK_EMPTY = "ack-empty", True
    ACK_COMMIT = "ack-commit", True
    ACK_REPLAY = "ack-replay", True  # as ACK_COMMIT, and the span is not whole in the ring
    UNTRACKED = "untracked", True

    def __init__(self, text: str, is_commit: bool) -> None:
        self.text = text
        self.is_commit = is_commit
        # What a producer must not do. A deep rollback means that it restored a checkpoint older than one it had
        # acknowledged: the messages that it publishes again are no longer exactly once.
        self.is_anomaly = text in ("outside-clobbers", "ack-deep-rollback")


def decide(flags: int, clock: int, last_ack: int, last_clock: int, begin: int) -> SequenceOutcome:
    """The row of the table which a message with a UUID falls into. (Whether a span is in the ring is for its owner.)"""
    if flags == CONTINUE_TXN:
        if clock <= last_ack:
            return SequenceOutcome.CONTINUE_ALREADY_ACKED
        if clock <= last_clock:
            return SequenceOutcome.CONTINUE_DUPLICATE
        return SequenceOutcome.CONTINUE_BEGIN if begin == NO_SPAN else SequenceOutcome.CONTINUE_EXTEND
    if flags == ACK_TXN:
        if clock < last_ack:
            return SequenceOutcome.ACK_DEEP_ROLLBACK
        if clock == last_ack:
            return SequenceOutcome.ACK_CLEAN_ROLLBACK
        return SequenceOutcome.ACK_EMPTY if begin == NO_SPAN else SequenceOutcome.ACK_COMMIT
    if clock <= last_ack:
        return SequenceOutcome.OUTSIDE_DUPLICATE
    return SequenceOutcome.OUTSIDE_COMMIT if begin == NO_SPAN else SequenceOutcome.OUTSIDE_CLOBBERS
