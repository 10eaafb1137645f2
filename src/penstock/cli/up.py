"""`penstock up`: every role in one process, on one data folder."""

import asyncio
import contextlib
import os
import select
import threading
from typing import TYPE_CHECKING, Annotated, Final

import msgspec
from cyclopts import Parameter

from penstock.cli.noun import InSession, noun
from penstock.server.session import Session

if TYPE_CHECKING:
    from penstock.plumbing.process.running import Running

__all__ = ["app"]

app = noun(
    "up",
    "Every role in one process: broker, quorum node, operator, lake. Data in ./penstock-data.",
    try_this=(
        "penstock up                                   until Ctrl-C, or penstock down",
        "penstock up --set data.folder=/srv/penstock   with its data elsewhere",
        "penstock up --set lake.listen=127.0.0.1:8080  with the lake on another port",
    ),
)

TRY: Final = (
    "penstock journals apply examples/shop.yaml",
    "echo hello | penstock journals append shop/orders",
    "penstock lake repo create shop",
    "penstock lake put README.md lake://shop@main/",
    "penstock lake commit lake://shop@main --message 'first'",
)


@app.default
async def run(
    *,
    until_stdin_ends: Annotated[
        bool, Parameter(help="Stop when standard input ends: for a program which starts it, and may be killed.")
    ] = False,
    session: InSession,
) -> None:
    """Run until SIGTERM, Ctrl-C or `penstock down`. What was acknowledged survives kill -9: start it again."""
    from penstock.plumbing.process.running import hold

    opened_by = 0
    if until_stdin_ends:  # now: whoever started it may be dead when all roles run
        if _has_stdin_ended():
            return
        opened_by = os.getppid()
        _stop_at_end_of_stdin()
    session.start_logs(quiet=True)
    with hold(session.effective.config.data.folder) as place:
        from penstock.server.up_roles import running_roles  # what only a server needs

        async with running_roles(session) as roles:
            running = msgspec.structs.replace(roles.running, opened_by=opened_by)
            place.tell(running)
            _tell(session, running)
            try:
                await roles.ended()
            except asyncio.CancelledError:
                session.say("stopping …")
                current = asyncio.current_task()
                assert current is not None
                current.uncancel()
                await roles.drain()
                raise


def _has_stdin_ended() -> bool:
    readable, _, _ = select.select([0], [], [], 0)
    return bool(readable) and not os.read(0, 4096)


def _stop_at_end_of_stdin() -> None:
    loop, task = asyncio.get_running_loop(), asyncio.current_task()
    assert task is not None

    def watch() -> None:
        while os.read(0, 4096):
            pass
        with contextlib.suppress(RuntimeError):  # it has ended by itself
            loop.call_soon_threadsafe(task.cancel)

    threading.Thread(target=watch, name="waits for the end of stdin", daemon=True).start()


def _tell(session: Session, running: "Running") -> None:
    """Where to look, and what to try."""
    from penstock.cli.lake.lake_targets import CREDENTIALS_FILE
    from penstock.server.output import make_table

    folder = session.effective.config.data.folder
    if session.wants_json:
        session.emit(msgspec.to_builtins(running))
        return
    keys = "as configured" if session.effective.config.lake.access_key_id else str(folder / CREDENTIALS_FILE)
    rows = [
        ["journals", running.broker, f"over HTTP: {running.lake}/journals"],
        ["quorum log", running.node, f"operator: {running.operator}"],
        ["lake, REST and S3", running.lake, f"keys: {keys}"],
        ["data", str(folder), "all of it; survives kill -9"],
    ]
    session.stderr.print(make_table(["up", "where", ""], rows))
    session.say("\ntry, in another terminal:")
    for line in TRY:
        session.say(f"  {line}")
    session.say("\nstop with Ctrl-C, or: penstock down")
