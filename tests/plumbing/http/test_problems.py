import pytest

from penstock.kernel import errors
from penstock.kernel.errors import PenstockError
from penstock.plumbing.http.problems import status_of


def test_every_error_has_a_status() -> None:
    for kind in PenstockError._by_code.values():
        assert 400 <= status_of(kind("x")) <= 599


@pytest.mark.parametrize(
    ("error", "status"),
    [
        (errors.InvalidArgument("x"), 400),
        (errors.Unauthenticated("x"), 401),
        (errors.NotFound("x"), 404),
        (errors.PreconditionFailed("x"), 412),
        (errors.Overloaded("x"), 503),
        (errors.NotLeader("x"), 503),
        (errors.DeadlineExceeded("x"), 504),
        (errors.ObjectStoreFailed("x"), 500),
        (errors.DiskFull("x"), 507),
        (errors.InvalidArgument("x", status=411), 411),
        (errors.InvalidArgument("x", status=200), 400),
    ],
)
def test_the_status_tells_the_kind(error: PenstockError, status: int) -> None:
    assert status_of(error) == status
