"""Credentials: the pair, a token of it, and nothing else."""

import base64

import pytest
from tests.lake.rest.clocks import ClockAt

from penstock.kernel.errors import Unauthenticated
from penstock.lake.rest.credentials import Credentials
from penstock.plumbing.http.limits import HttpLimits
from penstock.plumbing.http.protocol.incoming import Incoming
from penstock.plumbing.http.request import Request


def request(authorization: str) -> Request:
    headers = [(b"authorization", authorization.encode())]
    return Request("GET", "/api/v1/config", "", headers, Incoming(), HttpLimits(), "id")


def basic(pair: str) -> str:
    return "Basic " + base64.b64encode(pair.encode()).decode()


def test_the_pair_and_its_tokens_pass() -> None:
    credentials = Credentials("key", "secret")
    credentials.check(request(basic("key:secret")))
    credentials.check(request(basic("key:secret").replace("Basic", "basic")))
    token, ends_at = credentials.login("key", "secret")
    credentials.check(request(f"Bearer {token}"))
    Credentials("key", "secret").check(request(f"Bearer {token}"))  # another member with the same pair
    assert token.startswith(f"{ends_at}.")


@pytest.mark.parametrize("wrong", ["", "Basic", "Basic ?", basic("key:other"), basic("key"), "Bearer", "Bearer 1.x"])
def test_nothing_else_does(wrong: str) -> None:
    with pytest.raises(Unauthenticated):
        Credentials("key", "secret").check(request(wrong))


def test_tokens_end_and_cannot_be_prolonged() -> None:
    clock = ClockAt(1000)
    credentials = Credentials("key", "secret", clock)
    token, ends_at = credentials.login("key", "secret")
    later = token.replace(str(ends_at), str(ends_at + 1))
    with pytest.raises(Unauthenticated):
        credentials.check(request(f"Bearer {later}"))
    clock.now_s = ends_at + 1
    with pytest.raises(Unauthenticated):
        credentials.check(request(f"Bearer {token}"))
    with pytest.raises(Unauthenticated):
        credentials.login("key", "wrong")
