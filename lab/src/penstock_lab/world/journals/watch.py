"""Observers who see every disk, store and process at once: rules that no client could check. Design: rooms.md §3.

E5     From its acknowledgement on, some disk or store has every record.
E8     Descriptors, tasks, registers and waiting bytes stay within their bounds.
lease  A process ends when its lease does.

What always holds: they read, and change nothing; they draw nothing that a process draws.
"""

import asyncio
from typing import TYPE_CHECKING, Final

from penstock.journals.records.fragment import Fragment
from penstock.journals.records.registers import REGISTERS_BYTES_MAX, registers_bytes
from penstock.journals.storage.codecs import decompressor
from penstock.kernel.errors import PenstockError
from penstock_lab.world.journals.ledger import SentRecord
from penstock_lab.world.process import FOLDER, Life
from penstock_lab.world.scene import SECOND

if TYPE_CHECKING:
    from penstock_lab.world.journals.site import JournalsSite

__all__ = ["JournalsWatch"]

TICK_NS: Final = SECOND // 2
SAMPLE: Final = 8  # acknowledged records that are looked for at each tick
DESCRIPTORS: Final = 100  # of one process, and for each journal
DESCRIPTORS_EACH: Final = 20
TASKS_MAX: Final = 300
HELD_SLACK: Final = 8 << 20  # a stream may bring so much before it is ended
LEASE_SLACK_NS: Final = 6 * SECOND  # of a process: its clock, its drain, its next turn


class JournalsWatch:
    """Looks at a world of journals every half second, and at each acknowledgement."""

    def __init__(self, site: "JournalsSite") -> None:
        self._site = site
        self._rng = site.world.random("watch")
        self._stored: dict[tuple[str, str], bytes] = {}  # objects by key and version, unpacked
        self._leased_ns: dict[str, int] = {}  # servers: when the KeySpace last had their lease
        self._lives: dict[str, Life] = {}
        self._is_stopped = False
        site.ledger.on_acknowledged = self.acknowledged
        site.world.after(TICK_NS, self._tick)

    def stop(self) -> None:
        """Look at nothing more: a script damages the only copy."""
        self._is_stopped = True
        self._site.ledger.on_acknowledged = lambda _: None

    def acknowledged(self, sent: SentRecord) -> None:
        if sent.journal not in self._site.deleted and not self.has(sent):
            self._site.world.fail(
                f"E5: record {sent.number} of {sent.journal} was acknowledged, and no disk or store has it"
            )

    def _tick(self) -> None:
        site = self._site
        if site.scene.is_calm or self._is_stopped:
            return
        site.world.after(TICK_NS, self._tick)
        known = [
            sent
            for sent in site.ledger.sent
            if sent.fate == "acknowledged" and sent.journal not in site.deleted and sent.journal not in site.excused
        ]
        for sent in self._rng.sample(known, min(SAMPLE, len(known))):
            if not self.has(sent):
                site.world.fail(f"E5: the last copy of record {sent.number} of {sent.journal} is gone")
        for name in site.scene.servers:
            life = site.scene.life(name)
            if life is not None:
                self._bounds(life)
                self._lease(life)

    # E5

    def has(self, sent: SentRecord) -> bool:
        """Return whether some disk or store has a record."""
        return self._has_disk(sent) or self._has_store(sent)

    def _has_disk(self, sent: SentRecord) -> bool:
        for name in self._site.scene.servers:
            files = self._site.scene.computers[name].files
            for path in files.walk(FOLDER / "spools" / sent.journal):
                if files.file(path).data.find(sent.content) >= 0:
                    return True
        return False

    def _has_store(self, sent: SentRecord) -> bool:
        for bucket in self._site.scene.buckets.values():
            for key, (data, meta, _) in bucket.objects.items():
                if not key.startswith(f"{sent.journal}/"):
                    continue
                version = (key, str(meta.etag))
                if version not in self._stored:
                    self._stored[version] = _unpacked(sent.journal, key, data)
                if sent.content in self._stored[version]:
                    return True
        return False

    # E8

    def _bounds(self, life: Life) -> None:
        site, world = self._site, self._site.world
        broker = site.brokers.get(life.name)
        descriptors, tasks = life.disk.open_count, len(asyncio.all_tasks(life.loop))
        journals = len(site.settings.journals) + len(site.made)
        if tasks > TASKS_MAX:
            world.fail(f"E8: {life.name} has {tasks} tasks")
        if broker is None or broker[0] is not life:
            return
        server = broker[1].server
        files = sum(len(host.files._files()) for host in server.hosts)
        if descriptors > DESCRIPTORS + DESCRIPTORS_EACH * journals + files:
            world.fail(f"E8: {life.name} has {descriptors} files open")
        if server.held.bytes > server.held.bytes_max + HELD_SLACK or server.held.bytes < 0:
            world.fail(f"E8: {life.name} holds {server.held.bytes} bytes of appends that wait")
        if server.unstored.bytes < 0:
            world.fail(f"E8: {life.name} counts {server.unstored.bytes} bytes that no store has")
        for host in server.hosts:
            registers = registers_bytes(host.replica.spool.registers)
            if registers > REGISTERS_BYTES_MAX:
                world.fail(f"E8: {host.journal} has {registers} bytes of registers at {life.name}")

    # lease

    def _lease(self, life: Life) -> None:
        site, now = self._site, self._site.world.now_ns
        if self._lives.get(life.name) is not life:
            self._lives[life.name] = life
            self._leased_ns.pop(life.name, None)
        if site.scene.keyspace.leased(life.name) or (life.is_frozen and life.name in self._leased_ns):
            self._leased_ns[life.name] = now
        since = self._leased_ns.get(life.name)
        lease_ns = site.settings.config.lease_ms * 1_000_000
        if since is not None and now - since > lease_ns + LEASE_SLACK_NS + int(site.settings.config.drain_s * 2e9):
            world_s = since / SECOND
            site.world.fail(f"lease: {life.name} still serves, and its lease ended at {world_s:.3f} s")


def _unpacked(journal: str, key: str, data: bytes) -> bytes:
    try:
        stream = decompressor(Fragment.parse_path(journal, key).codec)
        return b"".join(bytes(piece) for piece in stream.decompress(data))
    except PenstockError:
        return b""
