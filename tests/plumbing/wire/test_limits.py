import pytest

from penstock.kernel.errors import ConfigError
from penstock.plumbing.wire.limits import WireLimits


@pytest.mark.parametrize("field", WireLimits.__struct_fields__)
def test_no_limit_may_be_nothing(field: str) -> None:
    with pytest.raises(ConfigError, match=field):
        WireLimits(**{field: 0})


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"frame_bytes_max": 100}, "frame_bytes_max"),
        ({"stream_window_bytes": 100}, "stream_window_bytes"),
        ({"stream_window_bytes": 1 << 31}, "2 GiB"),
        ({"frame_bytes_max": 1 << 20, "request_bytes_max": 1 << 19}, "request_bytes_max"),
    ],
)
def test_limits_which_contradict_each_other_are_refused(fields: dict[str, int], said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        WireLimits(**fields)
