from penstock.kernel.ids import Clock, Offset
from penstock.messages.message import Message
from penstock.messages.sequencing.ring import Ring, Span
from penstock.messages.uuid import ProducerId


def message(number: int, size: int = 1) -> Message:
    return Message(Offset(number), Offset(number + 1), ProducerId(1), Clock(number), 1, bytes(size))


def test_the_oldest_message_goes_first_whoever_it_belongs_to() -> None:
    ring, one, two = Ring(length_max=3), Span(), Span()
    for number, span in enumerate((one, two, one, one)):
        ring.add(span, message(number))
    ring.check()
    assert [each.begin for each in one] == [2, 3]
    assert [each.begin for each in two] == [1]


def test_bytes_are_bounded_too() -> None:
    ring, span = Ring(length_max=100, bytes_max=10), Span()
    for number in range(5):
        ring.add(span, message(number, size=4))
        ring.check()
    assert [each.begin for each in span] == [3, 4]
    ring.add(span, message(9, size=11))
    assert not span, "too large to be kept at all"
    assert (len(ring), ring.bytes) == (0, 0)


def test_what_no_span_holds_is_let_go_once_it_is_the_oldest() -> None:
    ring, one, two = Ring(), Span(), Span()
    for number, span in enumerate((one, two, one)):
        ring.add(span, message(number))
    one.clear()
    ring.release()
    assert len(ring) == 2, "the message of two is in front"
    two.clear()
    ring.release()
    assert (len(ring), ring.bytes) == (0, 0)
