"""Bytes which end where memory ends: to read one byte more is a crash, not a wrong answer."""

import ctypes
import mmap
from collections.abc import Iterator
from contextlib import contextmanager

PROT_NONE = 0
_libc = ctypes.CDLL(None, use_errno=True)


@contextmanager
def guarded(content: bytes) -> Iterator[memoryview]:
    """The content, right before a page which nobody may touch."""
    pages = (len(content) + mmap.PAGESIZE - 1) // mmap.PAGESIZE
    memory = mmap.mmap(-1, (pages + 1) * mmap.PAGESIZE)
    begin = ctypes.addressof(ctypes.c_char.from_buffer(memory))
    guard = ctypes.c_void_p(begin + pages * mmap.PAGESIZE)
    assert _libc.mprotect(guard, mmap.PAGESIZE, PROT_NONE) == 0
    view = memoryview(memory)[pages * mmap.PAGESIZE - len(content) : pages * mmap.PAGESIZE]
    view[:] = content
    yield view  # the memory is given back with the last view of it
