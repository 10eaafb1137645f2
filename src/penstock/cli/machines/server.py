"""`penstock server`: one machine of a cluster, with all its roles in one process."""

import asyncio
from typing import TYPE_CHECKING

from penstock.cli.noun import InSession, noun
from penstock.server.session import Session

if TYPE_CHECKING:
    from penstock.server.machine.running import RunningMachine

__all__ = ["app", "serve"]

app = noun(
    "server",
    "Run one machine of a cluster: node, operator, broker and lake in one process.",
    try_this=(
        "penstock server                            with penstock.toml of this folder",
        "penstock server --config FILE              the same file on every machine",
        "penstock server --set server.name=m2       if its host name is no member",
    ),
)


@app.default
async def run(*, session: InSession) -> None:
    """Run until SIGTERM or Ctrl-C; then other machines take over its journals first.

    A role that fails is restarted. After three failures in ten minutes the process ends and prints the reason.
    """
    from penstock.plumbing.process.run import let_senders_finish
    from penstock.server.machine.plan import plan_member

    let_senders_finish()
    session.start_logs()
    plan = plan_member(session.effective)
    from penstock.plumbing.files.data_folder import check_folder, enter_folder
    from penstock.plumbing.process.running import hold
    from penstock.server.machine.running import running_machine

    check_folder(plan.folder)
    with hold(plan.folder) as place:
        enter_folder(plan.folder)
        async with running_machine(session, plan) as machine:
            session.say(f"{plan.name} serves on {machine.wire}; roles: {', '.join(plan.roles)}; data: {plan.folder}")

            def tell() -> None:
                place.tell(machine.running)
                session.say(f"{plan.name} is ready; lake and HTTP: {machine.lake_url or 'not on this machine'}")

            await serve(machine, session, tell)


async def serve(machine: "RunningMachine", session: Session, on_ready: object) -> None:
    """Serve until a role gives up, or until cancelled: then drain."""
    assert callable(on_ready)
    try:
        await machine.ready()
        on_ready()
        await machine.ended()
    except asyncio.CancelledError:
        session.say("stopping …")
        current = asyncio.current_task()
        assert current is not None
        current.uncancel()
        await machine.drain()
        raise
