"""Waiting for a background task of the lake: after a moment, its progress is shown.

The server does the work: it continues if the command is interrupted, and the command then says so.
"""

import time
from collections.abc import Callable
from typing import Any, Final

import msgspec

from penstock.lake.client.lake import LakeClient, error_of
from penstock.server.session import Session

__all__ = ["until_completed", "wait_for"]

MOMENT_S: Final = 1.0  # what takes less needs no words
POLL_S: Final = (0.01, 0.2)  # at first, and later


def wait_for(session: Session, client: LakeClient, path: str) -> Any:
    """The result of a work, or its error."""
    try:
        status = until_completed(session, lambda: client.call("GET", path), _phase)
    except KeyboardInterrupt:
        session.say("the lake continues the work, unless the server is stopped too")
        raise
    if "error" in status:
        raise error_of(status["status_code"], msgspec.json.encode(status["error"]))
    return status["result"]


def until_completed(session: Session, ask: Callable[[], Any], phase: Callable[[Any], str]) -> Any:
    """The last status of a work: that it is completed, or its error."""
    began, shown, pause_s = time.monotonic(), "", POLL_S[0]
    while True:
        status = ask()
        if status["completed"] or "error" in status:
            return status
        text = phase(status)
        if text != shown and time.monotonic() - began >= MOMENT_S:
            session.say(text)
            shown = text
        time.sleep(pause_s)
        pause_s = min(2 * pause_s, POLL_S[1])


def _phase(status: Any) -> str:
    """
    >>> _phase({"progress": {"phase": "building", "done": 3, "total": 12}})
    'building 3 of 12'
    """
    progress = status["progress"]
    return str(progress["phase"]) + (f" {progress['done']} of {progress['total']}" if progress["total"] else "")
