"""The S3 gateway: what speaks S3 works against a lake, or a plain store, unchanged."""

from penstock.web.s3.gateway import Credentials, Keyring, S3Gateway
from penstock.web.s3.lake_buckets import LakeBuckets
from penstock.web.s3.site import lake_site
from penstock.web.s3.store_buckets import StoreBuckets

__all__ = ["Credentials", "Keyring", "LakeBuckets", "S3Gateway", "StoreBuckets", "lake_site"]
