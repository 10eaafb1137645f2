"""What must hold of several disks at once, counted by brute force. Invariants of quorum-log.md:

I4 a commit has its votes on the disks · I22 for any majority of the final ensemble that might be fenced now, its
highest head has every committed entry · P10 and I14 a node resolves an entry as the committed log says.
"""

from collections.abc import Iterable, Mapping
from itertools import combinations

from penstock.kernel.ids import NodeId
from penstock.quorum.core.node import Node
from penstock.quorum.records.member import Ensemble, majority
from penstock.quorum.records.resolution import Resolution
from penstock_lab.explorer.disk_image import DiskImage
from penstock_lab.explorer.facts import CommitFact, Fact
from penstock_lab.explorer.ledger import Ledger

__all__ = ["check_electable", "check_resolutions", "check_votes"]

Disks = Mapping[NodeId, DiskImage]


def check_votes(facts: Iterable[Fact], disks: Disks) -> None:
    """I4: what a leader commits is durable on a majority."""
    for fact in facts:
        if isinstance(fact, CommitFact):
            holders = [each.node for each in fact.voters if disks[each.node].holds(fact.epoch, fact.upto)]
            has_quorum = len(holders) >= fact.needed
            assert has_quorum, f"I4: {fact.node} commits {fact.epoch}/{fact.upto}, which is durable on {holders}"


def check_electable(final: Ensemble, ledger: Ledger, disks: Disks) -> None:
    """I22: any election that could be held now would choose a leader that has every committed entry."""
    committed = ledger.committed
    for quorum in combinations(final, majority(len(final))):
        chosen = max(quorum, key=lambda each: disks[each.node].head).node
        first, entries = disks[chosen].log()
        has_all = entries[: len(committed) + 1 - first] == committed[first - 1 :]
        names, head = [each.node for each in quorum], disks[chosen].head
        assert has_all, f"I22: fenced now, {names} would elect {chosen} at {head}; {len(committed)} are committed"


def check_resolutions(ledger: Ledger, node: Node) -> None:
    """P10: COMMITTED and ABORTED are true, and a leader whose barrier is committed knows all of prior epochs."""
    name = node.replica.member.node
    knows_all = node.leader is not None and node.leader.has_barrier
    for entry in ledger.txns():
        answer, really = node.resolve(entry), ledger.verdict(entry)
        is_true = answer is really or answer not in (Resolution.COMMITTED, Resolution.ABORTED)
        assert is_true, f"I14: {name} resolves {entry} to {answer.value}; it is {really.value}"
        is_settled = answer is not Resolution.PENDING or not knows_all or entry.epoch >= node.epoch
        assert is_settled, f"P10: {name} leads {node.epoch}, its barrier is committed, and {entry} is pending"
