"""The state of the lake, and what every rule needs of it. Design: lake.md "State", L2, L3, L15, L17.

Everything in here is in the checkpoint and in the state hash, except derived data (the indexes of branches). Rules
verify first and change afterwards: a handler returns either a result, and nothing was changed, or a `Plan`, which
changes the state and cannot fail. So several records can be verified together and then made together (ATOMIC).
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

from penstock.lake.core.refs.protection import Action, blocks
from penstock.lake.core.staging.areas.state_hash import StateSum, item
from penstock.lake.core.staging.branch import Attempt, Branch, Repository, SinkState
from penstock.lake.core.staging.namespaces import Namespaces
from penstock.lake.core.staging.records import CommitId, Instance, Limits, Request
from penstock.lake.core.staging.requests import RequestTable
from penstock.lake.core.staging.results import Result, Status
from penstock.lake.core.staging.snapshot import Snapshot, SnapshotRefs

__all__ = ["RULES", "Plan", "Tables"]

Plan = Callable[[], Result]

RULES: Final = 3  # the rules of this release: a VERSION record switches them on (L17)
RETIRED_MAX: Final = 100_000  # namespaces of deleted repositories whose epochs are remembered


class Tables:
    """The state. Subclasses add the rules."""

    request_table: type[RequestTable] = RequestTable

    def __init__(self, limits: Limits | None = None) -> None:
        self.applied = 0  # the queue position up to which the state is folded
        self.now = 0  # nanoseconds, from the queue's stamps; no safety rule reads it
        self.version = 1
        self.limits = limits or Limits()
        self.total = StateSum()
        self.requests = self.request_table(self.total)
        self.attempts: dict[str, Attempt] = {}  # by request id: at most one live each
        self.repositories: dict[Instance, Repository] = {}
        self.retired: dict[str, int] = {}  # namespace of a deleted repository → the first epoch of the next one
        self.namespaces, self.retired_namespaces = Namespaces(), Namespaces()  # derived
        self._names: dict[str, Instance] = {}  # derived: where a repository of that name is
        self.branches: dict[Instance, Branch] = {}  # those of all repositories

    # looking

    def repository_named(self, name: str) -> Repository | None:
        instance = self._names.get(name)
        return None if instance is None else self.repositories[instance]

    @property
    def has_disjoint_namespaces(self) -> bool:
        """D17, since version 2."""
        return self.version >= 2

    @property
    def has_protection(self) -> bool:
        """Rules of protection and read-only repositories, since version 3."""
        return self.version >= 3

    def is_blocked(self, branch: Branch, *actions: Action) -> Result | None:
        """Refuse what the rules of protection refuse on a branch."""
        rules = self.repositories[branch.repository].protection
        blocked = next((action for action in actions if blocks(rules, branch.name, action)), None) if rules else None
        return None if blocked is None else Result(Status.PROTECTED, detail=blocked)

    def capture(self, instance: Instance) -> Snapshot | None:
        """Head and areas of a branch together, as they are now (L6)."""
        branch = self.branches.get(instance)
        return None if branch is None else self._snapshot(branch)

    def refs(self, repository: Repository) -> SnapshotRefs:
        """Return all of a repository together, at the present position."""
        branches = {name: self._snapshot(branch) for name, branch in repository.branches.items()}
        return SnapshotRefs(
            self.applied,
            repository.instance,
            repository.gce,
            branches,
            dict(repository.tags),
            tuple(repository.expired),
        )

    def _snapshot(self, branch: Branch) -> Snapshot:
        return Snapshot(self.applied, branch.instance, branch.head, tuple(branch.areas), branch.overlay())

    def state_hash(self) -> int:
        """Differs where states differ. Members compare it at equal `applied`."""
        small = item(self.applied, self.now, self.version, self.limits, self.requests.floor)
        return (small + self.total.value) % (1 << 128)

    def items(self) -> Iterator[int]:
        """The hashes of everything in the state, from its content alone: the running sum must agree with them."""
        for recorded in self.requests:
            yield item("request", recorded)
        for attempt in self.attempts.values():
            yield item("attempt", attempt)
        for repository in self.repositories.values():
            yield item(*repository.item())
            for tag in repository.tags.values():
                yield item("tag", repository.instance, tag)
            for commit in repository.expired:
                yield item("expired", repository.instance, commit)
            for commit in repository.touched:
                yield item("touched", repository.instance, commit)
        for storage, epoch in self.retired.items():
            yield item("retired", storage, epoch)
        for branch in self.branches.values():
            yield item(*branch.item())
            yield branch.sum()
            for query, sink in branch.sinks.items():
                yield item("sink", branch.instance, query, sink)

    # changing

    @contextmanager
    def changing(self, *things: Branch | Repository) -> Iterator[None]:
        """Keep the sum right while fields of branches and repositories change."""
        for thing in things:
            self.total.remove(*thing.item())
        yield
        for thing in things:
            self.total.add(*thing.item())

    def add_repository(self, repository: Repository) -> None:
        self.repositories[repository.instance] = repository
        self._names[repository.name] = repository.instance
        self.namespaces.add(repository.storage, repository.name)
        self.total.add(*repository.item())

    def drop_repository(self, repository: Repository) -> None:
        """With its branches, its tags, and what its collector knows."""
        for branch in list(repository.branches.values()):
            self.drop_branch(branch)
        for tag in repository.tags.values():
            self.total.remove("tag", repository.instance, tag)
        for commit in repository.expired:
            self.total.remove("expired", repository.instance, commit)
        self.clear_touched(repository)
        self.total.remove(*repository.item())
        del self.repositories[repository.instance]
        del self._names[repository.name]
        self.namespaces.remove(repository.storage, repository.name)

    def retire(self, storage: str, epoch: int | None) -> None:
        """Remember the first epoch of the next repository in a namespace; None forgets it."""
        before = self.retired.pop(storage, None)
        if before is not None:
            self.retired_namespaces.remove(storage, storage)
            self.total.remove("retired", storage, before)
        if epoch is not None:
            if len(self.retired) >= RETIRED_MAX:
                self.retire(next(iter(self.retired)), None)
            self.retired[storage] = epoch
            self.retired_namespaces.add(storage, storage)
            self.total.add("retired", storage, epoch)

    def add_branch(self, branch: Branch) -> None:
        self.branches[branch.instance] = branch
        self.repositories[branch.repository].branches[branch.name] = branch
        self.total.add(*branch.item())

    def drop_branch(self, branch: Branch) -> None:
        """With its areas, its sinks, and its live attempts: their requests are over, too (L11)."""
        for attempt in [each for each in self.attempts.values() if each.instance == branch.instance]:
            self.finish(attempt.request, Result(Status.NO_BRANCH))
        for query in list(branch.sinks):
            self.set_sink(branch, query, None)
        self.total.change(-branch.sum())
        self.total.remove(*branch.item())
        del self.branches[branch.instance]
        del self.repositories[branch.repository].branches[branch.name]

    def set_sink(self, branch: Branch, query: str, state: SinkState | None) -> None:
        before = branch.sinks.pop(query, None)
        if before is not None:
            self.total.remove("sink", branch.instance, query, before)
        if state is not None:
            branch.sinks[query] = state
            self.total.add("sink", branch.instance, query, state)

    def set_attempt(self, id_: str, attempt: Attempt | None) -> None:
        before = self.attempts.pop(id_, None)
        if before is not None:
            self.total.remove("attempt", before)
        if attempt is not None:
            self.attempts[id_] = attempt
            self.total.add("attempt", attempt)

    def finish(self, request: Request, result: Result) -> None:
        """A request is over: whatever it was, every copy of it gets this result (L2)."""
        self.set_attempt(request.id, None)
        self.requests.record(request, result, self.now)
        self.requests.evict(self.limits, self.now)

    # references to commits (L15 b)

    def may_reference(self, repository: Repository, commit: CommitId) -> bool:
        return commit not in repository.expired

    def touch(self, repository: Repository, commit: CommitId) -> None:
        """A record references this commit: no run of the collector that began before may condemn it."""
        if commit in repository.touched or repository.has_touched_too_many:
            return
        if len(repository.touched) < self.limits.touched_max:
            repository.touched[commit] = None
            self.total.add("touched", repository.instance, commit)
        else:
            self._give_up_touched(repository)

    def clear_touched(self, repository: Repository) -> None:
        for commit in repository.touched:
            self.total.remove("touched", repository.instance, commit)
        repository.touched.clear()

    def forget_touched(self, repository: Repository) -> None:
        """Keep to a limit which was lowered."""
        if len(repository.touched) > self.limits.touched_max:
            self._give_up_touched(repository)

    def _give_up_touched(self, repository: Repository) -> None:
        self.clear_touched(repository)
        with self.changing(repository):
            repository.has_touched_too_many = True
