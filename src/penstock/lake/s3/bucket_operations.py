"""Operations on buckets: list them, look at one, list and delete its objects."""

import base64
import binascii
from typing import Final
from urllib.parse import quote

from penstock.kernel.errors import PenstockError
from penstock.lake.s3.call import Call, iso_time, xml_response
from penstock.lake.s3.port import Info, S3Listing
from penstock.lake.s3.protocol.faults import code_of, fault
from penstock.lake.s3.xml import Markup, children, element, parse, text_of
from penstock.plumbing.http.problems import status_of
from penstock.plumbing.http.response import Response

__all__ = [
    "create_bucket",
    "delete_objects",
    "get_acl",
    "get_location",
    "get_versioning",
    "head_bucket",
    "list_buckets",
    "list_objects",
    "list_objects_v2",
]

KEYS_MAX: Final = 1000
BUCKETS_MAX: Final = 10_000
OWNER: Final = element("Owner", element("ID", "penstock"), element("DisplayName", "penstock"))


async def list_buckets(call: Call) -> Response:
    prefix, limit = call.query("prefix"), call.number("max-buckets", BUCKETS_MAX, BUCKETS_MAX)
    token = call.query("continuation-token")
    after = _read_token(token) if token else ""
    found = [one for one in await call.buckets.buckets(prefix) if one.name > after]
    rows = [
        element("Bucket", element("Name", one.name), element("CreationDate", iso_time(one.created)))
        for one in found[:limit]
    ]
    return xml_response(
        "ListAllMyBucketsResult",
        OWNER,
        element("Buckets", *rows),
        element("ContinuationToken", _write_token(found[limit - 1].name)) if 0 < limit < len(found) else None,
        element("Prefix", prefix) if prefix else None,
    )


async def head_bucket(call: Call) -> Response:
    await call.buckets.check_bucket(call.bucket)
    return Response(200, b"", {"x-amz-bucket-region": call.region})


async def create_bucket(call: Call) -> Response:
    await call.buckets.create_bucket(call.bucket)
    return Response(200, b"", {"location": f"/{call.bucket}"})


async def get_location(call: Call) -> Response:
    await call.buckets.check_bucket(call.bucket)
    # The first region has no name, for reasons of age.
    return xml_response("LocationConstraint", None if call.region == "us-east-1" else call.region)


async def get_versioning(call: Call) -> Response:
    await call.buckets.check_bucket(call.bucket)
    return xml_response("VersioningConfiguration")


async def get_acl(call: Call) -> Response:
    """Return full control for everyone with a key; some clients ask for this to learn whether a bucket exists."""
    await call.buckets.check_bucket(call.bucket)
    grantee = Markup(
        '<Grantee xmlns:xsi="http://www.w3.org/2001/XMLSchema-instance" xsi:type="CanonicalUser">'
        "<ID>penstock</ID><DisplayName>penstock</DisplayName></Grantee>"
    )
    grant = element("Grant", grantee, element("Permission", "FULL_CONTROL"))
    return xml_response("AccessControlPolicy", OWNER, element("AccessControlList", grant))


async def list_objects(call: Call) -> Response:
    """Version 1: the marker is the last key of the page before."""
    listing = await _list(call, call.query("marker"))
    return xml_response(
        "ListBucketResult",
        *_head(call, listing),
        element("Marker", _spelled(call, call.query("marker"))),
        element("NextMarker", _spelled(call, listing.next)) if listing.next else None,
        *_rows(call, listing, owner=True),
    )


async def list_objects_v2(call: Call) -> Response:
    if call.query("list-type") != "2":
        raise fault("NotImplemented", "list-type can only be 2")
    token, start = call.query("continuation-token"), call.query("start-after")
    listing = await _list(call, _read_token(token) if token else start)
    return xml_response(
        "ListBucketResult",
        *_head(call, listing),
        element("KeyCount", len(listing.objects) + len(listing.prefixes)),
        element("ContinuationToken", token) if token else None,
        element("StartAfter", _spelled(call, start)) if start else None,
        element("NextContinuationToken", _write_token(listing.next)) if listing.next else None,
        *_rows(call, listing, owner=call.query("fetch-owner") == "true"),
    )


