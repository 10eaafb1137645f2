"""The gateway: which bucket and key a request is about, who sent it, and which operation it wants.

    site = S3Gateway(StoreBuckets(store), Keyring({"AKIA…": Secret("…")})).site()
    server = await HttpServer.start(App([site]), "127.0.0.1", 9000)

Buckets are addressed by path (`/bucket/key`), or by host (`bucket.DOMAIN/key`) where a domain is configured. On a
shared port it claims requests that carry an AWS signature, and those addressed to its domain. Nothing is looked up for
a request whose signature does not hold.
"""

from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Final, Protocol

from penstock.lake.s3.call import Call
from penstock.lake.s3.operations import operation_of
from penstock.lake.s3.port import Buckets
from penstock.lake.s3.protocol.faults import fault, render_xml
from penstock.lake.s3.protocol.signature import Signed, claim_of, is_signed, verify
from penstock.lake.s3.protocol.signature_v2 import is_presigned_v2, verify_v2
from penstock.lake.s3.uploads import Uploads
from penstock.plumbing.config.secret import Secret
from penstock.plumbing.http.app import Site
from penstock.plumbing.http.request import Request, decode_part
from penstock.plumbing.http.response import Response
from penstock.plumbing.http.router import HttpRoute
from penstock.plumbing.ports.ports import Ports, system_ports

__all__ = ["Credentials", "Keyring", "S3Gateway"]

KEY_BYTES_MAX: Final = 1024


class Credentials(Protocol):
    """The keys that may sign."""

    def secret_of(self, access_key: str) -> Secret | None: ...


class Keyring:
    """Credentials from a mapping."""

    def __init__(self, secrets: Mapping[str, Secret]) -> None:
        self._secrets = dict(secrets)

    def secret_of(self, access_key: str) -> Secret | None:
        return self._secrets.get(access_key)


class S3Gateway:
    """The gateway to some buckets."""

    def __init__(
        self,
        buckets: Buckets,
        credentials: Credentials,
        *,
        domain: str = "",
        region: str = "us-east-1",
        now: Callable[[], datetime] | None = None,
        ports: Ports | None = None,
    ) -> None:
        ports = ports or system_ports()
        self._buckets = buckets
        self._uploads = Uploads(buckets.scratch, ports)
        self._credentials = credentials
        self._domain = domain.lower()
        self._region = region
        clock = ports.clock
        self._now = now or (lambda: datetime.fromtimestamp(clock.time_ns() / 1e9, UTC))
        # A stream takes as long as it takes: silence is what ends it. Reads answer with their head in time.
        self._reads = HttpRoute("S3", self.respond)
        self._writes = HttpRoute("S3", self.respond, answer_ms=0)

    def site(self, *, is_alone: bool = False) -> Site:
        """Return the gateway as a site of the HTTP edge. Alone on its port, it claims every request."""
        return Site("s3", self, render_xml, (lambda _: True) if is_alone else self.claims)

    def claims(self, request: Request) -> bool:
        return self._host_bucket(request) is not None or is_signed(request.headers, request.raw_query)

    def find(self, request: Request) -> HttpRoute:
        return self._reads if request.method in ("GET", "HEAD", "DELETE") else self._writes

    async def respond(self, request: Request) -> Response:
        bucket, key = self._address(request)
        signed = self._authenticate(request, bucket)
        call = Call(request, signed, self._buckets, self._uploads, self._region, bucket, key)
        response = await operation_of(call).handler(call)
        response.headers["x-amz-request-id"] = request.id
        return response

    def _authenticate(self, request: Request, bucket: str) -> Signed:
        if "x-amz-security-token" in request.headers or request.has_query("X-Amz-Security-Token"):
            raise fault("InvalidToken", "session tokens are not supported: sign with a key and its secret alone")
        if "AWSAccessKeyId=" in request.raw_query and "authorization" not in request.headers:
            found = dict(request.query)
            if is_presigned_v2(found):
                return self._authenticate_v2(request, bucket, found)
        claim = claim_of(request.headers, request.query)
        secret = self._credentials.secret_of(claim.access_key)
        if secret is None:
            raise fault("InvalidAccessKeyId", "no user has this access key")
        return verify(
            claim,
            secret.reveal(),
            self._now(),
            method=request.method,
            raw_path=request.raw_path,
            raw_query=request.raw_query,
            headers=request.headers,
        )

    def _authenticate_v2(self, request: Request, bucket: str, found: Mapping[str, str]) -> Signed:
        secret = self._credentials.secret_of(found["AWSAccessKeyId"])
        if secret is None:
            raise fault("InvalidAccessKeyId", "no user has this access key")
        in_host = f"/{bucket}" if self._host_bucket(request) else ""
        return verify_v2(
            found,
            request.query,
            secret.reveal(),
            self._now(),
            method=request.method,
            resource=in_host + request.raw_path,
            headers=request.headers,
        )

    def _address(self, request: Request) -> tuple[str, str]:
        path = request.raw_path.removeprefix("/")
        bucket = self._host_bucket(request)
        if not bucket:
            raw_bucket, _, path = path.partition("/")
            bucket = decode_part(raw_bucket, "path")
        key = decode_part(path, "path")
        if len(key.encode()) > KEY_BYTES_MAX:
            raise fault("KeyTooLongError", f"a key has at most {KEY_BYTES_MAX} bytes")
        return bucket, key

    def _host_bucket(self, request: Request) -> str | None:
        """The bucket in the host's name; empty if it is the domain itself; None if it is another host."""
        if not self._domain:
            return None
        host = request.header("host").lower().rpartition("@")[2].partition(":")[0]
        if host == self._domain:
            return ""
        return host.removesuffix(f".{self._domain}") if host.endswith(f".{self._domain}") else None
