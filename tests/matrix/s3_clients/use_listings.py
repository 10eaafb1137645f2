"""Listings as s5cmd makes them: many keys at once, no delimiter, wildcards, odd names, versions 1 and 2."""

from concurrent.futures import ThreadPoolExecutor
from fnmatch import fnmatch
from typing import Any

import boto3
from tests.matrix.s3_clients.program import BUCKET, ENDPOINT, REGION, main

s3: Any = boto3.client("s3", endpoint_url=ENDPOINT, region_name=REGION)
HERE = "main/list/"
KEYS = sorted(f"{HERE}{number % 10}/{number:04d}" for number in range(1_500))
ODD = [
    f"{HERE}odd/{name}"
    for name in ("a b", "a+b", "a%20b", "ä/ö", "x&y", "<z>", "~t", "q?r", "semi;colon", "'quote'", '"d"')
]


def pages(version: str, **arguments: Any) -> tuple[list[str], list[str]]:
    keys: list[str] = []
    folders: list[str] = []
    for page in s3.get_paginator(version).paginate(Bucket=BUCKET, **arguments):
        keys += [one["Key"] for one in page.get("Contents", ())]
        folders += [one["Prefix"] for one in page.get("CommonPrefixes", ())]
    return keys, folders


def many() -> None:
    """1,500 keys by 16 workers, listed without a delimiter by versions 1 and 2"""
    with ThreadPoolExecutor(16) as pool:
        list(pool.map(lambda key: s3.put_object(Bucket=BUCKET, Key=key, Body=b""), KEYS))
    for version in ("list_objects", "list_objects_v2"):
        assert pages(version, Prefix=HERE)[0] == KEYS


def folders() -> None:
    """folders, page by page"""
    for size in (1, 3, 1000):
        found = pages("list_objects_v2", Prefix=HERE, Delimiter="/", PaginationConfig={"PageSize": size})
        assert found == ([], [f"{HERE}{number}/" for number in range(10)])


def wildcards() -> None:
    """wildcards: the part before the star is the prefix"""
    pattern = f"{HERE}3/*7?"
    found = [key for key in pages("list_objects_v2", Prefix=f"{HERE}3/")[0] if fnmatch(key, pattern)]
    assert found == [key for key in KEYS if fnmatch(key, pattern)]
    after = s3.list_objects_v2(Bucket=BUCKET, Prefix=HERE, StartAfter=KEYS[700], MaxKeys=5)
    assert [one["Key"] for one in after["Contents"]] == KEYS[701:706]


def odd() -> None:
    """keys with spaces, signs and letters of all kinds"""
    for key in ODD:
        s3.put_object(Bucket=BUCKET, Key=key, Body=key.encode())
    assert pages("list_objects_v2", Prefix=f"{HERE}odd/")[0] == sorted(ODD)
    for key in ODD:
        assert s3.get_object(Bucket=BUCKET, Key=key)["Body"].read() == key.encode()


def branches() -> None:
    """branches as the folders of a bucket"""
    assert s3.list_objects_v2(Bucket=BUCKET, Delimiter="/")["CommonPrefixes"] == [{"Prefix": "main/"}]


def deletes() -> None:
    """deletes of 1,000 at once, by 4 workers"""
    groups = [KEYS[at : at + 1000] for at in range(0, len(KEYS), 1000)]

    def delete(keys: list[str]) -> None:
        done = s3.delete_objects(Bucket=BUCKET, Delete={"Objects": [{"Key": key} for key in keys], "Quiet": True})
        assert "Errors" not in done

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(delete, groups))
    assert pages("list_objects_v2", Prefix=HERE)[0] == sorted(ODD)


main(many, folders, wildcards, odd, branches, deletes)
