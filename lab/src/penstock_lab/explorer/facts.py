"""What the steps of nodes mean to the world: the facts which the `Ledger` keeps and judges.

A fact can be seen from outside a node: something that it wrote, committed, applied or said. Facts are values, so a step
which was taken once need not be taken again for its facts to be known.
"""

import msgspec

from penstock.kernel.ids import Epoch, NodeId, Offset
from penstock.quorum.records.answers import Fate
from penstock.quorum.records.entry import Entry
from penstock.quorum.records.member import Member

__all__ = [
    "AppendFact",
    "Applies",
    "CommitFact",
    "Crashes",
    "Exposes",
    "Fact",
    "Holds",
    "Knows",
    "Lands",
    "Opens",
    "Tells",
]

Entries = tuple[Entry, ...]


class Opens(msgspec.Struct, frozen=True):
    """A node begins to lead an epoch. Its log so far: `entries`, from offset `first` on."""

    node: NodeId
    epoch: Epoch
    first: int
    entries: Entries


class AppendFact(msgspec.Struct, frozen=True):
    """A leader appends entries at `first`; it has committed up to `commit`."""

    node: NodeId
    epoch: Epoch
    first: int
    entries: Entries
    commit: Offset


class Holds(msgspec.Struct, frozen=True):
    """The log of a node, after it changed at another node's request."""

    node: NodeId
    first: int
    entries: Entries


class CommitFact(msgspec.Struct, frozen=True):
    """A leader's commit index rises to `upto`, by the votes of these members, `needed` of which are a majority."""

    node: NodeId
    epoch: Epoch
    upto: int
    voters: tuple[Member, ...]
    needed: int


class Knows(msgspec.Struct, frozen=True):
    """A node takes its log up to `upto` for committed."""

    node: NodeId
    upto: int
    first: int
    entries: Entries  # up to `upto`


class Applies(msgspec.Struct, frozen=True):
    """A state machine is given entries from `first` on; those at `doomed` offsets never happened."""

    node: NodeId
    first: int
    entries: Entries
    doomed: tuple[Offset, ...]


class Lands(msgspec.Struct, frozen=True):
    """A snapshot is taken at this offset."""

    node: NodeId
    at: int


class Tells(msgspec.Struct, frozen=True):
    """A client receives the fate of its transaction."""

    node: NodeId
    fate: Fate
    request: int
    epoch: Epoch
    offset: Offset


class Exposes(msgspec.Struct, frozen=True):
    """A node serves reads, and has applied this much."""

    node: NodeId
    applied: int


class Crashes(msgspec.Struct, frozen=True):
    """A node's process ends, and another one starts on its disk."""

    node: NodeId


Fact = Opens | AppendFact | Holds | CommitFact | Knows | Applies | Lands | Tells | Exposes | Crashes
