"""`penstock doctor`: ask every machine for its problems, and name a command for each."""

from typing import TYPE_CHECKING, Any, Final

import msgspec

from penstock.cli.machines.fsck import quarantine_entries
from penstock.cli.machines.status import AtMachines, addresses, ask_machines
from penstock.cli.noun import InSession, noun
from penstock.kernel.errors import NotFound, Unavailable

if TYPE_CHECKING:
    from penstock.server.machine.status import MachineStatus

__all__ = ["app"]

app = noun(
    "doctor",
    "Ask the running machines for their problems, with a command for each.",
    try_this=(
        "penstock doctor                       here, or the members of penstock.toml",
        "penstock doctor --machine m1:7070     ask this machine for all of them",
    ),
)
DISK_PERCENT_MAX: Final = 90.0
WELL: Final = 0
PROBLEMS: Final = 1
COULD_NOT_ASK: Final = 3


class _Problem(msgspec.Struct, frozen=True):
    """One finding."""

    machine: str
    what: str
    next_step: str


@app.default
async def run(*, machine: AtMachines = (), session: InSession) -> int:
    """Ask the running machines for their problems, and name a command for each.

    It shows failed checks, silent machines, mixed releases, full disks, and the quarantine of this machine.
    Exit status: 0 all well, 1 problems, 3 if no machine answers.
    """
    session.start_logs(quiet=True)
    try:
        found = await ask_machines(session, addresses(session, machine))
    except (NotFound, Unavailable) as error:
        session.say(f"could not ask: {error.message}")
        session.say("Next: penstock up, or penstock fsck for the files of a machine that does not start")
        return COULD_NOT_ASK
    problems = _problems(found)
    for entry in quarantine_entries(session.effective.config.data.folder.absolute()):
        problems.append(_Problem("here", f"in quarantine: {entry}", "penstock fsck"))
    session.emit({"problems": msgspec.to_builtins(problems)}, *_as_text(problems, len(found)))
    return PROBLEMS if problems else WELL


def _problems(found: "dict[str, MachineStatus | str]") -> list[_Problem]:
    problems = [
        _Problem(name, f"does not answer: {status}", f"look at {name}: is it running, and reachable?")
        for name, status in found.items()
        if isinstance(status, str)
    ]
    running = {name: status for name, status in found.items() if not isinstance(status, str)}
    for name, status in running.items():
        problems += [
            _Problem(name, f"{check.check}: {check.why}", check.next_step)
            for check in status.checks
            if check.state.value != "ok"
        ]
        if status.disk_percent > DISK_PERCENT_MAX:
            problems.append(_Problem(name, f"its disk is {status.disk_percent:.0f} % full", "free some space"))
    releases = sorted({status.machine.release for status in running.values()})
    if len(releases) > 1:
        old = ", ".join(name for name, status in running.items() if status.machine.release != releases[-1])
        problems.append(_Problem(old, f"releases differ: {', '.join(releases)}", f"upgrade {old}"))
    return problems


def _as_text(problems: list[_Problem], machines: int) -> list[Any]:
    from penstock.server.output import counted

    if not problems:
        return [f"{counted(machines, 'machine')}, all well"]
    lines: list[Any] = []
    for each in problems:
        lines.append(f"{each.machine}: {each.what}")
        lines += [f"  Next: {each.next_step}"] if each.next_step else []
    return lines
