"""Names of journals: clean relative paths of tokens."""

from pathlib import PurePosixPath

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.journals.records.names import check_journal_name
from penstock.kernel.errors import InvalidArgument


@pytest.mark.parametrize(
    "name", ["a/b/c", "abcd", "region=eu/part-000", "größe/journal", "a.b/c%20d", "/".join(["x" * 127] * 4)]
)
def test_good_names(name: str) -> None:
    check_journal_name(name)


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("abc", "has 3 characters: expected 4 to 512"),
        ("x" * 513, "has 513 characters"),
        ("abc/" + "x" * 256, "has 256 bytes, at most 255 are allowed between slashes"),
        ("abc/" + "ö" * 128, "has 256 bytes"),
        ("/abc/d", "begins with '/'"),
        ("abc/", "ends with '/'"),
        ("ab//cd", "did you mean 'ab/cd'"),
        ("ab/../cd", "not a clean path"),
        ("../abcd", "not a clean path"),
        ("./abcd", "not a clean path"),
        ("ab cd", "' ' at position 2"),
        ("ab#cd", "'#' at position 2"),
        ("ab\ncd", "at position 2"),
    ],
)
def test_bad_names_say_what_is_wrong(name: str, says: str) -> None:
    with pytest.raises(InvalidArgument) as refused:
        check_journal_name(name)
    assert says in str(refused.value)
    assert len(str(refused.value)) < 300


@given(st.text(max_size=40) | st.text("ab/.#% \n-=", max_size=12))
def test_a_name_is_a_clean_path_of_files_or_is_refused(name: str) -> None:
    try:
        check_journal_name(name)
    except InvalidArgument:
        return
    assert PurePosixPath(name).parts == tuple(name.split("/"))
    assert not {"", ".", ".."} & set(name.split("/"))
    assert min(name) > "#"
