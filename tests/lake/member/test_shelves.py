"""Storage namespaces: folders of the one store, never one inside another, never those which are reserved."""

from pathlib import Path

import pytest

from penstock.kernel.errors import InvalidArgument
from penstock.lake.member.shelves import Shelves, key_below
from penstock.plumbing.objects import open_store


@pytest.fixture
def shelves(tmp_path: Path) -> Shelves:
    url = f"file://{tmp_path}/objects"
    return Shelves(open_store(url), url)


def test_a_namespace_is_a_folder_of_the_store(shelves: Shelves) -> None:
    assert shelves.folder_of("local://shop/raw/") == "shop/raw/"
    for wrong in ("local://", "s3://shop", "local://_penstock/x", "local://scratch", "local://a/../b"):
        with pytest.raises(InvalidArgument):
            shelves.folder_of(wrong)


def test_a_new_namespace_has_one_spelling(shelves: Shelves) -> None:
    assert shelves.canonical("local://shop/raw/") == "local://shop/raw"
    for wrong in ("local:///shop", "local://shop//raw", "local://shop/_penstock/x", "local://a\x01", "local://a\\b"):
        with pytest.raises(InvalidArgument):
            shelves.canonical(wrong)


def test_keys_of_addresses_outside_are_none() -> None:
    assert key_below("local://a/b", "local://") == "a/b"
    assert key_below("file:///etc/passwd", "local://") == ""
    assert key_below("local://_penstock/lake/main/1", "local://") == ""
