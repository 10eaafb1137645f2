"""Without the extra `fast` every reader gives the same rows, in the same order: NumPy, Arrow and msgspec serve."""

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
SCRIPT = """
import sys

sys.modules["numba"] = None  # as if it were not installed
import pytest

from penstock.messages.framing.compiled import IS_COMPILED

assert not IS_COMPILED
sys.exit(pytest.main(["-q", "-p", "no:xdist", "-p", "no:cacheprovider", *sys.argv[1:]]))
"""
SAME = (
    "tests/messages/test_columns.py",
    "tests/messages/test_rows_reader.py",
    "tests/messages/sequencing/test_order_kernels.py",
    "tests/messages/sequencing/test_vector_sequencer.py",
    "tests/messages/framing/test_arrow.py",
)


def test_readers_pass_their_own_tests_without_compiled_loops() -> None:
    ran = subprocess.run([sys.executable, "-c", SCRIPT, *SAME], cwd=ROOT, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stdout + ran.stderr
