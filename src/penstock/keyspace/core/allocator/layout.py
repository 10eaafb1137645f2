"""Where items, members and assignments lie in the KeySpace. Design: gazette.md §1.4, whose layout this is.

    {root}/items/{item}                              an item to serve; its value says by how many members
    {root}/members/{zone}#{suffix}                   a process which serves; under its lease
    {root}/assign/{item}#{zone}#{suffix}#{slot}      who serves what; under the member's lease; slot 0 is the primary
    {root}/suspects/{member}#{by}                    a member that another cannot reach: `suspicion.py`

What always holds: names have no character up to '#', so that the order of the keys is the order of (item, zone,
suffix), and a key is read in one way only.
"""

from typing import Final

import msgspec

from penstock.kernel.errors import InvalidArgument, LimitExceeded
from penstock.keyspace.core.limits import KEY_BYTES_MAX

__all__ = ["MEMBER_BYTES_MAX", "PRIMARY_SLOT", "SLOT_MAX", "Layout", "MemberId", "Place", "check_name"]

MEMBER_BYTES_MAX: Final = 255  # of a zone and a suffix together: keys of items leave room for the longest

PRIMARY_SLOT: Final = 0
SLOT_MAX: Final = 999
_SLOTS: Final = {str(slot): slot for slot in range(SLOT_MAX + 1)}  # one spelling each: another would be another key


class MemberId(msgspec.Struct, frozen=True, order=True, gc=False):
    """A process, and its zone: the processes that may fail together with it.

    >>> str(MemberId("eu-1", "brave-otter"))
    'eu-1#brave-otter'
    """

    zone: str
    suffix: str

    def __str__(self) -> str:
        return f"{self.zone}#{self.suffix}"

    @classmethod
    def parse(cls, name: str) -> "MemberId":
        """The id that `str` wrote."""
        zone, _, suffix = name.partition("#")
        return cls(check_name("zone", zone), check_name("suffix", suffix))


class Place(msgspec.Struct, frozen=True, gc=False):
    """What the key of an assignment says."""

    item: str
    member: str  # as str(MemberId)
    slot: int


class Layout:
    """The keys under one root."""

    def __init__(self, root: str) -> None:
        if not root or root.endswith("/"):
            raise InvalidArgument(f"{root!r} is no root: it must not be empty, nor end in '/'")
        self.root = root
        self.items = f"{root}/items/"
        self.members = f"{root}/members/"
        self.assignments = f"{root}/assign/"
        self.suspects = f"{root}/suspects/"

    def item_key(self, item: str) -> str:
        """The key of an item. `LimitExceeded` if the key of one of its assignments would be too long."""
        check_name("item", item)
        longest = len(f"{self.assignments}{item}##{SLOT_MAX}".encode()) + MEMBER_BYTES_MAX
        if longest > KEY_BYTES_MAX:
            raise LimitExceeded(
                f"{item[:80]!r} is {longest - KEY_BYTES_MAX} bytes too long: its assignments would have keys of "
                f"{longest} bytes, and at most {KEY_BYTES_MAX} are allowed",
                next_step="choose a shorter name",
            )
        return self.items + item

    def member_key(self, member: MemberId) -> str:
        name = f"{check_name('zone', member.zone)}#{check_name('suffix', member.suffix)}"
        if len(name.encode()) > MEMBER_BYTES_MAX:
            raise LimitExceeded(f"member {name[:80]!r} has more than {MEMBER_BYTES_MAX} bytes")
        return self.members + name

    def assignment_key(self, item: str, member: MemberId | str, slot: int) -> str:
        return f"{self.assignments}{item}#{member}#{slot}"

    def assignments_of(self, item: str) -> str:
        """The prefix of all assignments of one item."""
        return f"{self.assignments}{item}#"

    def parse_assignment(self, key: str) -> Place | None:
        """Return the parts of an assignment's key; None if the key is not one.

        >>> Layout("/j").parse_assignment("/j/assign/shop/orders#eu#otter#0")
        Place(item='shop/orders', member='eu#otter', slot=0)
        """
        parts = key[len(self.assignments) :].split("#")
        if len(parts) != 4 or not all(parts) or (slot := _SLOTS.get(parts[3])) is None:
            return None
        return Place(parts[0], f"{parts[1]}#{parts[2]}", slot)


def check_name(what: str, name: str) -> str:
    """The name itself, if it can be part of a key."""
    if not name:
        raise InvalidArgument(f"the {what} has no name")
    if not name.isprintable() or min(name) <= "#":
        raise InvalidArgument(f'{what} {name!r}: no blank and none of ! " # may be in it, and all must be printable')
    return name
