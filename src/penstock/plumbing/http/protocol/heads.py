"""The head of a request: its target, and why another server might read it in another way. Pure."""

from typing import Final

import httptools

__all__ = ["ambiguity", "target"]

_ONCE: Final = frozenset((b"host", b"content-length", b"transfer-encoding"))


def target(url: bytes) -> tuple[str, str] | None:
    """Return the raw path and query of a request's target, or none if it cannot be read.

    >>> target(b"/a%2Fb?x=1"), target(b"http://host/a?x"), target(b"host:80")
    (('/a%2Fb', 'x=1'), ('/a', 'x'), None)
    """
    if url.startswith(b"/") and b"#" not in url:
        path, _, query = url.decode("latin-1").partition("?")
        return path, query
    if url == b"*":
        return "*", ""
    try:
        parsed = httptools.parse_url(url)
    except httptools.HttpParserError:
        return None
    if url[:1] != b"/" and not parsed.schema:
        return None
    return (parsed.path or b"/").decode("latin-1"), (parsed.query or b"").decode("latin-1")


def ambiguity(headers: list[tuple[bytes, bytes]]) -> str | None:
    """Say what two servers could read in two ways: by that a request is hidden in the body of another.

    >>> ambiguity([(b"content-length", b"3"), (b"transfer-encoding", b"chunked")])
    'a body has a content-length or a transfer-encoding, not both'
    """
    seen: set[bytes] = set()
    for name, value in headers:
        if name in _ONCE:
            if name in seen:
                return f"{name.decode('latin-1')} is given twice"
            seen.add(name)
            if name == b"transfer-encoding" and value.strip().lower() != b"chunked":
                return "chunked is the only transfer encoding"
    if b"transfer-encoding" in seen and b"content-length" in seen:
        return "a body has a content-length or a transfer-encoding, not both"
    return None
