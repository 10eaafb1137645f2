"""The small worlds which are explored, by name. Design: quorum-log.md, "Proof obligations" 1.

All start from a steady epoch 1 in which A leads. Each asks one question; together they are the nightly run
(`penstock sim explore --all`). What each costs is in docs/reports/explorer.md.
"""

from penstock.quorum.records.messages import ChangeOp
from penstock_lab.explorer.setup import Setup, TxnSpec

__all__ = ["CONFIGURATIONS"]

SYNC = TxnSpec()
ASYNC = TxnSpec(is_sync=False)
ROLLS_BACK = TxnSpec(rolls_back=True)
SWAP = (ChangeOp.SWAP, "B", "D")
EXPAND = (ChangeOp.EXPAND, "", "D")
CONTRACT = (ChangeOp.CONTRACT, "B", "")


def elects(epoch: int, leader: str, other: str, heads: tuple[str, str]) -> tuple[str, ...]:
    """The steps of an election in which these two are fenced, with these heads, and nothing else happens."""
    return (
        "op1 loses patience",
        f"{leader} gets Fence {epoch}",
        f"{other} gets Fence {epoch}",
        f"op1 gets FenceResponse {epoch} {heads[0]} from {leader}",
        f"op1 gets FenceResponse {epoch} {heads[1]} from {other}",
        f"{leader} gets BecomeLeader {epoch}",
    )


# Figure 8 up to its third leader: A has an entry of epoch 1 that no other node has, B one of epoch 2, and A leads 3
# with C.
FIGURE_EIGHT = ("A is handed txn 1", *elects(2, "B", "C", ("1/2", "1/2")), *elects(3, "A", "C", ("1/3", "1/2")))

CONFIGURATIONS: dict[str, Setup] = {
    "election": Setup("one sync TXN, one election", txns=(SYNC,)),
    "reordered": Setup("the same, and one entry or acknowledgement overtakes others", txns=(SYNC,), overtakes=1),
    "duplicated": Setup("the same, and one message comes twice", txns=(SYNC,), duplicates=1),
    "heartbeats": Setup("the same, and a leader sends a heartbeat", txns=(SYNC,), heartbeats=1),
    "slow-disks": Setup("the same, and every write takes its time", txns=(SYNC,), slow="ABC"),
    "rollback": Setup("two TXNs, one of which is rolled back, one election", txns=(ROLLS_BACK, SYNC), timeouts=1),
    "leader-crash": Setup(
        "one sync TXN, one election, and the first leader crashes", txns=(SYNC,), slow="A", crashes=1, crash_of="A"
    ),
    "follower-crash": Setup(
        "one sync TXN, one election, and a follower crashes", txns=(SYNC,), slow="B", crashes=1, crash_of="B"
    ),
    "async": Setup(
        "an async and a sync TXN, one election, and the first leader crashes",
        txns=(ASYNC, SYNC), slow="A", crashes=1, crash_of="A",
    ),
    "three-epochs": Setup("one sync TXN, two elections", txns=(SYNC,), epochs=3),
    "three-epochs-crash": Setup("two elections, and any node crashes", epochs=3, crashes=1),
    "figure-eight": Setup(
        "A leads 3 with an entry of epoch 1, B has one of epoch 2; one more election; one entry per message",
        txns=(SYNC,), epochs=4, pushes_singly=True, prelude=FIGURE_EIGHT,
    ),
    "swap": Setup("B gives way to D, with one sync TXN", spares="D", change=SWAP, txns=(SYNC,)),
    "swap-election": Setup("B gives way to D, and one election", spares="D", change=SWAP, epochs=3),
    "swap-snapshot": Setup(
        "B gives way to D, which installs a snapshot; the leader crashes",
        spares="D", change=SWAP, txns=(SYNC,), snapshot_entries=2, slow="A", crashes=1, crash_of="A",
    ),
    "expand-election": Setup("D joins, and one election", spares="D", change=EXPAND, epochs=3),
    "contract-election": Setup("B leaves, and one election", change=CONTRACT, epochs=3),
    "contract-txn": Setup("B leaves, with one sync TXN, and one election", change=CONTRACT, txns=(SYNC,), epochs=3),
    "two-operators": Setup(
        "two operators, one of which crashes, one sync TXN, one election",
        operators=2, txns=(SYNC,), operator_crashes=1,
    ),
    "two-operators-race": Setup(
        "two operators, two elections; writes to the metadata take their time",
        operators=2, epochs=3, has_slow_keyspace=True,
    ),
}  # fmt: skip
