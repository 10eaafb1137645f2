"""The gateway: which bucket and key a request is about, who sent it, and which operation it wants.

    site = S3Gateway(StoreBuckets(store), Keyring({"AKIA…": Secret("…")})).site()
    server = await HttpServer.start(App([site]), "127.0.0.1", 9000)

Buckets are addressed by path (`/bucket/key`), or by host (`bucket.DOMAIN/key`) where a domain is configured. On a
shared port it claims requests that carry an AWS signature, and those addressed to its domain. Nothing is looked up for
a request whose signature does not hold.
"""

from collections.abc import Awaitable, Callable, Mapping
from datetime import UTC, datetime
from typing import Final, Protocol

from penstock.lake.s3 import bucket_operations as on_bucket
from penstock.lake.s3 import objects as on_object
from penstock.lake.s3 import upload_operations as on_upload
from penstock.lake.s3.call import Call
from penstock.lake.s3.port import Buckets
from penstock.lake.s3.protocol.faults import fault, render_xml
from penstock.lake.s3.protocol.signature import Signed, claim_of, is_signed, verify
from penstock.lake.s3.uploads import Uploads
from penstock.plumbing.config.secret import Secret
from penstock.plumbing.http.app import Site
from penstock.plumbing.http.request import Request, decode_part
from penstock.plumbing.http.response import Response
from penstock.plumbing.http.router import Route

__all__ = ["Credentials", "Keyring", "S3Gateway"]

Operation = Callable[[Call], Awaitable[Response]]

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


# By method and sub-resource, the parameter in the query which makes it another operation.
_BUCKET: Final[dict[tuple[str, str], Operation]] = {
    ("GET", ""): on_bucket.list_objects,
    ("GET", "list-type"): on_bucket.list_objects_v2,
    ("GET", "location"): on_bucket.get_location,
    ("GET", "versioning"): on_bucket.get_versioning,
    ("GET", "acl"): on_bucket.get_acl,
    ("GET", "uploads"): on_upload.list_uploads,
    ("HEAD", ""): on_bucket.head_bucket,
    ("PUT", ""): on_bucket.create_bucket,
    ("POST", "delete"): on_bucket.delete_objects,
}
_OBJECT: Final[dict[tuple[str, str], Operation]] = {
    ("GET", ""): on_object.get_object,
    ("GET", "uploadId"): on_upload.list_parts,
    ("HEAD", ""): on_object.get_object,
    ("PUT", ""): on_object.put_object,
    ("PUT", "copy"): on_object.copy_object,
    ("PUT", "uploadId"): on_upload.put_part,
    ("PUT", "uploadId copy"): on_upload.copy_part,
    ("POST", "uploads"): on_upload.begin_upload,
    ("POST", "uploadId"): on_upload.complete_upload,
    ("DELETE", ""): on_object.delete_object,
    ("DELETE", "uploadId"): on_upload.abort_upload,
}
# S3 has these too. Taken for plain reads and writes they would do something that the client did not ask for.
_FOREIGN: Final = frozenset(
    {
        "accelerate",
        "analytics",
        "attributes",
        "cors",
        "encryption",
        "intelligent-tiering",
        "inventory",
        "legal-hold",
        "lifecycle",
        "logging",
        "metrics",
        "notification",
        "object-lock",
        "ownershipControls",
        "policy",
        "policyStatus",
        "publicAccessBlock",
        "replication",
        "requestPayment",
        "restore",
        "retention",
        "select",
        "tagging",
        "torrent",
        "versionId",
        "versions",
        "website",
    }
)
_SUB_RESOURCES: Final = frozenset(sub for _, sub in [*_BUCKET, *_OBJECT] if sub and " " not in sub and sub != "copy")


class S3Gateway:
    """The gateway to some buckets."""

    def __init__(
        self,
        buckets: Buckets,
        credentials: Credentials,
        *,
        domain: str = "",
        region: str = "us-east-1",
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        self._buckets = buckets
        self._uploads = Uploads(buckets.scratch)
        self._credentials = credentials
        self._domain = domain.lower()
        self._region = region
        self._now = now
        # A stream takes as long as it takes: silence is what ends it. Reads answer with their head in time.
        self._reads = Route("S3", self.respond)
        self._writes = Route("S3", self.respond, answer_ms=0)

    def site(self, *, is_alone: bool = False) -> Site:
        """Return the gateway as a site of the HTTP edge. Alone on its port, it claims every request."""
        return Site("s3", self, render_xml, (lambda _: True) if is_alone else self.claims)

    def claims(self, request: Request) -> bool:
        return self._host_bucket(request) is not None or is_signed(request.headers, request.raw_query)

    def find(self, request: Request) -> Route:
        return self._reads if request.method in ("GET", "HEAD", "DELETE") else self._writes

    async def respond(self, request: Request) -> Response:
        signed = self._authenticate(request)
        bucket, key = self._address(request)
        call = Call(request, signed, self._buckets, self._uploads, self._region, bucket, key)
        response = await _operation(call)(call)
        response.headers["x-amz-request-id"] = request.id
        return response

    def _authenticate(self, request: Request) -> Signed:
        claim = claim_of(request.headers, request.query)
        secret = self._credentials.secret_of(claim.access_key)
        if secret is None:
            raise fault("InvalidAccessKeyId", "nobody has this access key")
        return verify(
            claim,
            secret.reveal(),
            self._now(),
            method=request.method,
            raw_path=request.raw_path,
            raw_query=request.raw_query,
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


def _operation(call: Call) -> Operation:
    method = call.request.method
    names = {name for name, _ in call.request.query}
    if names & _FOREIGN:
        raise fault("NotImplemented", f"{', '.join(sorted(names & _FOREIGN))} is not there in this gateway")
    if not call.bucket:
        if method != "GET":
            raise fault("MethodNotAllowed", f"{method} needs a bucket")
        return on_bucket.list_buckets
    sub = " ".join(sorted(names & _SUB_RESOURCES))
    if call.key and method == "PUT" and "x-amz-copy-source" in call.request.headers:
        sub = f"{sub} copy".strip()
    operation = (_OBJECT if call.key else _BUCKET).get((method, sub))
    if operation is None:
        raise fault("MethodNotAllowed", f"{method} is not there for {'an object' if call.key else 'a bucket'} {sub}")
    return operation
