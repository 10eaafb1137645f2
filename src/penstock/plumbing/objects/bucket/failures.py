"""What a failure of obstore means.

obstore reports most failures as one class with a long text which may hold signed URLs, and so credentials. Here a text
becomes one `Failure`, and a short summary without query strings. An unknown failure counts as `TRANSIENT`, which claims
the least: the request may have taken effect.
"""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from enum import Enum

from obstore import exceptions

from penstock.kernel.errors import (
    InvalidArgument,
    NotFound,
    ObjectStoreFailed,
    PenstockError,
    PreconditionFailed,
    Written,
)

__all__ = ["RAISED_BY_OBSTORE", "Failure", "asking", "error_of", "failure_of", "summary_of"]

SUMMARY_CHARS_MAX = 300
RAISED_BY_OBSTORE = (exceptions.BaseError, OSError, ValueError, NotImplementedError)

_STATUS = re.compile(r"\bstatus: (\d{3})\b")
_RETRIED = re.compile(r"\bretries: [1-9]")
_NOT_SENT = re.compile(r"\bkind: Connect\b")
_RANGE = re.compile(r"Invalid range|StartTooLarge|Requested range not satisfiable")
_NO_BUCKET = re.compile(r"NoSuchBucket|ContainerNotFound|The specified bucket does not exist")
_S3_STYLE = re.compile(r"<Code>(.*?)</Code>\s*<Message>(.*?)(?:\n|</Message>)", re.DOTALL)
_QUERY = re.compile(r"\?[^\s)\"',]*")


class Failure(Enum):
    """What happened to one request."""

    ABSENT = "the key has no object"
    BUCKET_ABSENT = "the bucket does not exist"
    PRECONDITION = "the condition does not hold"
    CONFLICT = "another conditional request was under way; this one changed nothing"
    DENIED = "the credentials do not allow this"
    RANGE = "the range begins beyond the object's end"
    REFUSED = "the store will not do this"
    NOT_SENT = "no connection; the request was never sent"
    TRANSIENT = "the store or the way to it failed; the request may have taken effect"


def failure_of(error: Exception) -> Failure:
    """Classify an exception that obstore raised."""
    text = str(error)
    match = _STATUS.search(text)
    status = int(match[1]) if match else 0
    if _NO_BUCKET.search(text):
        return Failure.BUCKET_ABSENT
    if isinstance(error, FileNotFoundError):
        return Failure.ABSENT
    if isinstance(error, exceptions.AlreadyExistsError | exceptions.PreconditionError | exceptions.NotModifiedError):
        # S3 answers 409 when two conditional requests meet: this says nothing about whether the object exists.
        return Failure.CONFLICT if status == 409 and "ConditionalRequestConflict" in text else Failure.PRECONDITION
    if isinstance(error, exceptions.PermissionDeniedError | exceptions.UnauthenticatedError):
        return Failure.DENIED
    if isinstance(error, exceptions.NotSupportedError | exceptions.InvalidPathError | NotImplementedError | ValueError):
        return Failure.REFUSED
    if status == 416 or _RANGE.search(text):
        return Failure.RANGE
    if 400 <= status < 500 and status not in (408, 429):
        return Failure.REFUSED
    if not status and _NOT_SENT.search(text):
        return Failure.NOT_SENT
    return Failure.TRANSIENT


def error_of(error: Exception, doing: str, key: str, *, changes: bool) -> PenstockError:
    """The error to raise. `changes` says whether the request would have changed the store."""
    failure = failure_of(error)
    # This is about the last attempt; an earlier one may have been sent, and its answer lost.
    doubtful = failure is Failure.TRANSIENT or _RETRIED.search(str(error)) is not None
    written = Written.UNKNOWN if changes and doubtful else Written.NO
    match failure:
        case Failure.ABSENT:
            return NotFound(f"no object {key!r}", key=key)
        case Failure.PRECONDITION:
            return PreconditionFailed(f"{doing} {key!r}: {failure.value}", key=key)
        case Failure.RANGE:
            return InvalidArgument(f"{doing} {key!r}: {failure.value}", key=key)
        case Failure.BUCKET_ABSENT | Failure.DENIED | Failure.REFUSED:
            return ObjectStoreFailed(
                f"{doing} {key!r}: {failure.value} ({summary_of(error)})",
                written=written,
                retryable=False,
                next_step="check the store's URL, its bucket and the credentials",
                key=key,
            )
        case Failure.NOT_SENT | Failure.CONFLICT | Failure.TRANSIENT:
            return ObjectStoreFailed(f"{doing} {key!r} failed: {summary_of(error)}", written=written, key=key)


@contextmanager
def asking(doing: str, key: str, *, changes: bool = False) -> Iterator[None]:
    """Turn what obstore raises inside the block into our errors, without the cause: its text may hold secrets."""
    try:
        yield
    except RAISED_BY_OBSTORE as error:
        raise error_of(error, doing, key, changes=changes) from None


def summary_of(error: Exception) -> str:
    """Return one short line about an error, without secrets: query strings carry signatures and tokens."""
    text = str(error)
    style = _S3_STYLE.search(text)
    line = f"{style[1]}: {style[2]}" if style else text.partition("\n")[0]
    line = _QUERY.sub("?…", line)
    return line if len(line) <= SUMMARY_CHARS_MAX else line[: SUMMARY_CHARS_MAX - 1] + "…"
