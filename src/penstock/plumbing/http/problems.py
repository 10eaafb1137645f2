"""Problems: from our errors to HTTP statuses, and the plain JSON rendering of an error.

A site may render errors in its own format (`Site.render`); the status is the same everywhere unless the error says one
itself, in `details["status"]`.
"""

from collections.abc import Callable

from penstock.kernel.errors import (
    Cancelled,
    Compacted,
    ConnectionLost,
    DataMissing,
    DeadlineExceeded,
    DiskFull,
    Forbidden,
    Gone,
    HeadLost,
    Indeterminate,
    InvalidArgument,
    LeaseExpired,
    LimitExceeded,
    LocalError,
    NotFound,
    PenstockError,
    PreconditionFailed,
    Refused,
    RemoteError,
    Unauthenticated,
    Unavailable,
)
from penstock.plumbing.http.request import Request
from penstock.plumbing.http.response import Response, json_response

__all__ = ["Render", "method_refused", "render_json", "status_of"]

Render = Callable[[Request, PenstockError, int], Response]  # the request, what went wrong, the status to answer with

CLIENT_GONE = 499  # no client reads this answer; access logs and metrics show it

_STATUSES: dict[type[PenstockError], int] = {
    LocalError: 400,
    Unauthenticated: 401,
    NotFound: 404,
    PreconditionFailed: 412,
    LimitExceeded: 413,
    Forbidden: 403,
    Gone: 410,
    Compacted: 410,
    LeaseExpired: 409,
    Refused: 409,
    RemoteError: 502,
    HeadLost: 410,
    Unavailable: 503,
    ConnectionLost: 502,
    DeadlineExceeded: 504,
    Cancelled: 503,
    Indeterminate: 500,
    DiskFull: 507,
    DataMissing: 410,
    PenstockError: 500,
}


def status_of(error: PenstockError) -> int:
    """The status which tells a client the kind of the error.

    >>> status_of(NotFound("no branch x")), status_of(InvalidArgument("no", status=411))
    (404, 411)
    """
    own = error.details.get("status")
    if isinstance(own, int) and 400 <= own <= 599:
        return own
    return next(_STATUSES[kind] for kind in type(error).__mro__ if kind in _STATUSES)


def render_json(request: Request, error: PenstockError, status: int) -> Response:
    """The error as a JSON object: what happened, whether anything was written, what to do next."""
    body = {
        "error": error.code,
        "message": error.message,
        "written": error.written.value,
        "retryable": error.retryable,
        "request_id": request.id,
    }
    if error.next_step:
        body["next_step"] = error.next_step
    return json_response(body, status)


def method_refused(method: str, allowed: list[str]) -> PenstockError:
    """The error of a path which exists, but not for this method."""
    return InvalidArgument(f"{method} is not allowed here; {', '.join(allowed)} is", status=405, allow=allowed)
