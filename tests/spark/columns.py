"""Plans of the reader of columns, as tests look at them."""

from tests.spark.conftest import Brokers

from penstock.spark.column_plan import FramesPart, Part, plan_parts
from penstock.spark.columnar import schema_of
from penstock.spark.journal_source import JournalReader
from penstock.spark.options import source_options


def parts_of(brokers: Brokers, name: str, schema: str | None, **given: str) -> list[Part]:
    options = source_options({"brokers": brokers.address, "path": name, **given}, is_stream=False)
    return plan_parts(JournalReader(options, schema_of(options, schema)), are_files_shared=True)


def frames_of(parts: list[Part]) -> list[FramesPart]:
    return [part for part in parts if isinstance(part, FramesPart)]
