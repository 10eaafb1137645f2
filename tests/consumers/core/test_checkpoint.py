import pytest

from penstock.consumers.core.checkpoint import Checkpoint
from penstock.kernel.errors import MalformedFrame
from penstock.kernel.ids import Clock, Offset
from penstock.messages.read_state import ReadState

STATES = {"b": ReadState(Offset(5)), "a": ReadState(Offset(9), Clock(7))}


def test_a_checkpoint_survives_its_encoding_which_is_one() -> None:
    checkpoint = Checkpoint(STATES, {"z": b"1", "y": b"2"})
    again = Checkpoint.decode(checkpoint.encode())
    assert again == checkpoint
    turned = Checkpoint(dict(reversed(STATES.items())), {"y": b"2", "z": b"1"})
    assert turned.encode() == checkpoint.encode()


def test_a_damaged_one_is_refused() -> None:
    encoded = Checkpoint(STATES).encode()
    for damaged in (b"", encoded[:-1], encoded.replace(b"\x01\x05", b"\x07\x05")):
        with pytest.raises(MalformedFrame):
            Checkpoint.decode(damaged)
