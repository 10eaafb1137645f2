"""The S3 gateway: what speaks S3 works against a lake, or a plain store, unchanged."""

from penstock.lake.s3.gateway import Credentials, Keyring, S3Gateway
from penstock.lake.s3.lake_buckets import LakeBuckets
from penstock.lake.s3.site import lake_site
from penstock.lake.s3.store_buckets import StoreBuckets

__all__ = ["Credentials", "Keyring", "LakeBuckets", "S3Gateway", "StoreBuckets", "lake_site"]
