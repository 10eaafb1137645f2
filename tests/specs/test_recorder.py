"""Runs of the real core are behaviours of the specification, simulated ones and walks; those of mutants are not."""

import os
from collections.abc import Sequence

import pytest
from tests.quorum.core import cluster
from tests.quorum.core.judge import Judge
from tests.quorum.core.walk import Walk
from tests.specs.recorder import Recorder
from tests.specs.tlc import Tlc
from tests.specs.trace import Rejection, parse, validate

from penstock.kernel.effects import Effect, Event
from penstock.kernel.ids import Revision
from penstock.quorum.core.config import NodeConfig
from penstock.quorum.core.node import Node
from penstock.quorum.records.metadata import Metadata
from penstock_lab.sim.checkers.book import FOR_EVER, Author
from penstock_lab.sim.checkers.hosts import CheckedHost
from penstock_lab.sim.checkers.quorum import QuorumChecks
from penstock_lab.sim.run import run_seed
from penstock_lab.sim.workloads import find, quorum

RECORDS_MAX = 300  # a prefix of a trace is a trace
WALK_STEPS = 250

pytestmark = pytest.mark.timeout(300)


class RecordingChecks(QuorumChecks):
    """The simulator's judge, which tells a recorder of every step before it looks at it."""

    newest: "RecordingChecks"

    def __init__(self, config: NodeConfig, pairs_max: int = FOR_EVER) -> None:
        super().__init__(config, pairs_max)
        self._recorder: Recorder | None = None
        RecordingChecks.newest = self

    @property
    def recorder(self) -> Recorder:
        if self._recorder is None:
            assert self.metadata is not None
            self._recorder = Recorder(self.metadata.ensemble)
        return self._recorder

    def booted(self, host: CheckedHost, core: Node, effects: Sequence[Effect]) -> None:
        super().booted(host, core, effects)
        if host.node.run > 1:
            disk = host.node.disk
            self.recorder.restarted(core, disk.state, disk.first, disk.records)

    def stepped(self, host: CheckedHost, event: Event, effects: Sequence[Effect], now: int) -> None:
        assert host.core is not None
        disk = host.node.disk
        self.recorder.stepped(host.core, effects, disk.state, disk.first, disk.records)
        super().stepped(host, event, effects, now)

    def metadata_written(self, writer: Author, metadata: Metadata) -> None:
        self.recorder.metadata(metadata)
        super().metadata_written(writer, metadata)


class RecordingKeySpace(cluster.KeySpace):
    """The metadata of a walk, with a recorder which hears of every write."""

    def __init__(self, metadata: Metadata) -> None:
        super().__init__(metadata)
        self.recorder = Recorder(metadata.ensemble)

    def write(self, metadata: Metadata, revision: Revision) -> bool:
        is_written = super().write(metadata, revision)
        if is_written:
            self.recorder.metadata(metadata)
        return is_written


class RecordingJudge(Judge):
    """The judge of a walk, which tells that recorder of every step."""

    def booted(self, host: cluster.Host) -> None:
        super().booted(host)
        if host.run > 1:
            recorder_of(host.cluster).restarted(host.up, host.disk.state, host.disk.first, host.disk.records)

    def stepped(self, host: cluster.Host, effects: Sequence[Effect]) -> None:
        recorder_of(host.cluster).stepped(host.up, effects, host.disk.state, host.disk.first, host.disk.records)
        super().stepped(host, effects)


def recorder_of(world: cluster.Cluster) -> Recorder:
    assert isinstance(world.keyspace, RecordingKeySpace)
    return world.keyspace.recorder


@pytest.fixture(autouse=True)
def _recording(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(quorum, "QuorumChecks", RecordingChecks)
    monkeypatch.setattr(cluster, "KeySpace", RecordingKeySpace)
    monkeypatch.setattr(cluster, "Judge", RecordingJudge)


def judge(tlc: Tlc, recorder: Recorder) -> Rejection | None:
    return validate(tlc, parse(recorder.text().splitlines()[: RECORDS_MAX + 1]), timeout_s=280)


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_a_simulated_run_is_a_behaviour(tlc: Tlc, seed: int) -> None:
    assert run_seed(find("quorum"), seed).failure is None
    rejection = judge(tlc, RecordingChecks.newest.recorder)
    assert rejection is None, str(rejection)


def test_a_random_walk_is_a_behaviour(tlc: Tlc) -> None:
    walk = Walk(15)
    walk.run(WALK_STEPS)
    rejection = judge(tlc, recorder_of(walk.cluster))
    assert rejection is None, str(rejection)


MUTANTS = ["commits-prior-epochs", *(["aborts-early"] if os.environ.get("SPECS") == "all" else [])]  # the long one


@pytest.mark.parametrize("mutant", MUTANTS)
def test_a_run_with_a_broken_rule_is_not(tlc: Tlc, mutant: str) -> None:
    for seed in range(10):
        run_seed(find("quorum", mutant=mutant), seed)  # whether the checkers notice is their business
        if judge(tlc, RecordingChecks.newest.recorder) is not None:
            return
    pytest.fail(f"no run with {mutant} was rejected")
