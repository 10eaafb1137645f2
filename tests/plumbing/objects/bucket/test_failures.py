import pytest
from obstore import exceptions

from penstock.kernel.errors import ObjectStoreFailed, PenstockError, Written
from penstock.plumbing.objects.bucket.failures import SUMMARY_CHARS_MAX, Failure, asking, failure_of, summary_of


@pytest.mark.parametrize(
    ("error", "failure"),
    [
        (FileNotFoundError("status: 404"), Failure.ABSENT),
        (FileNotFoundError("status: 404 ContainerNotFound"), Failure.BUCKET_ABSENT),
        (exceptions.AlreadyExistsError("status: 412"), Failure.PRECONDITION),
        (exceptions.AlreadyExistsError("status: 409 ConditionalRequestConflict"), Failure.CONFLICT),
        (exceptions.AlreadyExistsError("status: 409 BlobAlreadyExists"), Failure.PRECONDITION),
        (exceptions.UnauthenticatedError("status: 401"), Failure.DENIED),
        (exceptions.GenericError("status: 416"), Failure.RANGE),
        (exceptions.GenericError("kind: Connect"), Failure.NOT_SENT),
        (exceptions.GenericError("status: 429"), Failure.TRANSIENT),
        (exceptions.GenericError("a text of some later version"), Failure.TRANSIENT),
        (OSError("a text of some later version"), Failure.TRANSIENT),
        (NotImplementedError(""), Failure.REFUSED),
    ],
)
def test_what_is_not_recognised_may_have_taken_effect(error: Exception, failure: Failure) -> None:
    assert failure_of(error) is failure


def test_a_failure_after_retries_may_have_taken_effect_in_an_earlier_one() -> None:
    def fail(text: str, *, changes: bool) -> PenstockError:
        with pytest.raises(ObjectStoreFailed) as caught, asking("delete", "a", changes=changes):
            raise exceptions.GenericError(text)
        return caught.value

    assert fail("kind: Connect retries: 0,", changes=True).written is Written.NO
    assert fail("kind: Connect retries: 2,", changes=True).written is Written.UNKNOWN
    assert fail("kind: Connect retries: 2,", changes=False).written is Written.NO


def test_defects_are_not_taken_for_failures_of_the_store() -> None:
    with pytest.raises(KeyError), asking("get", "a"):
        raise KeyError


def test_a_summary_is_short_and_has_no_query() -> None:
    secret = "http://host/a?sig=hunter2&se=1 failed (http://host/b?sig=hunter2)\nmore"
    assert summary_of(OSError(secret)) == "http://host/a?… failed (http://host/b?…)"
    assert summary_of(OSError("<Error><Code>Slow</Code><Message>wait\nRequestId:1</Message>")) == "Slow: wait"
    assert len(summary_of(OSError("x" * 1_000))) == SUMMARY_CHARS_MAX
