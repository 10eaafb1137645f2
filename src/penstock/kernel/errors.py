"""The error tree. Every error says who is at fault, whether anything was written, whether to retry, what to do next.

    PenstockError
    ├── LocalError             the caller is wrong; nothing was done
    │   ├── InvalidArgument
    │   ├── ConfigError
    │   └── AlreadyClosed
    ├── RemoteError            the peer broke the protocol; its connection is closed, nothing else is harmed
    │   ├── MalformedFrame
    │   ├── FrameTooLarge
    │   ├── ProtocolViolation
    │   └── VersionMismatch
    ├── Refused                the service understood, and said no; nothing was written
    │   ├── Unauthenticated
    │   ├── NotFound
    │   ├── PreconditionFailed
    │   ├── LimitExceeded
    │   ├── WriterExpired
    │   ├── Compacted
    │   ├── LeaseExpired
    │   ├── AlreadyExists
    │   ├── DirtyBranch
    │   ├── Fenced
    │   ├── Forbidden
    │   ├── Gone
    │   ├── StagedFileMissing
    │   ├── TableChanged
    │   ├── MergeConflict
    │   ├── NoChanges
    │   └── Unimplemented
    ├── Unavailable            not now; nothing was written; the same request may succeed later
    │   ├── ConnectFailed
    │   ├── HeadLost
    │   ├── NotLeader
    │   ├── Overloaded
    │   └── ShuttingDown
    ├── Indeterminate          the outcome is unknown; ask before you repeat a request that is not idempotent
    │   ├── ConnectionLost
    │   ├── DeadlineExceeded
    │   └── Cancelled
    ├── StorageError           the disk or the object store failed
    │   ├── WalCorrupt
    │   ├── WalPoisoned
    │   ├── DiskFull
    │   ├── DataDamaged
    │   ├── DataMissing
    │   ├── FormatTooNew
    │   ├── ObjectStoreFailed
    │   └── KeySpaceForgot
    └── InternalError          an invariant is broken: a defect of Penstock

Expected outcomes (a lost race, a conflict) are values, not errors. An error crosses the wire as an `ErrorRecord`.
"""

from enum import Enum
from typing import Any, ClassVar

import msgspec

__all__ = [
    "AlreadyClosed",
    "AlreadyExists",
    "Cancelled",
    "Compacted",
    "ConfigError",
    "ConnectFailed",
    "ConnectionLost",
    "DataDamaged",
    "DataMissing",
    "DeadlineExceeded",
    "DirtyBranch",
    "DiskFull",
    "ErrorRecord",
    "Fault",
    "Fenced",
    "Forbidden",
    "FormatTooNew",
    "FrameTooLarge",
    "Gone",
    "HeadLost",
    "Indeterminate",
    "InternalError",
    "InvalidArgument",
    "KeySpaceForgot",
    "LeaseExpired",
    "LimitExceeded",
    "LocalError",
    "MalformedFrame",
    "MergeConflict",
    "NoChanges",
    "NotFound",
    "NotLeader",
    "ObjectStoreFailed",
    "Outcome",
    "Overloaded",
    "PenstockError",
    "PreconditionFailed",
    "ProtocolViolation",
    "Refused",
    "RemoteError",
    "ShuttingDown",
    "StagedFileMissing",
    "StorageError",
    "TableChanged",
    "Unauthenticated",
    "Unavailable",
    "Unimplemented",
    "VersionMismatch",
    "WalCorrupt",
    "WalPoisoned",
    "WriterExpired",
    "Written",
    "error_from_record",
]


class Fault(Enum):
    """The party that has to change something."""

    CALLER = "caller"
    PEER = "peer"
    SERVICE = "service"
    ENVIRONMENT = "environment"


class Written(Enum):
    """Whether the failed request changed anything."""

    NO = "no"
    YES = "yes"
    UNKNOWN = "unknown"


class Outcome(Enum):
    """Definite: we know what happened. Indeterminate: it may have happened, or may still."""

    DEFINITE = "definite"
    INDETERMINATE = "indeterminate"


class ErrorRecord(msgspec.Struct, frozen=True, omit_defaults=True):
    """An error as it crosses the wire: the code finds the class again, the rest restores it."""

    code: str
    message: str
    fault: Fault
    written: Written
    retryable: bool = False
    next_step: str = ""
    details: dict[str, Any] = {}


_STATED = "; nothing was written"  # of messages for Python; `describe` states the outcome once
_WRITTEN_SENTENCE = {
    Written.NO: "Nothing was written.",
    Written.YES: "It was written.",
    Written.UNKNOWN: "It may have been written.",
}


