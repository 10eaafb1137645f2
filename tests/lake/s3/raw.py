"""A client which signs by hand, so that it can also sign what is wrong, or break what was signed."""

import hashlib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime

from tests.lake.s3.harness import KEY, SECRET
from tests.plumbing.http.harness import Answer, Client, connect

from penstock.lake.s3 import Keyring, S3Gateway, StoreBuckets
from penstock.lake.s3.protocol.signature import (
    ALGORITHM,
    Signed,
    canonical_request,
    scope_of,
    sign,
    signing_key,
    string_to_sign,
)
from penstock.plumbing.config.secret import Secret
from penstock.plumbing.http.app import App
from penstock.plumbing.http.limits import HttpLimits
from penstock.plumbing.http.server import HttpServer
from penstock.plumbing.objects import open_store

NOW = datetime(2026, 11, 15, 12, 0, 0, tzinfo=UTC)
STAMP, DAY = f"{NOW:%Y%m%dT%H%M%SZ}", f"{NOW:%Y%m%d}"
HOST = "s3.test"


class RawS3:
    """Signed requests over one connection, byte by byte as the test says."""

    def __init__(self, client: Client) -> None:
        self._client = client

    def signed(self, method: str, path: str, payload: str, query: str = "", **headers: str) -> tuple[Signed, bytes]:
        """What signs the chunks of a body, and the head of the request."""
        found = {"host": HOST, "x-amz-date": STAMP, "x-amz-content-sha256": payload}
        found |= {name.replace("_", "-"): value for name, value in headers.items()}
        scope, key = scope_of(DAY, "us-east-1", "s3"), signing_key(SECRET, DAY, "us-east-1", "s3")
        canonical = canonical_request(method, path, query, found, sorted(found), payload)
        signature = sign(key, string_to_sign(STAMP, scope, canonical))
        found["authorization"] = (
            f"{ALGORITHM} Credential={KEY}/{scope}, SignedHeaders={';'.join(sorted(set(found)))}, Signature={signature}"
        )
        target = f"{path}?{query}" if query else path
        lines = "".join(f"{name}: {value}\r\n" for name, value in found.items())
        head = f"{method} {target} HTTP/1.1\r\n{lines}\r\n".encode("latin-1")
        return Signed(KEY, scope, STAMP, key, signature, payload), head

    async def ask(self, method: str, path: str, body: bytes = b"", query: str = "", **headers: str) -> Answer:
        """A request with its body's hash signed."""
        digest = hashlib.sha256(body).hexdigest()
        _, head = self.signed(method, path, digest, query, content_length=str(len(body)), **headers)
        return await self.send(head + body, head_only=method == "HEAD")

    async def send(self, request: bytes, *, head_only: bool = False) -> Answer:
        return await self._client.ask(request, head_only=head_only)


@asynccontextmanager
async def raw_s3(limits: HttpLimits | None = None) -> AsyncIterator[RawS3]:
    """A gateway whose clock stands still, with the bucket `bucket`."""
    async with open_store("memory://") as store:
        buckets = StoreBuckets(store)
        await buckets.create_bucket("bucket")
        gateway = S3Gateway(buckets, Keyring({KEY: Secret(SECRET)}), now=lambda: NOW)
        server = await HttpServer.start(App([gateway.site(is_alone=True)], limits))
        async with server, connect(server) as client:
            yield RawS3(client)
