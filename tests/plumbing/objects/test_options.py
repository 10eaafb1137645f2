import pickle
from datetime import timedelta

import msgspec
import pytest

from penstock.kernel.errors import InvalidArgument
from penstock.plumbing.objects import StoreOptions


@pytest.mark.parametrize(
    "wrong",
    [{"connect_ms_max": 0}, {"retries_max": -1}, {"page_keys_max": 0}, {"part_bytes": 1 << 20}, {"threads_max": 0}],
)
def test_an_option_without_sense_is_refused(wrong: dict[str, int]) -> None:
    with pytest.raises(InvalidArgument, match=next(iter(wrong))):
        StoreOptions(**wrong)  # type: ignore[arg-type]


def test_no_retries_is_a_choice() -> None:
    assert StoreOptions(retries_max=0).retry_config(retries=True)["max_retries"] == 0


def test_waits_reach_the_client_in_its_own_units() -> None:
    options = StoreOptions(connect_ms_max=1, silence_ms_max=2, request_ms_max=3, retries_max=7, retry_ms_max=4)
    assert options.client_options(allow_http=False) == {
        "allow_http": False,
        "connect_timeout": timedelta(milliseconds=1),
        "read_timeout": timedelta(milliseconds=2),
        "timeout": timedelta(milliseconds=3),
    }
    assert options.retry_config(retries=True)["retry_timeout"] == timedelta(milliseconds=4)
    assert [options.retry_config(retries=retries)["max_retries"] for retries in (True, False)] == [7, 0]


def test_credentials_show_nowhere_but_where_they_are_used() -> None:
    options = StoreOptions(credentials={"account_key": "hunter2"})
    assert "hunter2" not in f"{options!r} {options} {options.__rich_repr__()}"
    assert "credentials" not in repr(StoreOptions())
    assert pickle.loads(pickle.dumps(options)) == options
    assert msgspec.structs.replace(options, retries_max=1).credentials == {"account_key": "hunter2"}
