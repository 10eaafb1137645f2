"""Rules of protection at apply: blocked changes, changes that pass, and the same answer on every member."""

import pytest
from tests.lake.core.staging.test_namespaces import Lake

from penstock.lake.core.refs.protection import ProtectionRule, etag_of
from penstock.lake.core.staging import records as r
from penstock.lake.core.staging.checkpoint import dump, load
from penstock.lake.core.staging.entry import Entry
from penstock.lake.core.staging.machine import StagingMachine
from penstock.lake.core.staging.records import CommitId, Instance, Row, SinkPart, StagingToken
from penstock.lake.core.staging.results import Result, Status

MAIN = (ProtectionRule("main"),)
WRITE, COMMIT = Result(Status.PROTECTED, detail="staging_write"), Result(Status.PROTECTED, detail="commit")


class Shop(Lake):
    """A lake with one repository."""

    def __init__(self, version: int = 3) -> None:
        super().__init__(version)
        self.create("shop", "local://shop")
        found = self.machine.repository_named("shop")
        assert found is not None
        self.repository = found
        self.main = found.branches["main"]

    def protect(self, *rules: ProtectionRule, expected: str | None = None) -> Result:
        return self(r.SetProtection(self.request(), self.repository.instance, rules, expected))

    def put(self, path: str = "a") -> Result:
        row = Row(path, Entry(f"data/{path}", 1, "x"))
        return self(r.Put(self.request(), self.main.instance, 1, (row,)))

    def announce(self, request: r.Request) -> Result:
        token = StagingToken(f"next-{request.id}")
        return self(r.Announce(request, self.main.instance, 1, token, 10**9))

    def perform(self, request: r.Request, announced: Result) -> Result:
        head, commit = self.main.head, CommitId(f"of-{request.id}")
        return self(r.Perform(request, self.main.instance, head, commit, 1, 1, announced.tokens))

    def merge(self, *, sink: SinkPart | None = None) -> Result:
        request = self.request()
        commit = CommitId(f"merge-{request.id}")
        return self(r.Perform(request, self.main.instance, self.main.head, commit, 1, sink=sink))


def test_a_protected_branch_takes_merges_alone() -> None:
    shop = Shop()
    assert shop.put().status is Status.OK
    shop.protect(*MAIN)
    assert shop.put("b") == WRITE
    assert shop(r.Delete(shop.request(), shop.main.instance, ("a",))) == WRITE
    assert shop(r.Reset(shop.request(), shop.main.instance, StagingToken("fresh"))) == WRITE
    assert shop.announce(shop.request()) == COMMIT
    assert shop(r.HardReset(shop.request(), shop.main.instance, shop.main.head, StagingToken("hard"))) == COMMIT
    assert shop.merge(sink=SinkPart("q", 0, "", "0")) == COMMIT
    assert shop.merge().status is Status.OK
    assert shop.main.rows == 1  # the earlier put is still staged
    shop.protect()
    assert shop.put("b").status is Status.OK
    assert shop.announce(shop.request()).status is Status.ANNOUNCED


def test_a_commit_under_way_is_refused_too() -> None:
    shop = Shop()
    shop.put()
    request = shop.request()
    announced = shop.announce(request)
    shop.protect(*MAIN)
    assert shop.perform(request, announced) == COMMIT
    assert not shop.machine.attempts
    assert shop.main.rows == 1


def test_a_batch_that_was_committed_before_the_rule_is_answered_as_it_was() -> None:
    shop = Shop()
    batch = SinkPart("q", 0, "", "0")
    done = shop.merge(sink=batch)
    shop.protect(*MAIN)
    assert shop.merge(sink=batch) == done
    assert shop.merge(sink=SinkPart("q", 1, "0", "1")) == COMMIT


def test_a_rule_blocks_what_it_names_where_it_matches() -> None:
    shop = Shop()
    shop.protect(ProtectionRule("m*n", ("commit",)), ProtectionRule("release-*"))
    assert shop.put().status is Status.OK
    assert shop.announce(shop.request()) == COMMIT
    made = r.CreateBranch(
        shop.request(), shop.repository.instance, "dev", Instance("dev-1"), StagingToken("d"), branch=shop.main.instance
    )
    assert shop(made).status is Status.OK
    assert shop(r.Delete(shop.request(), Instance("dev-1"), ("a",))).status is Status.OK


def test_rules_change_only_where_the_expected_ones_are_in_force() -> None:
    shop = Shop()
    assert shop.protect(*MAIN, expected="").status is Status.OK
    assert shop.protect(expected="").status is Status.PRECONDITION_FAILED
    assert shop.put() == WRITE
    assert shop.protect(expected=etag_of(MAIN)).status is Status.OK


@pytest.mark.parametrize("rules", [(ProtectionRule("a[b"),), (ProtectionRule("x"),) * 101])
def test_rules_that_cannot_be_read_change_nothing(rules: tuple[ProtectionRule, ...]) -> None:
    shop = Shop()
    assert shop.protect(*rules).status is Status.MALFORMED
    assert shop.repository.protection == ()


def test_a_lake_of_older_rules_has_no_protection() -> None:
    shop = Shop(version=2)
    assert shop.protect(*MAIN).status is Status.MALFORMED
    assert shop.put().status is Status.OK


def test_rules_are_in_the_checkpoint_and_in_the_hash() -> None:
    shop, bare = Shop(), Shop()
    assert shop.machine.state_hash() == bare.machine.state_hash()
    shop.protect(*MAIN)
    bare.protect()
    assert shop.machine.state_hash() != bare.machine.state_hash()
    again = load(dump(shop.machine), StagingMachine)
    assert again.state_hash() == shop.machine.state_hash()
    assert again.repositories[shop.repository.instance].protection == MAIN


def test_a_read_only_repository_stays_one() -> None:
    shop = Shop()
    made = r.CreateRepository(
        shop.request(), "fixed", Instance("fixed-1"), "local://fixed", "main", Instance("f-main"), StagingToken("f"),
        CommitId("c"), is_read_only=True,
    )  # fmt: skip
    assert shop(made).status is Status.OK
    again = load(dump(shop.machine), StagingMachine)
    assert again.repositories[Instance("fixed-1")].is_read_only
    assert again.state_hash() == shop.machine.state_hash()
