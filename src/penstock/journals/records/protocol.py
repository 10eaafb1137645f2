"""What a broker and its clients say to each other, and brokers among themselves: methods and records of the wire.

    journal.replicate   one stream per (journal, peer, epoch); batches of the core's messages
    journal.append      one stream per client and journal; parts of appends in, answers out, many in flight
    journal.read        a stream of content, from an offset on
    journal.list        journals by selector, once or continuously
    journal.apply, journal.fragments, journal.resolve, journal.reset-head, journal.prune, journal.explain

Content is bulk: it follows the records, in their order, and is never encoded. A record says how much of the bulk is its
own.
"""

from enum import IntEnum
from typing import Annotated

import msgspec
from msgspec import Meta

from penstock.journals.records.api import AppendResponse, Resolution
from penstock.journals.records.epoch import PipelineEpoch
from penstock.journals.records.fragment import OFFSET_MAX, Fragment
from penstock.journals.records.fragment_index import Gap
from penstock.journals.records.labels import LabelSelector
from penstock.journals.records.registers import RegisterChange, Txn
from penstock.journals.records.spec import JournalSpec
from penstock.kernel.codec import Codec
from penstock.kernel.ids import NodeId, Offset, Revision

__all__ = [
    "APPEND",
    "APPLY",
    "EXPLAIN",
    "FRAGMENTS",
    "LIST",
    "PRUNE",
    "READ",
    "REPLICATE",
    "RESET_HEAD",
    "RESOLVE",
    "AppendAnswer",
    "AppendHello",
    "AppendPart",
    "AppendWish",
    "Applied",
    "Apply",
    "Change",
    "Explained",
    "Fragments",
    "JournalInfo",
    "JournalQuery",
    "ListQuery",
    "Listing",
    "PartKind",
    "ReadHeader",
    "ReadQuery",
    "ReplicateHello",
    "ResolveQuery",
    "Resolved",
    "Serving",
]

REPLICATE = "journal.replicate"
APPEND = "journal.append"
READ = "journal.read"
LIST = "journal.list"
APPLY = "journal.apply"
FRAGMENTS = "journal.fragments"
RESOLVE = "journal.resolve"
RESET_HEAD = "journal.reset-head"
PRUNE = "journal.prune"
EXPLAIN = "journal.explain"


class ReplicateHello(msgspec.Struct, frozen=True):
    """What a Replicate stream is opened with."""

    journal: str
    sender: NodeId
    epoch: PipelineEpoch


# appends


class AppendHello(msgspec.Struct, frozen=True):
    """What a stream of appends is opened with."""

    journal: str
    min_revision: Revision = Revision(0)  # the client knows that the KeySpace has come this far


class AppendWish(msgspec.Struct, frozen=True, omit_defaults=True):
    """The conditions and changes of an append, besides its content."""

    timeout_ms: int
    offset: Offset | None = None
    check: LabelSelector = LabelSelector()
    change: RegisterChange = RegisterChange()
    txn: Txn | None = None
    min_revision: Revision = Revision(0)


class PartKind(IntEnum):
    """What a part of an append is."""

    MORE = 0
    COMMIT = 1  # its last bytes
    ABORT = 2  # take everything back


