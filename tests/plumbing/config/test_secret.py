import copy
import json
import pickle
import traceback

import msgspec
import pytest

from penstock.plumbing.config import MASK, Config, Secret, Wire

VALUE = "correct-horse-battery"


@pytest.mark.parametrize(
    "shown",
    [
        repr(Secret(VALUE)),
        str(Secret(VALUE)),
        f"{Secret(VALUE)}",
        f"{Secret(VALUE):>30}",
        "%s %r" % (Secret(VALUE), Secret(VALUE)),  # noqa: UP031
        repr(Config(wire=Wire(token=Secret(VALUE)))),
        str([Secret(VALUE)]),
        msgspec.json.encode(Secret(VALUE), enc_hook=str).decode(),
        json.dumps({"token": Secret(VALUE)}, default=repr),
    ],
    ids=["repr", "str", "f-string", "padded", "percent", "inside a struct", "inside a list", "msgspec", "json"],
)
def test_no_way_of_printing_shows_it(shown: str) -> None:
    assert VALUE not in shown
    assert MASK in shown


@pytest.mark.parametrize("send", [pickle.dumps, copy.copy, copy.deepcopy, msgspec.json.encode, msgspec.msgpack.encode])
def test_it_is_not_serialised_unseen(send: object) -> None:
    assert callable(send)
    with pytest.raises(TypeError) as caught:
        send(Secret(VALUE))
    assert VALUE not in "".join(traceback.format_exception(caught.value))


def test_reveal_and_matches_are_the_only_ways_to_use_it() -> None:
    secret = Secret(VALUE)
    assert secret.reveal() == VALUE
    assert secret.matches(VALUE)
    assert not secret.matches("")
    assert not secret.matches(VALUE + "é")


def test_equal_secrets_are_equal_and_nothing_else_is() -> None:
    assert Secret("a") == Secret("a")
    assert len({Secret("a"), Secret("a"), Secret("b")}) == 2
    assert Secret("a") != "a"
    assert not Secret("")
