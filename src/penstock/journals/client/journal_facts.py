"""A journal's settings and state at a glance, as `journal.info()` returns them."""

from typing import Final

import msgspec

from penstock.journals.client.journal import Journals
from penstock.journals.records.labels import LabelSelector, LabelSet
from penstock.journals.records.spec import JournalSpec
from penstock.kernel.errors import NotFound
from penstock.kernel.ids import Offset
from penstock.kernel.notebook import html_table

__all__ = ["JournalFacts", "facts_of"]

TIMEOUT_S: Final = 10.0


class JournalFacts(msgspec.Struct, frozen=True):
    """A journal's settings and state."""

    name: str
    begin: Offset  # of the oldest content that can be read
    end: Offset  # where the next append goes
    stored_bytes: int  # of its content, in the store
    brokers: tuple[str, ...]  # addresses
    primary: str  # address; empty while no broker is the primary
    spec: JournalSpec

    def __repr__(self) -> str:
        primary = f"primary {self.primary}" if self.primary else "no primary"
        copies = f"{len(self.brokers)}/{self.spec.replication} brokers"
        return f"journal {self.name}: [{self.begin}, {self.end}), {copies}, {primary}"

    def _repr_html_(self) -> str:
        rows = [
            ("journal", self.name),
            ("offsets", f"{self.begin}, {self.end}"),
            ("stored", f"{self.stored_bytes} bytes"),
            ("brokers", f"{len(self.brokers)} of {self.spec.replication}: {', '.join(self.brokers)}"),
            ("primary", self.primary or "none"),
            ("fsync", "yes" if self.spec.fsync else "no"),
        ]
        return html_table((), rows)


async def facts_of(journals: Journals, name: str) -> JournalFacts:
    """Return the facts of a journal. `NotFound` if it does not exist."""
    found = await journals.list(LabelSelector(LabelSet.of({"name": name})))
    if not found:
        raise NotFound(f"there is no journal {name!r}", next_step="penstock journals list")
    info = found[0]
    known = await journals.fragments(name, timeout=TIMEOUT_S)
    return JournalFacts(
        name,
        min((each.begin for each in known.fragments), default=known.write_head),
        known.write_head,
        sum(each.length for each in known.fragments if each.backing_store),
        tuple(each.address for each in info.brokers),
        info.primary.address if info.primary is not None else "",
        info.spec,
    )
