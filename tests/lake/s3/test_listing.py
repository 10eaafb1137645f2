from hypothesis import given
from hypothesis import strategies as st

from penstock.lake.s3.listing import page_of

keys = st.lists(st.text(alphabet="ab/-", min_size=1, max_size=6), unique=True, max_size=12)


def test_a_common_prefix_counts_once_and_is_not_repeated() -> None:
    entries = [(key, None) for key in sorted(["a", "a/1", "a/2", "b/1", "c"])]
    first = page_of(entries, prefix="", after="", delimiter="/", limit=2)
    assert first == ([("a", None)], ["a/"], "a/")
    assert page_of(entries, prefix="", after="a/", delimiter="/", limit=9) == ([("c", None)], ["b/"], "")


@given(keys, st.text(alphabet="ab/-", max_size=3), st.sampled_from(["", "/", "-", "a/"]), st.integers(1, 4))
def test_pages_together_are_the_whole(names: list[str], prefix: str, delimiter: str, limit: int) -> None:
    entries = [(key, key) for key in sorted(names)]
    found: list[str] = []
    after, pages = "", 0
    while True:
        objects, prefixes, after = page_of(entries, prefix=prefix, after=after, delimiter=delimiter, limit=limit)
        assert 0 < len(objects) + len(prefixes) <= limit or not after
        found += sorted([key for key, _ in objects] + prefixes)
        pages += 1
        if not after:
            break
    assert found == sorted(set(_shown(names, prefix, delimiter)))


def _shown(names: list[str], prefix: str, delimiter: str) -> list[str]:
    """What S3's documentation says, word for word."""
    shown = []
    for key in names:
        if key.startswith(prefix):
            rest = key[len(prefix) :]
            shown.append(prefix + rest.split(delimiter)[0] + delimiter if delimiter and delimiter in rest else key)
    return shown
