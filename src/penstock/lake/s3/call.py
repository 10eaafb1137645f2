"""Call: one authenticated S3 request, with what every operation needs from it."""

import re
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from penstock.lake.core.staging.records import Precondition
from penstock.lake.s3.port import Buckets, Info
from penstock.lake.s3.protocol.faults import fault
from penstock.lake.s3.protocol.payload import Payload
from penstock.lake.s3.protocol.signature import Signed
from penstock.lake.s3.uploads import Uploads
from penstock.lake.s3.xml import XML_TYPE, document
from penstock.plumbing.http.conditions import etags_of, http_date
from penstock.plumbing.http.request import Request
from penstock.plumbing.http.response import Response

__all__ = ["PUT_BYTES_MAX", "Call", "iso_time", "object_headers", "xml_response"]

PUT_BYTES_MAX: Final = 5 << 30
XML_BYTES_MAX: Final = 2 << 20
METADATA_BYTES_MAX: Final = 2048
META: Final = "x-amz-meta-"

# Headers of an object that S3 keeps next to its metadata. They are kept among it, under a name no client can choose.
_KEPT: Final = ("cache-control", "content-disposition", "content-encoding", "content-language", "expires")
_MARK: Final = ":"
_TOKEN = re.compile(r"[a-z0-9!#$%&'*+.^_`|~-]{1,200}", re.ASCII)


@dataclass(slots=True)
class Call:
    """The request, and its bucket and key. The key is empty for requests about a bucket."""

    request: Request
    signed: Signed
    buckets: Buckets
    uploads: Uploads
    region: str
    bucket: str = ""
    key: str = ""

    def query(self, name: str, default: str = "") -> str:
        return self.request.query_value(name) or default

    def number(self, name: str, default: int, largest: int) -> int:
        """A number of the query, cut to the largest there is."""
        text = self.query(name)
        if not text:
            return default
        if not (text.isascii() and text.isdigit() and len(text) < 12):
            raise fault("InvalidArgument", f"{name} must be a number, not {text[:40]!r}")
        return min(int(text), largest)

    def payload(self, bytes_max: int = PUT_BYTES_MAX) -> Payload:
        return Payload(self.request, self.signed, bytes_max)

    async def xml(self, *, has_checksums: bool = True) -> bytes:
        """Read a body of XML. The checksums of a completion are those of the object, not of this body."""
        return await Payload(self.request, self.signed, XML_BYTES_MAX, has_checksums=has_checksums).read()

    def content_type(self) -> str:
        return self.request.header("content-type")

    def metadata(self) -> dict[str, str]:
        """The object's metadata in the headers."""
        headers = self.request.headers
        own = {name[len(META) :]: _text(value) for name, value in headers.items() if name.startswith(META)}
        if sum(len(name) + len(value.encode()) for name, value in own.items()) > METADATA_BYTES_MAX:
            raise fault("MetadataTooLarge", f"metadata has at most {METADATA_BYTES_MAX} bytes")
        kept = {_MARK + name: _text(headers[name]) for name in _KEPT if name in headers}
        encoding = kept.get(f"{_MARK}content-encoding", "")
        real = [one.strip() for one in encoding.split(",") if one.strip() not in ("", "aws-chunked")]
        kept[f"{_MARK}content-encoding"] = ",".join(real)
        return {**own, **{name: value for name, value in kept.items() if value}}

    def precondition(self) -> Precondition | None:
        """Return the condition on the present object under the key, for a write to happen."""
        absent, match = self.request.header("if-none-match"), self.request.header("if-match")
        if absent and match:
            raise fault("InvalidRequest", "If-Match and If-None-Match cannot both hold")
        if absent:
            if absent != "*":
                raise fault("NotImplemented", "of If-None-Match, a write takes only *")
            return Precondition(absent=True)
        if match:
            etags = etags_of(match)
            if len(etags) != 1:
                raise fault("NotImplemented", "of If-Match, a write takes one ETag")
            (etag,) = etags
            return Precondition(etag=None if etag == "*" else etag)
        return None


def object_headers(info: Info) -> dict[str, str]:
    """The headers which describe an object."""
    headers = {
        "etag": f'"{info.etag}"',
        "last-modified": http_date(info.modified),
        "accept-ranges": "bytes",
        "content-type": info.content_type or "binary/octet-stream",
    }
    for name, value in info.metadata.items():
        header = name[len(_MARK) :] if name.startswith(_MARK) else META + name.lower()
        if _TOKEN.fullmatch(header):  # else it came by another way than S3, and cannot be said here
            # As UTF-8: a header value is written out as latin-1.
            headers[header] = value.encode().decode("latin-1")
    return headers


def xml_response(name: str, *content: str | int | None, status: int = 200) -> Response:
    return Response(status, document(name, *content), {"content-type": XML_TYPE})


def iso_time(moment: datetime) -> str:
    return f"{moment:%Y-%m-%dT%H:%M:%S}.{moment.microsecond // 1000:03d}Z"


def _text(value: str) -> str:
    """A header's value, as UTF-8 where it is."""
    try:
        return value.encode("latin-1").decode()
    except UnicodeDecodeError:
        return value
