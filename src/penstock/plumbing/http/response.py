"""Response: what a handler answers. The body is bytes, or a stream which is sent as fast as the client reads."""

from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from typing import Any

import msgspec

__all__ = ["JSON", "SANDBOXED", "Bytes", "Response", "json_response", "text_response"]

Bytes = bytes | bytearray | memoryview
JSON = "application/json"
# Of every answer with bytes of users: no browser runs them as a script of this server's origin.
SANDBOXED = {"content-security-policy": "default-src 'none'; sandbox", "x-content-type-options": "nosniff"}


@dataclass(slots=True)
class Response:
    """An answer. Header names in lower case; content-length and x-request-id come by themselves.

    A stream with `length` must yield exactly that number of bytes; one without is sent chunked. It is always closed,
    even when the client goes away first. A HEAD request gets `length` and no body.
    """

    status: int = 200
    body: Bytes | AsyncIterator[Bytes] = b""
    headers: dict[str, str] = field(default_factory=dict)
    length: int | None = None


def json_response(value: Any, status: int = 200, headers: dict[str, str] | None = None) -> Response:
    """A value msgspec can encode, as JSON."""
    return Response(status, msgspec.json.encode(value), {"content-type": JSON, **(headers or {})})


def text_response(text: str, status: int = 200, content_type: str = "text/plain; charset=utf-8") -> Response:
    return Response(status, text.encode(), {"content-type": content_type})
