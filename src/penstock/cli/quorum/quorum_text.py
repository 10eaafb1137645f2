"""How shards and replicas are shown to people."""

from collections.abc import Mapping
from typing import Any

from penstock.kernel.errors import PenstockError
from penstock.quorum.records.api import ShardStatus
from penstock.quorum.records.metadata import Metadata
from penstock.server.output import make_table

__all__ = ["metadata_lines", "status_parts"]

Answers = Mapping[str, list[tuple[ShardStatus, str]] | PenstockError]


def metadata_lines(metadata: Metadata | None) -> list[str]:
    """Epoch, status, leader, ensemble, change under way."""
    if metadata is None:
        return ["-"] * 5
    change = "-"
    if metadata.reconfiguration is not None:
        op = metadata.reconfiguration.change
        moves = [f"-{op.old.node}" if op.old is not None else "", f"+{op.new.node}" if op.new is not None else ""]
        change = f"{op.op.value} {' '.join(filter(None, moves))} ({metadata.reconfiguration.phase.value})"
    return [
        str(metadata.epoch),
        metadata.status.value,
        str(metadata.leader.node) if metadata.leader is not None else "-",
        " ".join(str(member.node) for member in metadata.ensemble),
        change,
    ]


def status_parts(shard: str, found: Answers) -> list[Any]:
    """A row per replica, the leader's view of its followers, and the reason in words why appends wait."""
    rows: list[list[str]] = []
    leader: tuple[ShardStatus, str] | None = None
    notes: list[str] = []
    for address, answer in found.items():
        if isinstance(answer, PenstockError):
            rows.append(["?", address, "not reached", *["-"] * 6])
            continue
        for each, why in answer:
            if each.shard != shard:
                continue
            rows.append(_row(address, each))
            if each.limbo is not None and (leader is None or each.epoch > leader[0].epoch):
                leader = (each, why)
            notes += [f"{each.member.node}: {text}" for text in (each.failed, each.diverged) if text]
            if each.lost_transactions:
                notes.append(f"{each.member.node}: {each.lost_transactions} transactions in its lost-and-found")
    columns = ["node", "address", "role", "epoch", "head", "commit", "confirmed", "applied", "snapshot"]
    parts: list[Any] = [make_table(columns, rows, right=["epoch", "head", "commit", "confirmed", "applied"])]
    if leader is not None:
        parts += ["", *_leader_parts(*leader)]
    else:
        parts += ["", "There is no leader: an operator must hold an election. See: penstock quorum shards"]
    return [*parts, *notes]


def _row(address: str, status: ShardStatus) -> list[str]:
    role = "failed" if status.failed else status.role.value
    return [
        str(status.member.node), address, role, str(status.epoch), str(status.head), str(status.commit),
        str(status.confirmed), str(status.applied), str(status.snapshot),
    ]  # fmt: skip


def _leader_parts(status: ShardStatus, why: str) -> list[Any]:
    limbo = status.limbo
    assert limbo is not None
    rows = [
        [
            str(each.member.node),
            "follows" if each.is_attached else "catching up",
            "yes" if each.is_voter else "no",
            str(each.last_pushed),
            str(each.last_confirmed),
            str(status.head.offset - each.last_confirmed),
        ]
        for each in status.cursors
    ]
    confirm_lag = status.commit - status.confirmed
    parts: list[Any] = [
        make_table(
            ["follower", "state", "votes", "pushed", "confirmed", "lag"], rows, right=["pushed", "confirmed", "lag"]
        ),
        "",
        f"limbo: {limbo.length} appends, {limbo.bytes} bytes, {limbo.volatile_length} waiting for room, "
        f"oldest {limbo.oldest_age_ms} ms; confirm lag {confirm_lag}",
    ]
    if status.change:
        parts.append(f"change: {status.change}")
    return [*parts, why]
