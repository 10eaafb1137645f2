"""One transaction as its client sends it: what each answer means, and what may be sent again. Decision 0107.

Pure: the client (`appends.py`) and the simulator's clients run the same rules. What always holds:

- A copy says that it is a repeat unless it is the first of its transaction, and its number the highest that was sent.
  The answer to a repeat is about the pair (client, seq).
- "Nothing was written" ends a transaction only if no copy of it may be in the log. Else the end is `UNKNOWN`.
- A transaction that lost its leader is sent again, at the ack level it was given, until its time is over.
"""

from enum import Enum
from typing import Any

import msgspec

from penstock.kernel.ids import EntryId
from penstock.quorum.records.answers import Cause, Fate
from penstock.quorum.records.api import ClientAppend

__all__ = ["Answer", "Next", "Sending"]


class Answer(msgspec.Struct, frozen=True):
    """What the leader said of one append."""

    fate: Fate
    entry: EntryId
    result: Any = None
    cause: Cause = Cause.NONE


class Next(Enum):
    """What an answer means for the transaction."""

    TOLD = "told"  # the answer is the transaction's
    AGAIN = "again"  # send it again
    UNKNOWN = "unknown"  # it may be in the log, and its time is over


class Sending(msgspec.Struct, eq=False):
    """One transaction on its way."""

    seq: int
    ops: bytes
    is_sync: bool
    level: int
    rolls_back: bool
    may_be_written: bool = False  # a copy of it may be in the log
    might_before: bool = False  # so it was before the last copy was sent
    was_sent: bool = False  # whatever became of that copy

    def copy(self, number: int, timeout_ms: int, highest: int) -> ClientAppend:
        """Return the next copy to send. `highest`: the highest number the client has sent."""
        is_repeat = self.was_sent or self.may_be_written or self.seq <= highest
        self.might_before, self.may_be_written, self.was_sent = self.may_be_written, True, True
        return ClientAppend(
            number, self.seq, self.ops, self.is_sync, self.level, max(1, timeout_ms), self.rolls_back, is_repeat
        )

    def heard(self, answer: Answer, *, is_late: bool) -> Next:
        """Take the answer to the last copy. `is_late`: there is no time to send another one."""
        match answer.fate:
            case Fate.INDETERMINATE:
                is_over = is_late or answer.cause is not Cause.FENCED
                return Next.UNKNOWN if is_over else Next.AGAIN
            case Fate.NOT_LEADER | Fate.OVERLOADED:
                return self._not_written(is_worth_more=not is_late)
            case Fate.ABORTED if not answer.entry.offset:
                return self._not_written(is_worth_more=not is_late and answer.cause is Cause.FENCED)
            case Fate.INVALID:
                return self._not_written(is_worth_more=False)
            case _:
                return Next.TOLD

    def _not_written(self, *, is_worth_more: bool) -> Next:
        """Forget a copy that was not written: an earlier copy may still be in the log, or not."""
        self.may_be_written = self.might_before
        if is_worth_more:
            return Next.AGAIN
        return Next.UNKNOWN if self.may_be_written else Next.TOLD
