"""Presigned URLs of a lake on S3, with real clients: bytes go to and from the store, and never through the lake."""

import urllib.request
from collections.abc import Iterator
from pathlib import Path

import lakefs
import pytest
from lakefs.client import Client
from tests.lake.rest.servers import KEY, SECRET, LakeProcess
from tests.plumbing.objects.conftest import S3_CREDENTIALS, s3_bucket, s3_endpoint  # noqa: F401 - fixtures

CONTENT = b"by a presigned PUT"


@pytest.fixture
def server(s3_bucket: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[LakeProcess]:  # noqa: F811
    monkeypatch.setenv("PENSTOCK_OBJECTSTORE_URL", s3_bucket.replace("penstock?", "penstock/lake?"))
    monkeypatch.setenv("PENSTOCK_OBJECTSTORE_ACCESS_KEY_ID", S3_CREDENTIALS["access_key_id"])
    monkeypatch.setenv("PENSTOCK_OBJECTSTORE_SECRET_ACCESS_KEY", S3_CREDENTIALS["secret_access_key"])
    with LakeProcess(tmp_path) as process:
        yield process


def test_lakefs_own_package_writes_and_reads_by_presigned_urls(
    server: LakeProcess,
    s3_endpoint: str,  # noqa: F811
) -> None:
    client = Client(host=server.url, username=KEY, password=SECRET)
    main = lakefs.Repository("shop", client=client).create("s3://penstock/lake/shop").branch("main")
    put = main.object("a/b.txt").upload(CONTENT, pre_sign=True)
    assert put.stat(pre_sign=False).size_bytes == len(CONTENT)
    assert put.stat(pre_sign=True).physical_address.startswith(s3_endpoint)
    for pre_sign in (True, False):
        with put.reader(pre_sign=pre_sign) as reader:
            assert reader.read() == CONTENT
    main.commit("presigned")
    with urllib.request.urlopen(main.object("a/b.txt").stat(pre_sign=True).physical_address, timeout=60) as got:
        assert got.read() == CONTENT
