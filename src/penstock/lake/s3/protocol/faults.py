"""Faults: S3's error codes, as Penstock errors, and their XML.

An error raised with `fault(…)` carries its S3 code; any other Penstock error gets the code of its kind.
"""

from typing import Final

from penstock.kernel.errors import (
    AlreadyExists,
    DataMissing,
    Forbidden,
    InvalidArgument,
    LimitExceeded,
    NotFound,
    PenstockError,
    PreconditionFailed,
    Unauthenticated,
)
from penstock.lake.s3.xml import DECLARATION, XML_TYPE, element
from penstock.plumbing.http.request import Request
from penstock.plumbing.http.response import Response

__all__ = ["code_of", "fault", "render_xml"]

_FAULTS: Final[dict[str, tuple[int, type[PenstockError]]]] = {
    "AccessDenied": (403, Forbidden),
    "AuthorizationHeaderMalformed": (400, InvalidArgument),
    "AuthorizationQueryParametersError": (400, InvalidArgument),
    "BadDigest": (400, InvalidArgument),
    "BucketAlreadyOwnedByYou": (409, AlreadyExists),
    "EntityTooLarge": (400, LimitExceeded),
    "EntityTooSmall": (400, InvalidArgument),
    "IncompleteBody": (400, InvalidArgument),
    "InvalidAccessKeyId": (403, Unauthenticated),
    "InvalidArgument": (400, InvalidArgument),
    "InvalidDigest": (400, InvalidArgument),
    "InvalidPart": (400, InvalidArgument),
    "InvalidPartOrder": (400, InvalidArgument),
    "InvalidRange": (416, InvalidArgument),
    "InvalidRequest": (400, InvalidArgument),
    "InvalidToken": (400, Unauthenticated),
    "KeyTooLongError": (400, InvalidArgument),
    "MalformedXML": (400, InvalidArgument),
    "MetadataTooLarge": (400, LimitExceeded),
    "MethodNotAllowed": (405, InvalidArgument),
    "MissingContentLength": (411, InvalidArgument),
    "NoSuchBucket": (404, NotFound),
    "NoSuchKey": (404, NotFound),
    "NoSuchUpload": (404, NotFound),
    "NotImplemented": (501, InvalidArgument),
    "PreconditionFailed": (412, PreconditionFailed),
    "RequestTimeTooSkewed": (403, Unauthenticated),
    "SignatureDoesNotMatch": (403, Unauthenticated),
    "XAmzContentSHA256Mismatch": (400, InvalidArgument),
}

_BY_STATUS: Final = {
    400: "InvalidArgument",
    401: "AccessDenied",
    403: "AccessDenied",
    404: "NoSuchKey",
    405: "MethodNotAllowed",
    408: "RequestTimeout",
    409: "OperationAborted",
    410: "NoSuchKey",
    412: "PreconditionFailed",
    413: "EntityTooLarge",
    416: "InvalidRange",
    501: "NotImplemented",
    503: "SlowDown",
}
_CONDITIONS: Final = ("If-None-Match", "If-Match", "If-Unmodified-Since")
_BY_KIND: Final = {"repository": "NoSuchBucket", "branch": "NoSuchBucket", "upload": "NoSuchUpload"}


def fault(code: str, message: str) -> PenstockError:
    """An error with an S3 code.

    >>> error = fault("NoSuchUpload", "no upload has this id")
    >>> error.code, error.details
    ('not-found', {'status': 404, 's3': 'NoSuchUpload'})
    """
    status, kind = _FAULTS[code]
    return kind(message, status=status, s3=code)


def code_of(error: PenstockError, status: int) -> str:
    """The S3 code of any error."""
    own = error.details.get("s3")
    if isinstance(own, str):
        return own
    if isinstance(error, NotFound):
        return _BY_KIND.get(str(error.details.get("kind")), "NoSuchKey")
    return _BY_STATUS.get(status, "InternalError")


def render_xml(request: Request, error: PenstockError, status: int) -> Response:
    """The error as S3's clients read it."""
    if isinstance(error, DataMissing):
        status = 500  # 404 and 410 would say that no such object exists, and a client would write it again
    message = f"{error.message} (next: {error.next_step})" if error.next_step else error.message
    code = code_of(error, status)
    # s3fs, among others, tells by it that an object exists already.
    conditions = [name for name in _CONDITIONS if code == "PreconditionFailed" and name.lower() in request.headers]
    body = element(
        "Error",
        element("Code", code),
        element("Message", message),
        element("Condition", conditions[0]) if conditions else None,
        element("Resource", request.raw_path),
        element("RequestId", request.id),
    )
    headers = {"content-type": XML_TYPE, "x-amz-request-id": request.id}
    if status == 416 and "size" in error.details:
        headers["content-range"] = f"bytes */{error.details['size']}"
    return Response(status, DECLARATION + body.encode(), headers)
