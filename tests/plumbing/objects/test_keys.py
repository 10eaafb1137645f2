import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.kernel.errors import InvalidArgument
from penstock.plumbing.objects.keys import KEY_BYTES_MAX, check_key, check_prefix, is_key


@given(st.text(max_size=40))
def test_a_key_is_a_relative_path_that_stays_inside(name: str) -> None:
    if is_key(name):
        assert check_key(name) == name
        assert check_prefix(name + "/") == name + "/"
        segments = name.split("/")
        assert "" not in segments
        assert not {".", ".."} & set(segments)
        assert not any(ord(char) < 32 for char in name)
    else:
        with pytest.raises(InvalidArgument):
            check_key(name)


@pytest.mark.parametrize(
    ("key", "says"),
    [
        ("", "empty"),
        ("a//b", "empty segment"),
        ("a/..", "dot"),
        ("a\tb", "control character"),
        ("a\\b", "backslash"),
        ("e\u0301", "normal form C"),
        ("\ud800", "not valid Unicode"),
        ("a\uffff", "no character"),
        ("é" * 128, "segment is longer than 255"),
        ("/".join(["a" * 100] * 10), f"longer than {KEY_BYTES_MAX}"),
        (".penstock/x", "reserved"),
    ],
)
def test_a_refusal_says_what_is_wrong(key: str, says: str) -> None:
    with pytest.raises(InvalidArgument, match=says) as caught:
        check_key(key)
    assert caught.value.message.isascii()
    assert len(caught.value.message) < 300


def test_only_the_first_segment_is_reserved() -> None:
    assert is_key("a/.penstock/b")
    assert is_key(".penstock-data/b")
    assert not is_key(".penstock")
