"""Plans of the reader of columns, as tests look at them."""

import time

from tests.spark.conftest import Brokers
from tests.spark.histories import TIMEOUT_S

from penstock.journals.client.journal_blocking import BlockingJournals
from penstock.spark.journals.column_plan import FramesPart, Part, plan_parts
from penstock.spark.journals.columnar import schema_of
from penstock.spark.journals.journal_source import JournalReader
from penstock.spark.options import source_options


def wait_stored(journals: BlockingJournals, name: str, fragment_bytes: int) -> None:
    """Until all full fragments are in the store: what is left is less than one."""
    head, deadline = journals.stat(name).write_head, time.monotonic() + TIMEOUT_S
    while time.monotonic() < deadline:
        stored = [each.end for each in journals.fragments(name).fragments if each.backing_store]
        if head - max(stored, default=0) < fragment_bytes:
            return
        time.sleep(0.01)
    raise AssertionError(f"fragments of {name} were not stored within {TIMEOUT_S:.0f} s")


def parts_of(brokers: Brokers, name: str, schema: str | None, **given: str) -> list[Part]:
    options = source_options({"brokers": brokers.address, "path": name, **given}, is_stream=False)
    return plan_parts(JournalReader(options, schema_of(options, schema)), are_files_shared=True)


def frames_of(parts: list[Part]) -> list[FramesPart]:
    return [part for part in parts if isinstance(part, FramesPart)]
