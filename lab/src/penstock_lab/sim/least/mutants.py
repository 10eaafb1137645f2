"""Mutants of decision 312: each breaks one rule in a few lines, and must be caught."""

from penstock_lab.sim.least import broken as few
from penstock_lab.sim.workloads.journal_mutants import JournalMutant, replica_with

__all__ = ["LEAST_MUTANTS"]

LEAST_MUTANTS: dict[str, JournalMutant] = {
    "acks-of-participants": JournalMutant(
        "312b: every member of the epoch acknowledges", replica_with(pipeline_class=few.AcksOfParticipants)
    ),
    "sets-aside": JournalMutant("312a: a broker leaves by the KeySpace alone", few.SetsAside),
    "forgets-who-left": JournalMutant(
        "312e: an entry stays for brokers that left under an older one", replica_with(pipeline_class=few.ForgetsWhoLeft)
    ),
    "one-copy-commits": JournalMutant("J12: enough members or the store", replica_with(lead_class=few.OneCopyCommits)),
    "first-by-few": JournalMutant("312c: R members begin a life", replica_with(append_class=few.FirstByFew)),
}
