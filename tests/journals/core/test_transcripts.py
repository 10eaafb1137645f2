"""Golden transcripts: commands and their effects on brokers. `GOLDEN=rewrite pytest` writes them.

A transcript is a text: a title, then blocks of a command, `----`, and what happened. Read the difference before you
commit it: it is the protocol.
"""

import os
from pathlib import Path

import pytest
from tests.journals.core import describe

from penstock.kernel.effects import Effect, Event
from penstock.kernel.ids import NodeId
from penstock_lab.explorer_journal.world import JournalWorld

TRANSCRIPTS = Path(__file__).parent / "transcripts"
IS_REWRITING = os.environ.get("GOLDEN") == "rewrite"


class Stage:
    """Runs commands on a world, and keeps the lines about each."""

    def __init__(self) -> None:
        self.world = JournalWorld()
        self.told: list[str] = []

    def run(self, line: str) -> list[str]:
        self.told = []
        name, *words = line.split()
        getattr(self, f"do_{name.replace('-', '_')}")(*words)
        return self.told

    def _trace(self, name: NodeId, event: Event, effects: list[Effect]) -> None:
        self.told.append(f"{name} {describe.event(event)}")
        self.told += [f"  {describe.effect(each)}" for each in effects]

    def do_world(self, replication: str, size: str, *words: str) -> None:
        """`world R N [kept] [length L]`: the journal is created and assigned; no broker has looked yet."""
        length = int(words[words.index("length") + 1]) if "length" in words else 1_000
        self.world = JournalWorld(int(replication), int(size), is_kept="kept" in words, fragment_length=length).start()
        self.world.trace = self._trace

    def do_settle(self, *names: str) -> None:
        self.world.settle(*map(NodeId, names))

    def do_look(self, name: str) -> None:
        self.world.mirror(NodeId(name))

    def do_deliver(self, source: str, to: str, count: str = "1") -> None:
        self.world.deliver(NodeId(source), NodeId(to), count=int(count))

    def do_transact(self) -> None:
        self.world.transact()

    def do_append(self, name: str, *words: str) -> None:
        length = next((int(word[1:]) for word in words if word[0] == "x"), 1)
        check = next((word for word in words if "=" in word), "")
        self.world.append(NodeId(name), length=length, check=check, by_hand="by-hand" in words)

    def do_feed(self, append: str, content: str) -> None:
        self.world.feed(int(append), bytes([int(append)]) * int(content), is_end=False)

    def do_abort(self, append: str) -> None:
        self.world.abort(int(append))

    def do_cut(self, one: str, other: str) -> None:
        self.world.cut(NodeId(one), NodeId(other))

    def do_crash(self, name: str) -> None:
        self.world.crash(NodeId(name))

    def do_expire(self, name: str) -> None:
        self.world.expire(NodeId(name))

    def do_fail_over(self, to: str, *joining: str) -> None:
        self.world.fail_over(NodeId(to), *map(NodeId, joining))
        self.told.append(f"the Route is {self.world.keys.now.route} at revision {self.world.keys.revision}")

    def do_pulse(self, name: str) -> None:
        self.world.pulse(NodeId(name))

    def do_reset_head(self, name: str) -> None:
        self.world.reset_head(NodeId(name))

    def do_spools(self) -> None:
        for name, site in self.world.sites.items():
            view = site.view
            points = " ".join(map(str, view.points))
            uploads = ", ".join(f"[{each.begin}, {each.end})" for each in site.uploads)
            self.told.append(
                f"{name} in {view.epoch}, mark {view.mark}: {points}{f'; uploads {uploads}' if uploads else ''}"
            )


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
    return "\n".join(told) + "\n"


@pytest.mark.parametrize("path", sorted(TRANSCRIPTS.glob("*.txt")), ids=lambda path: path.stem)
def test_transcript(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    now = played(text)
    if IS_REWRITING:
        path.write_text(now, encoding="utf-8")
    else:
        assert now == text
