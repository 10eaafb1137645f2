"""The bank of the examples, on real processes, while they are killed and frozen: not a coin is lost or made."""

import asyncio
from pathlib import Path
from random import Random

import pytest
from tests.integration.bank import running_bank
from tests.postgres import running_postgres

pytestmark = pytest.mark.timeout(300)


async def test_every_transfer_happens_once_while_processes_are_killed_and_frozen(tmp_path: Path) -> None:
    rng = Random(5)
    with running_postgres() as database:
        async with running_bank(tmp_path / "cluster", database) as drill:
            tellers = [asyncio.create_task(drill.transfer(f"t{n}", Random(n))) for n in range(4)]
            await drill.more(20)
            for fault in (drill.kill_a_primary, drill.kill_a_broker, drill.freeze_a_primary):
                await fault(rng)
            await drill.more(20)
            drill.is_over = True
            await asyncio.gather(*tellers)
            audited = await drill.audit()
            assert audited["entries"] == 2 * audited["transfers"] > 0
