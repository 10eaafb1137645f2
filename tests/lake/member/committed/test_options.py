import msgspec
import pytest

from penstock.kernel.errors import InvalidArgument
from penstock.lake.member.committed import TreeOptions


@pytest.mark.parametrize(
    "name", ["cache_bytes_max", "threads_max", "jobs_per_thread_max", "reads_in_flight_max", "writes_in_flight_max"]
)
def test_limits_below_one_are_refused(name: str) -> None:
    with pytest.raises(InvalidArgument, match=name):
        msgspec.structs.replace(TreeOptions(), **{name: 0})
