import pytest

from penstock.kernel.errors import ConfigError
from penstock.plumbing.wal import WalOptions


def test_the_defaults_are_allowed() -> None:
    WalOptions().check()


@pytest.mark.parametrize(
    "options",
    [
        WalOptions(segment_bytes=4095),
        WalOptions(segment_bytes=4 * 1024**3 + 1),
        WalOptions(record_bytes_max=0),
        WalOptions(record_bytes_max=2, queue_bytes_max=2),
        WalOptions(queue_bytes_max=1024**3),
        WalOptions(batch_bytes_max=0),
    ],
    ids=str,
)
def test_what_cannot_work_is_refused(options: WalOptions) -> None:
    with pytest.raises(ConfigError):
        options.check()
