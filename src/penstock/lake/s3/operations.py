"""The operations of S3 that the gateway supports, with every parameter and header that each of them understands.

It is a list of permissions. A request with anything else gets `NotImplemented` (501) by name: taken for a plain read or
write, it would do something that its client did not ask for.
"""

from collections.abc import Awaitable, Callable, Mapping
from typing import Final

import msgspec

from penstock.lake.s3 import bucket_operations as on_bucket
from penstock.lake.s3 import objects as on_object
from penstock.lake.s3 import upload_operations as on_upload
from penstock.lake.s3.call import Call
from penstock.lake.s3.protocol.faults import fault
from penstock.plumbing.http.response import Response

__all__ = ["OPERATIONS", "GatewayOperation", "operation_of"]

_ALWAYS: Final = frozenset({"x-id"})  # the SDKs' own name of the operation
_SIGNING: Final = frozenset(
    f"X-Amz-{name}" for name in ("Algorithm", "Credential", "Date", "Expires", "SignedHeaders", "Signature")
) | {"X-Amz-Content-Sha256", "AWSAccessKeyId", "Signature", "Expires"}
_HEADERS: Final = frozenset(
    {
        *("x-amz-date", "x-amz-content-sha256", "x-amz-user-agent", "x-amz-decoded-content-length", "x-amz-trailer"),
        *("x-amz-sdk-checksum-algorithm", "x-amz-request-payer", "x-amz-checksum-mode", "x-amz-api-version"),
    }
)
_CHECKSUMS: Final = frozenset(
    f"x-amz-checksum-{name}" for name in ("crc32", "crc32c", "crc64nvme", "sha1", "sha256", "algorithm", "type")
)
# Values that ask for what holds anyway.
_PLAIN: Final[Mapping[str, frozenset[str]]] = {
    "x-amz-storage-class": frozenset({"STANDARD"}),
    "x-amz-acl": frozenset({"private", "bucket-owner-full-control"}),
    "x-amz-tagging-directive": frozenset({"COPY"}),
    "x-amz-object-ownership": frozenset({"BucketOwnerEnforced"}),
    "x-amz-checksum-type": frozenset({"FULL_OBJECT", "COMPOSITE"}),
    "x-amz-bucket-object-lock-enabled": frozenset({"false"}),
    "x-amz-server-side-encryption-bucket-key-enabled": frozenset({"false"}),
}
_WRITE_CONDITIONS: Final = frozenset({"if-match", "if-none-match"})
_READ_CONDITIONS: Final = _WRITE_CONDITIONS | {"if-modified-since", "if-unmodified-since"}
_COPY: Final = frozenset(
    {
        "x-amz-copy-source",
        *(f"x-amz-copy-source-if-{name}" for name in ("match", "none-match", "modified-since", "unmodified-since")),
    }
)
_META: Final = "x-amz-meta-"
_MARKS: Final = frozenset({"acl", "delete", "location", "uploads", "versioning"})  # queries that name an operation


class GatewayOperation(msgspec.Struct, frozen=True):
    """An operation, its handler, and what a request for it may say."""

    name: str
    handler: Callable[[Call], Awaitable[Response]]
    query: frozenset[str] = frozenset()
    headers: frozenset[str] = frozenset()
    conditions: frozenset[str] = frozenset()
    has_metadata: bool = False


def _set(text: str) -> frozenset[str]:
    return frozenset(text.split())


