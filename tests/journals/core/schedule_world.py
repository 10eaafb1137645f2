"""What schedules begin with: a world on any kind of replica, and how to look at it. b0 is the first primary."""

from typing import Any

from penstock.journals.core.replica import Replica
from penstock.kernel.ids import NodeId
from penstock_lab.explorer_journal.world import JournalWorld, broker

B0, B1, B2, B3, B4 = map(broker, range(5))


def world(kind: type[Replica], *, is_synchronized: bool = True, **options: Any) -> JournalWorld:
    made = JournalWorld(replica_class=kind, is_checked=kind is Replica, **options)
    return made.start(synchronized=is_synchronized)


def mark(of: JournalWorld, name: NodeId) -> int:
    return of.sites[name].view.mark


def begin(of: JournalWorld, append: int) -> int:
    commit = of.answers[append].commit
    assert commit is not None
    return commit.begin
