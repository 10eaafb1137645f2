"""Members, proposers, builders and shelves with one rule of lake.md broken, each in a few lines."""

from collections.abc import Callable

import msgspec

from penstock.kernel.effects import Effect, Reply, Requested
from penstock.kernel.ids import Instant
from penstock.lake.core.staging.checkpoint import _codec, freeze
from penstock.lake.core.staging.machine import StagingMachine
from penstock.lake.core.staging.proposing.member import Member
from penstock.lake.core.staging.proposing.port import Built, Delivered, Move, Rebuild
from penstock.lake.core.staging.proposing.proposals import Proposal, Proposals
from penstock.lake.core.staging.records import Announce, Changing, CommitId, StagingToken
from penstock.lake.core.staging.results import Result
from penstock.lake.core.staging.snapshot import Snapshot
from penstock_lab.sim.checkers.lake_shelf import CheckedShelf, overlaid, three_way
from penstock_lab.sim.workloads.lake_builder import SimBuilder

# reads


class JoinsSentSync(Member):
    """A read joins a SYNC which is already on its way."""

    def join_sync(self, event: Requested, now: Instant) -> list[Effect]:
        if not self._syncs:
            return super().join_sync(event, now)
        self._syncs[max(self._syncs)].reads.append(event)
        return []


class HeadAfterSnapshot(Member):
    """The areas are captured at the SYNC, the head is looked up when the read is served, a record later."""

    def __init__(self, *args: object) -> None:
        super().__init__(*args)  # type: ignore[arg-type]
        self._held: list[Reply] = []

    def _on_delivered(self, delivered: Delivered, now: Instant) -> list[Effect]:
        effects = super()._on_delivered(delivered, now)
        held, self._held = self._held, [each for each in effects if isinstance(each, Reply) and _is_snapshot(each)]
        for reply in held:
            branch = self.machine.branches.get(reply.result.instance)
            if branch is not None:
                reply.result.head = branch.head
        return [*held, *(each for each in effects if not _is_snapshot(each))]


def _is_snapshot(effect: Effect) -> bool:
    return isinstance(effect, Reply) and isinstance(effect.result, Snapshot)


# proposers


class _StaleRange(Proposals):
    """Writes into the token which areas this member knows of."""

    def _send(self, proposal: Proposal, record: Changing, now: Instant) -> list[Effect]:
        branch = self.member.machine.branches.get(proposal.wish.instance)
        if isinstance(record, Announce) and branch is not None:
            token = StagingToken(f"{record.token}|{','.join(branch.tokens)}")
            record = msgspec.structs.replace(record, token=token)
        return super()._send(proposal, record, now)


class AnnouncesWhatItKnows(Member):
    """With `RangeFromRecord`: parent and range are the proposer's, who may be behind."""

    proposals_class = _StaleRange


class _ForgetsOldParents(Proposals):
    def _rebuild(self, proposal: Proposal, lost: Result) -> list[Effect]:
        effects = super()._rebuild(proposal, lost)
        proposal.old_parents = ()
        return effects


class OldParentUnnamed(Member):
    """A commit laid over a new head does not say whose ranges it still refers to (decision 404)."""

    proposals_class = _ForgetsOldParents


class _YoungFiles(Proposals):
    def _build_move(self, proposal: Proposal, tip: CommitId | None, now: Instant) -> list[Effect]:
        assert isinstance(proposal.wish, Move)
        proposal.wish = msgspec.structs.replace(proposal.wish, link_epoch=None)
        return super()._build_move(proposal, tip, now)


class MovesOldFiles(Member):
    """A head move does not say how old its files are."""

    proposals_class = _YoungFiles


# builders


class ThreeWay(SimBuilder):
    """A lost race is merged: old parent as base, new head as destination, the finished tree as source."""

    def rebuild(self, effect: Rebuild) -> Built:
        parent = self.shelf.tree(effect.parent)
        tree = three_way(self.shelf.tree(effect.old_parent), parent, self.shelf.tree(effect.built.commit))
        return self._built(effect, tree, parent, [effect.built.commit, effect.parent])


class OnlyIfDisjoint(SimBuilder):
    """Merged if no other writer changed the same paths, built again otherwise."""

    def rebuild(self, effect: Rebuild) -> Built:
        parent = self.shelf.tree(effect.parent)
        rest = effect.snapshot.rows(effect.rest)
        differing = self.differing(effect.old_parent, effect.parent)
        if differing.isdisjoint({*rest, *self.gone(effect)}):
            tree = three_way(self.shelf.tree(effect.old_parent), parent, self.shelf.tree(effect.built.commit))
        else:
            tree = overlaid(parent, rest)
        return self._built(effect, tree, parent, [effect.built.commit, effect.parent])


class PatchWithoutGone(SimBuilder):
    """K is forgotten: the keys of areas which someone else committed or reset."""

    def gone(self, effect: Rebuild) -> set[str]:
        return set()


class DifferingByIdentity(SimBuilder):
    """D is taken by content: an entry with another address and the same content counts as the same."""

    def differing(self, old: CommitId, new: CommitId) -> set[str]:
        before, after = self.shelf.tree(old), self.shelf.tree(new)

        def identity(path: str) -> list[object]:
            return [tree[path].identity if path in tree else None for tree in (before, after)]

        return {path for path in {**before, **after} if len(set(identity(path))) > 1}


class ByContent(CheckedShelf):
    """A range is stored under its content's id alone: what exists already is not written again."""

    def place(self, epoch: int, attempt: str, content: str) -> str:
        return content


# checkpoints


def without_requests(machine: StagingMachine, cursor: int) -> Callable[[], bytes]:
    """The request table is not in the checkpoint."""
    return _changed(machine, requests=[])


def by_cursor(machine: StagingMachine, cursor: int) -> Callable[[], bytes]:
    """The checkpoint holds the consumer's position, not the applied one."""
    return _changed(machine, applied=cursor)


def _changed(machine: StagingMachine, **fields: object) -> Callable[[], bytes]:
    frozen = freeze(machine)
    return lambda: _codec.encode(msgspec.structs.replace(_codec.decode(frozen()), **fields))