_PAGE: Final = "prefix delimiter max-keys encoding-type"
# By scope, method, and the parameter or header that makes it another operation.
OPERATIONS: Final[dict[tuple[str, str, str], GatewayOperation]] = {
    ("service", "GET", ""): GatewayOperation(
        "ListBuckets", on_bucket.list_buckets, _set("prefix max-buckets continuation-token")
    ),
    ("bucket", "GET", ""): GatewayOperation("ListObjects", on_bucket.list_objects, _set(f"{_PAGE} marker")),
    ("bucket", "GET", "list-type"): GatewayOperation(
        "ListObjectsV2",
        on_bucket.list_objects_v2,
        _set(f"{_PAGE} list-type continuation-token start-after fetch-owner"),
    ),
    ("bucket", "GET", "location"): GatewayOperation("GetBucketLocation", on_bucket.get_location),
    ("bucket", "GET", "versioning"): GatewayOperation("GetBucketVersioning", on_bucket.get_versioning),
    ("bucket", "GET", "acl"): GatewayOperation("GetBucketAcl", on_bucket.get_acl),
    ("bucket", "GET", "uploads"): GatewayOperation(
        "ListMultipartUploads", on_upload.list_uploads, _set("prefix max-uploads encoding-type")
    ),
    ("bucket", "HEAD", ""): GatewayOperation("HeadBucket", on_bucket.head_bucket),
    ("bucket", "PUT", ""): GatewayOperation("CreateBucket", on_bucket.create_bucket),
    ("bucket", "POST", "delete"): GatewayOperation("DeleteObjects", on_bucket.delete_objects, headers=_CHECKSUMS),
    ("object", "GET", ""): GatewayOperation(
        "GetObject", on_object.get_object, frozenset(on_object.OVERRIDES), conditions=_READ_CONDITIONS
    ),
    ("object", "HEAD", ""): GatewayOperation(
        "HeadObject", on_object.get_object, frozenset(on_object.OVERRIDES), conditions=_READ_CONDITIONS
    ),
    ("object", "PUT", ""): GatewayOperation(
        "PutObject", on_object.put_object, headers=_CHECKSUMS, conditions=_WRITE_CONDITIONS, has_metadata=True
    ),
    ("object", "PUT", "copy"): GatewayOperation(
        "CopyObject",
        on_object.copy_object,
        headers=_COPY | {"x-amz-metadata-directive"},
        conditions=_WRITE_CONDITIONS,
        has_metadata=True,
    ),
    ("object", "DELETE", ""): GatewayOperation(
        "DeleteObject", on_object.delete_object, conditions=frozenset({"if-match"})
    ),
    ("object", "POST", "uploads"): GatewayOperation(
        "CreateMultipartUpload",
        on_upload.begin_upload,
        headers=_set("x-amz-checksum-algorithm x-amz-checksum-type"),
        has_metadata=True,
    ),
    ("object", "PUT", "uploadId"): GatewayOperation(
        "UploadPart", on_upload.put_part, _set("partNumber"), headers=_CHECKSUMS - {"x-amz-checksum-type"}
    ),
    ("object", "PUT", "uploadId copy"): GatewayOperation(
        "UploadPartCopy", on_upload.copy_part, _set("partNumber"), headers=_COPY | {"x-amz-copy-source-range"}
    ),
    ("object", "POST", "uploadId"): GatewayOperation(
        "CompleteMultipartUpload",
        on_upload.complete_upload,
        headers=_CHECKSUMS | {"x-amz-mp-object-size"},
        conditions=_WRITE_CONDITIONS,
    ),
    ("object", "DELETE", "uploadId"): GatewayOperation("AbortMultipartUpload", on_upload.abort_upload),
    ("object", "GET", "uploadId"): GatewayOperation(
        "ListParts", on_upload.list_parts, _set("max-parts part-number-marker encoding-type")
    ),
}


def operation_of(call: Call) -> GatewayOperation:
    """Return the operation that a request asks for, if the gateway supports all that the request says."""
    method, headers = call.request.method, call.request.headers
    names = {name for name, _ in call.request.query} if call.request.raw_query else set()
    scope = "object" if call.key else "bucket" if call.bucket else "service"
    mark = ""
    if names:
        marks = names & (_MARKS if scope == "bucket" else {"uploads"} if scope == "object" else set())
        mark = next((each for each in ("uploadId", "list-type") if each in names), "") or " ".join(sorted(marks))
    if "x-amz-copy-source" in headers and scope == "object":
        mark = f"{mark} copy".strip()
    operation = OPERATIONS.get((scope, method, mark))
    if operation is None:
        if method not in ("GET", "HEAD", "PUT", "POST", "DELETE"):
            raise fault("MethodNotAllowed", f"{method} is not supported")
        what = ", ".join(sorted(names - _SIGNING - _ALWAYS))
        raise fault("NotImplemented", f"{method} of a {scope}{' with ' + what[:200] if what else ''} is not supported")
    if names:
        _check_query(operation, names, mark)
    _check_headers(operation, headers)
    return operation


def _check_query(operation: GatewayOperation, names: set[str], mark: str) -> None:
    unknown = names - operation.query - _SIGNING - _ALWAYS - {mark.removesuffix(" copy")}
    if unknown:
        raise fault(
            "NotImplemented", f"{', '.join(sorted(unknown))[:200]} is not supported in a {operation.name} request"
        )


def _check_headers(operation: GatewayOperation, headers: Mapping[str, str]) -> None:
    for name, value in headers.items():
        if name.startswith("x-amz-"):
            if name in _HEADERS or (name in operation.headers and name not in _PLAIN):
                continue
            if name.startswith(_META) and operation.has_metadata:
                continue
            if name == "x-amz-security-token":
                raise fault("InvalidToken", "session tokens are not supported: sign with a key and its secret alone")
            if value not in _PLAIN.get(name, ()):
                raise fault("NotImplemented", f"{name}: {value[:80]} is not supported in a {operation.name} request")
        elif name in _READ_CONDITIONS and name not in operation.conditions:
            raise fault("NotImplemented", f"the condition {name} is not supported in a {operation.name} request")
