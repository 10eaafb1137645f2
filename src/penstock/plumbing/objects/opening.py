"""Stores by URL: one line of configuration says where objects are kept.

    file:///var/lib/penstock/objects
    memory://
    s3://bucket/prefix?region=eu-central-1
    gs://bucket/prefix
    az://container/prefix?account=name

Credentials do not belong in a URL, since URLs are logged: they come from the cloud's own environment variables
(AWS_…, GOOGLE_…, AZURE_…), from the machine's role, or in `StoreOptions.credentials`.
"""

from urllib.parse import unquote, urlsplit

from penstock.kernel.errors import InvalidArgument
from penstock.kernel.extras import extra
from penstock.plumbing.objects.arguments import shown_url
from penstock.plumbing.objects.folder.store import FolderStore
from penstock.plumbing.objects.options import StoreOptions
from penstock.plumbing.objects.port import ObjectStore

__all__ = ["open_store"]


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
                raise InvalidArgument(f"memory:// takes no name, and each one opened is empty; not {shown_url(url)}")
            with extra("server", "a store in memory"):
                from penstock.plumbing.objects.bucket.opening import open_memory
            return open_memory(options)
        case "s3" | "gs" | "az":
            with extra("server", f"a store in {parts.scheme}://"):
                from penstock.plumbing.objects.bucket.opening import open_bucket
            return open_bucket(parts.scheme, url, options)
        case _:
            raise InvalidArgument(
                f"{shown_url(url)} is no store: it must begin with file://, memory://, s3://, gs:// or az://"
            )


def _folder_path(url: str) -> str:
    parts = urlsplit(url)
    path = unquote(parts.path)
    if parts.netloc or not path.startswith("/") or parts.query or parts.fragment:
        raise InvalidArgument(f"{shown_url(url)} is no folder: write file:// and an absolute path, as in file:///data")
    if path.strip("/") == "" or "\0" in path:
        raise InvalidArgument(f"{shown_url(url)} is no folder to keep objects in")
    return path.rstrip("/")
