"""Requests of a broker's clients, and the answers. Design: journals.md J10, J12, J13; gazette.md §1.2.

Every answer to an append has a fate: COMMITTED and ABORTED are definite and stay true for ever; UNKNOWN carries what
`resolve` needs to tell later.
"""

from enum import Enum

import msgspec

from penstock.journals.records.epoch import NO_EPOCH, PipelineEpoch
from penstock.journals.records.fragment import Fragment
from penstock.journals.records.labels import LabelSelector
from penstock.journals.records.registers import RegisterChange, Registers, Txn
from penstock.kernel.ids import Instant, Offset, Revision

__all__ = ["AppendRequest", "AppendResponse", "Fate", "ResetHead", "Resolution", "Resolve", "Shortage", "Status"]


class Fate(Enum):
    """What became of an append."""

    COMMITTED = "committed"
    ABORTED = "aborted"  # it has no effect, and never will
    UNKNOWN = "unknown"  # ask `resolve`


class Status(Enum):
    """Why. The upper case names are Gazette's where it has them."""

    OK = "ok"
    JOURNAL_NOT_FOUND = "journal-not-found"
    NO_JOURNAL_PRIMARY_BROKER = "no-journal-primary-broker"
    NOT_JOURNAL_PRIMARY_BROKER = "not-journal-primary-broker"
    INSUFFICIENT_JOURNAL_BROKERS = "insufficient-journal-brokers"
    NOT_ALLOWED = "not-allowed"
    WRONG_APPEND_OFFSET = "wrong-append-offset"
    INDEX_HAS_GREATER_OFFSET = "index-has-greater-offset"
    REGISTER_MISMATCH = "register-mismatch"
    REGISTERS_LOST = "registers-lost"  # after a reset-head they are unknown: write them without a check first
    HEAD_LOST = "head-lost"  # no member has the last bytes: see reset-head
    REGISTERS_FULL = "registers-full"  # with this change they would be larger than a journal's may be
    WRITER_EXPIRED = "writer-expired"  # the journal has forgotten writers with numbers as high as this one
    TXN_SUPERSEDED = "txn-superseded"  # the writer has committed a later transaction
    LIMIT_REACHED = "limit-reached"  # the head record could not be raised in time
    CLIENT_ABORT = "client-abort"
    PIPELINE_BROKEN = "pipeline-broken"  # while content was streamed: send it again
    DEADLINE = "deadline"
    OVERLOADED = "overloaded"
    IN_DOUBT = "in-doubt"  # it is in the journal, but on too few brokers, and not in the store yet
    LOST = "lost"  # reset-head came between: only the store can tell
    DISK_FULL = "disk-full"  # a replica has no room for content


class Shortage(msgspec.Struct, frozen=True, array_like=True):
    """Why a replica takes no more content for now: `DISK_FULL` or `OVERLOADED`, and which broker lacks what."""

    status: Status
    broker: str
    folder: str
    free_bytes: int
    reason: str


class AppendRequest(msgspec.Struct, frozen=True, kw_only=True):
    """One append. Its content comes later, when it is its turn."""

    deadline: Instant  # by the broker's clock: the shell turns the client's time-out into this
    offset: Offset | None = None  # append only if the journal ends here
    check: LabelSelector = LabelSelector()  # append only if the registers match
    change: RegisterChange = RegisterChange()
    txn: Txn | None = None
    min_revision: Revision = Revision(0)  # the client knows that the KeySpace has come this far
    may_proxy: bool = True
    unix_ms: int = 0  # when it came, by the broker's calendar: for flush intervals and path postfixes


class AppendResponse(msgspec.Struct, frozen=True, kw_only=True):
    """The answer to an append."""

    fate: Fate
    status: Status
    commit: Fragment | None = None  # this append's bytes alone; when UNKNOWN: where they would be
    registers: Registers | None = None  # after it; for a mismatch, the registers that did not match
    end: Offset | None = None  # the write head, where it is quoted
    epoch: PipelineEpoch = NO_EPOCH
    reason: str = ""
    shortage: Shortage | None = None  # what a replica lacks, if that is why


class ResetHead(msgspec.Struct, frozen=True, kw_only=True):
    """An operator declares that the brokers with the journal's last bytes are gone for good. Answered by an
    `AppendResponse`.
    """

    deadline: Instant
    offset: Offset | None = None  # where to continue; None: above all offsets that are known
    min_revision: Revision = Revision(0)
    unix_ms: int = 0  # when it came, by the broker's calendar


class Resolve(msgspec.Struct, frozen=True):
    """What became of an append whose fate was UNKNOWN? Answered by a `Resolution`."""

    epoch: PipelineEpoch
    begin: Offset
    end: Offset


class Resolution(Enum):
    """The answer."""

    COMMITTED = "committed"
    ABORTED = "aborted"
    PENDING = "pending"  # no later epoch was certified yet
    LOST_UNKNOWN = "lost-unknown"  # a reset-head came between: look in the store
    EXPIRED = "expired"  # too long ago