class AppendPart(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """A part of one append, with its number of bytes of the message's bulk. The first one has the wish."""

    number: int
    length: int
    kind: PartKind
    wish: AppendWish | None = None


class AppendAnswer(msgspec.Struct, frozen=True, array_like=True):
    """The answer to an append; if another broker is the primary, where that one is."""

    number: int
    response: AppendResponse
    primary: str = ""


# reads


class ReadQuery(msgspec.Struct, frozen=True, omit_defaults=True):
    """Read a journal from an offset on; -1 is where it ends now."""

    journal: str
    offset: Offset = Offset(0)
    end: Offset = Offset(0)  # stop there; 0: never
    blocks: bool = False  # wait for more at the end
    is_metadata_only: bool = False
    begin_mod_time: int = 0  # skip fragments which were stored before, in unix seconds
    min_revision: Revision = Revision(0)
    min_head: Offset = Offset(0)  # the reader knows that the journal has come so far: do not end before
    is_direct: bool = False  # send only the header of a stored fragment: the reader gets the content from the store


class ReadHeader(msgspec.Struct, frozen=True, omit_defaults=True):
    """What follows comes from this Fragment, from this offset on. Content messages after it have only bulk."""

    offset: Offset
    write_head: Offset
    fragment: Fragment | None = None  # None: no content yet
    url: str = ""  # where the fragment can be read without us


# journals


class Serving(msgspec.Struct, frozen=True):
    """A broker which serves a journal."""

    broker: NodeId
    address: str
    is_primary: bool


class JournalInfo(msgspec.Struct, frozen=True):
    """A journal as the KeySpace has it."""

    spec: JournalSpec
    create_revision: Revision
    mod_revision: Revision
    brokers: tuple[Serving, ...] = ()
    epoch: PipelineEpoch | None = None  # None: not synchronized yet
    start: Offset = Offset(0)  # where that epoch began
    resets: tuple[Offset, ...] = ()  # below each of these a reset-head left a gap

    @property
    def primary(self) -> Serving | None:
        return next((each for each in self.brokers if each.is_primary), None)


class ListQuery(msgspec.Struct, frozen=True, omit_defaults=True):
    """Which journals are there?"""

    selector: LabelSelector = LabelSelector()
    watches: bool = False  # tell it again after every change
    min_revision: Revision = Revision(0)


class Listing(msgspec.Struct, frozen=True):
    """A part of the answer; the last part says so."""

    revision: Revision
    journals: tuple[JournalInfo, ...]
    is_last: bool
    brokers: Annotated[int, Meta(ge=0, le=1 << 20)] = 0  # that run; 0: a broker of an older release, which does not say


class Change(msgspec.Struct, frozen=True, omit_defaults=True):
    """One change of a spec: put it, or delete the journal of that name."""

    upsert: JournalSpec | None = None
    delete: str = ""
    expect_mod_revision: int = -1  # 0: it must not exist yet; -1: any revision


class Apply(msgspec.Struct, frozen=True):
    """All of them, or none."""

    changes: tuple[Change, ...]


class Applied(msgspec.Struct, frozen=True):
    """They are in the KeySpace since this revision."""

    revision: Revision


class JournalQuery(msgspec.Struct, frozen=True, omit_defaults=True):
    """Something about one journal."""

    journal: str
    timeout_ms: int = 10_000
    min_revision: Revision = Revision(0)
    min_head: Offset = Offset(0)  # the client knows that the journal has come so far: do not answer before
    offset: Annotated[Offset, Meta(ge=0, le=OFFSET_MAX)] | None = None  # of a reset-head: continue here


class Fragments(msgspec.Struct, frozen=True):
    """The fragments a broker knows of a journal, and how far appends have come."""

    fragments: tuple[Fragment, ...]
    write_head: Offset
    is_refreshed: bool  # the stores were listed
    gaps: tuple[Gap, ...] = ()  # between them


class ResolveQuery(msgspec.Struct, frozen=True):
    """What became of an append whose answer was unknown?"""

    journal: str
    epoch: PipelineEpoch
    begin: Offset
    end: Offset


class Resolved(msgspec.Struct, frozen=True):
    """The answer, and who gave it."""

    resolution: Resolution
    broker: NodeId


class Explained(msgspec.Struct, frozen=True):
    """A journal's state at one broker, in words."""

    broker: NodeId
    is_primary: bool
    lines: tuple[str, ...]
    waiting: int  # appends on their way


APPEND_PARTS = Codec[list[AppendPart]](list[AppendPart])
APPEND_ANSWERS = Codec[list[AppendAnswer]](list[AppendAnswer])
