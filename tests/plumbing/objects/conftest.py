"""Stores to test against: a folder, memory, and S3 on a real HTTP server; Azure if Azurite is running."""

import os
import subprocess
import sys
import urllib.request
import uuid
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path

import msgspec
import pytest

from penstock.plumbing.objects import ObjectStore, StoreOptions, open_store

OpenStore = Callable[[], ObjectStore]

OPTIONS = StoreOptions(page_keys_max=7, chunk_bytes=64 << 10, part_bytes=5 << 20, backoff_ms=1, backoff_ms_max=4)
S3_CREDENTIALS = {"access_key_id": "test", "secret_access_key": "test-secret"}
AZURITE = os.environ.get("PENSTOCK_TEST_AZURITE")  # where Azurite listens: see docs/reference/objectstore.md
AZURE_CREDENTIALS = {"account_name": "devstoreaccount1", "account_key": os.environ.get("PENSTOCK_TEST_AZURITE_KEY", "")}
KINDS = ["folder", "memory", "s3", *(["azure"] if AZURITE else [])]


def with_credentials(credentials: dict[str, str]) -> StoreOptions:
    return msgspec.structs.replace(OPTIONS, credentials=credentials)


@pytest.fixture(scope="session")
def s3_endpoint() -> Iterator[str]:
    """S3's protocol, really spoken over HTTP, by a process which keeps the objects in memory."""
    script = Path(__file__).with_name("s3_server.py")
    environment = {name: value for name, value in os.environ.items() if not name.startswith("AWS_")}
    command = [sys.executable, "-W", "ignore", str(script)]
    with subprocess.Popen(command, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as server:
        assert server.stdin is not None
        assert server.stdout is not None
        with server.stdin:
            yield f"http://127.0.0.1:{int(server.stdout.readline())}"


@pytest.fixture(scope="session")
def s3_bucket(s3_endpoint: str) -> str:
    """A bucket, as the URL of a store."""
    authorization = (
        "AWS4-HMAC-SHA256 Credential=test/20260101/us-east-1/s3/aws4_request, SignedHeaders=host, Signature=0"
    )
    request = urllib.request.Request(f"{s3_endpoint}/penstock", method="PUT", headers={"Authorization": authorization})
    with urllib.request.urlopen(request):
        pass
    return f"s3://penstock?region=us-east-1&allow_http=true&endpoint={s3_endpoint}"


@pytest.fixture(params=KINDS)
def open_new(request: pytest.FixtureRequest, tmp_path: Path) -> OpenStore:
    """Opens an empty store; each call gives another empty one, without waiting for anything."""

    def opened() -> ObjectStore:
        prefix = uuid.uuid4().hex
        match request.param:
            case "folder":
                return open_store((tmp_path / prefix).as_uri(), OPTIONS)
            case "memory":
                return open_store("memory://", OPTIONS)
            case "s3":
                url = request.getfixturevalue("s3_bucket").replace("penstock?", f"penstock/{prefix}?")
                return open_store(url, with_credentials(S3_CREDENTIALS))
            case _:
                url = f"az://penstock/{prefix}?allow_http=true&endpoint={AZURITE}/devstoreaccount1"
                return open_store(url, with_credentials(AZURE_CREDENTIALS))

    if request.param == "s3":
        request.getfixturevalue("s3_bucket")
    return opened


@pytest.fixture
async def store(open_new: OpenStore) -> AsyncIterator[ObjectStore]:
    async with open_new() as opened:
        yield opened
