"""What became of an append, as a value or as the error it is. Design: journals.md J12.

Every error says whether anything was written: no, or unknown; and where it is unknown, what `resolve` needs.
"""

from typing import Final

import msgspec

from penstock.journals.client.journal_appends import Lost
from penstock.journals.records.api import AppendResponse, Fate, Status
from penstock.journals.records.epoch import PipelineEpoch
from penstock.journals.records.fragment import Sum
from penstock.journals.records.registers import NO_REGISTERS, REGISTERS_BYTES_MAX, Registers, Txn, floor_of
from penstock.kernel.errors import (
    DiskFull,
    Forbidden,
    Indeterminate,
    LimitExceeded,
    NotFound,
    Overloaded,
    PenstockError,
    PreconditionFailed,
    Refused,
    Unavailable,
    WriterExpired,
    Written,
)
from penstock.kernel.ids import Offset

__all__ = ["RETRYABLE", "Appended", "error_after", "error_of", "lost_error"]

# Definitely not done, and it may well be done a moment later: by the same broker, or by another.
RETRYABLE: Final = frozenset(
    {
        Status.NO_JOURNAL_PRIMARY_BROKER,
        Status.NOT_JOURNAL_PRIMARY_BROKER,
        Status.INSUFFICIENT_JOURNAL_BROKERS,
        Status.PIPELINE_BROKEN,
        Status.OVERLOADED,
        Status.LIMIT_REACHED,
        Status.HEAD_LOST,
        Status.INDEX_HAS_GREATER_OFFSET,
        Status.DEADLINE,
    }
)
_FAILED_CONDITIONS: Final = {
    Status.WRONG_APPEND_OFFSET: "the journal ends at another offset",
    Status.REGISTER_MISMATCH: "the registers do not match",
    Status.REGISTERS_LOST: "a reset-head lost the registers: write them without a check first",
}


class Appended(msgspec.Struct, frozen=True):
    """Content which is in the journal, on every replica."""

    journal: str
    begin: Offset
    end: Offset
    sum: Sum  # SHA-1 of this append's bytes
    registers: Registers  # after it, without those of writers; none if they are many and the append named none
    epoch: PipelineEpoch

    def __repr__(self) -> str:
        return f"Appended({self.journal} [{self.begin}, {self.end}))"

    @classmethod
    def of(cls, journal: str, response: AppendResponse) -> "Appended":
        commit = response.commit
        assert commit is not None
        return cls(journal, commit.begin, commit.end, commit.sum, response.registers or NO_REGISTERS, response.epoch)


def error_of(journal: str, response: AppendResponse, txn: Txn | None) -> PenstockError:
    """The error of an append which was not answered with COMMITTED."""
    explain = f"penstock journals explain {journal}"
    reason = f": {response.reason}" if response.reason else ""
    if response.fate is Fate.UNKNOWN:
        return _unknown(journal, response, txn)
    match response.status:
        case Status.JOURNAL_NOT_FOUND:
            return NotFound(f"there is no journal {journal!r}", next_step="penstock journals list")
        case Status.WRITER_EXPIRED | Status.TXN_SUPERSEDED | Status.REGISTERS_FULL:
            return _of_registers(journal, response, txn)
        case status if status in _FAILED_CONDITIONS:
            return PreconditionFailed(
                f"{journal}: {_FAILED_CONDITIONS[status]}; nothing was written",
                status=status.value,
                end=response.end,
                registers=str(response.registers) if response.registers is not None else "",
            )
        case Status.NOT_ALLOWED:
            return Forbidden(f"{journal}{reason}; nothing was written")
        case Status.DISK_FULL:
            short = response.shortage
            return DiskFull(  # not for the client to try again: a person has to make room
                f"{journal}{reason}; nothing was written",
                next_step=f"free space on the disk of {short.folder}" if short is not None else explain,
                broker=short.broker if short is not None else "",
                folder=short.folder if short is not None else "",
                free_bytes=short.free_bytes if short is not None else 0,
            )
        case Status.OVERLOADED:
            return Overloaded(f"{journal}{reason}; nothing was written", next_step=explain)
        case Status.HEAD_LOST | Status.INDEX_HAS_GREATER_OFFSET:
            return Unavailable(
                f"{journal} takes no appends{reason}; nothing was written",
                next_step=f"{explain}, then perhaps penstock journals reset-head {journal}",
                status=response.status.value,
            )
        case status if status in RETRYABLE:
            return Unavailable(
                f"{journal}: {status.value}{reason}; nothing was written", next_step=explain, status=status.value
            )
        case status:
            return Refused(f"{journal}: {status.value}{reason}; nothing was written", status=status.value)


