"""How loops over the bytes of messages are compiled (Numba), and how they reach memory: by address.

An array which one compiled function hands to another is counted each time, which took three quarters of a kernel's
time; numbers are not. So the caller of a kernel is responsible for the memory: a buffer stays alive while its address
is used, and a kernel stays within the sizes it is given. Arrays are for what a kernel fills row by row.

A kernel is compiled at its first call on a machine, which takes seconds, and kept on disk for later processes: next to
its source, or in `NUMBA_CACHE_DIR`, or in the user's cache. See decision 505.

Numba is the extra `fast`. Without it `IS_COMPILED` is false and no kernel may be called: each caller has a way with
NumPy, Arrow or msgspec that gives the same answer.
"""

from collections.abc import Callable
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, TypeVar, cast

import numpy as np

IS_COMPILED = find_spec("numba") is not None
if TYPE_CHECKING or IS_COMPILED:
    import numba
    from llvmlite import ir
    from numba.core import types
    from numba.extending import intrinsic

__all__ = [
    "IS_COMPILED",
    "address",
    "byte",
    "compiled",
    "float_bits",
    "half",
    "inlined",
    "is_same",
    "load",
    "split_uuid",
    "store",
    "word",
]

_U = np.uint64
_Kernel = TypeVar("_Kernel", bound=Callable[..., Any])


def address(memory: Any) -> int:
    """Return the address of a buffer for a kernel, valid while the buffer is alive."""
    return int(np.frombuffer(memory, np.uint8).ctypes.data)


def compiled(kernel: _Kernel) -> _Kernel:
    """A kernel which Python calls. It lets other threads run."""
    return _kept(kernel, is_inlined=False)


def inlined(kernel: _Kernel) -> _Kernel:
    """A part of kernels."""
    return _kept(kernel, is_inlined=True)


def _kept(kernel: _Kernel, *, is_inlined: bool) -> _Kernel:
    """Kept on disk, if there is a place where this process may write."""
    if not IS_COMPILED:
        return kernel
    try:
        return cast("_Kernel", numba.njit(cache=True, nogil=True, forceinline=is_inlined)(kernel))
    except RuntimeError:
        return cast("_Kernel", numba.njit(nogil=True, forceinline=is_inlined)(kernel))


def _loaded(bits: int, kind: Any) -> Any:
    """Load a number of `bits` bits from any address."""

    def load(_: Any, at: Any) -> Any:
        def generate(__: Any, builder: Any, ___: Any, arguments: Any) -> Any:
            return builder.load(builder.inttoptr(arguments[0], ir.IntType(bits).as_pointer()), align=1)

        return kind(at), generate

    return load


def _stored(_: Any, at: Any, number: Any) -> Any:
    def generate(__: Any, builder: Any, ___: Any, arguments: Any) -> Any:
        builder.store(arguments[1], builder.inttoptr(arguments[0], ir.IntType(64).as_pointer()), align=1)

    return types.void(at, number), generate


def _reinterpreted(_: Any, number: Any) -> Any:
    def generate(__: Any, builder: Any, ___: Any, arguments: Any) -> Any:
        return builder.bitcast(arguments[0], ir.IntType(64))

    return types.int64(number), generate


# From addresses: numbers of 8, 16, 32 and 64 bits, little endian. To an address: one of 64 bits.
byte: Any = None
half: Any = None
word: Any = None
load: Any = None
store: Any = None
float_bits: Any = None  # of a float64, as an int64
if IS_COMPILED:
    byte, half = intrinsic(_loaded(8, types.uint8)), intrinsic(_loaded(16, types.uint16))
    word, load = intrinsic(_loaded(32, types.int32)), intrinsic(_loaded(64, types.uint64))
    store, float_bits = intrinsic(_stored), intrinsic(_reinterpreted)


@inlined
def split_uuid(high: Any, low: Any, found: Any, row: int) -> Any:
    """Split a UUID into rows 2 to 4 of `found`: producer, clock, flags. False if it is not of version 1.

    See `uuid.py` for the bits.
    """
    time = ((high & _U(0xFFF)) << _U(48)) | (((high >> _U(16)) & _U(0xFFFF)) << _U(32)) | (high >> _U(32))
    found[2, row] = low & _U((1 << 48) - 1)
    found[3, row] = (time << _U(4)) | ((low >> _U(58)) & _U(0xF))
    found[4, row] = (low >> _U(48)) & _U(0x3FF)
    return (high >> _U(12)) & _U(0xF) == _U(1) and low >> _U(62) == _U(2)


@inlined
def is_same(at: int, other: int, size: int) -> Any:
    """Are so many bytes the same, at least 8?"""
    for place in range(0, size - 8, 8):
        if load(at + place) != load(other + place):
            return False
    return load(at + size - 8) == load(other + size - 8)
