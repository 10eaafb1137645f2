"""Bags of letters: sets, with lanes in order."""

from penstock.kernel.ids import EntryId, Epoch, Incarnation, NodeId, Offset
from penstock.quorum.records.messages import AddEntryRequest, AddEntryResponse, FenceRequest
from penstock_lab.explorer.happenings import Happening
from penstock_lab.explorer.interned import Interned
from penstock_lab.explorer.letters import Letter, Standing
from penstock_lab.explorer.mailbag import Mailbag

A, B = NodeId("A"), NodeId("B")
ME = Incarnation("i1")
ONE = Epoch(1)
LEADING = Standing(ONE, ONE, ONE)
FOLLOWING = Standing(ONE, ONE, Epoch(0))


def entries(offset: int) -> Letter:
    return Letter(A, B, AddEntryRequest(ONE, ME, EntryId(ONE, Offset(offset)), ()))


def mailbag() -> tuple[Mailbag, list[int]]:
    """A bag with three letters from A to B, and one back."""
    standings = Interned[Standing]()
    mail = Mailbag({A: 0, B: 1}, Interned[Happening](), standings)
    back = Letter(B, A, AddEntryResponse(ONE, ME, EntryId(ONE, Offset(1))))
    letters = [entries(2), entries(1), Letter(A, B, FenceRequest(ONE, ME)), back]
    standings.id_of(LEADING)
    standings.id_of(FOLLOWING)
    return mail, [mail.letters.id_of(letter) for letter in letters]


def test_a_lane_is_delivered_in_turn() -> None:
    mail, (second, first, fence, back) = mailbag()
    assert mail.in_turn((second, first, fence, back)) == (first, fence, back)
    assert mail.in_turn((second,)) == (second,)


def test_a_letter_is_in_a_bag_once() -> None:
    mail, (second, first, _, _) = mailbag()
    assert mail.add((second,), (first, second), lambda party: party) == (second, first)
    assert mail.add((second,), (second,), lambda party: party) == (second,)


def test_dead_letters_are_sorted_out_and_not_put_in() -> None:
    mail, (_, first, _, back) = mailbag()

    def deposed(_party: int) -> int:
        return 1  # both follow

    assert mail.sort_out((first, back), lambda party: party) == (first, back), "A leads, B follows"
    assert mail.sort_out((first, back), deposed) == (first,)
    assert mail.add((first,), (back,), deposed) == (first,)
    mail.keeps_dead = True
    assert mail.sort_out((first, back), deposed) == (first, back)
