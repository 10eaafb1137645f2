"""A state machine with one repository and one branch, and short ways to write records for it."""

from collections.abc import Sequence
from typing import Any

from penstock.lake.core.staging import records as r
from penstock.lake.core.staging.entry import Entry
from penstock.lake.core.staging.machine import StagingMachine
from penstock.lake.core.staging.records import CommitId, Instance, Limits, Request, Row, StagingToken
from penstock.lake.core.staging.results import Result

MAIN, REPOSITORY = Instance("b1"), Instance("r1")
FIRST = CommitId("c0")
SECOND_NS = 1_000_000_000


def entry(address: str, etag: str = "") -> Entry:
    return Entry(address, 1, etag or address)


def put(id_: str, *rows: tuple[str, Any], **options: Any) -> r.Put:
    """PUT rows: (path, address) or (path, None)."""
    made = tuple(Row(path, None if address is None else entry(address)) for path, address in rows)
    return r.Put(
        Request(id_, options.pop("issued", 1)),
        options.pop("instance", MAIN),
        options.pop("link_epoch", 1),
        options.pop("rows", made),
        **options,
    )


class Lake:
    """A machine which is given one record after another."""

    def __init__(self, limits: Limits | None = None, kind: type[StagingMachine] = StagingMachine) -> None:
        self.machine = kind(limits)
        self.stamp = SECOND_NS
        self.log: list[tuple[int, r.Record]] = []
        self(
            r.CreateRepository(
                Request("create", 0), "repo", REPOSITORY, "mem://", "main", MAIN, StagingToken("t0"), FIRST
            )
        )

    def __call__(self, record: r.Record) -> Result:
        self.log.append((self.stamp, record))
        result = self.machine.apply(self.machine.applied + 1, self.stamp, record)
        self.machine.check()
        assert result is not None
        return result

    def sleep(self, seconds: float) -> None:
        self.stamp += int(seconds * SECOND_NS)
        self(r.Tick())

    def put(self, id_: str, *rows: tuple[str, Any], **options: Any) -> Result:
        return self(put(id_, *rows, **options))

    def announce(self, id_: str, attempt: int = 0, **options: Any) -> Result:
        token = StagingToken(options.pop("token", f"t-{id_}-{attempt}"))
        instance = options.pop("instance", MAIN)
        return self(
            r.Announce(Request(id_, options.pop("issued", 1)), instance, attempt, token, 10 * SECOND_NS, **options)
        )

    def perform(self, id_: str, announced: Result, commit: str, attempt: int | None = 0, **options: Any) -> Result:
        return self(
            r.Perform(
                Request(id_, 1),
                options.pop("instance", MAIN),
                options.pop("parent", announced.commit),
                CommitId(commit),
                options.pop("link_epoch", 1),
                attempt,
                options.pop("range", announced.tokens),
                **options,
            )
        )

    def move(self, id_: str, commit: str, **options: Any) -> Result:
        """A head move: a merge, a revert, an import, a sink."""
        return self(
            r.Perform(
                Request(id_, 1),
                options.pop("instance", MAIN),
                options.pop("parent", self.machine.branches[MAIN].head),
                CommitId(commit),
                options.pop("link_epoch", self.gce),
                **options,
            )
        )

    @property
    def gce(self) -> int:
        return self.machine.repositories[REPOSITORY].gce

    @property
    def head(self) -> str:
        return self.machine.branches[MAIN].head

    @property
    def tokens(self) -> Sequence[str]:
        return self.machine.branches[MAIN].tokens

    def staged(self, instance: Instance = MAIN) -> dict[str, str | None]:
        """Path to address of everything staged, newest change wins; None is a tombstone."""
        snapshot = self.machine.capture(instance)
        assert snapshot is not None
        return {path: None if entry is None else entry.address for path, entry in snapshot.overlay.changes()}
