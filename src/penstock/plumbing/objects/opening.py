"""Stores by URL: one line of configuration says where objects are kept.

    file:///var/lib/penstock/objects
    memory://
    s3://bucket/prefix?region=eu-central-1
    gs://bucket/prefix
    az://container/prefix?account=name

Credentials do not belong in a URL, since URLs are logged: they come from the cloud's own environment variables
(AWS_…, GOOGLE_…, AZURE_…), from the machine's role, or in `StoreOptions.credentials`.
"""

from collections.abc import Mapping
from typing import Any
from urllib.parse import parse_qsl, unquote, urlsplit

from obstore import exceptions
from obstore.store import AzureStore, GCSStore, MemoryStore, S3Store

from penstock.kernel.errors import InvalidArgument
from penstock.plumbing.objects.bucket.failures import summary_of
from penstock.plumbing.objects.bucket.store import BucketStore, Kind
from penstock.plumbing.objects.folder.store import FolderStore
from penstock.plumbing.objects.keys import check_key
from penstock.plumbing.objects.options import StoreOptions
from penstock.plumbing.objects.port import ObjectStore

__all__ = ["open_store"]

# Parameters a URL may have, and obstore's names for them.
_PARAMETERS: Mapping[Kind, Mapping[str, str]] = {
    "s3": {
        "region": "region",
        "endpoint": "endpoint",
        "virtual_hosted": "virtual_hosted_style_request",
        "anonymous": "skip_signature",
    },
    "gs": {"endpoint": "base_url", "anonymous": "skip_signature"},
    "az": {"account": "account_name", "endpoint": "endpoint", "anonymous": "skip_signature"},
    "memory": {},
}
_CLIENTS: Mapping[Kind, Any] = {"s3": S3Store, "gs": GCSStore, "az": AzureStore}
_BOOLEANS = {"true": True, "false": False}


def open_store(url: str, options: StoreOptions | None = None) -> ObjectStore:
    """The store a URL names. Nothing is asked of it yet; a folder is made when the first object is put into it.

    >>> open_store("s3://shop/lake?region=eu-central-1")
    BucketStore(s3://shop/lake)
    """
    options = options or StoreOptions()
    parts = urlsplit(url)
    match parts.scheme:
        case "file":
            return FolderStore(_folder_path(url), options)
        case "memory":
            if url not in ("memory://", "memory:///"):
                raise InvalidArgument(f"memory:// takes no name, and each one opened is empty; not {_shown(url)}")
            client = MemoryStore()
            return BucketStore(client, client, "memory", "memory://", options)
        case "s3" | "gs" | "az":
            return _open_bucket(parts.scheme, url, options)
        case _:
            raise InvalidArgument(
                f"{_shown(url)} is no store: it must begin with file://, memory://, s3://, gs:// or az://"
            )


def _folder_path(url: str) -> str:
    parts = urlsplit(url)
    path = unquote(parts.path)
    if parts.netloc or not path.startswith("/") or parts.query or parts.fragment:
        raise InvalidArgument(f"{_shown(url)} is no folder: write file:// and an absolute path, as in file:///data")
    if path.strip("/") == "" or "\0" in path:
        raise InvalidArgument(f"{_shown(url)} is no folder to keep objects in")
    return path.rstrip("/")


def _open_bucket(kind: Kind, url: str, options: StoreOptions) -> BucketStore:
    parts = urlsplit(url)
    bucket, prefix = parts.netloc, unquote(parts.path).strip("/")
    if not bucket or "@" in bucket or ":" in bucket or parts.fragment:
        raise InvalidArgument(f"{_shown(url)} is no bucket: write {kind}://bucket or {kind}://bucket/prefix")
    if prefix:
        check_key(prefix)
    config, allow_http = _parameters(kind, url)

    def client(*, retries: bool) -> Any:
        try:
            return _CLIENTS[kind](
                bucket,
                prefix=prefix or None,
                config={**config, **options.credentials},
                client_options=options.client_options(allow_http=allow_http),
                retry_config=options.retry_config(retries=retries),
            )
        except (exceptions.BaseError, ValueError, OSError) as error:
            raise InvalidArgument(f"{kind}://{bucket}: {summary_of(error)}") from None

    name = f"{kind}://{bucket}/{prefix}".rstrip("/")
    return BucketStore(client(retries=True), client(retries=False), kind, name, options)


def _parameters(kind: Kind, url: str) -> tuple[dict[str, Any], bool]:
    config: dict[str, Any] = {}
    allow_http = False
    for name, value in parse_qsl(urlsplit(url).query, keep_blank_values=True):
        if name == "allow_http":
            allow_http = _boolean(name, value)
        elif name in _PARAMETERS[kind]:
            field = _PARAMETERS[kind][name]
            if name == "endpoint" and not (urlsplit(value).scheme in ("http", "https") and urlsplit(value).hostname):
                raise InvalidArgument(f"{_shown(url)}: endpoint must be an http:// or https:// URL")
            config[field] = _boolean(name, value) if name in ("anonymous", "virtual_hosted") else value
        else:
            known = ", ".join(sorted([*_PARAMETERS[kind], "allow_http"]))
            raise InvalidArgument(
                f"{_shown(url)} has the unknown parameter {name!r}; known are {known}",
                next_step="credentials go into the environment or into StoreOptions.credentials, never into a URL",
            )
    return config, allow_http


def _boolean(name: str, value: str) -> bool:
    if value not in _BOOLEANS:
        raise InvalidArgument(f"{name} must be true or false")
    return _BOOLEANS[value]


def _shown(url: str) -> str:
    """A URL without what may be secret in it."""
    parts = urlsplit(url)
    return ascii(f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}"[:200])
