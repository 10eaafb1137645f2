"""The port of the journal gateway: its requests to journals. `penstock.journals.client.journal.Journals` is one."""

from collections.abc import AsyncIterable, AsyncIterator, Iterable
from typing import Protocol

from penstock.journals.client.journal import Appended, Chunk
from penstock.journals.records.labels import Label, LabelSelector
from penstock.journals.records.protocol import JournalInfo, ReadHeader
from penstock.journals.records.registers import Txn
from penstock.kernel.ids import Offset

__all__ = ["Infos", "JournalAccess"]

Buffer = bytes | bytearray | memoryview
Infos = list[JournalInfo]  # under another name, since `JournalAccess.list` is a method


class JournalAccess(Protocol):
    """Journals, wherever their brokers are. Every failed append says whether anything was written."""

    async def append(
        self, journal: str, content: Buffer | Iterable[Buffer] | AsyncIterable[Buffer], *, offset: Offset | None = None,
        check: str | LabelSelector = "", union: Iterable[Label] | dict[str, str] = (),
        subtract: Iterable[Label] | dict[str, str] = (), txn: Txn | None = None, timeout: float = 10.0,
    ) -> Appended: ...  # fmt: skip

    def read(self, journal: str, offset: int = 0, *, end: int = 0, follow: bool = False) -> AsyncIterator[Chunk]: ...

    async def stat(self, journal: str, offset: int = -1) -> ReadHeader: ...

    async def list(self, selector: str | LabelSelector = "") -> Infos: ...
