"""A schedule for people: each event, its party, and the state afterwards, one line per step.

    3. B gets Fence 2 from op1                 B fenced 2: 1B 1C(1)
    4. A submits txn 1                         A leader 1, committed 2: 1B 1C(1) | 1T1

Entries are written as `wording.py` says; entries after the bar are not durable yet.
"""

from collections.abc import Iterator

from penstock.kernel.ids import NO_ENTRY
from penstock_lab.explorer.search import SearchOutcome
from penstock_lab.explorer.site import ModelNode
from penstock_lab.explorer.wording import entry_text
from penstock_lab.explorer.world import Action, ExplorerWorld

__all__ = ["schedule_text", "site_text"]


def schedule_text(world: ExplorerWorld, outcome: SearchOutcome[int]) -> list[str]:
    """The steps to a violation, and the violation."""
    lines = []
    for number, (action, state) in enumerate(outcome.schedule, 1):
        after = _party_text(world, action, state) if state is not None else ""
        lines.append(f"{number:3}. {world.label(action):58}  {after}".rstrip())
    return [*lines, f"     {outcome.violation}"] if outcome.violation is not None else lines


def site_text(site: ModelNode) -> str:
    """A node: its role and epoch, the commit index that it knows, and its log."""
    node, disk = site.node, site.disk
    written = disk.written()
    durable, log = disk.log()[1], written.log()[1]
    kept = len(durable) if log[: len(durable)] == durable else 0
    entries = " ".join(_with_bar([entry_text(entry) for entry in log], kept))
    start = "" if disk.state.snapshot.head == NO_ENTRY else f"(…{disk.state.snapshot.head}) "
    return f"{site.name} {node.role.value} {node.epoch}, committed {node.replica.commit}: {start}{entries}"


def _with_bar(entries: list[str], kept: int) -> Iterator[str]:
    yield from entries[:kept]
    if entries[kept:]:
        yield "|"
    yield from entries[kept:]


def _party_text(world: ExplorerWorld, action: Action, state: int) -> str:
    part = world.unpack(state)[action.party]
    if action.party < world.node_count:
        return site_text(world.sites[part])
    desk = world.desks[part]
    return f"{desk.name} {desk.operator.activity.value} {desk.epoch}"
