"""State machines with one rule of lake.md broken, each in a few lines."""

from collections.abc import Iterable

import msgspec

from penstock.lake.core.refs.protection import Action
from penstock.lake.core.staging.areas.area import StagingArea
from penstock.lake.core.staging.branch import Branch, Repository, SinkState
from penstock.lake.core.staging.machine import StagingMachine
from penstock.lake.core.staging.records import (
    Abort,
    Announce,
    CommitId,
    Condemn,
    Perform,
    Put,
    Request,
    Reset,
    Row,
    SinkPart,
    StagingToken,
)
from penstock.lake.core.staging.requests import Recorded, RequestTable
from penstock.lake.core.staging.results import Result, Status
from penstock.lake.core.staging.tables import Plan

# staging areas


class PutsByToken(StagingMachine):
    """A PUT goes into the area that its token names, whatever its place."""

    def _put(self, put: Put) -> Result | Plan:
        branch = self.branches.get(put.instance)
        if branch is None or put.pinned not in branch.tokens[:-1]:
            return super()._put(put)
        area = branch.areas[branch.tokens.index(put.pinned)]

        def linked() -> Result:
            for row in put.rows:
                self.total.change(area.put(row.path, row.entry))
            return Result(Status.OK)

        return linked


class PutsByName(StagingMachine):
    """A late PUT is rerouted to the branch which has the name now."""

    def _put(self, put: Put) -> Result | Plan:
        if put.instance not in self.branches:
            name = put.instance.partition("-")[0]
            for branch in self.branches.values():
                if branch.name == name:
                    put = msgspec.structs.replace(put, instance=branch.instance)
        return super()._put(put)


class DeleteDropsEntry(StagingMachine):
    """A DELETE takes the staged entry away instead of writing a tombstone."""

    def _bury(self, branch: Branch, paths: Iterable[str]) -> Result:
        area = branch.last
        for path in paths:
            if area.memtable.get(path) is None:
                super()._bury(branch, (path,))
                continue
            rows = {other: entry for other, entry in area.memtable.items() if other != path}
            fresh = StagingArea(area.instance, area.token, area.runs)
            for other, entry in rows.items():
                fresh.put(other, entry)
            self.replace_areas(branch, [*branch.areas[:-1], fresh])
            area = fresh
        return Result(Status.OK)


class BasisNotCompared(StagingMachine):
    """The basis is believed, whatever the head is by now."""

    def _is_basis_fresh(self, branch: Branch, row: Row) -> bool:
        return row.basis is not None


class ResetKeepsTokens(StagingMachine):
    """A RESET empties areas and leaves them their tokens."""

    def _drop_rows(self, branch: Branch, reset: Reset) -> Result:
        self._flush(branch)
        prefixes = reset.prefixes if reset.paths or reset.prefixes else ("",)
        areas = []
        for area in branch.areas:
            runs = [run.without(reset.paths, prefixes) for run in area.runs]
            areas.append(StagingArea(area.instance, area.token, [run for run in runs if len(run)]))
        self.replace_areas(branch, areas)
        return Result(Status.OK)


# protection


class ProtectsAnnouncementsOnly(StagingMachine):
    """A commit that was announced before a rule of protection is performed after it."""

    def _refuse_protected(self, branch: Branch, perform: Perform) -> Result | None:
        return None


class ProtectsCommitsOnly(StagingMachine):
    """Puts, deletes and resets pass whatever the rules say."""

    def is_blocked(self, branch: Branch, *actions: Action) -> Result | None:
        return None if actions == ("staging_write",) else super().is_blocked(branch, *actions)


# attempts


class RangeFromRecord(StagingMachine):
    """What an attempt covers is what its proposer knew: it is written into the token."""

    def _seal(self, branch: Branch, announce: Announce) -> Result:
        _, _, known = announce.token.partition("|")
        tokens = tuple(StagingToken(token) for token in known.split(",")) if known else branch.tokens
        result = super()._seal(branch, announce)
        covered = tuple(token for token in result.tokens if token in tokens)
        live = self.attempts[announce.request.id]
        self.set_attempt(announce.request.id, msgspec.structs.replace(live, range=covered))
        return Result(Status.ANNOUNCED, result.commit, covered)


class AnnouncesTwice(StagingMachine):
    """A second copy of an ANNOUNCE opens an area again."""

    def _announce(self, announce: Announce) -> Result | Plan:
        live = self.attempts.get(announce.request.id)
        branch = self.branches.get(announce.instance)
        if branch is not None and live is not None and live.number == announce.attempt:
            return lambda: self._seal(branch, announce)
        return super()._announce(announce)


