"""Maps a failed call to etcd to an error, by gRPC's status and etcd's sentence."""

from typing import Final

import grpc

from penstock.kernel.errors import (
    Compacted,
    ConnectionLost,
    DeadlineExceeded,
    DiskFull,
    LeaseExpired,
    LimitExceeded,
    Overloaded,
    PenstockError,
    PreconditionFailed,
    ProtocolViolation,
    Refused,
    StorageError,
    Unauthenticated,
    Unavailable,
    Written,
)

__all__ = ["is_transient", "meaning"]

# A part of etcd's sentence, and its error. All of these say that nothing was written.
_SENTENCES: Final[tuple[tuple[str, type[PenstockError]], ...]] = (
    ("required revision has been compacted", Compacted),
    ("required revision is a future revision", PreconditionFailed),
    ("requested lease not found", LeaseExpired),
    ("too large", LimitExceeded),
    ("too many operations", LimitExceeded),
    ("database space exceeded", DiskFull),
    ("too many requests", Overloaded),
    ("no leader", Unavailable),
    ("not leader", Unavailable),
)
_CODES: Final[dict[grpc.StatusCode, type[PenstockError]]] = {
    grpc.StatusCode.UNAUTHENTICATED: Unauthenticated,
    grpc.StatusCode.PERMISSION_DENIED: Refused,
    grpc.StatusCode.RESOURCE_EXHAUSTED: Overloaded,
    grpc.StatusCode.DATA_LOSS: StorageError,
    grpc.StatusCode.INVALID_ARGUMENT: ProtocolViolation,
    grpc.StatusCode.UNIMPLEMENTED: ProtocolViolation,
}
_TRANSIENT: Final = (
    grpc.StatusCode.UNAVAILABLE,
    grpc.StatusCode.CANCELLED,
    grpc.StatusCode.DEADLINE_EXCEEDED,
    grpc.StatusCode.UNKNOWN,
    grpc.StatusCode.INTERNAL,
    grpc.StatusCode.ABORTED,
)


def is_transient(error: grpc.RpcError) -> bool:
    """Return whether another endpoint, or the same one later, may succeed."""
    meant = meaning(error, changes=False)
    return isinstance(meant, Unavailable)


def meaning(error: grpc.RpcError, *, changes: bool) -> PenstockError:
    """Return the error to raise; `changes`: whether the call would have changed anything."""
    code, sentence = _status(error)
    for part, kind in _SENTENCES:
        if part in sentence:
            return kind(f"etcd: {sentence}")
    if code in _CODES:
        return _CODES[code](f"etcd: {sentence}")
    if not changes:
        return Unavailable(f"etcd did not answer: {code.name} {sentence}")
    if code is grpc.StatusCode.DEADLINE_EXCEEDED:  # etcd's own time-out: ours is not gRPC's
        return DeadlineExceeded(f"etcd: {sentence}")
    if code in _TRANSIENT:
        return ConnectionLost(f"the connection to etcd broke: {code.name} {sentence}")
    return StorageError(f"etcd failed: {code.name} {sentence}", written=Written.UNKNOWN)


def _status(error: grpc.RpcError) -> tuple[grpc.StatusCode, str]:
    assert isinstance(error, grpc.aio.AioRpcError)
    return error.code(), (error.details() or "").removeprefix("etcdserver: ")
