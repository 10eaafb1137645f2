import pytest

from penstock.kernel.errors import DiskFull, PenstockError, Written
from penstock.plumbing.wal.work import Poison


@pytest.mark.parametrize("written", Written)
def test_every_waiter_gets_an_error_of_its_own(written: Written) -> None:
    cause: PenstockError = DiskFull("no space left while writing a batch", next_step="free space")
    poison = Poison(cause, "/data/wal")
    first, second = poison.error(written), poison.error(written)
    assert first is not second
    assert first.written is written
    assert first.__cause__ is cause
    assert "no space left" in first.message
    assert "/data/wal" in first.message
    assert first.details == {"cause": "disk-full"}
    assert first.next_step.startswith("free space")
