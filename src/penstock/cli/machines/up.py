"""`penstock up`: every role in one process, on one data folder."""

import asyncio
import contextlib
import os
import select
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import msgspec
from cyclopts import Parameter

from penstock.cli.noun import InSession, noun
from penstock.server.session import Session

if TYPE_CHECKING:
    from penstock.plumbing.process.running import RunningServer

__all__ = ["app"]

app = noun(
    "up",
    "Run every role in one process: broker, quorum node, operator, lake.",
    try_this=(
        "penstock up                                   run it until Ctrl-C",
        "penstock up --set data.folder=/srv/penstock   use another data folder",
        "penstock up --set lake.listen=127.0.0.1:8080  use another port for the lake",
    ),
)

TRY: Final = (
    "penstock journals create hello/world",
    """echo '{"text": "hello"}' | penstock journals publish hello/world""",
    "penstock journals cat hello/world --committed",
    "penstock lake repo create hello",
    "echo hello | penstock lake put - lake://hello@main/hello.txt",
    "penstock lake commit lake://hello@main --message 'first commit'",
)
STOP: Final = "Stop: Ctrl-C, or penstock down"


@app.default
async def run(
    *,
    until_stdin_ends: Annotated[
        bool, Parameter(show=False)  # for `penstock.open`: the server ends with the process that opened it
    ] = False,
    session: InSession,
) -> None:
    """Run every role in one process: broker, quorum node, operator, lake.

    Data goes to ./penstock-data and survives kill -9. Stop it with Ctrl-C or `penstock down`.
    """
    from penstock.plumbing.files.data_folder import check_folder, enter_folder
    from penstock.plumbing.process.running import hold

    opened_by = 0
    if until_stdin_ends:  # checked now, because the parent may be dead when all roles run
        if _has_stdin_ended():
            return
        opened_by = os.getppid()
        _stop_at_end_of_stdin()
    session.start_logs(quiet=True)
    folder = session.effective.config.data.folder
    is_new = _is_empty(folder)
    check_folder(folder)  # before the lock, which is a file too
    with hold(folder) as place:
        enter_folder(folder)
        from penstock.cli.machines.server import serve
        from penstock.server.machine.plan import plan_alone
        from penstock.server.machine.running import running_machine  # slow to import, for servers only
        from penstock.server.wiring import metrics_endpoint

        async with running_machine(session, plan_alone(session.effective.config)) as machine:

            def tell() -> None:
                running = msgspec.structs.replace(machine.running, opened_by=opened_by)
                place.tell(running)
                _announce(session, running, is_new=is_new)

            async with metrics_endpoint(session):
                await serve(machine, session, tell)


def _has_stdin_ended() -> bool:
    readable, _, _ = select.select([0], [], [], 0)
    return bool(readable) and not os.read(0, 4096)


def _stop_at_end_of_stdin() -> None:
    loop, task = asyncio.get_running_loop(), asyncio.current_task()
    assert task is not None

    def watch() -> None:
        while os.read(0, 4096):
            pass
        with contextlib.suppress(RuntimeError):  # the loop is closed: the server has ended already
            loop.call_soon_threadsafe(task.cancel)

    threading.Thread(target=watch, name="waits for the end of stdin", daemon=True).start()


def _is_empty(folder: Path) -> bool:
    return not folder.is_dir() or next(folder.iterdir(), None) is None


def _announce(session: Session, running: "RunningServer", *, is_new: bool) -> None:
    """Print the address of each role, and commands to try if the data folder was empty."""
    from penstock.cli.lake.lake_targets import CREDENTIALS_FILE

    folder = session.effective.config.data.folder
    if session.wants_json:
        session.emit(msgspec.to_builtins(running))
        return
    keys = "as configured" if session.effective.config.lake.access_key_id else str(folder / CREDENTIALS_FILE)
    rows = [
        ("journals", running.broker, f"HTTP: {running.lake}/journals"),
        ("lake", running.lake, f"REST and S3; keys: {keys}"),
        ("quorum log", running.node, f"operator: {running.operator}"),
    ]
    session.say(f"Penstock is running. Data: {folder} (survives kill -9)\n")
    for name, address, note in rows:
        session.say(f"  {name:<12} {address:<24} {note}")
    if is_new:
        session.say("\nTry it in another terminal, in this folder:")
        for line in TRY:
            session.say(f"  {line}")
    session.say(f"\n{STOP}")
