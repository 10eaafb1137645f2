"""Forms: the part `content` is found whatever stands around it, and bytes in it stay as they are."""

import doctest

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.kernel.errors import InvalidArgument
from penstock.lake.rest import multipart
from penstock.lake.rest.multipart import find_part


def form(*parts: tuple[str, bytes]) -> bytes:
    body = b""
    for name, data in parts:
        body += b'--edge\r\nContent-Disposition: form-data; name="%s"\r\nContent-Type: a/b\r\n\r\n' % name.encode()
        body += data + b"\r\n"
    return body + b"--edge--\r\n"


@given(st.binary().filter(lambda data: b"--edge" not in data))
def test_bytes_come_out_as_they_went_in(data: bytes) -> None:
    body = form(("other", b"x"), ("content", data), ("more", b"y"))
    assert find_part(body, b"edge", "content") == (data, "a/b")


@pytest.mark.parametrize("body", [b"", b"--edge--\r\n", form(("other", b"x")), b"nonsense"])
def test_a_form_without_the_part_is_refused(body: bytes) -> None:
    with pytest.raises(InvalidArgument):
        find_part(body, b"edge", "content")


def test_the_example_holds() -> None:
    assert doctest.testmod(multipart).failed == 0
