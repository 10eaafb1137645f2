"""All letters, and the bags of letters on their way in some world.

A bag is a set: a letter sent twice is in it once, which is the same as losing one of the two. Letters of one lane are
delivered in turn; how many may overtake, and how many come twice, is the setup's business.
"""

from collections.abc import Callable, Iterable
from typing import NamedTuple

from penstock.kernel.ids import NodeId
from penstock_lab.explorer.happenings import DeliveryHappened, Happening
from penstock_lab.explorer.interned import Interned
from penstock_lab.explorer.letters import Lane, Letter, Place, Standing, is_dead, lane_of

__all__ = ["Bag", "MailEnvelope", "Mailbag"]

Bag = tuple[int, ...]  # letters, by number, in order


class MailEnvelope(NamedTuple):
    """What a world wants to know of a letter, worked out once."""

    sender: int
    to: int
    happening: int
    lane: int  # -1: none
    place: Place | None


class Mailbag:
    """The table of letters and bags."""

    def __init__(
        self, parties: dict[NodeId, int], happenings: Interned[Happening], standings: Interned[Standing]
    ) -> None:
        self.letters = Interned[Letter]()
        self.bags = Interned[Bag]()
        self.keeps_dead = False  # drop nothing, for comparison
        self._parties = parties
        self._happenings = happenings
        self._standings = standings
        self._lanes = Interned[Lane]()
        self._envelopes: list[MailEnvelope] = []
        self._dead: dict[tuple[int, int, int], bool] = {}

    def envelope(self, letter: int) -> MailEnvelope:
        known = self._envelopes
        while len(known) <= letter:
            each = self.letters[len(known)]
            lane, place = lane_of(each) or (None, None)
            number = -1 if lane is None else self._lanes.id_of(lane)
            happening = self._happenings.id_of(DeliveryHappened(each))
            known.append(MailEnvelope(self._parties[each.sender], self._parties[each.to], happening, number, place))
        return known[letter]

    def in_turn(self, bag: Bag) -> Bag:
        """The first letter of every lane, and all which are in none."""
        firsts: dict[int, tuple[Place, int]] = {}
        found: list[int] = []
        for letter in bag:
            _, _, _, lane, place = self.envelope(letter)
            if place is None:
                found.append(letter)
            else:
                first = firsts.get(lane)
                if first is None or (place, letter) < first:
                    firsts[lane] = (place, letter)
        found += [letter for _, letter in firsts.values()]
        return tuple(sorted(found))

    def add(self, bag: Bag, sent: Iterable[int], standing_of: Callable[[int], int]) -> Bag:
        """Put in a sent letter, unless it is dead already. `standing_of` rates a party."""
        fresh = [letter for letter in sent if letter not in bag and not self._is_dead(letter, standing_of)]
        return tuple(sorted({*bag, *fresh})) if fresh else bag

    def sort_out(self, bag: Bag, standing_of: Callable[[int], int]) -> Bag:
        """Take out the dead letters, after a party's state changed."""
        return tuple([letter for letter in bag if not self._is_dead(letter, standing_of)])

    def _is_dead(self, letter: int, standing_of: Callable[[int], int]) -> bool:
        if self.keeps_dead:
            return False
        envelope = self.envelope(letter)
        sender, to = standing_of(envelope.sender), standing_of(envelope.to)
        key = (letter, sender, to)
        known = self._dead.get(key)
        if known is None:
            message, standings = self.letters[letter].message, self._standings
            known = self._dead[key] = is_dead(message, standings[sender], standings[to])
        return known
