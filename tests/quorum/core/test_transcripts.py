"""Golden transcripts: commands, a line of dashes, and everything that happened, to be read like the design document.

`make golden` (or PENSTOCK_GOLDEN=write) writes down what happens now; read the difference before you commit it.
A command per line:

    cluster NODES [SPARES] [one-by-one: an entry per message]
    fence EPOCH NODES    lead EPOCH NODE [FOLLOWERS]    follow EPOCH LEADER NODE
    append NODE VALUE… [async] [rolls-back]        time-out NODE    heartbeat NODE    read NODE [local]
    deliver [FROM→TO] [KIND] [xN]                  drop [FROM→TO] [KIND]          settle [NODES]
    hold NODE    sync NODE    crash NODE    restart NODE    prepare EPOCH CHANGE    commit EPOCH CHANGE
    operator NAME    ask NAME CHANGE|elect [NODE]  tick NAME [seconds]            resolve NODE EPOCH/OFFSET
    log [NODES]    metadata
"""

import os
from collections.abc import Callable, Sequence
from pathlib import Path

import msgspec
import pytest
from tests.quorum.core import describe
from tests.quorum.core.cluster import CONFIG, Cluster, Packet, entry_id, member

from penstock.kernel.effects import Effect, Event
from penstock.kernel.ids import SECOND, Epoch, NodeId, Offset
from penstock.quorum.core.operator import Elect, Reconfigure
from penstock.quorum.core.reading.reads import QuorumRead
from penstock.quorum.records.messages import (
    Change,
    ChangeOp,
    CommitReconfigurationRequest,
    PrepareReconfigurationRequest,
)
from penstock.quorum.records.resolution import Resolve

IS_REWRITING = os.environ.get("GOLDEN") == "rewrite" or os.environ.get("PENSTOCK_GOLDEN") == "write"
TRANSCRIPTS = Path(__file__).parent / "transcripts"


class Told(Cluster):
    """A cluster which tells its story."""

    story: list[str]

    def stepped(self, name: NodeId, event: Event, effects: Sequence[Effect]) -> None:
        what = describe.event(event)
        done = [line for line in map(describe.effect, effects) if line is not None]
        if what is not None or done:
            self.story.append(f"{name} {what or 'goes on'}")
            self.story += [f"  {line}" for line in done]


