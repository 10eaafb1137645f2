"""Which frames of a journal of Arrow batches a range gives, and where they lie: all that Java needs to read them.

Sequencing looks at heads and UUIDs alone, and fragments in files are looked at where they lie (mmap), so a plan touches
one page of each frame. It is made by the same reader which tasks have: only what a message becomes differs, its place
instead of its rows. What always holds: frames which Java could not read are noticed here (`is_plain`), not there.
"""

import mmap
import os
from collections.abc import Iterator, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any, Final
from urllib.parse import unquote, urlsplit

import numpy as np
import pyarrow as pa

from penstock.journals.records.fragment import CompressionCodec, Fragment
from penstock.kernel.errors import StorageError
from penstock.kernel.ids import Offset
from penstock.messages.columns import I64, Chunk, Columns, fixed_columns
from penstock.messages.framing.compiled import IS_COMPILED, address
from penstock.messages.framing.fixed import BODY_AT, Fixed
from penstock.messages.framing.frame_kernels import first_odd_batch
from penstock.messages.row_decoder import Piece
from penstock.spark.shared.content import Access, Content
from penstock.spark.shared.content import Piece as Bytes

__all__ = ["PLACES", "FramePlaces", "MappedContent", "file_of", "mapped", "run_around"]

PLACES: Final = pa.schema([("begin", pa.int64()), ("end", pa.int64())])
HEADS_MAX: Final = 64  # schemas which frames of one range may have
_PREFIX_BYTES: Final = 8  # of an IPC message: a mark, and the length of its metadata


class FramePlaces:
    """A RowDecoder which makes a row of each frame: where it begins and ends."""

    schema = PLACES

    def __init__(self, wanted: Any) -> None:
        self.is_plain = True  # were all frames such as Java reads?
        self._wanted = wanted
        self._fixed = Fixed()
        self._heads: dict[bytes, tuple[int, int]] = {}  # of plain schemas: how many columns, and how many of them texts
        self._head = b""  # the one of the frame before

    def columns(self, data: Chunk) -> Columns:
        return fixed_columns(data, self._fixed)

    def decode(self, pieces: list[Piece]) -> Any:
        for piece in pieces:
            self.is_plain = self.is_plain and self._are_plain(piece)
        begins = [piece.begins + int(piece.base) for piece in pieces]
        ends = [piece.ends + int(piece.base) for piece in pieces]
        return pa.table([_joined(begins), _joined(ends)], PLACES)

    def _are_plain(self, piece: Piece) -> bool:
        if not IS_COMPILED:
            return False  # every frame would have to be looked at in Python: workers read them as quickly
        base, at = address(piece.data), 0
        begins, ends = piece.begins + BODY_AT, piece.ends
        while at < len(piece):
            if self._head in self._heads:
                shape = self._heads[self._head]
                found = first_odd_batch(base, begins[at:], ends[at:], address(self._head), len(self._head), *shape)
                at += found
                if at == len(piece):
                    return True
            if begins[at] == ends[at]:
                at += 1
                continue
            head = _head_of(piece.data, int(begins[at]), int(ends[at]))
            if head == self._head or not self._is_plain_head(head):
                return False
            self._head = head
        return True

    def _is_plain_head(self, head: bytes) -> bool:
        """Is it a schema of columns in one piece each, with those which are wanted in the types which are wanted?"""
        if head in self._heads:
            return True
        try:
            schema = pa.ipc.read_schema(pa.py_buffer(head))
        except (pa.ArrowException, OSError):
            return False
        is_plain = (
            len(set(schema.names)) == len(schema)
            and all(_is_plain_type(field.type) for field in schema)
            and all(schema.field(name).type.equals(kind) for name, kind in self._kinds() if name in schema.names)
        )
        if is_plain and len(self._heads) < HEADS_MAX:
            texts = sum(pa.types.is_string(kind) or pa.types.is_binary(kind) for kind in schema.types)
            self._heads[head] = len(schema), texts
        return is_plain and head in self._heads

    def _kinds(self) -> Iterator[tuple[str, Any]]:
        return zip(self._wanted.names, self._wanted.types, strict=True)


def _is_plain_type(kind: Any) -> bool:
    types = pa.types
    return bool(types.is_primitive(kind) or types.is_decimal128(kind) or types.is_string(kind) or types.is_binary(kind))


def _head_of(data: Chunk, begin: int, end: int) -> bytes:
    """The schema's message with which a body begins; nothing if it begins otherwise."""
    length = int.from_bytes(data[begin + 4 : begin + _PREFIX_BYTES], "little")
    return bytes(data[begin : begin + _PREFIX_BYTES + length]) if length <= end - begin - _PREFIX_BYTES else b""


def _joined(parts: list[I64]) -> Any:
    return pa.array(np.concatenate(parts) if parts else np.empty(0, np.int64), pa.int64())


class MappedContent(Content):
    """Fragments that lie in files, one after the other, as memory."""

    def __init__(self, access: Access, journal: str, run: Sequence[Fragment]) -> None:
        super().__init__(access, journal, fails_on_loss=True)
        self._run = run

    def read(self, begin: int, end: int) -> Iterator[Bytes]:
        for fragment in self._run:
            first, last = max(begin, fragment.begin), min(end, fragment.end)
            if first < last:
                memory, _ = mapped(fragment)
                yield Offset(first), memory[first - fragment.begin : last - fragment.begin]  # type: ignore[misc]


def mapped(fragment: Fragment) -> tuple[memoryview, mmap.mmap]:
    """The file of a Fragment, as memory."""
    path = file_of(fragment)
    try:
        with path.open("rb") as file:
            found = mmap.mmap(file.fileno(), fragment.length, access=mmap.ACCESS_READ)
            return memoryview(found), found
    except (OSError, ValueError) as error:  # it is gone meanwhile, or shorter
        raise StorageError(f"{path} has changed: {error}") from None


def file_of(fragment: Fragment) -> Path:
    """The file of a Fragment whose store is a folder."""
    return Path(unquote(urlsplit(fragment.backing_store).path)) / fragment.content_path


def run_around(fragments: Sequence[Fragment], offset: int) -> list[Fragment]:
    """The Fragments of a cover set around an offset which lie in files here, as they were written, without a hole."""
    middle = next((place for place, each in enumerate(fragments) if each.begin <= offset < each.end), None)
    if middle is None or not _is_file(fragments[middle]):
        return []
    first, last = middle, middle + 1
    while first > 0 and fragments[first - 1].end >= fragments[first].begin and _is_file(fragments[first - 1]):
        first -= 1
    while last < len(fragments) and fragments[last - 1].end >= fragments[last].begin and _is_file(fragments[last]):
        last += 1
    return _without_overlap(fragments[first:last])


def _without_overlap(run: Sequence[Fragment]) -> list[Fragment]:
    """Return the fragments of a run up to the first overlap, each ending where the next one begins."""
    for place, (one, next_) in enumerate(pairwise(run)):
        if one.end != next_.begin:
            return list(run[: place + 1])
    return list(run)


def _is_file(fragment: Fragment) -> bool:
    if not fragment.backing_store.startswith("file:///") or fragment.codec is not CompressionCodec.NONE:
        return False
    try:
        return os.stat(file_of(fragment)).st_size == fragment.length
    except OSError:
        return False
