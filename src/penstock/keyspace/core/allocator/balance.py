"""Voluntary moves: from members with more than their fair share to members with less, and only if it is worth it.

Invariants: each move lowers the sum over members of load²/capacity, so moves come to an end; no move is made while
every member is within the tolerance of its fair share; no move breaks the spread over zones, or touches an item that is
still moving.
"""

from collections.abc import Collection
from itertools import islice
from typing import Final

from penstock.keyspace.core.allocator.ranking import Ranking, is_spread
from penstock.keyspace.core.allocator.state import AllocatorMember, Item

__all__ = ["find_moves"]

_ENDS: Final = 8  # of the fullest and of the emptiest members are tried with each other
_ROUNDING: Final = 1e-9  # what looks like a gain by less than this may be none: it would move to and fro for ever
_SCAN: Final = 1_000  # items of a member which are looked at for one to move


def find_moves(ranking: Ranking, moving: Collection[str], moves_max: int) -> list[Item]:
    """Retarget up to `moves_max` items; return them. Fewer than that: the rest is balanced."""
    moved: list[Item] = []
    while len(moved) < moves_max:
        item = _move_one(ranking, moving)
        if item is None:
            break
        moved.append(item)
    return moved


def _move_one(ranking: Ranking, moving: Collection[str]) -> Item | None:
    members = sorted((m for m in ranking.members.values() if m.capacity), key=lambda member: (member.fill, member.name))
    targets = [member for member in members if member.has_room][:_ENDS]
    for source in list(reversed(members))[:_ENDS]:
        for target in targets:
            if source.fill <= target.fill:
                break
            if ranking.is_above(source) or ranking.is_below(target):
                item = _movable(source, target, moving)
                if item is not None:
                    ranking.retarget(item, [target if m is source else m for m in item.target])
                    return item
    return None


def _movable(source: AllocatorMember, target: AllocatorMember, moving: Collection[str]) -> Item | None:
    gain = 2 * (source.fill - target.fill) / (1 / source.capacity + 1 / target.capacity)
    gain *= 1 - _ROUNDING
    for item in islice(source.wanted.values(), _SCAN):
        if item.load < gain and item.id not in moving and target not in item.target:
            after = [target if member is source else member for member in item.target]
            if is_spread(after) or not is_spread(item.target):
                return item
    return None
