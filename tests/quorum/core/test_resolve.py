"""P10 over one log: 1/1 barrier, 1/2 and 1/3 transactions, 1/4 rolls 1/3 back, 3/5 barrier, 3/6 pending."""

import pytest
from tests.quorum.core.cluster import entry_id

from penstock.kernel.ids import EntryId, Epoch, Offset
from penstock.quorum.core.log import Log
from penstock.quorum.core.reading.resolve import resolve
from penstock.quorum.records.entry import Barrier, ClientId, Rollback, Txn
from penstock.quorum.records.resolution import Resolution
from penstock.quorum.records.state import NO_SNAPSHOT

E1, E3 = Epoch(1), Epoch(3)


@pytest.fixture
def log() -> Log:
    log = Log(NO_SNAPSHOT, Offset(0), 1 << 20)
    old, new = Txn(E1, ClientId("c"), 1, b"x"), Txn(E3, ClientId("c"), 2, b"y")
    log.append((Barrier(E1), old, old, Rollback(E1, Offset(3)), Barrier(E3), new))
    return log


@pytest.mark.parametrize(
    ("entry", "committed", "answer"),
    [
        (entry_id(1, 2), 5, Resolution.COMMITTED),
        (entry_id(1, 3), 5, Resolution.ABORTED),  # doomed
        (entry_id(2, 3), 5, Resolution.ABORTED),  # another id stands there
        (entry_id(2, 9), 5, Resolution.ABORTED),  # displaced: a higher epoch is committed at a smaller offset
        (entry_id(1, 9), 5, Resolution.ABORTED),
        (entry_id(3, 6), 5, Resolution.PENDING),
        (entry_id(3, 6), 6, Resolution.COMMITTED),
        (entry_id(1, 2), 1, Resolution.PENDING),  # here, but not committed
        (entry_id(1, 3), 3, Resolution.ABORTED),
        (entry_id(2, 9), 4, Resolution.PENDING),  # epoch 3's barrier is here, but not committed
        (entry_id(3, 9), 6, Resolution.PENDING),
        (entry_id(4, 2), 6, Resolution.NOT_LEADER),
    ],
)
def test_what_became_of_it(log: Log, entry: EntryId, committed: int, answer: Resolution) -> None:
    assert resolve(log, E3, Offset(committed), entry) is answer


def test_below_the_window_nobody_guesses(log: Log) -> None:
    log.made_durable(log.end)
    log.trim(Offset(5))
    log.forget_before(Offset(4))
    assert resolve(log, E3, Offset(5), entry_id(1, 3)) is Resolution.EXPIRED
    assert resolve(log, E3, Offset(5), entry_id(1, 4)) is Resolution.COMMITTED
    assert resolve(log, E3, Offset(5), entry_id(1, 5)) is Resolution.ABORTED
