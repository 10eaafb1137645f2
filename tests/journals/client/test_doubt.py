"""An error is about the append, not about its last copy: one that may have taken effect is never told as refused."""

from typing import Any

import pytest

from penstock.journals.client import append_service
from penstock.journals.client.append_service import AppendService
from penstock.journals.client.journal import Journals
from penstock.kernel.errors import DiskFull, Indeterminate, NotFound, PenstockError, PreconditionFailed, Written

LOST = Indeterminate("the broker was lost before it answered", next_step="append it again", epoch=[1, 2])
FULL = DiskFull("no room; nothing was written")
CASES = [
    ([LOST, FULL], Written.UNKNOWN),
    ([LOST, NotFound("there is no journal")], Written.UNKNOWN),
    ([LOST, PreconditionFailed("the registers do not match")], Written.NO),  # judged after every earlier copy
    ([FULL], Written.NO),
]


@pytest.mark.parametrize(
    ("answers", "written"), CASES, ids=lambda case: "-".join(e.code for e in case) if isinstance(case, list) else ""
)
async def test_a_refusal_after_a_copy_in_doubt_is_no_refusal(
    answers: list[PenstockError], written: Written, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(append_service, "RETRY_S", (0.0, 0.0))
    async with Journals(["127.0.0.1:1"]) as journals:
        left = list(answers)

        async def append(*_: Any, **__: Any) -> None:
            raise left.pop(0)

        monkeypatch.setattr(journals, "append", append)
        async with AppendService(journals, writer="w") as service:
            with pytest.raises(PenstockError) as failed:
                await service.append("shop/orders", b"x")
        error = failed.value
        assert (error.written, "nothing was written" in error.message) == (written, error is FULL)
