"""Mutants of the journal: each breaks one rule of journals.md in a few lines, and must be caught.

The first eighteen are the ones the design names, the next is the compare it calls a safety rule; the last five break
what the decisions 301 to 303 and 306 added. Their own `check` is not asked: the world's checkers must see what they do.
"""

from dataclasses import dataclass

from penstock.journals.core.replica import Replica
from penstock_lab.sim.workloads import journal_broken as broken

__all__ = ["MUTANTS", "JournalMutant", "replica_with"]


@dataclass(frozen=True)
class JournalMutant:
    """Which rule is broken, and by which replica."""

    rule: str
    replica: type[Replica]


def replica_with(**parts: type) -> type[Replica]:
    """A replica made of other parts, named as it names them: `spool_class`, `lead_class` and so on."""
    return type("MutantReplica", (Replica,), parts)


MUTANTS: dict[str, JournalMutant] = {
    "readers-at-adopt": JournalMutant(
        "J9: readers see what is below the mark", replica_with(spool_class=broken.ShowsAtAdopt)
    ),
    "persists-everything": JournalMutant(
        "J11: nothing undecided is uploaded", replica_with(spool_class=broken.UploadsAll)
    ),
    "definite-errors": JournalMutant("J12: behind a proposal an error is not definite", broken.ReportsErrors),
    "majority-acks": JournalMutant("J7: every member acknowledges", replica_with(pipeline_class=broken.MajorityAcks)),
    "old-epochs-applied": JournalMutant(
        "J4: a promise ends all older streams", replica_with(replicate_class=broken.AppliesOldEpochs)
    ),
    "largest-end": JournalMutant(
        "J4: the smallest end of the participants", replica_with(lead_class=broken.LargestEnd)
    ),
    "largest-end-of-anybody": JournalMutant(
        "J4: only participants count", replica_with(lead_class=broken.LargestEndOfAnybody)
    ),
    "own-registers": JournalMutant(
        "J4: the registers at the point of the sync", replica_with(lead_class=broken.OwnRegisters)
    ),
    "certifies-early": JournalMutant(
        "J4: certified when all have adopted", replica_with(pipeline_class=broken.CertifiesEarly)
    ),
    "marks-at-sync": JournalMutant(
        "J4: no mark before the certification", replica_with(spool_class=broken.MarksAtSync)
    ),
    "no-head-record": JournalMutant(
        "J5: without participants nobody decides", replica_with(lead_class=broken.NoHeadRecord)
    ),
    "resets-at-index-end": JournalMutant(
        "J13: a reset starts at the limit", replica_with(lead_class=broken.ResetsAtIndexEnd)
    ),
    "persists-by-last": JournalMutant(
        "J11: the first later epoch decides", replica_with(spool_class=broken.SettlesByLast)
    ),
    "resolves-by-last": JournalMutant("J12: the first later epoch decides", broken.ResolvesByLast),
    "quotes-unmarked": JournalMutant(
        "J10: quotes are acknowledged by all", replica_with(lead_class=broken.QuotesUnmarked)
    ),
    "trusts-old-mark": JournalMutant("J4: a restarted primary counts with its end", broken.TrustsOldMark),
    "counts-late-acks": JournalMutant("J4: a promise freezes the mark", broken.CountsLateAcks),
    "keeps-tail": JournalMutant("J4: a sync trims what is above its point", replica_with(spool_class=broken.KeepsTail)),
    "forgets-assignments": JournalMutant(
        "J4: the head changes under the current Route only", replica_with(keeper_class=broken.ForgetsAssignments)
    ),
    "certification-in-flight": JournalMutant(
        "301: no sync while an own certification may land", replica_with(keeper_class=broken.SureOfHead)
    ),
    "counts-below-start": JournalMutant(
        "302: a primary counts with no less than its epoch's start", broken.CountsBelowStart
    ),
    "certifies-too-few": JournalMutant(
        "303: no epoch of fewer members than R", replica_with(append_class=broken.AnyNumber)
    ),
    "resets-count-early": JournalMutant(
        "306: a reset counts once it is certified", replica_with(spool_class=broken.ResetCounts)
    ),
    "forgets-reset": JournalMutant(
        "306: a restart knows about the reset", replica_with(spool_class=broken.ForgetsReset)
    ),
}
