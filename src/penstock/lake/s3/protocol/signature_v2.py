"""Presigned URLs of signature version 2, as boto3 makes them by default. Pure: the time is an argument.

    ?AWSAccessKeyId=KEY&Expires=SECONDS&Signature=BASE64

The signature covers the method, the path, the sub-resources, `response-…` overrides, the content type, Content-MD5 and
every `x-amz-` header, but neither the host nor the body. So it is taken in a query only, and for at most 7 days.
"""

import base64
import hmac
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Final

from penstock.lake.s3.protocol.faults import fault
from penstock.lake.s3.protocol.signature import EXPIRES_S_MAX, UNSIGNED, Signed

__all__ = ["is_presigned_v2", "sign_v2", "verify_v2"]

# Query parameters that are part of the signed resource.
_SUB_RESOURCES: Final = frozenset(
    {
        *("accelerate", "acl", "analytics", "cors", "delete", "encryption", "inventory", "lifecycle", "location"),
        *("logging", "metrics", "notification", "object-lock", "partNumber", "policy", "replication"),
        *("requestPayment", "restore", "tagging", "torrent", "uploadId", "uploads", "versionId", "versioning"),
        *("versions", "website", "response-cache-control", "response-content-disposition"),
        *("response-content-encoding", "response-content-language", "response-content-type", "response-expires"),
    }
)

Pairs = Sequence[tuple[str, str]]


def is_presigned_v2(query: Mapping[str, str]) -> bool:
    return "AWSAccessKeyId" in query and "Signature" in query


def verify_v2(
    query: Mapping[str, str],
    pairs: Pairs,
    secret: str,
    now: datetime,
    *,
    method: str,
    resource: str,
    headers: Mapping[str, str],
) -> Signed:
    """Check a presigned request. `resource` is the raw path, after `/BUCKET` where the bucket is in the host."""
    expires = query.get("Expires", "")
    if not (expires.isascii() and expires.isdigit() and len(expires) < 12):
        raise fault("AccessDenied", "Expires must be a number of seconds since 1970")
    left = int(expires) - now.timestamp()
    if left < 0:
        raise fault("AccessDenied", "the presigned request has expired")
    if left > EXPIRES_S_MAX:
        raise fault("AccessDenied", f"a presigned request is valid for at most {EXPIRES_S_MAX} seconds")
    expected = sign_v2(secret, method, resource, pairs, headers, expires)
    if not hmac.compare_digest(expected.encode(), query["Signature"].encode("utf-8", "surrogatepass")):
        raise fault("SignatureDoesNotMatch", "the signature does not fit the request; check the secret key")
    return Signed(query["AWSAccessKeyId"], "", "", b"", query["Signature"], UNSIGNED)


def sign_v2(secret: str, method: str, resource: str, pairs: Pairs, headers: Mapping[str, str], expires: str) -> str:
    own = sorted(name for name in headers if name.startswith("x-amz-"))
    signed = sorted((name, value) for name, value in pairs if name in _SUB_RESOURCES)
    query = "&".join(f"{name}={value}" if value else name for name, value in signed)
    text = "\n".join(
        [
            method,
            headers.get("content-md5", ""),
            headers.get("content-type", ""),
            expires,
            *(f"{name}:{headers[name].strip()}" for name in own),
            f"{resource}?{query}" if query else resource,
        ]
    )
    # Headers were decoded as latin-1, and so become the bytes that the client signed.
    data = text.encode("latin-1") if _is_latin(text) else text.encode()
    return base64.b64encode(hmac.digest(secret.encode(), data, "sha1")).decode()


def _is_latin(text: str) -> bool:
    try:
        text.encode("latin-1")
    except UnicodeEncodeError:
        return False
    return True
