"""Random histories, with power cuts, against a list."""

import asyncio
import tempfile
from contextlib import suppress
from pathlib import Path
from random import Random

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from tests.plumbing.wal.disks import FaultyDisk, How, PowerCutDisk

from penstock.kernel.errors import WalPoisoned
from penstock.kernel.ids import Lsn
from penstock.plumbing.wal import Wal, WalOptions

OPTIONS = WalOptions(segment_bytes=4096, batch_bytes_max=1000, mark_after_s=None)
SIZES = st.lists(st.one_of(st.integers(0, 60), st.integers(0, 1500)), min_size=1, max_size=4)


class WalMachine(RuleBasedStateMachine):
    """A WAL on a disk whose power is cut now and then. The model is the list of all records, from Lsn 1 on."""

    def __init__(self) -> None:
        super().__init__()
        self.loop = asyncio.new_event_loop()
        self.root = tempfile.TemporaryDirectory()
        self.lives = 0
        self.made = 0
        self.records: list[bytes] = []
        self.trimmed_to = 1

    @initialize()
    def begin(self) -> None:
        self.open(Path(self.root.name) / "0")

    def open(self, folder: Path) -> None:
        self.folder = folder
        self.platter = PowerCutDisk()
        if folder.exists():
            self.platter.adopt(folder)
        self.disk = FaultyDisk(self.platter)
        self.wal = self.loop.run_until_complete(Wal.open(folder, OPTIONS, disk=self.disk))

    def make(self, sizes: list[int]) -> list[bytes]:
        self.made += 1
        return [f"{self.made}.{number}".encode().ljust(size, b".")[:size] for number, size in enumerate(sizes)]

    def read_all(self) -> list[bytes]:
        async def walk() -> list[bytes]:
            return [bytes(record) async for records in self.wal.walk(self.wal.first_lsn) for record in records]

        return self.loop.run_until_complete(walk())

    @rule(appends=st.lists(SIZES, min_size=1, max_size=4))
    def append(self, appends: list[list[int]]) -> None:
        batches = [self.make(sizes) for sizes in appends]

        async def append() -> list[Lsn]:
            return await asyncio.gather(*(self.wal.append(batch) for batch in batches))

        lsns = self.loop.run_until_complete(append())
        for batch, lsn in zip(batches, lsns, strict=True):
            self.records += batch
            assert lsn == len(self.records)

    @rule(back=st.integers(0, 12))
    def truncate(self, back: int) -> None:
        lsn = max(self.trimmed_to - 1, len(self.records) - back)
        self.loop.run_until_complete(self.wal.truncate(Lsn(lsn)))
        del self.records[lsn:]

    @precondition(lambda self: self.records)
    @rule(back=st.integers(0, 12))
    def trim(self, back: int) -> None:
        self.trimmed_to = max(self.trimmed_to, len(self.records) + 1 - back)
        self.loop.run_until_complete(self.wal.trim(Lsn(self.trimmed_to)))

    @precondition(lambda self: self.records)
    @rule(data=st.data(), bytes_max=st.integers(1, 4000))
    def read(self, data: st.DataObject, bytes_max: int) -> None:
        first_lsn = data.draw(st.integers(self.wal.first_lsn, len(self.records) + 1))
        records = self.loop.run_until_complete(self.wal.read(Lsn(first_lsn), bytes_max=bytes_max))
        expected = self.records[first_lsn - 1 : first_lsn - 1 + len(records)]
        assert [bytes(record) for record in records] == expected
        assert len(records) > 0 or first_lsn == len(self.records) + 1

    @rule()
    def reopen(self) -> None:
        self.loop.run_until_complete(self.wal.close())
        self.wal = self.loop.run_until_complete(Wal.open(self.folder, OPTIONS, disk=self.disk))
        assert self.wal.recovery.torn is None

    @rule(
        sizes=SIZES,
        calls=st.integers(1, 12),
        how=st.sampled_from(How),
        back=st.one_of(st.none(), st.integers(1, 12)),
        seed=st.integers(0, 2**32),
    )
    def cut_power(self, sizes: list[int], calls: int, how: How, back: int | None, seed: int) -> None:
        """The machine dies in the middle of an append or of a truncation."""
        allowed = [list(self.records)]
        self.disk.die(calls, how)
        with suppress(WalPoisoned):
            if back is None:
                records = self.make(sizes)
                allowed += [self.records + records[: count + 1] for count in range(len(records))]
                self.loop.run_until_complete(self.wal.append(records))
            else:
                lsn = max(self.trimmed_to - 1, len(self.records) - back)
                allowed.append(self.records[:lsn])
                self.loop.run_until_complete(self.wal.truncate(Lsn(lsn)))
            allowed = allowed[-1:]
        self.disk.die()
        self.end()
        self.lives += 1
        target = Path(self.root.name) / str(self.lives)
        self.platter.cut_power(Random(seed), self.folder, target)
        self.open(target)
        start = self.wal.first_lsn - 1
        fitting = [log for log in allowed if len(log) == self.wal.last_lsn]
        assert fitting, (self.wal.last_lsn, [len(log) for log in allowed])
        assert self.read_all() == fitting[0][start:]
        self.records = fitting[0]

    @invariant()
    def numbers_agree(self) -> None:
        if hasattr(self, "wal"):
            assert self.wal.last_lsn == self.wal.durable_lsn == len(self.records)
            assert self.wal.first_lsn <= max(self.trimmed_to, 1)

    def end(self) -> None:
        with suppress(WalPoisoned):
            self.loop.run_until_complete(self.wal.close())

    def teardown(self) -> None:
        if hasattr(self, "wal"):
            assert self.read_all() == self.records[self.wal.first_lsn - 1 :]
            self.end()
        self.loop.run_until_complete(self.loop.shutdown_default_executor())
        self.loop.close()
        self.root.cleanup()


WalMachine.TestCase.settings = settings(max_examples=40, stateful_step_count=25, deadline=None)
test_random_histories = WalMachine.TestCase
