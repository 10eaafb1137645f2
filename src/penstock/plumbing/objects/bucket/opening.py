"""Buckets by URL, and a bucket in memory. Design: see `objects/opening.py`, which imports this when one is opened."""

from collections.abc import Mapping
from typing import Any
from urllib.parse import parse_qsl, unquote, urlsplit

from obstore import exceptions
from obstore.store import AzureStore, GCSStore, MemoryStore, S3Store

from penstock.kernel.errors import InvalidArgument
from penstock.plumbing.objects.arguments import shown_url
from penstock.plumbing.objects.bucket.failures import summary_of
from penstock.plumbing.objects.bucket.store import BucketStore, Kind
from penstock.plumbing.objects.keys import check_key
from penstock.plumbing.objects.options import StoreOptions

__all__ = ["open_bucket", "open_memory"]

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


def open_memory(options: StoreOptions) -> BucketStore:
    """Return a store in memory, which is empty."""
    client = MemoryStore()
    return BucketStore(client, client, "memory", "memory://", options)


def open_bucket(kind: Kind, url: str, options: StoreOptions) -> BucketStore:
    """Return the store of a bucket. Nothing is asked of it yet."""
    parts = urlsplit(url)
    bucket, prefix = parts.netloc, unquote(parts.path).strip("/")
    if not bucket or "@" in bucket or ":" in bucket or parts.fragment:
        raise InvalidArgument(f"{shown_url(url)} is no bucket: write {kind}://bucket or {kind}://bucket/prefix")
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
                raise InvalidArgument(f"{shown_url(url)}: endpoint must be an http:// or https:// URL")
            config[field] = _boolean(name, value) if name in ("anonymous", "virtual_hosted") else value
        else:
            known = ", ".join(sorted([*_PARAMETERS[kind], "allow_http"]))
            raise InvalidArgument(
                f"{shown_url(url)} has the unknown parameter {name!r}; known are {known}",
                next_step="credentials go into the environment or into StoreOptions.credentials, never into a URL",
            )
    return config, allow_http


def _boolean(name: str, value: str) -> bool:
    if value not in _BOOLEANS:
        raise InvalidArgument(f"{name} must be true or false")
    return _BOOLEANS[value]
