"""What a reconfiguration makes of an ensemble. Design: quorum-log.md P11 and "Election"; log-replication.md.

Three ensembles matter: the one in the metadata; the FINAL one, the result of a change in COMMIT, of which a majority
must be fenced; and the fencing one, the union, to which fence requests are sent.
"""

from enum import Enum

import msgspec

from penstock.kernel.errors import PreconditionFailed
from penstock.quorum.records.member import Ensemble, Member
from penstock.quorum.records.messages import Change, ChangeOp

__all__ = ["Phase", "Reconfiguration", "fencing_ensemble", "final_ensemble", "validate"]


class Phase(Enum):
    """How far a reconfiguration has come, as the metadata says."""

    PREPARE = "prepare"  # an election drops it
    COMMIT = "commit"  # an election completes it


class Reconfiguration(msgspec.Struct, frozen=True):
    """The metadata's record of a change under way. It stays until STEADY_STATE is written with the final ensemble."""

    change: Change
    phase: Phase


def final_ensemble(ensemble: Ensemble, change: Change | None) -> Ensemble:
    """The ensemble once the change is done, in a stable order.

    >>> final_ensemble((), None)
    ()
    """
    if change is None:
        return ensemble
    kept = tuple(member for member in ensemble if member != change.old)
    return (*kept, change.new) if change.new is not None and change.new not in kept else kept


def fencing_ensemble(ensemble: Ensemble, change: Change | None) -> Ensemble:
    """Everybody who may hold, or may be sent, entries: the old ensemble and the new node."""
    if change is None or change.new is None or change.new in ensemble:
        return ensemble
    return (*ensemble, change.new)


def validate(ensemble: Ensemble, leader: Member | None, change: Change) -> None:
    """Raise `PreconditionFailed` unless the change fits the ensemble."""
    old, new = change.old, change.new
    wanted = {ChangeOp.SWAP: (True, True), ChangeOp.EXPAND: (False, True), ChangeOp.CONTRACT: (True, False)}
    if (old is not None, new is not None) != wanted[change.op]:
        raise PreconditionFailed(f"a {change.op.value} names other nodes than that")
    if old is not None and old not in ensemble:
        raise PreconditionFailed(f"{old} is not a member", ensemble=[str(member) for member in ensemble])
    if old is not None and old == leader:
        raise PreconditionFailed(
            f"{old} leads: a leader is never removed", next_step="elect another leader first, then try again"
        )
    if new is not None and new.node in {member.node for member in ensemble if member != old}:
        raise PreconditionFailed(f"{new.node} is a member already")
    if new is not None and new == old:
        raise PreconditionFailed(f"{new} cannot take its own place")
    if not final_ensemble(ensemble, change):
        raise PreconditionFailed("an ensemble has one member at least")
