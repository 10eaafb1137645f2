"""Random walks of the real core, with real operators, are behaviours of the specification; those of mutants are not."""

from collections.abc import Sequence

import pytest
from tests.quorum import cluster
from tests.quorum.cluster import Host, KeySpace
from tests.quorum.judge import Judge
from tests.quorum.mutants import VotesBeforeDurable, node_with
from tests.quorum.walk import Walk
from tests.specs.recorder import Recorder
from tests.specs.tlc import Tlc
from tests.specs.trace import Rejection, parse, validate

from penstock.base.effects import Effect
from penstock.base.ids import Revision
from penstock.quorum.metadata import Metadata
from penstock.quorum.node import Node

STEPS = 250


class RecordingKeySpace(KeySpace):
    """A KeySpace which tells the recorder of every write."""

    def __init__(self, metadata: Metadata) -> None:
        super().__init__(metadata)
        self.recorder = Recorder(metadata.ensemble)

    def write(self, metadata: Metadata, revision: Revision) -> bool:
        is_written = super().write(metadata, revision)
        if is_written:
            self.recorder.metadata(metadata)
        return is_written


class RecordingJudge(Judge):
    """A judge which tells the recorder of every step, before it looks at it."""

    def booted(self, host: Host) -> None:
        super().booted(host)
        if host.run > 1:
            disk = host.disk
            _recorder(host).restarted(host.up, disk.state, disk.first, disk.records)

    def stepped(self, host: Host, effects: Sequence[Effect]) -> None:
        disk = host.disk
        _recorder(host).stepped(host.up, effects, disk.state, disk.first, disk.records)
        super().stepped(host, effects)


def _recorder(host: Host) -> Recorder:
    keyspace = host.cluster.keyspace
    assert isinstance(keyspace, RecordingKeySpace)
    return keyspace.recorder


@pytest.fixture(autouse=True)
def _recording(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cluster, "KeySpace", RecordingKeySpace)
    monkeypatch.setattr(cluster, "Judge", RecordingJudge)


def walk(tlc: Tlc, seed: int, node_class: type[Node] = Node) -> Rejection | None:
    run = Walk(seed, node_class=node_class)
    try:
        run.run(STEPS)
    except AssertionError:
        assert node_class is not Node, "the judge has found what the specification should"
    keyspace = run.cluster.keyspace
    assert isinstance(keyspace, RecordingKeySpace)
    return validate(tlc, parse(keyspace.recorder.text().splitlines()), timeout_s=280)


@pytest.mark.timeout(300)
@pytest.mark.parametrize("seed", [1, 15])
def test_the_core_does_what_the_specification_allows(tlc: Tlc, seed: int) -> None:
    rejection = walk(tlc, seed)
    assert rejection is None, str(rejection)


@pytest.mark.timeout(300)
def test_a_broken_core_does_not(tlc: Tlc) -> None:
    blind = type("Blind", (node_with(leader_class=VotesBeforeDurable),), {"check": lambda self: None})
    rejections = (walk(tlc, seed, blind) for seed in range(10))
    rejection = next(each for each in rejections if each is not None)
    assert '"LEADER"' in rejection.text, "a leader has counted a vote which is none"
