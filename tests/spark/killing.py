"""Points in the life of a driver where it is killed, or frozen as a machine is which is paused.

Whoever reaches the wanted point (a planner, a task, or the driver's own Python) strikes the whole driver: its JVM, its
Python, and itself. Product code knows nothing of this: subclasses of it call `reach`.
"""

import json
import os
import signal
from pathlib import Path
from typing import Any

from penstock.spark.tables.lake_access import LakeAccess

KILL_BATCH = 1
POINT, DRIVER, MARK = "KILLING_POINT", "KILLING_DRIVER", "KILLING_MARK"  # PENSTOCK_… would be configuration


def reach(point: str) -> None:
    """Kill or stop the driver, if this is the point."""
    wanted = os.environ.get(POINT, "")
    if wanted.removeprefix("stop:") != point:
        return
    if not wanted.startswith("stop:"):
        strike(whole_driver(), signal.SIGKILL)
        return
    mark = Path(os.environ[MARK])
    if not mark.exists():
        new = mark.with_suffix(".new")
        new.write_text(json.dumps(whole_driver()))
        new.rename(mark)
        strike(whole_driver(), signal.SIGSTOP)


def whole_driver() -> list[int]:
    """The driver's group, and who is between it and this process: workers are children of a daemon with its own."""
    driver, pid, between = int(os.environ[DRIVER]), os.getpid(), list[int]()
    while pid > 1 and os.getpgid(pid) != driver:
        between.append(pid)
        pid = int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
    return [-driver, *reversed(between)]  # this process comes last


def strike(pids: list[int], number: signal.Signals) -> None:
    for pid in pids:
        os.kill(pid, number)


class KillingAccess(LakeAccess, frozen=True):
    """A lake whose caller dies around the requests which change it."""

    def ask(self, method: str, api: str, body: Any = None, **more: Any) -> Any:
        what = _what(method, api, body)
        if what:
            reach(f"{what}: before the request")
        answer = super().ask(method, api, body, **more)
        if what:
            reach(f"{what}: after the request")
        return answer


_merges = [0]  # which this process has asked for


def _what(method: str, api: str, body: Any) -> str:
    """Which step of the batch `KILL_BATCH` a request is; nothing if it is none."""
    if method == "POST" and api.endswith("/sinks/batches"):
        return "sink" if body["batch"] == KILL_BATCH else ""
    if method == "POST" and "/merge/" in api:
        _merges[0] += 1
        return "merge" if _merges[0] == KILL_BATCH + 1 else ""
    return ""


def killing(access: LakeAccess) -> KillingAccess:
    return KillingAccess(access.url, access.key, access.secret)
