"""`penstock status`: every machine of a cluster on one screen, from any of them."""

import asyncio
import time
from typing import TYPE_CHECKING, Annotated, Any, Final

from cyclopts import Parameter

from penstock.cli.noun import InSession, noun
from penstock.kernel.errors import NotFound, PenstockError, Unavailable

if TYPE_CHECKING:
    from penstock.server.machine.status import MachineStatus
    from penstock.server.session import Session

__all__ = ["AtMachines", "addresses", "app", "ask_machines"]

app = noun(
    "status",
    "Show the machines of a cluster, their health, and what to do next.",
    try_this=(
        "penstock status                       here, or the members of penstock.toml",
        "penstock status --machine m1:7070     ask this machine for all of them",
        "penstock status --watch               again and again, until Ctrl-C",
    ),
)
ANSWER_S: Final = 0.4
EVERY_S: Final = 2.0

AtMachines = Annotated[
    tuple[str, ...],
    Parameter(name="--machine", help="A machine to ask. Default: that of the data folder.", metavar="HOST:PORT"),
]


@app.default
async def run(
    *,
    machine: AtMachines = (),
    watch: Annotated[bool, Parameter(help="Show it again every two seconds.", negative="")] = False,
    session: InSession,
) -> None:
    """Show the machines of a cluster, their health, and what to do next.

    Any machine answers for all: it names the others, and they are asked as well. A machine that does not answer within
    0.4 s is shown as such.
    """
    session.start_logs(quiet=True)
    asked = addresses(session, machine)
    while True:
        found = await ask_machines(session, asked)
        if watch and not session.wants_json:
            session.stdout.clear()
        session.emit(_as_data(found), *_as_text(found))
        if not watch:
            return
        await asyncio.sleep(EVERY_S)


def addresses(session: "Session", given: tuple[str, ...]) -> dict[str, str]:
    """Return the machines to ask: their addresses by name, or by themselves where no name is known."""
    from penstock.plumbing.process.running import running_in
    from penstock.server.machine.plan import members_of
    from penstock.server.wiring import parse_address

    if given:
        return {address: str(parse_address(address, "--machine")) for address in given}
    members = members_of(session.effective.config)
    if members:
        return members
    folder = session.effective.config.data.folder
    up = running_in(folder)
    if up is None:
        raise NotFound(
            f"no server is running in {folder}", next_step="run penstock up, or penstock status --machine HOST"
        )
    return {up.broker: up.broker}


async def ask_machines(session: "Session", addresses: dict[str, str]) -> "dict[str, MachineStatus | str]":
    """Ask all machines at once, then those of which they tell. An answer, or why there is none."""
    from penstock.plumbing.wire.channels import Channels
    from penstock.server.machine.status import STATUS, MachineQuery
    from penstock.server.wiring import wiring_of

    channels = Channels(wiring_of(session).channel)

    async def ask(address: str) -> "MachineStatus | str":
        try:
            async with asyncio.timeout(ANSWER_S):
                return await STATUS.call(channels.get(address), MachineQuery(), deadline_s=ANSWER_S)
        except TimeoutError:
            return f"no answer in {ANSWER_S:g} s"
        except PenstockError as error:
            return error.message

    try:
        asked = dict(zip(addresses, await asyncio.gather(*map(ask, addresses.values())), strict=True))
        answers = [each for each in asked.values() if not isinstance(each, str)]
        if not answers:
            reasons = "; ".join(f"{name}: {answer}" for name, answer in asked.items())
            raise Unavailable(f"no machine answers: {reasons}", next_step="run penstock up, or start a machine")
        found: dict[str, MachineStatus | str] = {
            name if isinstance(answer, str) else answer.machine.name: answer for name, answer in asked.items()
        }
        known = {each.name: each.wire for answer in answers for each in answer.machines}
        more = {name: wire for name, wire in known.items() if name not in found and wire not in addresses.values()}
        found |= dict(zip(more, await asyncio.gather(*map(ask, more.values())), strict=True))
    finally:
        await channels.close()
    return dict(sorted(found.items()))


def _as_data(found: "dict[str, MachineStatus | str]") -> Any:
    import msgspec

    machines = [
        {"machine": {"name": name}, "state": "failed", "error": status}
        if isinstance(status, str)
        else msgspec.to_builtins(status)
        for name, status in found.items()
    ]
    states = [each["state"] for each in machines]
    worst = next(state for state in ("failed", "degraded", "ok") if state in states)
    return {"state": worst, "machines": machines}


def _as_text(found: "dict[str, MachineStatus | str]") -> list[Any]:
    from penstock.plumbing.process.health import HealthState
    from penstock.server.output import counted, make_table

    running = [each for each in found.values() if not isinstance(each, str)]
    first = running[0]
    bad = sum(isinstance(each, str) or each.state is not HealthState.OK for each in found.values())
    title = first.machine.cluster or "penstock"
    head = f"{title} · {len(running)} of {counted(len(found), 'machine')} · {first.machine.release}"
    head += f" · level {first.level} · " + (f"{bad} not well" if bad else "all well")
    rows = [
        [name, "?", "no answer", "-", "-"]
        if isinstance(each, str)
        else [name, _roles(each), each.state.value, f"{each.disk_percent:.0f} %", _age(each.machine.started_ns)]
        for name, each in found.items()
    ]
    parts: list[Any] = [head, make_table(["machine", "roles", "health", "disk", "up"], rows, right=["disk", "up"]), ""]
    parts += _figures(running)
    problems = [f"{name}: {each}" for name, each in found.items() if isinstance(each, str)]
    steps = []
    for each in running:
        for check in each.checks:
            if check.state is not HealthState.OK:
                problems.append(f"{each.machine.name}: {check.check} {check.state.value}: {check.why}")
                steps.append(check.next_step)
    parts += problems
    steps = list(dict.fromkeys(step for step in steps if step))
    return [*parts, *([f"Next: {steps[0]}"] if steps else [])]


def _roles(status: "MachineStatus") -> str:
    leads = bool(status.logs)
    return " ".join(f"{role}*" if role == "node" and leads else role for role in status.machine.roles)


def _figures(running: "list[MachineStatus]") -> list[str]:
    logs = [
        f"{log.shard} {each.machine.name} e{log.epoch}, limbo {log.limbo}, lag {log.lag}"
        for each in running
        for log in each.logs
    ]
    brokers = [each.broker for each in running if each.broker is not None]
    led, short = sum(each.led for each in brokers), sum(each.short for each in brokers)
    unstored = sum(each.unstored_bytes for each in brokers)
    lines = [f"log       {' · '.join(logs) or 'no leader'}"]
    if brokers:
        whole = f"{short} with too few brokers" if short else "all with their brokers"
        lines.append(f"journals  {led}, {whole} · {unstored / 1e6:.1f} MB not in a store yet")
    urls = [each.lake_url for each in running if each.lake_url]
    if urls:
        lines.append(f"lake      {' · '.join(urls)}")
    return lines


def _age(started_ns: int) -> str:
    seconds = max(0, time.time_ns() - started_ns) // 1_000_000_000
    for size, unit in ((86_400, "d"), (3_600, "h"), (60, "min")):
        if seconds >= size:
            return f"{seconds // size} {unit}"
    return f"{seconds} s"
