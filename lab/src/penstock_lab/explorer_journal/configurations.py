"""Small worlds by name. The first three are small enough to be searched to the end in seconds."""

from penstock_lab.explorer_journal.actions import Budget
from penstock_lab.explorer_journal.model import JournalSetup

__all__ = ["CONFIGURATIONS"]

CONFIGURATIONS: dict[str, JournalSetup] = {
    "sync": JournalSetup(
        "R2 N2 from an unsynchronized journal: the first sync, and an append",
        Budget(appends=1),
        size=2,
        is_synchronized=False,
    ),
    "break": JournalSetup(
        "R2 N2 with an append in flight: a broken connection, another append",
        Budget(appends=1, cuts=1, pulses=1),
        size=2,
        in_flight=1,
    ),
    "two-in-flight": JournalSetup(
        "R2 N2 with two appends in flight: a broken connection",
        Budget(appends=0, cuts=1, pulses=1),
        size=2,
        in_flight=2,
    ),
    "one-replica": JournalSetup(
        "R1 N2: a crash, an expiry, a reset-head, two appends",
        Budget(appends=2, crashes=1, expiries=1, adds=1, resets=1, pulses=1, persists=1),
        replication=1,
        size=2,
    ),
    "first-sync": JournalSetup(
        "R2 N3 from an unsynchronized journal: a crash or a broken connection, one append",
        Budget(appends=1, crashes=1, cuts=1, adds=1, pulses=1),
        is_synchronized=False,
    ),
    "expiry": JournalSetup(
        "R2 N3 with an append in flight: the primary or its peer becomes a zombie",
        Budget(appends=0, expiries=1, adds=1),
        in_flight=1,
    ),
    "fail-over": JournalSetup(
        "R2 N3 with an append in flight: an expiry, a broken connection, another append",
        Budget(appends=1, expiries=1, cuts=1, adds=1, pulses=1),
        in_flight=1,
    ),
    "crash": JournalSetup(
        "R2 N3 with an append in flight: a crash, a broken connection, a lost answer of the KeySpace",
        Budget(appends=1, crashes=1, cuts=1, adds=1, lost_answers=1, pulses=1),
        in_flight=1,
    ),
    "zombie-returns": JournalSetup(
        "R2 N3 with an append in flight: an expiry, the lease regained, added again",
        Budget(appends=1, expiries=1, regains=1, adds=2, removes=1, pulses=1, batches=True),
        in_flight=1,
    ),
    "restart": JournalSetup(
        "R2 N3 fsync with an append in flight: a crash, a restart with the Spool",
        Budget(appends=1, crashes=1, restarts=1, adds=2, pulses=1),
        is_kept=True,
        in_flight=1,
    ),
    "quoting": JournalSetup(
        "R2 N3 with an append in flight: a zombie, and a client which checks registers",
        Budget(appends=1, expiries=1, adds=1, barriers=1, cuts=1),
        in_flight=1,
    ),
}
