import itertools
import os
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from typing import Any

import boto3
import pytest
from botocore.config import Config
from tests.lake.s3.harness import KEY, SECRET, GatewayThread

from penstock.lake.s3 import StoreBuckets
from penstock.lake.s3.port import Buckets
from penstock.plumbing.objects import open_store

_numbers = itertools.count()


@asynccontextmanager
async def store_buckets() -> AsyncIterator[Buckets]:
    async with open_store("memory://") as store:
        yield StoreBuckets(store)


def client_of(
    endpoint: str,
    *,
    key: str = KEY,
    secret: str = SECRET,
    verify: str | None = None,
    s3: dict[str, str] | None = None,
    proxies: dict[str, str] | None = None,
) -> Any:
    """A boto3 client which tries once, and signs as all do by now."""
    config = Config(
        signature_version="s3v4",
        retries={"total_max_attempts": 1},
        s3=s3 or {"addressing_style": "path"},
        proxies=proxies,
    )
    return boto3.client(
        "s3",
        endpoint_url=endpoint,
        aws_access_key_id=key,
        aws_secret_access_key=secret,
        region_name="us-east-1",
        verify=verify,
        config=config,
    )


@pytest.fixture(scope="module")
def endpoint() -> Iterator[str]:
    with GatewayThread(store_buckets) as url:
        yield url


@pytest.fixture(scope="module")
def s3(endpoint: str) -> Iterator[Any]:
    client = client_of(endpoint)
    yield client
    client.close()


@pytest.fixture
def bucket(s3: Any) -> str:
    name = f"bucket-{os.getpid()}-{next(_numbers)}"
    s3.create_bucket(Bucket=name)
    return name
