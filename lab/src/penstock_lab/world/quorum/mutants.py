"""Mutants of the quorum log's shells and clients: each breaks a rule in the code that we ship, and a schedule sees it.

The rules are those that earlier tests did not hold (defects Q-1 to Q-9, Q-14 and Q-17), and those that the world found.
"""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Final

import msgspec

from penstock.kernel.ids import Offset
from penstock.keyspace.core.transaction import PutKey
from penstock.quorum.client import quorum as client
from penstock.quorum.client.appends import Appends
from penstock.quorum.client.finder import LeaderFinder
from penstock.quorum.client.quorum import QuorumLog
from penstock.quorum.core.leader import Leader
from penstock.quorum.core.machines import state_machine
from penstock.quorum.core.machines.pairs import PairLimits
from penstock.quorum.core.machines.state_machine import Applier, Duplicate
from penstock.quorum.node.figures import QuorumFigures
from penstock.quorum.node.host import ReplicaHost
from penstock.quorum.node.lost_and_found import LostAndFound
from penstock.quorum.operator import shard_operator
from penstock.quorum.operator.operator_server import OperatorServer
from penstock.quorum.operator.shard_operator import SHARDS, encode_metadata
from penstock.quorum.records.entry import Txn
from penstock.quorum.records.metadata import Metadata
from penstock_lab.sim.workloads import quorum_broken as broken

__all__ = ["SHELL_MUTANTS", "SMALL_WINDOW", "ShellMutant", "replaced"]

Places = Mapping[tuple[Any, str], Any]
_encode = msgspec.msgpack.Encoder().encode


class ShellMutant(msgspec.Struct, frozen=True):
    """Which rule is broken, by what, and the schedule that catches it."""

    rule: str
    schedule: str
    places: Places
    seed: int = 1


@contextmanager
def replaced(places: Places) -> Iterator[None]:
    """Put other attributes into classes and modules, for a while."""
    before = {place: vars(place[0])[place[1]] for place in places}
    for (owner, name), value in places.items():
        setattr(owner, name, value)
    try:
        yield
    finally:
        for (owner, name), value in before.items():
            setattr(owner, name, value)


def _nothing(*_: Any, **__: Any) -> None:
    return None


async def _nothing_later(*_: Any, **__: Any) -> None:
    return None


# Nodes


async def _shows_everything(self: ReplicaHost, first: Offset, bytes_max: int) -> tuple[Offset, tuple[Any, ...]]:
    applied = self.node.replica.applied
    if first > applied:
        return first, ()
    entries = await self.storage.read(first, applied, bytes_max)
    numbered = tuple((Offset(offset), entry) for offset, entry in enumerate(entries, first))
    return Offset(first + len(entries)), numbered


def _rules_without_results(self: Applier, txn: Txn) -> Any:
    ruling = _ruling(self, txn)
    return Duplicate(ruling.entry, None) if isinstance(ruling, Duplicate) else ruling


_ruling = Applier._ruling

# Operators


async def _makes_over(self: OperatorServer, shard: str, nodes: list[Any]) -> Metadata:
    metadata = Metadata(tuple([await self._member(shard, node) for node in nodes]))
    await self._keyspace.transact((), [PutKey(SHARDS + shard, encode_metadata(metadata))])
    self._care_for(shard)
    return metadata


# Clients


async def _begins_at_one(self: QuorumLog, *, timeout: float = 5.0) -> None:
    if self._seq is None:
        self._seq = 0


async def _asks_for_newer_only(self: Appends) -> bool:
    return await self._finder.find_newer() is not None


async def _stays(self: Appends) -> bool:
    return False


SMALL_WINDOW: Final[Places] = {(state_machine, "PairLimits"): lambda: PairLimits(of_client_max=4)}


def _operator(kind: type) -> Places:
    return {(shard_operator, "Operator"): kind}


def _always(value: Any) -> Callable[..., Any]:
    return lambda *_: value


SHELL_MUTANTS: Final[dict[str, ShellMutant]] = {
    "sends-copies-as-new": ShellMutant(
        "Q-1: a client says which copies are repeats", "x8", {(client, "Sending"): broken.SendsCopiesAsNew}
    ),
    "answers-copies": ShellMutant(
        "Q-1: the answer to a repeat is about its pair", "x8", {(Leader, "limbo_class"): broken.AnswersCopies}
    ),
    "believes-refusals": ShellMutant(
        "Q-2, Q-14: a refused copy says nothing of one sent before",
        "full",
        {(client, "Sending"): broken.BelievesRefusals},
    ),
    "begins-at-one": ShellMutant(
        "Q-4: a client_id that comes back begins above its numbers",
        "client-restarts",
        {(QuorumLog, "begin_session"): _begins_at_one},
    ),
    "stays-with-the-silent": ShellMutant(
        "Q-7: a client leaves a silent leader", "b2-frozen", {(Appends, "_is_replaced"): _stays}
    ),
    "asks-for-newer-only": ShellMutant(
        "O15: appends follow a leader that a read has found",
        "b2-frozen",
        {(Appends, "_is_replaced"): _asks_for_newer_only},
        seed=2,
    ),
    "keeps-the-stalled": ShellMutant(
        "Q-8: a leader without its majority is replaced", "x13", _operator(broken.KeepsStalled)
    ),
    "elects-the-stalled": ShellMutant(
        "O13: a stalled leader is no candidate", "x13", _operator(broken.ElectsStalled), seed=4
    ),
    "counts-own-pauses": ShellMutant(
        "Q-8: an operator's own pause deposes no leader",
        "b2-operator",
        _operator(broken.with_watch(broken.CountsOwnPauses)),
    ),
    "shows-copies": ShellMutant(
        "Q-9: a subscription shows each transaction once", "x9", {(Applier, "has_effect"): _always(True)}
    ),
    "answers-without-results": ShellMutant(
        "Q-9: an answer has the same shape after a repeat", "x9", {(Applier, "_ruling"): _rules_without_results}, seed=3
    ),
    "makes-over": ShellMutant(
        "Q-17: no shard is made over a living one", "made-again", {(OperatorServer, "create"): _makes_over}
    ),
    "stays-with-a-follower": ShellMutant(
        "Q-17: appends go to the leader that a node names", "b13", {(Appends, "_go_to"): _nothing}
    ),
    "reads-stay-with-a-follower": ShellMutant(
        "Q-17: reads go to the leader that a node names",
        "x13",
        {(LeaderFinder, "failed"): _nothing, (LeaderFinder, "hint"): _nothing},
    ),
    "shows-rolled-back": ShellMutant(
        "Q-17: subscriptions show nothing that was rolled back",
        "rolled-back",
        {(ReplicaHost, "entries_from"): _shows_everything},
    ),
    "no-back-pressure": ShellMutant(
        "Q-17: a client waits while its window is full", "window", {(Appends, "_wait_for_room"): _nothing_later}
    ),
    "forgets-the-lost": ShellMutant(
        "Q-17: displaced transactions are kept for people", "lost-suffix", {(LostAndFound, "_write"): _nothing}
    ),
    "no-lag": ShellMutant(
        "Q-17: the figures show how far followers are behind", "figures", {(QuorumFigures, "lag"): property(_always(0))}
    ),
    "no-limbo": ShellMutant(
        "Q-17: the figures show what waits", "figures", {(QuorumFigures, "limbo_length"): property(_always(0))}
    ),
}
