from typing import Literal

import msgspec
import pytest

from penstock.kernel.errors import ConnectionLost, DeadlineExceeded, InvalidArgument, LimitExceeded, Written
from penstock.plumbing.http.limits import HttpLimits
from penstock.plumbing.http.protocol.incoming import Incoming
from penstock.plumbing.http.request import Request


class Listing(msgspec.Struct, frozen=True):
    prefix: str = ""
    amount: int = 100
    order: Literal["up", "down"] = "up"
    ids: list[int] = []


class Exact(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    block: bool = False


def request(
    *chunks: bytes | str, query: str = "", headers: dict[str, str] | None = None, limits: HttpLimits | None = None
) -> Request:
    body = Incoming()
    for chunk in chunks:
        if isinstance(chunk, str):
            body.lost()
        else:
            body.feed(chunk)
    if not any(isinstance(chunk, str) for chunk in chunks):
        body.end()
    fields = headers if headers is not None else {"transfer-encoding": "chunked"}
    raw = [(name.encode(), value.encode("latin-1")) for name, value in fields.items()]
    return Request("PUT", "/x", query, raw, body, limits or HttpLimits(), "1", peer="10.0.0.1:5")


def test_a_query_is_typed() -> None:
    found = request(query="prefix=a%2Fb+c&amount=7&order=down&ids=1&ids=2&other=x").query_as(Listing)
    assert found == Listing("a/b c", 7, "down", [1, 2])
    assert request().query_as(Listing) == Listing()


@pytest.mark.parametrize(
    ("query", "reason"),
    [
        ("amount=many", r"Expected `int`, got `str` - at `\$.amount`"),
        ("order=sideways", r"Invalid enum value 'sideways' - at `\$.order`"),
        ("amount=1&amount=2", "'amount' is given twice"),
        ("prefix=%ff", "not UTF-8"),
        ("ids=1&ids=x", r"at `\$.ids\[1\]`"),
    ],
)
def test_a_bad_query_says_which_parameter(query: str, reason: str) -> None:
    with pytest.raises(InvalidArgument, match=reason):
        request(query=query).query_as(Listing)


def test_unknown_parameters_are_refused_if_the_struct_says_so() -> None:
    assert request(query="block=true").query_as(Exact).block
    with pytest.raises(InvalidArgument, match="unknown field `blok`"):
        request(query="blok=true").query_as(Exact)


async def test_a_body_is_a_stream() -> None:
    one = request(b"ab", b"", b"c")
    assert [chunk async for chunk in one.body()] == [b"ab", b"c"]
    assert one.is_body_read
    assert one.bytes_read == 3


async def test_a_body_above_the_limit_is_refused_before_and_while_reading() -> None:
    with pytest.raises(LimitExceeded, match="has 11 bytes; at most 10"):
        await request(headers={"content-length": "11"}).read(10)
    with pytest.raises(LimitExceeded, match="more than the 3 bytes"):
        await request(b"ab", b"cd").read(3)


async def test_a_client_which_goes_away_or_falls_silent_has_written_nothing() -> None:
    with pytest.raises(ConnectionLost) as gone:
        await request(b"ab", "disconnect").read()
    assert gone.value.written is Written.NO
    silent = Incoming()
    silent.late(1)
    with pytest.raises(DeadlineExceeded, match="no byte of the body came for 1 ms"):
        await Request("PUT", "/x", "", [(b"content-length", b"1")], silent, HttpLimits(), "1").read()


async def test_json_is_typed_and_says_what_does_not_fit() -> None:
    assert await request(b'{"prefix":"a"}').json(Listing) == Listing("a")
    for body, reason in [(b"{", "truncated"), (b'{"amount":"x"}', r"\$.amount"), (b'{"prefix":"\xff"}', "UTF-8|utf")]:
        with pytest.raises(InvalidArgument, match=reason):
            await request(body).json(Listing)


def test_repeated_headers_are_joined() -> None:
    one = request(headers={"x-a": " 1 ", "content-length": "0"})
    one.raw_headers.append((b"x-a", b"2"))
    assert one.header("x-a") == "1,2"
    assert one.header("x-b", "none") == "none"
    assert one.is_body_read


@pytest.mark.parametrize("length", ["-1", "1.5", "", "٣", "1,1"])
def test_a_bad_content_length_is_refused(length: str) -> None:
    with pytest.raises(InvalidArgument, match="content-length"):
        _ = request(headers={"content-length": length.encode().decode("latin-1")}).content_length
