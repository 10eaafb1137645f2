"""What people read."""

from penstock_lab.explorer.configurations import CONFIGURATIONS
from penstock_lab.explorer.schedule import schedule_text
from penstock_lab.explorer.search import search
from penstock_lab.explorer.world import ExplorerWorld
from penstock_lab.sim.workloads.quorum_mutants import MUTANTS, Parts

AN_EARLY_ACKNOWLEDGEMENT = """\
  1. A is handed txn 1                                           A leader 1, committed 2: 1B 1C(1) 1T1
  2. B gets AddEntry 1 behind 1/2: 1T1 from A                    B follower 1, committed 1: 1B 1C(1) | 1T1
  3. A gets AddEntryResponse 1 1/3 from B
     I4: A commits 1/3, which is durable on ['A']"""


def test_a_schedule_says_who_did_what_and_how_they_stood() -> None:
    parts = Parts()
    MUTANTS["acks-early"].apply(parts)
    world = ExplorerWorld(CONFIGURATIONS["follower-crash"], node_class=parts.node, is_checked=False)
    assert "\n".join(schedule_text(world, search(world))) == AN_EARLY_ACKNOWLEDGEMENT


def test_without_a_violation_there_is_no_schedule() -> None:
    world = ExplorerWorld(CONFIGURATIONS["election"])
    assert schedule_text(world, search(world, states_max=100)) == []
