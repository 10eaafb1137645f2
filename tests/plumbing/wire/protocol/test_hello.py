import contextlib

import msgspec
import pytest
import rich
from hypothesis import given
from hypothesis import strategies as st

from penstock.kernel.errors import MalformedFrame, Unauthenticated, VersionMismatch
from penstock.kernel.version import Release
from penstock.plumbing.wire.limits import WireLimits
from penstock.plumbing.wire.protocol.hello import (
    HELLO_CODEC,
    METHODS_MAX,
    VERSION_MAX,
    WELCOME_CODEC,
    Welcome,
    WireHello,
    agree,
    check_welcome,
)

NEW = ("release", "level_min", "level_max")
HELLO = WireHello.of(WireLimits(), "secret-token")
WELCOME = Welcome.of(WireLimits(), 1, ["echo"])


def test_the_highest_common_version_is_chosen() -> None:
    newer = msgspec.structs.replace(HELLO, version_max=99)
    assert agree(newer, "secret-token") == VERSION_MAX


@pytest.mark.parametrize(("low", "high"), [(0, 0), (2, 5), (7, 3)])
def test_without_a_common_version_both_ranges_are_named(low: int, high: int) -> None:
    with pytest.raises(VersionMismatch, match=f"{low} to {high}.*1 to {VERSION_MAX}"):
        agree(msgspec.structs.replace(HELLO, version_min=low, version_max=high), None)


@pytest.mark.parametrize("token", ["", "wrong", "secret-toke", "secret-token ", "sécret-token", "\0"])
def test_a_wrong_token_is_refused(token: str) -> None:
    with pytest.raises(Unauthenticated) as caught:
        agree(msgspec.structs.replace(HELLO, token=token), "secret-token")
    assert "secret" not in str(caught.value.to_record())


def test_the_right_token_is_accepted_and_none_is_asked_for_where_none_is_set() -> None:
    assert agree(HELLO, "secret-token") == 1
    assert agree(msgspec.structs.replace(HELLO, token=""), None) == 1


def test_the_token_is_in_no_representation(capsys: pytest.CaptureFixture[str]) -> None:
    rich.print(HELLO)
    assert "secret" not in f"{HELLO!r} {HELLO} {capsys.readouterr().out}"


@pytest.mark.parametrize("change", [{"protocol": "http"}, {"frame_bytes_max": 0}, {"stream_window_bytes": -1}])
def test_a_hello_of_something_else_is_malformed(change: dict[str, object]) -> None:
    with pytest.raises(MalformedFrame):
        agree(msgspec.structs.replace(HELLO, **change), None)


@pytest.mark.parametrize(
    "change",
    [
        {"methods": ["m"] * (METHODS_MAX + 1)},
        {"frame_bytes_max": 1},
        {"request_bytes_max": 0},
        {"streams_max": 0},
        {"requests_max": -5},
        {"silence_ms": 0},
    ],
)
def test_a_welcome_no_server_would_give_is_malformed(change: dict[str, object]) -> None:
    check_welcome(WELCOME)
    with pytest.raises(MalformedFrame):
        check_welcome(msgspec.structs.replace(WELCOME, **change))


def test_a_version_which_was_not_offered_is_refused() -> None:
    with pytest.raises(VersionMismatch):
        check_welcome(msgspec.structs.replace(WELCOME, version=2))


def test_keys_a_later_version_adds_are_ignored() -> None:
    later = msgspec.msgpack.encode({**msgspec.to_builtins(HELLO), "colour": "green"})
    assert HELLO_CODEC.decode(later) == HELLO


@given(st.binary(max_size=200))
def test_any_bytes_are_a_hello_or_malformed(data: bytes) -> None:
    for codec in (HELLO_CODEC, WELCOME_CODEC):
        with contextlib.suppress(MalformedFrame):
            codec.decode(data)


def test_each_side_names_its_release_and_its_levels() -> None:
    for said in (HELLO, WELCOME):
        assert (said.release, said.level_min, said.level_max) == Release()


def test_a_peer_from_before_levels_is_understood() -> None:
    old = {name: value for name, value in msgspec.to_builtins(HELLO).items() if name not in NEW}
    assert HELLO_CODEC.decode(msgspec.msgpack.encode(old)).level_max == 0
    old = {name: value for name, value in msgspec.to_builtins(WELCOME).items() if name not in NEW}
    assert WELCOME_CODEC.decode(msgspec.msgpack.encode(old)).release == ""
