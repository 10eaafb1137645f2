"""A client of a lake's server, over lakeFS's REST API, for programs which wait: the command line and scripts.

    with LakeClient("http://127.0.0.1:8000", key, secret) as lake:
        lake.call("POST", "/repositories", {"name": "shop", "storage_namespace": ""})
        for entry in lake.pages("/repositories/shop/refs/main/objects/ls", prefix="prices/"): ...

What the server refuses comes back as one of our errors, with its own words. A lake URL names what people mean:
`lake://shop@main/prices.csv` is a path on a ref of a repository.
"""

import base64
import http.client
import re
from collections.abc import Iterator
from typing import Any, BinaryIO, Final, Self
from urllib.parse import quote, urlencode, urlsplit

import msgspec

from penstock.kernel.errors import (
    AlreadyExists,
    ConnectFailed,
    ConnectionLost,
    ErrorRecord,
    Forbidden,
    Gone,
    InvalidArgument,
    NotFound,
    PenstockError,
    PreconditionFailed,
    Refused,
    Unauthenticated,
    Unavailable,
    Written,
    error_from_record,
)

__all__ = ["LakeClient", "LakeUrl", "error_of", "parse_lake_url"]

CHUNK_BYTES: Final = 1 << 20
PAGE: Final = 1000
_URL: Final = re.compile(r"lake://(?P<repository>[^@/]+)(@(?P<ref>[^/]+)(/(?P<path>.*))?)?/?", re.DOTALL)
_ERRORS: Final[dict[int, type[PenstockError]]] = {
    400: InvalidArgument,
    401: Unauthenticated,
    403: Forbidden,
    404: NotFound,
    409: Refused,
    410: Gone,
    412: PreconditionFailed,
    503: Unavailable,
}


class LakeUrl(msgspec.Struct, frozen=True):
    """What a lake URL names; ref and path are empty where they are left out."""

    repository: str
    ref: str = ""
    path: str = ""

    @property
    def api(self) -> str:
        return f"/repositories/{quote(self.repository, safe='')}"

    @property
    def ref_api(self) -> str:
        return f"{self.api}/refs/{quote(self.ref, safe='')}"

    @property
    def branch_api(self) -> str:
        return f"{self.api}/branches/{quote(self.ref, safe='')}"


def parse_lake_url(text: str, *, needs_ref: bool = True) -> LakeUrl:
    """
    >>> parse_lake_url("lake://shop@main~1/prices/2026.csv")
    LakeUrl(repository='shop', ref='main~1', path='prices/2026.csv')
    """
    found = _URL.fullmatch(text)
    if found is None or (needs_ref and not found["ref"]):
        wanted = "lake://REPOSITORY@REF/PATH" if needs_ref else "lake://REPOSITORY"
        raise InvalidArgument(f"{text[:200]!r}: expected {wanted}, like lake://shop@main/prices.csv")
    return LakeUrl(found["repository"], found["ref"] or "", found["path"] or "")


class LakeClient:
    """One connection to a lake's server. For one thread."""

    def __init__(self, url: str, access_key_id: str, secret_access_key: str, *, timeout_s: float = 3600.0) -> None:
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise InvalidArgument(f"{url[:200]!r} is no lake: expected http://HOST:PORT")
        kind = http.client.HTTPSConnection if parts.scheme == "https" else http.client.HTTPConnection
        self._url = url
        self._connection = kind(parts.hostname, parts.port, timeout=timeout_s)
        pair = base64.b64encode(f"{access_key_id}:{secret_access_key}".encode()).decode()
        self.authorization = f"Basic {pair}"
        self._headers = {"authorization": self.authorization, "x-lakefs-client": "penstock"}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._connection.close()

    def call(self, method: str, api: str, body: Any = None, **query: Any) -> Any:
        """Send one request and return its decoded answer: None if it is empty, text if it is no JSON."""
        data = None if body is None else msgspec.json.encode(body)
        headers = {} if body is None else {"content-type": "application/json"}
        answer = self._ask(method, api, data, headers, query)
        content = answer.read()
        if not content:
            return None
        is_json = answer.headers.get("content-type", "").startswith("application/json")
        return msgspec.json.decode(content) if is_json else content.decode()

    def pages(self, api: str, *, limit: int | None = None, **query: Any) -> Iterator[dict[str, Any]]:
        """Yield all results of a list, page by page; or the first `limit`."""
        after, left = "", limit
        while left is None or left > 0:
            page = self.call("GET", api, after=after, amount=min(PAGE, left or PAGE), **query)
            yield from page["results"]
            left = None if left is None else left - len(page["results"])
            if not page["pagination"]["has_more"]:
                return
            after = page["pagination"]["next_offset"]

    def download(self, url: LakeUrl) -> Iterator[bytes]:
        """An object's bytes."""
        answer = self._ask("GET", f"{url.ref_api}/objects", None, {}, {"path": url.path})
        while chunk := answer.read(CHUNK_BYTES):
            yield chunk

    def upload(self, url: LakeUrl, content: BinaryIO, content_type: str = "") -> Any:
        """Put an object; what the server says of it."""
        headers = {"content-type": content_type or "application/octet-stream", "transfer-encoding": "chunked"}
        chunks = iter(lambda: content.read(CHUNK_BYTES), b"")
        answer = self._ask("POST", f"{url.branch_api}/objects", chunks, headers, {"path": url.path})
        return msgspec.json.decode(answer.read())

    def put(self, api: str, data: bytes | memoryview) -> Any:
        """Send bytes; return the server's answer."""
        content = self._ask("PUT", api, data, {"content-type": "application/octet-stream"}, {}).read()
        return msgspec.json.decode(content) if content else None

    def _ask(
        self, method: str, api: str, body: Any, headers: dict[str, str], query: dict[str, Any]
    ) -> http.client.HTTPResponse:
        given = {name: _text(value) for name, value in query.items() if value not in (None, "")}
        target = f"/api/v1{api}" + (f"?{urlencode(given, quote_via=quote)}" if given else "")
        is_chunked = "transfer-encoding" in headers
        try:
            self._connection.request(method, target, body, {**self._headers, **headers}, encode_chunked=is_chunked)
            answer = self._connection.getresponse()
        except ConnectionRefusedError:
            raise ConnectFailed(
                f"no lake serves on {self._url}",
                next_step="run penstock lake serve --alone, or say where with --lake URL",
            ) from None
        except (OSError, http.client.HTTPException) as error:
            self._connection.close()
            written = Written.NO if method == "GET" else Written.UNKNOWN
            raise ConnectionLost(f"the lake on {self._url} did not answer: {error}", written=written) from None
        if answer.status >= 400:
            raise error_of(answer.status, answer.read())
        return answer


def _text(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


class _Problem(msgspec.Struct):
    """What a server says is wrong; ours says it whole."""

    message: str
    penstock: ErrorRecord | None = None


def error_of(status: int, body: bytes) -> PenstockError:
    """The error which an answer tells."""
    try:
        problem = msgspec.json.decode(body, type=_Problem)
        if problem.penstock is not None:
            return error_from_record(problem.penstock)
        message = problem.message
    except msgspec.DecodeError:
        message = body[:500].decode("utf-8", "replace") or f"status {status}"
    kind = _ERRORS.get(status, Unavailable if status >= 500 else Refused)
    if status == 409 and "exists" in message:
        kind = AlreadyExists
    return kind(message)
