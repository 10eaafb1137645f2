from contextlib import closing
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.plumbing.objects.folder.disk import FolderDisk
from penstock.plumbing.objects.folder.walk import walk

SEGMENTS = st.sampled_from(["a", "a.b", "a0", "b", "é", "-"])
NAMES = st.sets(st.lists(SEGMENTS, min_size=1, max_size=3).map(lambda parts: "/".join([*parts[:-1], parts[-1] + "_"])))


@settings(max_examples=50, deadline=None)
@given(names=NAMES, after=st.lists(SEGMENTS, max_size=3).map("/".join))
def test_files_come_in_the_order_of_their_keys(
    tmp_path_factory: pytest.TempPathFactory, names: set[str], after: str
) -> None:
    root = tmp_path_factory.mktemp("walk")
    for name in names:
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_bytes(b"")
    with closing(FolderDisk(str(root), 1_000)) as disk:
        assert [meta.key for meta in walk(disk, "", after)] == sorted(name for name in names if name > after)
        assert [meta.key for meta in walk(disk, "a/", after)] == sorted(
            name for name in names if name > after and name.startswith("a/")
        )


def test_a_listing_goes_on_while_objects_vanish(tmp_path: Path) -> None:
    with closing(FolderDisk(str(tmp_path), 1_000)) as disk:
        for name in ["a", "b/c", "b/d", "e/f", "g"]:
            disk.put(name, memoryview(b""))
        found = walk(disk, "", "")
        assert next(found).key == "a"
        disk.delete(["b/c", "b/d", "g"])
        assert [meta.key for meta in found] == ["e/f"]
