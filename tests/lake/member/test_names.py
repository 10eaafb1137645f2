"""Names: as lakeFS allows them, and refused in words otherwise."""

from collections.abc import Callable

import pytest

from penstock.kernel.errors import InvalidArgument
from penstock.lake.member.names import check_branch, check_path, check_repository, check_tag


@pytest.mark.parametrize(
    ("check", "good", "bad"),
    [
        (check_repository, ["abc", "a-1", "0" * 63], ["", "ab", "-abc", "Abc", "a_b", "a" * 64, "abc\n"]),
        (check_branch, ["main", "a-b_c", "1"], ["", "-a", "a/b", "a b", "a" * 300]),
        (check_tag, ["v1", "v1.0+x"], ["", "a/b", ".x", "a" * 300]),
        (check_path, ["a", "a//b ", "é" * 512], ["", "a" * 1025, "é" * 513]),
    ],
)
def test_names(check: Callable[[str], str], good: list[str], bad: list[str]) -> None:
    for name in good:
        assert check(name) == name
    for name in bad:
        with pytest.raises(InvalidArgument):
            check(name)
