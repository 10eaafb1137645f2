"""A broker's checks. One bad journal degrades its broker, and does not fail it. Design: operating.md O19."""

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Final

from penstock.plumbing.process.health import Finding, Health, HealthState

if TYPE_CHECKING:
    from penstock.journals.broker.broker_server import BrokerServer

__all__ = ["BROKER_CHECKS", "add_broker_checks", "short_journals"]

ROLE: Final = "broker"
BROKER_CHECKS: Final = ("journal.disk", "journal.heads", "journal.quarantine", "journal.replicas", "journal.stores")
NAMES_MAX: Final = 3  # that a finding lists


def add_broker_checks(health: Health, server: "BrokerServer") -> Callable[[], None]:
    """Register the checks of a broker; return a call that removes them."""
    looks = (_disk, _heads, _quarantine, _replicas, _stores)
    removes = [health.add(name, ROLE, partial(look, server)) for name, look in zip(BROKER_CHECKS, looks, strict=True)]

    def remove() -> None:
        for each in removes:
            each()

    return remove


def _disk(server: "BrokerServer") -> Finding | None:
    """Is there room for content? Without it all appends are refused, and reads are served."""
    short = [host for host in server.hosts if host.room.is_short]
    if not short:
        return None
    free = server.free_bytes
    why = f"no room for the content of {_names([host.journal for host in short])}; {free} bytes are free"
    return Finding(why, f"free space on the disk of {server.folder}", HealthState.FAILED)


def _heads(server: "BrokerServer") -> Finding | None:
    lost = [host.journal for host in server.hosts if host.replica.is_head_lost]
    failed = [host.journal for host in server.hosts if host.failed]
    if lost:
        return Finding(f"the head of {_names(lost)} is lost", f"penstock journals explain {lost[0]}")
    if failed:
        return Finding(f"{_names(failed)} cannot run here", f"penstock journals explain {failed[0]}")
    return None


def _quarantine(server: "BrokerServer") -> Finding | None:
    damaged = server.damaged
    if not damaged:
        return None
    return Finding(f"files of {_names(damaged)} could not be read and are in quarantine", "penstock fsck")


def short_journals(server: "BrokerServer") -> list[tuple[str, int, int]]:
    """Return the journals that this broker leads with fewer brokers than their replication, with both numbers."""
    short = []
    for host in server.hosts:
        topology = server.topology(host.journal)
        if host.is_primary and topology.spec is not None:
            members, replication = len(topology.route.members), topology.spec.replication
            if members < replication:
                short.append((host.journal, members, replication))
    return short


def _replicas(server: "BrokerServer") -> Finding | None:
    short = short_journals(server)
    if not short:
        return None
    name, members, replication = short[0]
    others = f" and {len(short) - 1} more" if len(short) > 1 else ""
    return Finding(f"{members} of {replication} brokers have {name}{others}", "penstock journals brokers")


def _stores(server: "BrokerServer") -> Finding | None:
    unstored = server.unstored
    if unstored.is_full:
        return Finding(unstored.shortage(str(server.folder)).reason, "penstock config show", HealthState.FAILED)
    if unstored.error:
        why = f"the store takes nothing, {unstored.bytes} bytes wait: {unstored.error}"
        return Finding(why, "penstock config show")
    return None


def _names(journals: list[str]) -> str:
    found = sorted(journals)
    more = f" and {len(found) - NAMES_MAX} more" if len(found) > NAMES_MAX else ""
    return ", ".join(found[:NAMES_MAX]) + more
