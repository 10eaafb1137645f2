"""The keys of the lake: one pair, as in lakeFS's quickstart, and tokens made of it.

REST clients send the pair with every request (Basic) or a token they got for it (Bearer); S3 clients sign with it. All
comparisons take constant time.
"""

import base64
import binascii
import hashlib
import hmac
from typing import Final

from penstock.kernel.errors import Unauthenticated
from penstock.plumbing.http.request import Request
from penstock.plumbing.ports.ports import Clocks, system_ports

__all__ = ["TOKEN_S", "Credentials"]

TOKEN_S: Final = 24 * 3600


class Credentials:
    """The one pair of keys."""

    def __init__(self, access_key_id: str, secret_access_key: str, clock: Clocks | None = None) -> None:
        self._clock = clock or system_ports().clock
        self.access_key_id = access_key_id
        self.secret_access_key = secret_access_key
        pair = base64.b64encode(f"{access_key_id}:{secret_access_key}".encode()).decode()
        self._basic = f"Basic {pair}".encode()
        self._token_key = hashlib.sha256(b"penstock lake token\0" + secret_access_key.encode()).digest()

    @property
    def user(self) -> str:
        """The name of the pair's user. It is the committer of the user's commits."""
        return self.access_key_id

    def check(self, request: Request) -> None:
        """Raise `Unauthenticated` unless the request may pass."""
        given = request.header("authorization").encode()
        if hmac.compare_digest(given, self._basic):
            return
        kind, _, value = given.decode("latin-1").partition(" ")
        if kind.lower() == "basic" and self._is_pair(value):
            return
        if kind.lower() == "bearer" and self._is_token(value):
            return
        raise Unauthenticated("error authenticating request", next_step="send the lake's access key and secret")

    def login(self, access_key_id: str, secret_access_key: str) -> tuple[str, int]:
        """A token for the pair, and when it ends, in seconds since 1970."""
        is_right = hmac.compare_digest(access_key_id.encode(), self.access_key_id.encode())
        is_right &= hmac.compare_digest(secret_access_key.encode(), self.secret_access_key.encode())
        if not is_right:
            raise Unauthenticated("error authenticating request")
        ends_at = self._clock.time_ns() // 10**9 + TOKEN_S
        return f"{ends_at}.{self._sign(ends_at)}", ends_at

    def _is_pair(self, value: str) -> bool:
        """Base64 may be spelled in more than one way."""
        try:
            decoded = base64.b64decode(value, validate=True)
        except (binascii.Error, ValueError):
            return False
        return hmac.compare_digest(decoded, f"{self.access_key_id}:{self.secret_access_key}".encode())

    def _is_token(self, value: str) -> bool:
        ends_at, _, signature = value.partition(".")
        if not (ends_at.isascii() and ends_at.isdigit() and len(ends_at) < 20):
            return False
        return (
            hmac.compare_digest(signature.encode(), self._sign(int(ends_at)).encode())
            and self._clock.time_ns() < int(ends_at) * 10**9
        )

    def _sign(self, ends_at: int) -> str:
        return hmac.new(self._token_key, str(ends_at).encode(), hashlib.sha256).hexdigest()