class Stage:
    """Runs the commands of one transcript."""

    def __init__(self) -> None:
        self.cluster: Told

    def run(self, line: str) -> list[str]:
        verb, *words = line.split()
        if verb == "cluster":
            Told.story = []
            names, *rest = [word for word in words if word != "one-by-one"]
            config = msgspec.structs.replace(CONFIG, push_bytes_max=1) if "one-by-one" in words else CONFIG
            self.cluster = Told(names, spares="".join(rest), config=config)
        self.cluster.story = []
        handler: Callable[..., None] = getattr(self, f"do_{verb.replace('-', '_')}")
        handler(*words)
        return self.cluster.story

    def tell(self, line: str) -> None:
        self.cluster.story.append(line)

    def do_cluster(self, *_: str) -> None:
        pass

    # the operator by hand

    def do_fence(self, epoch: str, names: str) -> None:
        self.cluster.fence(int(epoch), names)

    def do_lead(self, epoch: str, leader: str, followers: str = "") -> None:
        heads = {name: self.cluster[name].up.log.head for name in followers}
        self.cluster.become_leader(int(epoch), leader, heads)

    def do_follow(self, epoch: str, leader: str, name: str) -> None:
        self.cluster.add_follower(int(epoch), leader, name, self.cluster[name].up.log.head)

    def do_prepare(self, epoch: str, *words: str) -> None:
        request = PrepareReconfigurationRequest(Epoch(int(epoch)), member("A").incarnation, change(*words))
        self._tell_leader(request)

    def do_commit(self, epoch: str, *words: str) -> None:
        request = CommitReconfigurationRequest(Epoch(int(epoch)), member("A").incarnation, change(*words))
        self._tell_leader(request)

    def _tell_leader(self, request: PrepareReconfigurationRequest | CommitReconfigurationRequest) -> None:
        self.cluster.send("A", request)
        self.cluster.deliver(lambda packet: packet.message is request)

    # operators as processes

    def do_operator(self, name: str) -> None:
        self.cluster.start_operator(name)

    def do_ask(self, name: str, *words: str) -> None:
        prefer = NodeId(words[1]) if len(words) > 1 else None
        self.cluster.ask_operator(name, Elect(prefer) if words[0] == "elect" else Reconfigure(change(*words)))

    def do_tick(self, name: str, seconds: str = "0") -> None:
        self.cluster.pass_time(int(seconds) * SECOND)
        self.cluster.operators[NodeId(name)].tick()

    # clients

    def do_append(self, name: str, *words: str) -> None:
        values = [word for word in words if word not in ("async", "rolls-back")]
        self.cluster.append(name, *values, is_sync="async" not in words, rolls_back="rolls-back" in words)

    def do_read(self, name: str, *words: str) -> None:
        self.cluster.ask(name, QuorumRead(is_linearizable="local" not in words))

    def do_resolve(self, name: str, id_: str) -> None:
        epoch, offset = map(int, id_.split("/"))
        self.cluster.ask(name, Resolve(entry_id(epoch, offset)))

    # the world

    def do_deliver(self, *words: str) -> None:
        counts = [int(word[1:]) for word in words if word.startswith("x") and word[1:].isdigit()]
        self.cluster.deliver(chooser(*words), count=counts[0] if counts else 1 << 30)

    def do_drop(self, *words: str) -> None:
        for packet in self.cluster.drop(chooser(*words)):
            self.tell(f"lost, {packet.sender} to {packet.to}: {describe.message(packet.message)}")

    def do_settle(self, names: str = "") -> None:
        self.cluster.settle(self.cluster.between(*names) if names else lambda _: True)

    def do_time_out(self, name: str) -> None:
        self.cluster.pass_time(6 * SECOND)
        self.cluster[name].fire("limbo")

    def do_heartbeat(self, name: str) -> None:
        self.cluster.heartbeat(name)

    def do_hold(self, name: str) -> None:
        self.cluster[name].holds_disk = True

    def do_sync(self, name: str) -> None:
        self.cluster[name].holds_disk = False
        self.cluster[name].sync()

    def do_crash(self, name: str) -> None:
        if NodeId(name) in self.cluster.operators:
            self.cluster.operators[NodeId(name)].crash()
        else:
            self.cluster.crash(name)
            self.cluster[name].holds_disk = False

    def do_restart(self, name: str) -> None:
        self.cluster.restart(name)

    # looking

    def do_log(self, names: str = "") -> None:
        for name, host in self.cluster.hosts.items():
            if names and name not in names:
                continue
            if host.node is None:
                self.tell(f"{name} is down")
                continue
            log, replica = host.node.log, host.node.replica
            held = [log.tail_between(Offset(offset), Offset(offset), 1)[0] for offset in range(log.first, log.end + 1)]
            self.tell(f"{name} {host.node.role.value} in {host.node.epoch}: {describe.entries(log.first, held)}")
            values = b" ".join(host.values).decode() or "nothing"
            self.tell(f"  commit {replica.commit}, confirmed {log.confirmed}, applied {replica.applied}: {values}")

    def do_metadata(self) -> None:
        self.tell(describe.metadata(self.cluster.metadata()))


def change(op: str, *names: str) -> Change:
    """`swap B D`, `expand D`, `contract B`."""
    old = member(names[0]) if op != "expand" else None
    new = member(names[-1]) if op != "contract" else None
    return Change(ChangeOp(op), old, new)


def chooser(*words: str) -> Callable[[Packet], bool]:
    """Packets of a link (`A→B`, `A→`, `→B`) and of a kind."""
    links = [word.split("→") for word in words if "→" in word]
    kinds = [word for word in words if "→" not in word and not (word.startswith("x") and word[1:].isdigit())]

    def chooses(packet: Packet) -> bool:
        on_link = all(a in ("", packet.sender) and b in ("", packet.to) for a, b in links)
        kind = type(packet.message).__name__.removesuffix("Request")
        return on_link and (not kinds or kind in kinds)

    return chooses


def played(text: str) -> str:
    """The transcript as it would be written now."""
    stage, lines, told = Stage(), text.splitlines(), []
    index = 0
    while index < len(lines):
        line = lines[index]
        told.append(line)
        index += 1
        if index < len(lines) and lines[index] == "----":
            while index < len(lines) and lines[index]:
                index += 1
            told += ["----", *(stage.run(line) or ["nothing happens"])]
    stage.cluster.judge.at_the_end()
    return "\n".join(told) + "\n"


@pytest.mark.parametrize("path", sorted(TRANSCRIPTS.glob("*.txt")), ids=lambda path: path.stem)
def test_transcript(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    now = played(text)
    if IS_REWRITING:
        path.write_text(now, encoding="utf-8")
    else:
        assert now == text
