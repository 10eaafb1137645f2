"""Storage namespaces: one spelling each, disjoint at apply, and epochs that outlive a deleted repository (D17)."""

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.lake.core.staging import records as r
from penstock.lake.core.staging.checkpoint import dump, load
from penstock.lake.core.staging.machine import StagingMachine
from penstock.lake.core.staging.namespaces import NAMESPACE_BYTES_MAX, Namespaces, is_canonical, segments
from penstock.lake.core.staging.records import CommitId, Instance, Request, StagingToken
from penstock.lake.core.staging.results import Result, Status
from penstock.lake.core.staging.tables import RULES


class Lake:
    """A machine whose rules were raised, and its repositories by name."""

    def __init__(self, version: int = RULES) -> None:
        self.machine = StagingMachine()
        self.ids = 0
        self(r.Version(self.request(), version))

    def __call__(self, record: r.Record) -> Result:
        result = self.machine.apply(self.machine.applied + 1, 1, record)
        self.machine.check()
        assert result is not None
        return result

    def request(self) -> Request:
        self.ids += 1
        return Request(f"request{self.ids}", 1 if self.machine.now else 0)

    def create(self, name: str, storage: str) -> Result:
        instance, branch = Instance(f"{name}-{self.ids}"), Instance(f"{name}-main-{self.ids}")
        token, commit = StagingToken(f"t{self.ids}"), CommitId(f"c{self.ids}")
        return self(r.CreateRepository(self.request(), name, instance, storage, "main", branch, token, commit))

    def delete(self, name: str) -> None:
        found = self.machine.repository_named(name)
        assert found is not None
        assert self(r.DeleteRepository(self.request(), found.instance)).status is Status.OK

    def fence(self, name: str) -> int:
        found = self.machine.repository_named(name)
        assert found is not None
        self(r.GcFence(self.request(), found.instance))
        return found.gce


@pytest.mark.parametrize("other", ["local://shop", "local://shop/raw", "local://shop/raw/deep"])
def test_a_namespace_belongs_to_one_repository(other: str) -> None:
    lake = Lake()
    assert lake.create("one", "local://shop/raw").status is Status.OK
    assert lake.create("two", other) == Result(Status.IN_USE, detail="one")
    assert lake.create("two", "local://shop/rawest").status is Status.OK


@pytest.mark.parametrize(
    "storage",
    ["local:///shop", "local://shop/", "local://", "shop", "local://a/../b", "local://_penstock/x", "x" * 2000],
)
def test_another_spelling_is_refused_at_apply(storage: str) -> None:
    assert Lake().create("one", storage).status is Status.MALFORMED


def test_an_older_log_is_played_back_as_it_was() -> None:
    lake = Lake(version=1)
    assert lake.create("one", "local://shop").status is Status.OK
    assert lake.create("two", "local:///shop").status is Status.OK
    lake.delete("one")
    assert lake(r.Version(lake.request(), RULES)).status is Status.OK
    assert lake.create("one", "local://shop/x") == Result(Status.IN_USE, detail="two")


def test_a_namespace_that_is_taken_over_goes_on_above_the_old_epochs() -> None:
    lake = Lake()
    lake.create("one", "local://shop")
    old = [lake.fence("one") for _ in range(3)][-1]
    lake.delete("one")
    assert lake.create("two", "local://shop/data") == Result(Status.IN_USE, detail="local://shop")
    loaded = load(dump(lake.machine), StagingMachine)
    assert (loaded.retired, loaded.state_hash()) == ({"local://shop": old + 1}, lake.machine.state_hash())
    lake.machine = loaded
    assert lake.create("one", "local://shop").status is Status.OK
    made = lake.machine.repository_named("one")
    assert made is not None
    assert made.gce == old + 1, "a sweep of the former life takes what is older than its last run, never what is here"
    assert lake.machine.retired == {}


PARTS = st.lists(st.sampled_from(["a", "b", "ab"]), min_size=1, max_size=3)


@given(st.lists(st.tuples(PARTS, st.booleans())), PARTS)
def test_an_overlap_is_found_as_if_all_were_looked_at(steps: list[tuple[list[str], bool]], asked: list[str]) -> None:
    found, model = Namespaces(), dict[str, str]()
    for number, (parts, is_added) in enumerate(steps):
        name = "local://" + "/".join(parts)
        if is_added and name not in model:
            model[name] = f"r{number}"
            found.add(name, model[name])
        elif not is_added and name in model:
            found.remove(name, model.pop(name))
    mine = "local://" + "/".join(asked)
    around = {owner for other, owner in model.items() if overlap(segments(mine), segments(other))}
    assert (found.overlapping(mine) in around) if around else found.overlapping(mine) is None
    others = around - {model.get(mine, "")}
    got = found.overlapping(mine, may_be_equal=True)
    assert (got in others) if others else got is None


def overlap(left: Sequence[str], right: Sequence[str]) -> bool:
    shorter = min(len(left), len(right))
    return left[:shorter] == right[:shorter]


def test_the_longest_namespace_is_bounded() -> None:
    longest = "local://" + "x" * (NAMESPACE_BYTES_MAX - 8)
    assert is_canonical(longest)
    assert not is_canonical(longest + "x")
