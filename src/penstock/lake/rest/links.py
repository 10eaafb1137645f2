"""Links: requests that are signed beforehand, for clients without keys, until they end.

A signature covers the method, the path and the whole query. A link to read serves the bytes of one version of an
object, also where the path shows another one by then; the garbage collector may take them, as it takes any that nothing
refers to.
"""

import hashlib
import hmac
from typing import Final
from urllib.parse import quote, urlencode

from penstock.kernel.errors import Forbidden
from penstock.plumbing.http.request import Request
from penstock.plumbing.ports.ports import Clocks, system_ports

__all__ = ["LINK_S", "RequestLinks"]

LINK_S: Final = 900
ENDS: Final = "link-ends"
SIGNATURE: Final = "&link-signature="


class RequestLinks:
    """Signs requests and knows its signatures again."""

    def __init__(self, secret: str, clock: Clocks | None = None) -> None:
        self._clock = clock or system_ports().clock
        self._key = hashlib.sha256(b"penstock lake request\0" + secret.encode()).digest()

    def now(self) -> int:
        """Return the seconds since 1970."""
        return self._clock.time_ns() // 10**9

    def make(self, request: Request, method: str, place: str, /, **query: str | int) -> tuple[str, int]:
        """Return a link to this server, as the request's sender reached it, and when it ends, in seconds since 1970."""
        ends_at = self.now() + LINK_S
        text = urlencode({**query, ENDS: ends_at}, quote_via=quote)
        scheme = "https" if request.is_secure else "http"
        signed = f"{place}?{text}{SIGNATURE}{self._sign(method, place, text)}"
        return f"{scheme}://{request.header('host')}{signed}", ends_at

    def holds(self, request: Request) -> bool:
        """Return whether a request is one that was signed. `Forbidden` if it was, and comes too late or is changed."""
        query, mark, signature = request.raw_query.rpartition(SIGNATURE)
        if not mark:
            return False
        method = "GET" if request.method == "HEAD" else request.method
        if not hmac.compare_digest(signature.encode(), self._sign(method, request.raw_path, query).encode()):
            raise Forbidden("the link's signature does not fit the request", next_step="ask for a new link")
        ends_at = request.query_value(ENDS) or ""
        if not ends_at.isdecimal() or self.now() >= int(ends_at):
            raise Forbidden("the link has ended", next_step="ask for a new link")
        return True

    def _sign(self, method: str, path: str, query: str) -> str:
        return hmac.new(self._key, f"{method}\n{path}\n{query}".encode(), hashlib.sha256).hexdigest()