def _of_registers(journal: str, response: AppendResponse, txn: Txn | None) -> PenstockError:
    """The error of an append that the registers do not allow."""
    if response.status is Status.WRITER_EXPIRED and txn is not None:
        floor = floor_of(response.registers or NO_REGISTERS).above(txn.seq)
        return WriterExpired(
            f"{journal} no longer knows writer {txn.writer}: it cannot tell whether {txn.seq} is a repeat",
            next_step=f"read the journal; if it has no such append, append with a number above {floor}",
            floor=floor,
        )
    if response.status is Status.TXN_SUPERSEDED:
        return PreconditionFailed(
            f"{journal}: the writer has committed a later transaction; this one may be in the journal",
            next_step="read the journal to see whether it has this one",
            written=Written.UNKNOWN,
            status=response.status.value,
            end=response.end,
        )
    return LimitExceeded(
        f"{journal}: registers together may have {REGISTERS_BYTES_MAX} bytes; nothing was written",
        next_step="subtract registers that are not needed",
    )


def _unknown(journal: str, response: AppendResponse, txn: Txn | None) -> PenstockError:
    commit = response.commit
    span = f"{response.epoch}/{commit.begin}-{commit.end}" if commit is not None else ""
    next_step = "read the journal's end before appending again"
    if txn is not None:
        next_step = "append it again with the same txn: it takes effect once"
    elif span:
        next_step = f"penstock journals resolve {journal} {span}"
    return Indeterminate(
        f"{journal}: the append may still commit ({response.status.value})",
        next_step=next_step,
        epoch=[response.epoch.revision, response.epoch.n],
        begin=commit.begin if commit is not None else None,
        end=commit.end if commit is not None else None,
    )


def lost_error(journal: str, lost: Lost, txn: Txn | None) -> PenstockError:
    """The error of an append whose stream ended before its answer."""
    if not lost.was_sent:
        return Unavailable(f"{journal}: the broker was lost before all was sent ({lost}); nothing was written")
    if txn is not None:
        return Indeterminate(
            f"{journal}: the broker was lost before it answered ({lost})",
            next_step="append it again with the same txn: it takes effect once",
        )
    return Indeterminate(
        f"{journal}: the broker was lost before it answered ({lost}); the append may have taken effect",
        next_step="read the journal's end before appending again; with a txn it could be repeated safely",
    )


def error_after(doubt: PenstockError | None, error: PenstockError) -> PenstockError:
    """Return the error of an append whose attempt before ended in `doubt`: it is about the append, not about one copy.

    An attempt that wrote nothing says nothing about a copy that was sent before. Only the conditions do: the journal
    judges them when it has decided about every earlier copy.
    """
    if doubt is None or error.written is not Written.NO or isinstance(error, PreconditionFailed):
        return error
    if isinstance(error, WriterExpired):
        error.written = Written.UNKNOWN
        return error
    reason = error.message.removesuffix("; nothing was written")
    return Indeterminate(
        f"an attempt before was not answered, and may have taken effect; the last one did not: {reason}",
        next_step=doubt.next_step,
        **doubt.details,
    )