async def delete_objects(call: Call) -> Response:
    root = parse(await call.xml(), "Delete")
    wanted = list(children(root, "Object"))
    keys = [text_of(one, "Key") for one in wanted]
    for name in ("VersionId", "ETag", "LastModifiedTime", "Size"):
        if any(text_of(one, name, "") for one in wanted):
            raise fault("NotImplemented", f"<{name}> of a DeleteObjects request is not supported")
    if not 1 <= len(keys) <= KEYS_MAX:
        raise fault("MalformedXML", f"between 1 and {KEYS_MAX} objects are deleted at once")
    failed = await _delete(call, keys)
    is_quiet = text_of(root, "Quiet", "false").lower() == "true"
    rows = [] if is_quiet else [element("Deleted", element("Key", key)) for key in keys if key not in failed]
    errors = [
        element(
            "Error",
            element("Key", key),
            element("Code", code_of(error, status_of(error))),
            element("Message", error.message),
        )
        for key, error in failed.items()
    ]
    return xml_response("DeleteResult", *rows, *errors)


async def _delete(call: Call, keys: list[str]) -> dict[str, PenstockError]:
    """Delete all at once; if that fails, one by one, to learn which cannot be deleted."""
    try:
        await call.buckets.delete(call.bucket, keys)
    except PenstockError as error:
        if len(keys) == 1:
            return {keys[0]: error}
        found = [await _delete(call, [key]) for key in keys]
        return {key: error for one in found for key, error in one.items()}
    return {}


async def _list(call: Call, after: str) -> S3Listing:
    limit = call.number("max-keys", KEYS_MAX, KEYS_MAX)
    if not limit:
        await call.buckets.check_bucket(call.bucket)
        return S3Listing(())
    if call.query("encoding-type") not in ("", "url"):
        raise fault("InvalidArgument", "encoding-type can only be url")
    return await call.buckets.list(
        call.bucket, prefix=call.query("prefix"), after=after, delimiter=call.query("delimiter"), limit=limit
    )


def _head(call: Call, listing: S3Listing) -> list[Markup | None]:
    delimiter = call.query("delimiter")
    return [
        element("Name", call.bucket),
        element("Prefix", _spelled(call, call.query("prefix"))),
        element("MaxKeys", call.number("max-keys", KEYS_MAX, KEYS_MAX)),
        element("Delimiter", _spelled(call, delimiter)) if delimiter else None,
        element("IsTruncated", "true" if listing.next else "false"),
        element("EncodingType", "url") if call.query("encoding-type") else None,
    ]


def _rows(call: Call, listing: S3Listing, *, owner: bool) -> list[Markup]:
    rows = [_row(call, one, owner) for one in listing.objects]
    return rows + [element("CommonPrefixes", element("Prefix", _spelled(call, prefix))) for prefix in listing.prefixes]


def _row(call: Call, info: Info, owner: bool) -> Markup:
    return element(
        "Contents",
        element("Key", _spelled(call, info.key)),
        element("LastModified", iso_time(info.modified)),
        element("ETag", f'"{info.etag}"'),
        element("Size", info.size),
        element("StorageClass", "STANDARD"),
        OWNER if owner else None,
    )


def _spelled(call: Call, text: str) -> str:
    """A key as the client wants it: percent-encoded if it asked for that, since XML cannot spell every character."""
    return quote(text, safe="/-_.~*") if call.query("encoding-type") == "url" else text


def _write_token(after: str) -> str:
    return base64.urlsafe_b64encode(after.encode()).decode()


def _read_token(token: str) -> str:
    try:
        return base64.b64decode(token, altchars=b"-_", validate=True).decode()
    except (binascii.Error, ValueError):
        raise fault("InvalidArgument", "the continuation token is not from this gateway") from None
