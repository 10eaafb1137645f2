"""Health: each part of a process registers checks next to their subject. They answer three questions.

/livez     does the event loop turn? Nothing else counts, so an outage elsewhere restarts no process
/readyz    can this role serve? A check of it has not failed
/healthz   all checks, worst first; 503 if one has failed

A check looks when it is asked. It returns a finding, or None. A check that raises has failed. Design: operating.md
O19, O20.
"""

import time
from collections.abc import Callable
from enum import Enum
from typing import Final

import msgspec

from penstock.kernel.errors import NotFound
from penstock.plumbing.process.logs import get_logger

__all__ = ["CheckReport", "Finding", "Health", "HealthState", "answer_of"]

Look = Callable[[], "Finding | None"]
log = get_logger()


class HealthState(Enum):
    """The result of a check."""

    OK = "ok"
    DEGRADED = "degraded"  # it serves; a person should look
    FAILED = "failed"  # it does not serve


_WORST_FIRST: Final = (HealthState.FAILED, HealthState.DEGRADED, HealthState.OK)


class Finding(msgspec.Struct, frozen=True):
    """A problem that a check has found."""

    why: str
    next_step: str = ""
    state: HealthState = HealthState.DEGRADED


class CheckReport(msgspec.Struct, frozen=True):
    """A check and its result."""

    check: str
    role: str
    state: HealthState
    since: float  # in seconds since 1970: this process first saw the state
    why: str = ""
    next_step: str = msgspec.field(default="", name="next")


class _Check:
    def __init__(self, name: str, role: str, look: Look, now: float) -> None:
        self.name, self.role, self.look = name, role, look
        self.state, self.since = HealthState.OK, now

    def report(self, now: float) -> CheckReport:
        try:
            found = self.look()
        except Exception as error:
            log.exception("a health check failed", check=self.name, role=self.role)
            found = Finding(f"the check itself failed: {type(error).__name__}: {error}", state=HealthState.FAILED)
        state = found.state if found is not None else HealthState.OK
        if state is not self.state:
            self.state, self.since = state, now
        why, next_step = (found.why, found.next_step) if found is not None else ("", "")
        return CheckReport(self.name, self.role, state, self.since, why, next_step)


class Health:
    """The checks of one process.

    >>> health = Health(lambda: 7.0)
    >>> remove = health.add("disk.room", "broker", lambda: Finding("2 GiB are free", "free space on /data"))
    >>> [(each.check, each.state.value) for each in health.report()]
    [('disk.room', 'degraded')]
    """

    def __init__(self, clock: Callable[[], float] = time.time) -> None:
        self._clock = clock
        self._checks: dict[tuple[str, str], _Check] = {}

    def add(self, check: str, role: str, look: Look) -> Callable[[], None]:
        """Register a check; return a call that removes it. A role that starts again registers its checks again."""
        added = self._checks[check, role] = _Check(check, role, look, self._clock())

        def remove() -> None:
            if self._checks.get((check, role)) is added:
                del self._checks[check, role]

        return remove

    @property
    def names(self) -> set[str]:
        return {name for name, _ in self._checks}

    def report(self, role: str = "") -> list[CheckReport]:
        """Return every check (of one role), the worst first. `NotFound` for a role that has none."""
        roles = {each.role for each in self._checks.values()}
        if role and role not in roles:
            raise NotFound(f"no role {role!r} runs in this process; roles: {', '.join(sorted(roles)) or 'none'}")
        now = self._clock()
        found = [each.report(now) for each in self._checks.values() if role in ("", each.role)]
        return sorted(found, key=lambda each: (_WORST_FIRST.index(each.state), each.role, each.check))

    def state(self, role: str = "") -> HealthState:
        """Return the worst state."""
        return next((each.state for each in self.report(role)), HealthState.OK)


def answer_of(health: Health, path: str, role: str, *, shows_all: bool) -> tuple[int, str, bool] | None:
    """Return the status and the body of an answer, and whether it is JSON; None if the path is none of the three.

    >>> answer_of(Health(), "/readyz", "", shows_all=False)
    (200, 'ok\\n', False)
    """
    if path == "/livez":
        return 200, "ok\n", False
    if path not in ("/readyz", "/healthz"):
        return None
    try:
        checks = health.report(role)
    except NotFound as error:
        return 404, f"{error.message}\n", False
    worst = checks[0].state if checks else HealthState.OK
    status = 503 if worst is HealthState.FAILED else 200
    if path == "/readyz":
        failed = [each for each in checks if each.state is HealthState.FAILED]
        words = "".join(f"{each.check}: {each.why}\n" for each in failed) if shows_all else ""
        return status, words or ("ok\n" if status == 200 else "failed\n"), False
    if not shows_all:
        return status, f"{worst.value}\n", False
    return status, msgspec.json.encode({"state": worst, "checks": checks}).decode() + "\n", True
