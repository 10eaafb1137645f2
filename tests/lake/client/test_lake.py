"""Lake URLs, and what a client says when there is no server."""

import pytest

from penstock.kernel.errors import ConnectFailed, InvalidArgument
from penstock.lake.client.lake import LakeClient, LakeUrl, parse_lake_url


def test_lake_urls() -> None:
    assert parse_lake_url("lake://shop@main/a/b c") == LakeUrl("shop", "main", "a/b c")
    assert parse_lake_url("lake://shop@main~1") == LakeUrl("shop", "main~1")
    assert parse_lake_url("lake://shop", needs_ref=False) == LakeUrl("shop")
    assert parse_lake_url("lake://shop@a^1").ref_api == "/repositories/shop/refs/a%5E1"
    for wrong in ("", "shop", "lake://", "lake://shop", "lake://shop/a", "s3://shop@main"):
        with pytest.raises(InvalidArgument):
            parse_lake_url(wrong)


def test_no_server_is_told_with_the_next_step() -> None:
    with LakeClient("http://127.0.0.1:1", "key", "secret") as lake, pytest.raises(ConnectFailed) as failed:
        lake.call("GET", "/repositories")
    assert "penstock lake serve" in failed.value.next_step
    with pytest.raises(InvalidArgument):
        LakeClient("127.0.0.1:8000", "key", "secret")
