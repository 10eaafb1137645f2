"""Kernels: they run also where nothing can be kept on disk, and reach memory at any address."""

import os
import subprocess
import sys
from pathlib import Path

import numpy as np

import penstock
from penstock.messages.framing.compiled import address, byte, compiled, half, load, store, word

SCRIPT = """
from penstock.messages.framing.compiled import compiled

@compiled
def double(number):
    return 2 * number

print(double(21), type(double._cache).__name__)
"""


def test_numbers_of_all_sizes_are_read_at_any_address() -> None:
    @compiled
    def read(at: int) -> tuple[int, int, int, int]:
        return byte(at), half(at), word(at), load(at)

    content = bytes(range(1, 20))
    for at in range(8):
        found = read(address(content) + at)
        assert tuple(map(int, found)) == tuple(
            int.from_bytes(content[at : at + size], "little") for size in (1, 2, 4, 8)
        )


def test_a_word_is_written() -> None:
    @compiled
    def write(at: int, number: np.uint64) -> None:
        store(at, number)

    memory = np.zeros(11, np.uint8)
    write(address(memory) + 3, np.uint64(0x0807060504030201))
    assert memory.tolist() == [0, 0, 0, 1, 2, 3, 4, 5, 6, 7, 8]


def test_a_kernel_which_cannot_be_kept_runs_all_the_same(tmp_path: Path) -> None:
    """A package on a disk which is read-only, and a user without a home."""
    source = str(Path(penstock.__file__).parent.parent)
    environment = {**os.environ, "PYTHONPATH": source, "HOME": "/proc/none", "NUMBA_CACHE_DIR": "/proc/none"}
    environment.pop("XDG_CACHE_HOME", None)
    done = subprocess.run(  # a script without a file has no place beside its source
        [sys.executable, "-c", SCRIPT], env=environment, cwd=tmp_path, capture_output=True, text=True, check=True
    )
    assert done.stdout.split()[:2] == ["42", "NullCache"]
