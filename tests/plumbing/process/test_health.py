"""Checks look when they are asked. The worst comes first, and a check that raises has failed."""

import pytest

from penstock.kernel.errors import NotFound
from penstock.plumbing.process.health import CheckReport, Finding, Health, HealthState, answer_of

BAD = Finding("2 GiB are free", "free space on /data")


def test_the_worst_comes_first_and_a_state_has_a_beginning() -> None:
    now, found = [1.0], [None, BAD]
    health = Health(lambda: now[0])
    health.add("b", "broker", lambda: found[0])
    health.add("a", "node", lambda: None)
    assert [each.check for each in health.report()] == ["b", "a"]
    found.reverse()
    now[0] = 5.0
    worst = CheckReport("b", "broker", HealthState.DEGRADED, 5.0, "2 GiB are free", "free space on /data")
    assert health.report()[0] == worst
    now[0] = 9.0
    assert health.report("broker") == [worst]
    found.reverse()
    assert health.report("broker") == [CheckReport("b", "broker", HealthState.OK, 9.0)]


def test_a_check_that_raises_has_failed() -> None:
    health = Health()
    health.add("x", "lake", lambda: Finding(str(1 // 0)))
    (report,) = health.report()
    assert (report.state, report.why) == (
        HealthState.FAILED,
        "the check itself failed: ZeroDivisionError: integer division or modulo by zero",
    )


def test_a_role_that_starts_again_replaces_its_checks() -> None:
    health = Health()
    remove_old = health.add("x", "lake", lambda: BAD)
    remove = health.add("x", "lake", lambda: None)
    remove_old()
    assert health.state() is HealthState.OK
    remove()
    assert health.report() == []
    with pytest.raises(NotFound, match="no role 'lake'"):
        health.report("lake")


@pytest.mark.parametrize(
    ("finding", "path", "expected"),
    [
        (None, "/livez", (200, "ok\n")),
        (None, "/readyz", (200, "ok\n")),
        (None, "/healthz", (200, "ok\n")),
        (BAD, "/readyz", (200, "ok\n")),
        (BAD, "/healthz", (200, "degraded\n")),
        (Finding("gone", state=HealthState.FAILED), "/livez", (200, "ok\n")),
        (Finding("gone", state=HealthState.FAILED), "/readyz", (503, "failed\n")),
        (Finding("gone", state=HealthState.FAILED), "/healthz", (503, "failed\n")),
    ],
)
def test_without_a_credential_an_answer_is_one_word(
    finding: Finding | None, path: str, expected: tuple[int, str]
) -> None:
    health = Health()
    health.add("x", "broker", lambda: finding)
    assert answer_of(health, path, "", shows_all=False) == (*expected, False)
    assert answer_of(health, "/health", "", shows_all=False) is None
    if path != "/livez":
        answer = answer_of(health, path, "lake", shows_all=True)
        assert answer is not None
        assert answer[0] == 404
