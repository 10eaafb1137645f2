"""A client of the S3 gateway, which signs by hand: the world has no other one, as boto3 reaches for sockets."""

import hashlib
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Final
from urllib.parse import quote, urlencode

from penstock.lake.s3.protocol.signature import (
    ALGORITHM,
    canonical_request,
    scope_of,
    sign,
    signing_key,
    string_to_sign,
)
from penstock.plumbing.http.client import HttpClient
from penstock.plumbing.ports.ports import Clocks

__all__ = ["S3Answer", "S3Client"]

REGION: Final = "us-east-1"


class S3Answer:
    """A status, headers, and the whole body."""

    def __init__(self, status: int, headers: Mapping[str, str], body: bytes) -> None:
        self.status = status
        self.headers = headers
        self.body = body

    @property
    def is_ok(self) -> bool:
        return 200 <= self.status < 300


class S3Client:
    """Requests to one gateway. For one event loop."""

    def __init__(self, url: str, key: str, secret: str, clock: Clocks) -> None:
        self._http = HttpClient(url)
        self._host = url.partition("://")[2]
        self._key, self._secret, self._clock = key, secret, clock

    async def close(self) -> None:
        await self._http.close()

    async def ask(
        self, method: str, bucket: str, key: str = "", body: bytes = b"", *, query: Mapping[str, str] | None = None,
        **headers: str,
    ) -> S3Answer:  # fmt: skip
        """Send one signed request."""
        path = quote(f"/{bucket}/{key}" if key else f"/{bucket}", safe="/-_.~")
        text = urlencode(sorted((query or {}).items()), quote_via=quote)
        now = datetime.fromtimestamp(self._clock.time_ns() / 1e9, UTC)
        stamp, day = f"{now:%Y%m%dT%H%M%SZ}", f"{now:%Y%m%d}"
        digest = hashlib.sha256(body).hexdigest()
        sent = {"host": self._host, "x-amz-date": stamp, "x-amz-content-sha256": digest}
        sent |= {name.replace("_", "-"): value for name, value in headers.items()}
        signed = sorted(sent)
        scope = scope_of(day, REGION, "s3")
        canonical = canonical_request(method, path, text, sent, signed, digest)
        signature = sign(signing_key(self._secret, day, REGION, "s3"), string_to_sign(stamp, scope, canonical))
        sent["authorization"] = (
            f"{ALGORITHM} Credential={self._key}/{scope}, SignedHeaders={';'.join(signed)}, Signature={signature}"
        )
        target = f"{path}?{text}" if text else path
        async with self._http.request(method, target, sent, body) as answer:
            return S3Answer(answer.status, answer.headers, await answer.read())