class PenstockError(Exception):
    """Base of all errors. Class attributes are the defaults of a kind; an instance may know better.

    >>> error = PreconditionFailed("register owner is b, not a", next_step="penstock journals --help", actual="b")
    >>> error.outcome.value, error.written.value, error.details
    ('definite', 'no', {'actual': 'b'})
    """

    code: ClassVar[str] = "error"
    fault: Fault = Fault.SERVICE
    written: Written = Written.NO
    retryable: bool = False
    next_step: str = ""
    first_word: ClassVar[str] = "error"  # of `describe`: which family of errors it is

    _by_code: ClassVar[dict[str, type["PenstockError"]]] = {}

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        assert "code" in vars(cls), f"{cls.__name__} has no code of its own"
        assert cls.code not in PenstockError._by_code, f"two errors have the code {cls.code}"
        PenstockError._by_code[cls.code] = cls

    def __init__(
        self,
        message: str,
        *,
        written: Written | None = None,
        retryable: bool | None = None,
        next_step: str | None = None,
        **details: Any,
    ) -> None:
        super().__init__(message)
        self.message = message
        self.details = details
        if written is not None:
            self.written = written
        if retryable is not None:
            self.retryable = retryable
        if next_step is not None:
            self.next_step = next_step

    @property
    def outcome(self) -> Outcome:
        """Definite, or indeterminate: the request may have taken effect, or may still."""
        return Outcome.INDETERMINATE if self.written is Written.UNKNOWN else Outcome.DEFINITE

    def describe(self, *, shows_outcome: bool = True) -> str:
        """Return the message, the outcome and the next step. A read shows its outcome only if that is unknown."""
        lines = [f"{self._word()}: {self.message.removesuffix(_STATED)}"]
        if shows_outcome or self.outcome is Outcome.INDETERMINATE:
            lines.append(_WRITTEN_SENTENCE[self.written])
        if self.retryable:
            later = "The same request may succeed later."
            lines[1:] = [" ".join([*lines[1:], later])]
        if self.next_step:
            lines.append(f"Next: {self.next_step}")
        return "\n".join(lines)

    def _word(self) -> str:
        """Return the family's word, or "unknown" for a request that was sent and may have taken effect."""
        is_unknown = self.outcome is Outcome.INDETERMINATE and self.first_word != "error"
        return "unknown" if is_unknown else self.first_word

    def _render_traceback_(self, *_: object) -> list[str]:
        """Return the few lines that a notebook shows: the user's line, then what `describe` says."""
        from penstock.kernel.notebook import error_lines  # few programs are notebooks

        return error_lines(self, self.describe())

    def to_record(self) -> ErrorRecord:
        return ErrorRecord(
            self.code, self.message, self.fault, self.written, self.retryable, self.next_step, self.details
        )


def error_from_record(record: ErrorRecord) -> PenstockError:
    """The error a peer sent. A code this version does not know keeps all it said under the base class."""
    kind = PenstockError._by_code.get(record.code, PenstockError)
    error = kind.__new__(kind)
    details = dict(record.details)
    if kind is PenstockError and record.code != PenstockError.code:
        details["code"] = record.code
    PenstockError.__init__(error, record.message)
    error.details = details
    error.fault = record.fault
    error.written = record.written
    error.retryable = record.retryable
    error.next_step = record.next_step
    return error


class LocalError(PenstockError):
    """The caller is wrong: the same call will fail again."""

    code = "local"
    fault = Fault.CALLER


class InvalidArgument(LocalError):
    """A value that no state of the system would accept."""

    code = "invalid-argument"


class ConfigError(LocalError):
    """A configuration key is unknown, or its value does not fit."""

    code = "config"


class AlreadyClosed(LocalError):
    """The object was closed before this call."""

    code = "already-closed"


class RemoteError(PenstockError):
    """The peer broke the protocol. Its connection is closed."""

    code = "remote"
    fault = Fault.PEER


class MalformedFrame(RemoteError):
    """Bytes which are no frame, or a frame whose body does not decode."""

    code = "malformed-frame"


class FrameTooLarge(RemoteError):
    """A frame above the agreed limit."""

    code = "frame-too-large"


class ProtocolViolation(RemoteError):
    """A well-formed frame that is not allowed at this point."""

    code = "protocol-violation"


class VersionMismatch(RemoteError):
    """The two sides share no protocol version."""

    code = "version-mismatch"


class Refused(PenstockError):
    """The service understood the request, and said no."""

    code = "refused"
    first_word = "refused"
    fault = Fault.CALLER


class Unauthenticated(Refused):
    """No token, or a wrong one."""

    code = "unauthenticated"


class NotFound(Refused):
    """What the request names does not exist."""

    code = "not-found"


class PreconditionFailed(Refused):
    """The request's own condition does not hold."""

    code = "precondition-failed"


class LimitExceeded(Refused):
    """The request is above a configured limit."""

    code = "limit-exceeded"


