from penstock.quorum.records.messages import ChangeOp
from penstock_lab.explorer.setup import Setup, TxnSpec


def test_everything_is_left_at_the_start_and_is_used_up_one_by_one() -> None:
    setup = Setup("all", txns=(TxnSpec(),), crashes=2, change=(ChangeOp.CONTRACT, "B", ""))
    left = setup.left()
    assert (left.txns, left.crashes, left.changes, left.ticks) == (1, 2, 1, 0)
    assert left.less("crashes").crashes == 1
    assert left.less("crashes").txns == 1


def test_snapshots_are_taken_only_where_a_setup_wants_them() -> None:
    assert Setup("none").node_config().snapshot_entries > 1 << 30
    often = Setup("often", snapshot_entries=2).node_config()
    assert (often.snapshot_entries, often.retain_entries) == (2, 0)
