"""Request: one HTTP request as handlers see it.

Nothing is decoded before it is asked for, and what does not decode is the client's fault (`InvalidArgument`). The body
is a stream with back-pressure: the socket is read only while a handler takes chunks. It is read once.
"""

from collections.abc import AsyncIterator, Mapping
from typing import Any, TypeVar
from urllib.parse import unquote_to_bytes

import msgspec

from penstock.kernel.errors import InvalidArgument, LimitExceeded
from penstock.plumbing.http.limits import HttpLimits
from penstock.plumbing.http.protocol.incoming import Incoming

__all__ = ["Request", "decode_part"]

T = TypeVar("T")


def decode_part(raw: str, what: str, *, plus: bool = False) -> str:
    """Percent-decoded text, which must be UTF-8.

    >>> decode_part("a%2Fb", "path")
    'a/b'
    """
    if plus:
        raw = raw.replace("+", " ")
    if "%" not in raw:
        return raw
    try:
        return unquote_to_bytes(raw).decode("utf-8")
    except UnicodeDecodeError:
        raise InvalidArgument(f"the {what} is not UTF-8 when percent-decoded: {raw[:200]!r}") from None


class Request:
    """A request. `parameters` are the decoded parts of the path which its route's template names."""

    __slots__ = (
        "_body",
        "_body_taken",
        "_headers",
        "_limits",
        "_query",
        "bytes_read",
        "id",
        "is_secure",
        "keep_alive",
        "method",
        "needs_continue",
        "parameters",
        "peer",
        "raw_headers",
        "raw_path",
        "raw_query",
        "version",
    )

    def __init__(
        self,
        method: str,
        raw_path: str,
        raw_query: str,
        raw_headers: list[tuple[bytes, bytes]],
        body: Incoming,
        limits: HttpLimits,
        request_id: str,
        *,
        peer: str = "unknown",
        is_secure: bool = False,
        version: str = "1.1",
        keep_alive: bool = True,
    ) -> None:
        self.id = request_id
        self.method = method
        self.raw_path = raw_path
        self.raw_query = raw_query
        self.raw_headers = raw_headers  # names in lower case
        self.parameters: Mapping[str, str] = {}
        self.bytes_read = 0
        self.peer = peer  # the client's address, for logs
        self.is_secure = is_secure
        self.version = version
        self.keep_alive = keep_alive
        self._body = body
        self._limits = limits
        self._headers: dict[str, str] | None = None
        self._query: list[tuple[str, str]] | None = None
        self._body_taken = False
        # The client waits for "100 Continue", which is sent when the handler first asks for the body.
        self.needs_continue = version != "1.0" and any(
            name == b"expect" and value.lower() == b"100-continue" for name, value in raw_headers
        )

    @property
    def path(self) -> str:
        """The decoded path."""
        return decode_part(self.raw_path, "path")

    @property
    def headers(self) -> Mapping[str, str]:
        """Return the headers by lower-case name; the values of a repeated header are joined by commas."""
        if self._headers is None:
            found: dict[str, str] = {}
            for raw_name, raw_value in self.raw_headers:
                name, value = raw_name.decode("latin-1"), raw_value.decode("latin-1").strip()
                found[name] = f"{found[name]},{value}" if name in found else value
            self._headers = found
        return self._headers

    def header(self, name: str, default: str = "") -> str:
        return self.headers.get(name, default)

    @property
    def query(self) -> list[tuple[str, str]]:
        """The decoded pairs of the query, in order."""
        if self._query is None:
            pairs = [part.partition("=") for part in self.raw_query.split("&") if part]
            self._query = [
                (decode_part(name, "query", plus=True), decode_part(value, "query", plus=True))
                for name, _, value in pairs
            ]
        return self._query

    def query_value(self, name: str) -> str | None:
        """Return the first value of a parameter; None if it is missing."""
        return next((value for key, value in self.query if key == name), None)

    def has_query(self, name: str) -> bool:
        return any(key == name for key, _ in self.query)

    def query_as(self, kind: type[T]) -> T:
        """The query as a struct: typed, with its defaults, a repeated parameter as a list.

        Unknown parameters are refused if the struct forbids unknown fields.
        """
        found: dict[str, Any] = {}
        lists = _list_fields(kind)
        for name, value in self.query:
            if name in lists:
                found.setdefault(name, []).append(value)
            elif name in found:
                raise InvalidArgument(f"query parameter {name!r} is given twice")
            else:
                found[name] = value
        try:
            return msgspec.convert(found, kind, strict=False)
        except msgspec.ValidationError as error:
            raise InvalidArgument(f"query: {error}") from None

    @property
    def content_length(self) -> int | None:
        """Return the body's length, as the head gives it. None: chunked, its length is not known."""
        if "transfer-encoding" in self.headers:
            return None
        text = self.header("content-length", "0")
        if not (text.isascii() and text.isdigit()):
            raise InvalidArgument(f"content-length is {text[:40]!r}")
        return int(text)

    @property
    def is_body_read(self) -> bool:
        """Return whether the body was read to its end."""
        return (self._body.is_ended and not self._body.held) or self.content_length == 0

    @property
    def awaits_continue(self) -> bool:
        """Return whether the client still waits for "100 Continue" before it sends its body."""
        return self.needs_continue

    async def body(self, bytes_max: int | None = None) -> AsyncIterator[bytes]:
        """The body, chunk by chunk, as the client sends it.

        `LimitExceeded` above the limit; `ConnectionLost` or `DeadlineExceeded` (nothing written yet, as far as the edge
        knows) if the client goes away or falls silent.
        """
        assert not self._body_taken, "a body is read once"
        self._body_taken = True
        limit = min(self._limits.body_bytes_max, bytes_max or self._limits.body_bytes_max)
        length = self.content_length
        if length is not None and length > limit:
            raise LimitExceeded(f"the body has {length} bytes; at most {limit} are taken", limit=limit)
        while length != 0 and (chunk := await self._body.take()):
            self.bytes_read += len(chunk)
            if self.bytes_read > limit:
                raise LimitExceeded(f"the body has more than the {limit} bytes that are taken", limit=limit)
            yield chunk

    async def read(self, bytes_max: int | None = None) -> bytes:
        """The whole body, held in memory."""
        limit = bytes_max or self._limits.json_bytes_max
        chunks = [chunk async for chunk in self.body(limit)]
        return chunks[0] if len(chunks) == 1 else b"".join(chunks)

    async def json(self, kind: type[T], *, strict: bool = True) -> T:
        """The body as a typed value, or an `InvalidArgument` which says where it does not fit."""
        body = await self.read()
        try:
            return msgspec.json.decode(body, type=kind, strict=strict)
        except msgspec.DecodeError as error:
            raise InvalidArgument(f"the body does not fit: {error}") from None
        except UnicodeDecodeError:
            raise InvalidArgument("the body is not UTF-8") from None


_LIST_FIELDS: dict[type, frozenset[str]] = {}


def _list_fields(kind: type) -> frozenset[str]:
    if kind not in _LIST_FIELDS:
        info = msgspec.inspect.type_info(kind)
        fields = info.fields if isinstance(info, msgspec.inspect.StructType) else ()
        lists = (msgspec.inspect.ListType, msgspec.inspect.SetType, msgspec.inspect.VarTupleType)
        _LIST_FIELDS[kind] = frozenset(field.encode_name for field in fields if isinstance(field.type, lists))
    return _LIST_FIELDS[kind]
