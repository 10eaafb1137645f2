"""A process's status of its shards: codes, and values without a meaning."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.consumers.client.status import ShardCode, ShardStatus


@given(st.builds(ShardStatus, code=st.sampled_from(ShardCode), reason=st.text(), failures=st.integers(0, 1 << 40)))
def test_it_is_read_as_it_was_written(status: ShardStatus) -> None:
    assert ShardStatus.decode(status.encode()) == status


@given(st.binary())
def test_nonsense_is_a_shard_which_has_not_begun(value: bytes) -> None:
    assert isinstance(ShardStatus.decode(value), ShardStatus)
    assert ShardStatus.decode(b"\xc1" + value) == ShardStatus()  # 0xc1 begins nothing in msgpack


@pytest.mark.parametrize("code", ShardCode)
def test_others_may_leave_when_it_serves_or_could(code: ShardCode) -> None:
    assert ShardStatus(code).is_ready is (code in (ShardCode.STANDBY, ShardCode.PRIMARY))
