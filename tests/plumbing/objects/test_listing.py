from datetime import UTC, datetime

from hypothesis import given
from hypothesis import strategies as st

from penstock.plumbing.objects.listing import Entry, folder_pages
from penstock.plumbing.objects.port import ETag, ObjectMeta


def entry(name: str) -> Entry:
    return name, None if name.endswith("/") else ObjectMeta(name, 0, ETag(""), datetime.now(UTC))


@given(st.sets(st.from_regex("[ab]{1,3}/?", fullmatch=True)), st.text("ab/", max_size=3), st.integers(1, 4))
def test_pages_are_everything_behind_in_order_and_none_is_too_long(names: set[str], after: str, most: int) -> None:
    pages = list(folder_pages(map(entry, names), after, most))
    found = [sorted([*page.folders, *(meta.key for meta in page.objects)]) for page in pages]
    assert [name for page in found for name in page] == sorted(name for name in names if name > after)
    assert all(0 < len(page) <= most for page in found)
