"""Object stores: a local folder, memory, S3, GCS and Azure with one interface."""

from penstock.plumbing.objects.opening import open_store
from penstock.plumbing.objects.options import StoreOptions
from penstock.plumbing.objects.port import (
    MANY_MAX,
    ETag,
    ObjectMeta,
    ObjectPage,
    ObjectReader,
    ObjectStore,
    ObjectWriter,
    StoredObject,
)

__all__ = [
    "MANY_MAX",
    "ETag",
    "ObjectMeta",
    "ObjectPage",
    "ObjectReader",
    "ObjectStore",
    "ObjectWriter",
    "StoreOptions",
    "StoredObject",
    "open_store",
]
