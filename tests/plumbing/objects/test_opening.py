from pathlib import Path

import pytest

from penstock.kernel.errors import InvalidArgument
from penstock.plumbing.objects import StoreOptions, open_store


async def test_a_folder_with_an_odd_name_is_found_again(tmp_path: Path) -> None:
    url = (tmp_path / "with space, % and ü").as_uri()
    async with open_store(url) as store:
        await store.put("a", b"x")
    assert (tmp_path / "with space, % and ü/a").read_bytes() == b"x"
    async with open_store(url + "/") as store:
        assert bytes((await store.get("a")).data) == b"x"


async def test_each_memory_is_its_own() -> None:
    async with open_store("memory://") as one, open_store("memory://") as other:
        await one.put("a", b"")
        assert [page async for page in other.list()] == []


# GCS and Azure are constructed here, and Azure has been run against Azurite by hand: docs/reference/objectstore.md.
@pytest.mark.parametrize(
    ("url", "credentials", "shown"),
    [
        ("s3://bucket", {}, "BucketStore(s3://bucket)"),
        (
            "s3://bucket/a/b/?region=eu-central-1&virtual_hosted=true&anonymous=false",
            {},
            "BucketStore(s3://bucket/a/b)",
        ),
        ("gs://bucket/a?anonymous=true", {}, "BucketStore(gs://bucket/a)"),
        ("gs://bucket?allow_http=true&endpoint=http://127.0.0.1:1", {"bearer_token": "t"}, "BucketStore(gs://bucket)"),
        ("az://container/a?account=name", {"account_key": "c2VjcmV0"}, "BucketStore(az://container/a)"),
        ("az://container?account=name&endpoint=https://a.b", {"sas_key": "sig=x"}, "BucketStore(az://container)"),
    ],
)
async def test_a_url_names_a_bucket(url: str, credentials: dict[str, str], shown: str) -> None:
    async with open_store(url, StoreOptions(credentials=credentials)) as store:
        assert repr(store) == shown


@pytest.mark.parametrize(
    ("url", "says"),
    [
        ("", "no store"),
        ("/data", "no store"),
        ("http://bucket", "no store"),
        ("file://data", "absolute path"),
        ("file:data", "absolute path"),
        ("file:///data?x=1", "absolute path"),
        ("file:///", "no folder"),
        ("memory://name", "takes no name"),
        ("s3://", "no bucket"),
        ("s3:///a", "no bucket"),
        ("s3://bucket:80/a", "no bucket"),
        ("s3://bucket/a//b", "no key"),
        ("s3://bucket/../b", "no key"),
        ("s3://bucket?region=r&colour=blue", "unknown parameter 'colour'; known are allow_http, anonymous, endpoint"),
        ("s3://bucket?allow_http=yes", "true or false"),
        ("s3://bucket?endpoint=not-a-url", "endpoint must be"),
        ("gs://bucket?region=r", "unknown parameter"),
    ],
)  # fmt: skip
def test_a_url_which_names_nothing_is_refused(url: str, says: str) -> None:
    with pytest.raises(InvalidArgument, match=says):
        open_store(url)


@pytest.mark.parametrize(
    "url",
    [
        "s3://AKIA:hunter2@bucket/a",
        "s3://bucket?secret_access_key=hunter2",
        "az://c?sas_token=hunter2",
        "hunter://x?hunter2",
    ],
)
def test_a_url_with_a_credential_is_refused_without_repeating_it(url: str) -> None:
    with pytest.raises(InvalidArgument) as caught:
        open_store(url)
    assert "hunter2" not in caught.value.describe()


def test_an_unknown_credential_is_named_but_not_shown() -> None:
    with pytest.raises(InvalidArgument, match="pass_phrase") as caught:
        open_store("s3://bucket", StoreOptions(credentials={"pass_phrase": "hunter2"}))
    assert "hunter2" not in caught.value.describe()
