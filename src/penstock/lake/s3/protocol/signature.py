"""Signatures: AWS Signature Version 4, as a header and as a presigned query. Pure: the time comes in as `now`.

A request names an access key, a day, a region and the headers that it signed (the `Claim`); an owner of the secret can
compute the same signature over the same canonical request. What always holds: nothing of a request is believed before
`verify` returned, both signatures are compared in constant time, `host` and every `x-amz-` header must be signed, and a
claim outlives neither its presigned time nor, signed in a header, a quarter of an hour.
"""

import hashlib
import hmac
import re
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import Final, Literal
from urllib.parse import quote

import msgspec

from penstock.lake.s3.protocol.faults import fault
from penstock.plumbing.http.request import decode_part

__all__ = ["UNSIGNED", "Claim", "Signed", "claim_of", "is_signed", "scope_of", "sign", "signing_key", "verify"]

ALGORITHM: Final = "AWS4-HMAC-SHA256"
UNSIGNED: Final = "UNSIGNED-PAYLOAD"
SKEW_MAX: Final = timedelta(minutes=15)
EXPIRES_S_MAX: Final = 7 * 24 * 3600
SIGNED_HEADERS_MAX: Final = 128

_DATE = re.compile(r"[0-9]{8}T[0-9]{6}Z", re.ASCII)
_HEX64 = re.compile(r"[0-9a-f]{64}", re.ASCII)
_SPACES = re.compile(" +")
_BARE = re.compile(r"[A-Za-z0-9._~-]*", re.ASCII)

Pairs = Sequence[tuple[str, str]]


class Claim(msgspec.Struct, frozen=True):
    """The claimed sender of a request, and the parts that it signed. Nothing of it is checked yet."""

    access_key: str
    day: str
    region: str
    service: str
    signed_headers: tuple[str, ...]
    signature: str
    timestamp: str
    expires_s: int | None = None  # presigned only
    kind: Literal["header", "query"] = "header"


class Signed(msgspec.Struct, frozen=True):
    """A verified claim, with what the chunks of a streaming body are signed by."""

    access_key: str
    scope: str
    timestamp: str
    key: bytes
    signature: str
    payload: str  # the signed value of the payload's hash


def is_signed(headers: Mapping[str, str], raw_query: str) -> bool:
    """Return whether a request carries an AWS signature of any version, so that it is meant for this gateway."""
    if headers.get("authorization", "").startswith(("AWS4-", "AWS ")):
        return True
    return any(name in raw_query for name in ("X-Amz-Credential=", "X-Amz-Signature=", "AWSAccessKeyId="))


def claim_of(headers: Mapping[str, str], query: Pairs) -> Claim:
    """The claim of a request; an error if it has none, or one of another kind."""
    found = dict(query)
    authorization = headers.get("authorization", "")
    if "X-Amz-Algorithm" in found:
        if authorization:
            raise fault("InvalidRequest", "a request is signed in its header or in its query, not in both")
        return _query_claim(found)
    if authorization.startswith(f"{ALGORITHM} "):
        return _header_claim(authorization, headers.get("x-amz-date") or headers.get("date", ""))
    if authorization or "AWSAccessKeyId" in found:
        raise fault("InvalidRequest", f"only {ALGORITHM} is understood here; set the client to signature version 4")
    raise fault("AccessDenied", "the request is not signed, and nothing here is public")


def verify(
    claim: Claim,
    secret: str,
    now: datetime,
    *,
    method: str,
    raw_path: str,
    raw_query: str,
    headers: Mapping[str, str],
) -> Signed:
    """The claim, checked against the request and the secret of its access key."""
    _check_time(claim, now)
    _check_coverage(claim, headers)
    payload = headers.get("x-amz-content-sha256", UNSIGNED if claim.kind == "query" else "")
    if not payload:
        raise fault("InvalidRequest", "the header x-amz-content-sha256 is missing")
    canonical = canonical_request(method, raw_path, raw_query, headers, claim.signed_headers, payload)
    key = signing_key(secret, claim.day, claim.region, claim.service)
    scope = scope_of(claim.day, claim.region, claim.service)
    expected = sign(key, string_to_sign(claim.timestamp, scope, canonical))
    if not hmac.compare_digest(expected, claim.signature):
        raise fault("SignatureDoesNotMatch", "the signature does not fit the request; check the secret key")
    return Signed(claim.access_key, scope, claim.timestamp, key, claim.signature, payload)


def canonical_request(
    method: str, raw_path: str, raw_query: str, headers: Mapping[str, str], signed: Iterable[str], payload: str
) -> str:
    names = list(signed)
    lines = [f"{name}:{_SPACES.sub(' ', headers.get(name, '').strip())}\n" for name in names]
    return "\n".join(
        [method, _canonical_path(raw_path), _canonical_query(raw_query), "".join(lines), ";".join(names), payload]
    )


def string_to_sign(timestamp: str, scope: str, canonical: str) -> str:
    # Path and query are ASCII by now; headers were decoded as latin-1, and so become the bytes the client signed.
    digest = hashlib.sha256(canonical.encode("latin-1")).hexdigest()
    return f"{ALGORITHM}\n{timestamp}\n{scope}\n{digest}"


def scope_of(day: str, region: str, service: str) -> str:
    return f"{day}/{region}/{service}/aws4_request"