class AcceptsLowerAttempt(StagingMachine):
    """A late ANNOUNCE of an older attempt replaces the newer one."""

    def _announce(self, announce: Announce) -> Result | Plan:
        live = self.attempts.get(announce.request.id)
        branch = self.branches.get(announce.instance)
        if branch is not None and live is not None and live.number > announce.attempt:
            return lambda: self._seal(branch, announce)
        return super()._announce(announce)


class KeepsOldAttempt(StagingMachine):
    """A new attempt does not replace the old one of its request."""

    def _seal(self, branch: Branch, announce: Announce) -> Result:
        live = self.attempts.get(announce.request.id)
        result = super()._seal(branch, announce)
        if live is not None:
            self.set_attempt(announce.request.id, live)
        return result


class AttemptUnchecked(StagingMachine):
    """PERFORM looks at parent and range alone."""

    def _refuse_attempt(self, perform: Perform) -> Result | None:
        return None


class EmptyPerformUnparented(StagingMachine):
    """An empty commit only drops its areas: who cares about the head?"""

    def _fits(self, branch: Branch, perform: Perform) -> bool:
        if perform.is_empty:
            perform = msgspec.structs.replace(perform, parent=branch.head)
        return super()._fits(branch, perform)


class AbortUnrecorded(StagingMachine):
    """An ABORT ends the attempt and leaves the request open."""

    def _abort(self, abort: Abort) -> Result | Plan:
        outcome = super()._abort(abort)
        if isinstance(outcome, Result) and outcome.status is Status.ABORTED:
            self.set_attempt(abort.request.id, None)
        return outcome

    def _is_recorded(self, result: Result) -> bool:
        return super()._is_recorded(result) and result.status is not Status.ABORTED


# requests and positions


class NoRequestTable(StagingMachine):
    """Nothing is remembered of a request."""

    def finish(self, request: Request, result: Result) -> None:
        self.set_attempt(request.id, None)


class RecordsRetries(StagingMachine):
    """RETRY results are recorded like final ones."""

    def _is_recorded(self, result: Result) -> bool:
        return super()._is_recorded(result) or result.status.is_retry


class _NoFloorTable(RequestTable):
    def raise_floor(self, evicted: Recorded) -> None:
        pass


class NoFloor(StagingMachine):
    """An entry evicted from the table is simply forgotten."""

    request_table = _NoFloorTable


class NoPositionCheck(StagingMachine):
    """Whatever is delivered is applied."""

    def _is_next(self, position: int) -> bool:
        return True


class BelievesIssued(StagingMachine):
    """A request may say that it was issued in the future (decision 401)."""

    def _is_issued(self, request: Request) -> bool:
        return True


# sinks


class NoSinkKey(StagingMachine):
    """A batch is committed as often as drivers send it."""

    def _refuse_sink(self, branch: Branch, sink: SinkPart) -> Result | None:
        return None


class NoOffsetChain(StagingMachine):
    """Only the number of a batch counts, not where it begins."""

    def _continues(self, last: SinkState, sink: SinkPart) -> bool:
        return True


# garbage


class PutWithoutFloor(StagingMachine):
    """However old an upload is, it is linked."""

    def _refuse(self, branch: Branch, put: Put, batch_rows: int) -> Result | None:
        young = msgspec.structs.replace(put, link_epoch=self.repositories[branch.repository].gce)
        return super()._refuse(branch, young, batch_rows)


class PerformWithoutFloor(StagingMachine):
    """However old the metadata of a commit is, it becomes the head."""

    def _refuse_garbage(self, branch: Branch, perform: Perform) -> Result | None:
        repository = self.repositories[branch.repository]
        is_fine = all(self.may_reference(repository, commit) for commit in perform.sources)
        return None if is_fine else super()._refuse_garbage(branch, perform)


class CopyUnchecked(StagingMachine):
    """A copy need not be there any more."""

    def _refuse_source(self, branch: Branch, row: Row) -> Result | None:
        return None


class TouchedIgnored(StagingMachine):
    """Objects referred to since the fence may be condemned."""

    def held(self, repository: Repository) -> set[CommitId]:
        heads = {branch.head for branch in repository.branches.values()}
        return heads | {tag.commit for tag in repository.tags.values()}


class ExpiredIgnored(StagingMachine):
    """Condemned commits may be referred to again."""

    def may_reference(self, repository: Repository, commit: CommitId) -> bool:
        return True


class CondemnsOldRun(StagingMachine):
    """A collector whose run was overtaken may still condemn."""

    def _is_current_run(self, repository: Repository, condemn: Condemn) -> bool:
        return True
