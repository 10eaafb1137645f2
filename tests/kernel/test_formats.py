import pytest

from penstock.kernel.errors import FormatTooNew
from penstock.kernel.formats import KINDS, SNAPSHOT, WAL_SEGMENT, check_version, kind_of_tag
from penstock.kernel.version import LEVEL_MAX, LEVEL_MIN, Release


def test_every_version_from_the_oldest_to_the_own_is_read() -> None:
    for kind in KINDS:
        for version in range(kind.reads, kind.version + 1):
            check_version(kind, version, "here")


def test_a_newer_version_is_refused_by_name() -> None:
    for kind in KINDS:
        with pytest.raises(FormatTooNew, match=rf"^/data/x \({kind.name}\) has version {kind.version + 1}; ") as found:
            check_version(kind, kind.version + 1, "/data/x")
        assert found.value.details == {"file": "/data/x", "kind": kind.name, "version": kind.version + 1}


def test_an_older_version_that_is_not_read_is_refused_too() -> None:
    assert SNAPSHOT.reads == 0
    with pytest.raises(FormatTooNew, match="which reads version 1"):
        check_version(WAL_SEGMENT, 0, "x.wal")


def test_names_and_places_are_unique() -> None:
    assert len({kind.name for kind in KINDS}) == len({kind.where for kind in KINDS}) == len(KINDS)


def test_tags_have_a_name_and_a_version() -> None:
    assert kind_of_tag("lake-checkpoint-12") == ("lake-checkpoint", 12)
    assert [kind_of_tag(each) for each in ("put", "-1", "a-", "a-x", "a-²", 7, None)] == [None] * 7


def test_a_release_speaks_at_most_two_levels() -> None:
    assert LEVEL_MAX - 1 <= LEVEL_MIN <= LEVEL_MAX
    assert [level for level in range(5) if Release("9", 2, 3).speaks(level)] == [2, 3]