@lru_cache(maxsize=256)  # one per access key, day and region: it saves four of five hashes
def signing_key(secret: str, day: str, region: str, service: str) -> bytes:
    key = f"AWS4{secret}".encode()
    for part in (day, region, service, "aws4_request"):
        key = hmac.digest(key, part.encode(), "sha256")
    return key


def sign(key: bytes, text: str) -> str:
    return hmac.digest(key, text.encode(), "sha256").hex()


def _header_claim(authorization: str, timestamp: str) -> Claim:
    fields: dict[str, str] = {}
    for part in authorization[len(ALGORITHM) :].split(","):
        name, _, value = part.strip().partition("=")
        fields[name] = value.strip()
    if not {"Credential", "SignedHeaders", "Signature"} <= fields.keys():
        raise fault("AuthorizationHeaderMalformed", "it needs Credential, SignedHeaders and Signature")
    return _claim("AuthorizationHeaderMalformed", fields, timestamp, None)


def _query_claim(found: Mapping[str, str]) -> Claim:
    code = "AuthorizationQueryParametersError"
    if found["X-Amz-Algorithm"] != ALGORITHM:
        raise fault(code, f"X-Amz-Algorithm must be {ALGORITHM}")
    names = ("Credential", "SignedHeaders", "Signature", "Date", "Expires")
    missing = [name for name in names if f"X-Amz-{name}" not in found]
    if missing:
        raise fault(code, f"X-Amz-{missing[0]} is missing")
    fields = {name: found[f"X-Amz-{name}"] for name in names}
    expires = fields["Expires"]
    if not (expires.isascii() and expires.isdigit() and 1 <= int(expires[:9]) <= EXPIRES_S_MAX and len(expires) < 9):
        raise fault(code, f"X-Amz-Expires must be between 1 and {EXPIRES_S_MAX} seconds")
    return _claim(code, fields, fields["Date"], int(expires))


def _claim(code: str, fields: Mapping[str, str], timestamp: str, expires_s: int | None) -> Claim:
    parts = fields["Credential"].split("/")
    # An access key may have slashes in it; the last four parts are the scope.
    if len(parts) < 5 or parts[-1] != "aws4_request" or parts[-2] != "s3" or not all(parts):
        raise fault(code, "Credential must be KEY/DAY/REGION/s3/aws4_request")
    if not _DATE.fullmatch(timestamp) or timestamp[:8] != parts[-4]:
        raise fault(code, "the date must be like 20261115T120000Z, and on the day of the Credential")
    if not _HEX64.fullmatch(fields["Signature"]):
        raise fault("SignatureDoesNotMatch", "a signature has 64 hexadecimal digits")
    names = tuple(fields["SignedHeaders"].split(";"))
    if len(names) > SIGNED_HEADERS_MAX or list(names) != sorted(set(names)) or any(n != n.lower() for n in names):
        raise fault(code, "SignedHeaders must be lower-case names, sorted, each once")
    return Claim(
        access_key="/".join(parts[:-4]),
        day=parts[-4],
        region=parts[-3],
        service=parts[-2],
        signed_headers=names,
        signature=fields["Signature"],
        timestamp=timestamp,
        expires_s=expires_s,
        kind="header" if expires_s is None else "query",
    )


def _check_time(claim: Claim, now: datetime) -> None:
    text = claim.timestamp
    try:
        # As strptime would, which takes ten times as long.
        day = datetime(int(text[0:4]), int(text[4:6]), int(text[6:8]), tzinfo=UTC)
        signed_at = day.replace(hour=int(text[9:11]), minute=int(text[11:13]), second=int(text[13:15]))
    except ValueError:
        raise fault("AccessDenied", f"{claim.timestamp} is no date") from None
    if signed_at - now > SKEW_MAX or (claim.expires_s is None and now - signed_at > SKEW_MAX):
        raise fault(
            "RequestTimeTooSkewed",
            f"the request was signed at {claim.timestamp}, here it is {now:%Y%m%dT%H%M%SZ}; check the client's clock",
        )
    if claim.expires_s is not None and now > signed_at + timedelta(seconds=claim.expires_s):
        raise fault("AccessDenied", "the presigned request has expired")


def _check_coverage(claim: Claim, headers: Mapping[str, str]) -> None:
    signed = set(claim.signed_headers)
    if "host" not in signed:
        raise fault("SignatureDoesNotMatch", "the host header is not signed")
    if "" in signed or not signed <= headers.keys():
        raise fault("SignatureDoesNotMatch", "a signed header is missing from the request")
    loose = sorted(name for name in headers if name.startswith("x-amz-") and name not in signed)
    if loose:
        raise fault("AccessDenied", f"these headers are not signed: {', '.join(loose)[:200]}")


def _canonical_path(raw_path: str) -> str:
    """Decode each segment and encode it again, as clients differ in the characters that they leave bare; %2F
    stays one.
    """
    return "/".join(_encode(decode_part(segment, "path")) for segment in raw_path.split("/")) or "/"


def _canonical_query(raw_query: str) -> str:
    pairs = [part.partition("=") for part in raw_query.split("&") if part]
    encoded = [
        (_encode(decode_part(name, "query", plus=True)), _encode(decode_part(value, "query", plus=True)))
        for name, _, value in pairs
    ]
    return "&".join(f"{name}={value}" for name, value in sorted(encoded) if name != "X-Amz-Signature")


def _encode(text: str) -> str:
    return text if _BARE.fullmatch(text) else quote(text, safe="-_.~")
