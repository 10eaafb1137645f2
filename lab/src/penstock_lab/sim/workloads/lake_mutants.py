"""Mutants of the lake: each breaks one rule of lake.md in a few lines, and must be caught.

All but the last four are named by the design; those break what we added to it (decisions 401, 404 and 407) or left
unnamed. A mutant's own `check` is not asked: the world's checkers, or a schedule of its own, must see what it does.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from penstock.lake.core.staging.machine import StagingMachine
from penstock_lab.sim.workloads import lake_broken as broken
from penstock_lab.sim.workloads import lake_broken_shell as shell
from penstock_lab.sim.workloads.lake_parts import LakeParts

__all__ = ["MUTANTS", "LakeMutant"]


@dataclass(frozen=True)
class LakeMutant:
    """Which rule is broken, and how."""

    rule: str
    apply: Callable[[LakeParts], None]


def _machine(rule: str, kind: type[StagingMachine]) -> LakeMutant:
    return _part(rule, machine=kind)


def _part(rule: str, **parts: Any) -> LakeMutant:
    def apply(into: LakeParts) -> None:
        for name, part in parts.items():
            setattr(into, name, part)

    return LakeMutant(rule, apply)


def _habit(rule: str, habit: str, value: bool) -> LakeMutant:
    return LakeMutant(rule, lambda parts: setattr(parts.habits, habit, value))


MUTANTS: dict[str, LakeMutant] = {
    "puts-by-token": _machine("L4: a PUT goes to the last area", broken.PutsByToken),
    "puts-by-name": _machine("L4, L11: a PUT names an instance", broken.PutsByName),
    "delete-drops-entry": _machine("L4: DELETE always writes a tombstone", broken.DeleteDropsEntry),
    "basis-not-compared": _machine("L5: a basis counts for its own head", broken.BasisNotCompared),
    "joins-sent-sync": _part("L6: a read joins only a SYNC not yet sent", member=shell.JoinsSentSync),
    "head-after-snapshot": _part("L6: head and areas are captured together", member=shell.HeadAfterSnapshot),
    "range-from-record": _part(
        "L7: the state says what is covered", machine=broken.RangeFromRecord, member=shell.AnnouncesWhatItKnows
    ),
    "announces-twice": _machine("L7: the same attempt gets the same answer", broken.AnnouncesTwice),
    "accepts-lower-attempt": _machine("L7: a lower attempt is superseded", broken.AcceptsLowerAttempt),
    "keeps-old-attempt": _machine("L7: a higher attempt replaces a lower one", broken.KeepsOldAttempt),
    "attempt-unchecked": _machine("L8: the attempt is live", broken.AttemptUnchecked),
    "empty-perform-unparented": _machine("L8: an empty PERFORM has a parent, too", broken.EmptyPerformUnparented),
    "reparents-three-way": _part("L9: overlay, never a 3-way merge", builder=shell.ThreeWay),
    "reparents-if-disjoint": _part("L9: disjoint is not enough", builder=shell.OnlyIfDisjoint),
    "patch-without-gone": _part("L9: K belongs to the patch", builder=shell.PatchWithoutGone),
    "differing-by-identity": _part("L9: D by stored entry", builder=shell.DifferingByIdentity),
    "abort-unrecorded": _machine("L10: ABORT ends the request", broken.AbortUnrecorded),
    "reset-keeps-tokens": _machine("L12: what a RESET touches gets a fresh token", broken.ResetKeepsTokens),
    "protects-announcements-only": _machine("I14: a PERFORM is refused, too", broken.ProtectsAnnouncementsOnly),
    "protects-commits-only": _machine("I14: a rule blocks staging", broken.ProtectsCommitsOnly),
    "no-request-table": _machine("L2: a request takes effect once", broken.NoRequestTable),
    "new-id-on-retry": _habit("L2: a retry has the same id", "keeps_request_ids", False),
    "records-retries": _machine("L2: RETRY results are not recorded", broken.RecordsRetries),
    "no-floor": _machine("L2: eviction raises the floor", broken.NoFloor),
    "checkpoint-without-requests": _part("L1: all of the state is in the checkpoint", freeze=shell.without_requests),
    "checkpoint-by-cursor": _part("L1: a checkpoint is of what is applied", freeze=shell.by_cursor),
    "no-position-check": _machine("L1: p = applied + 1", broken.NoPositionCheck),
    "token-without-boot": _part("L16: a token has a boot id", boot_ids=False),
    "sink-links-first": _habit("L14: a batch is one record", "links_sink_files_first", True),
    "no-sink-key": _machine("L14: each batch once", broken.NoSinkKey),
    "no-offset-chain": _machine("L14: a batch begins where the last ended", broken.NoOffsetChain),
    "no-fence": _habit("L15 a: a run begins with a fence", "fences", False),
    "marks-before-fence": _habit("L15 c: mark after the fence", "marks_after_fence", False),
    "sweep-ignores-epoch": _habit("L15 e: sweep what is older than the run before", "sweeps_by_epoch", False),
    "put-without-floor": _machine("L15 a: a PUT is young enough", broken.PutWithoutFloor),
    "perform-without-floor": _machine("L15 a: a PERFORM is young enough (metadata)", broken.PerformWithoutFloor),
    "moves-old-files": _part("L15 a: a PERFORM is young enough (data)", member=shell.MovesOldFiles),
    "copy-unchecked": _machine("L15 b: a copy is there at apply", broken.CopyUnchecked),
    "touched-ignored": _machine("L15 d: what was touched is not condemned", broken.TouchedIgnored),
    "expired-ignored": _machine("L15 b: what is expired is not referenced", broken.ExpiredIgnored),
    "metadata-by-content": _part("L15: a range's place is its attempt's own", shelf=shell.ByContent),
    "condemns-old-run": _machine("L15 d: CONDEMN is of the current run", broken.CondemnsOldRun),
    "condemns-nothing": _habit("L15 e: sweep only after CONDEMN", "condemns", False),
    "condemns-young": _habit("407: only what can no longer be performed is condemned", "condemns_young", True),
    "believes-issued": _machine("401: no request is issued in the future", broken.BelievesIssued),
    "old-parent-unnamed": _part("404: a rebuilt commit names its old parents", member=shell.OldParentUnnamed),
}