class WriterExpired(Refused):
    """The journal no longer knows the writer. This request wrote nothing; an earlier copy may have."""

    code = "writer-expired"


class Compacted(Refused):
    """The KeySpace no longer holds its history back to that revision."""

    code = "compacted"
    next_step = "read the present state, and watch on from the revision of that"


class LeaseExpired(Refused):
    """The lease ran out or was revoked, and every key under it is gone: its holder must stop acting as its owner."""

    code = "lease-expired"
    fault = Fault.ENVIRONMENT


class AlreadyExists(Refused):
    """Something with this name exists already."""

    code = "already-exists"


class DirtyBranch(Refused):
    """The branch has uncommitted changes, and the request needs it without."""

    code = "dirty-branch"


class Fenced(Refused):
    """Another process has taken over, so this one must stop."""

    code = "fenced"
    fault = Fault.ENVIRONMENT


class Forbidden(Refused):
    """No caller may do this, whatever its credentials."""

    code = "forbidden"


class Gone(Refused):
    """The object existed, and the garbage collector has taken it."""

    code = "gone"


class StagedFileMissing(Refused):
    """A file of a batch is not in the lake's store, or not whole."""

    code = "staged-file-missing"


class TableChanged(Refused):
    """A table is no longer as the batch's author saw it."""

    code = "table-changed"


class MergeConflict(Refused):
    """Both sides changed the same paths, each in its own way."""

    code = "merge-conflict"


class NoChanges(Refused):
    """There is nothing to commit."""

    code = "no-changes"


class Unimplemented(Refused):
    """The server does not have the method: it is of another release, or has another role."""

    code = "unimplemented"
    fault = Fault.SERVICE


class Unavailable(PenstockError):
    """Not now. Nothing was written, and the same request may succeed later."""

    code = "unavailable"
    first_word = "unavailable"
    fault = Fault.ENVIRONMENT
    retryable = True


class ConnectFailed(Unavailable):
    """No connection could be made."""

    code = "connect-failed"


class HeadLost(Unavailable):
    """No broker of the journal has its last acknowledged bytes. `details["begin"]` is where they began."""

    code = "head-lost"


class NotLeader(Unavailable):
    """The request went to a node which does not lead the shard. `details["leader"]` is who may, if that is known."""

    code = "not-leader"
    fault = Fault.SERVICE


class Overloaded(Unavailable):
    """A bounded queue is full: back-pressure, not failure."""

    code = "overloaded"
    fault = Fault.SERVICE


class ShuttingDown(Unavailable):
    """The process is ending, and takes no new work."""

    code = "shutting-down"
    fault = Fault.SERVICE


class Indeterminate(PenstockError):
    """The outcome is unknown: the request may have taken effect, or may still."""

    code = "indeterminate"
    first_word = "unknown"
    fault = Fault.ENVIRONMENT
    written = Written.UNKNOWN


class ConnectionLost(Indeterminate):
    """The connection broke after the request was sent."""

    code = "connection-lost"


class DeadlineExceeded(Indeterminate):
    """No answer came in time."""

    code = "deadline-exceeded"


class Cancelled(Indeterminate):
    """The caller gave up before the answer came."""

    code = "cancelled"
    fault = Fault.CALLER


class StorageError(PenstockError):
    """The disk or the object store failed."""

    code = "storage"
    fault = Fault.ENVIRONMENT


class WalCorrupt(StorageError):
    """The WAL is damaged in the middle: records which were acknowledged cannot be read back."""

    code = "wal-corrupt"


class WalPoisoned(StorageError):
    """A write or fsync failed earlier, so the state of the disk is unknown: the owner must stop and recover."""

    code = "wal-poisoned"
    written = Written.UNKNOWN


class DiskFull(StorageError):
    """No space is left on the device."""

    code = "disk-full"


class DataDamaged(StorageError):
    """Stored bytes are not those that were written. They are kept for inspection."""

    code = "data-damaged"


class DataMissing(StorageError):
    """The store lost an object that an entry, a commit or an index names. `NotFound` says that no entry exists."""

    code = "data-missing"


class FormatTooNew(StorageError):
    """A file was written by a release that this one does not know. No byte of it was changed."""

    code = "format-too-new"


class ObjectStoreFailed(StorageError):
    """The object store failed to carry out a request."""

    code = "object-store-failed"
    retryable = True


class KeySpaceForgot(StorageError):
    """The KeySpace lost acknowledged changes, or is another one: no decision based on it can be trusted."""

    code = "keyspace-forgot"


class InternalError(PenstockError):
    """A defect in Penstock: an invariant is broken."""

    code = "internal"
    written = Written.UNKNOWN

    def _render_traceback_(self, *_: object) -> list[str]:
        raise NotImplementedError  # notebooks show a defect with all its frames
