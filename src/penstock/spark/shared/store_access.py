"""Whether this process has keys of its own for an object store. Design: spark-2.md, "On other machines and on S3".

A client of a bucket that finds no keys asks the cloud's metadata address, again and again. A Spark worker must not do
that on its own: it leaves the store alone, and its bytes go through the lake or come from brokers. Keys come from the
cloud's own environment variables. `AWS_EC2_METADATA_DISABLED=false` says that the machine's role may be asked.
"""

import os
from collections.abc import Mapping
from functools import cache
from typing import Final
from urllib.parse import urlsplit

from penstock.plumbing.process.logs import get_logger

__all__ = ["can_open", "has_keys"]

S3: Final = (
    "AWS_ACCESS_KEY_ID",
    "AWS_CONTAINER_CREDENTIALS_FULL_URI",
    "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI",
    "AWS_SKIP_SIGNATURE",
    "AWS_WEB_IDENTITY_TOKEN_FILE",
)
PREFIXES: Final = {"gs": "GOOGLE_", "az": "AZURE_"}
ASKED: Final = "AWS_EC2_METADATA_DISABLED"
log = get_logger()


def has_keys(url: str, environment: Mapping[str, str]) -> bool:
    """Return True for a store that needs no keys, and for one whose keys are in the environment."""
    scheme = urlsplit(url).scheme
    if scheme == "s3":
        return any(environment.get(name) for name in S3) or environment.get(ASKED, "").lower() == "false"
    prefix = PREFIXES.get(scheme)
    return prefix is None or any(name.startswith(prefix) and value for name, value in environment.items())


@cache
def can_open(url: str) -> bool:
    """Return the same for this process, and log once that a store is left alone."""
    is_open = has_keys(url, os.environ)
    if not is_open:
        log.warning("store skipped", store=url.partition("?")[0], reason="no keys for it in this process")
    return is_open
