"""The clock of leases is the machine's, the same for every process."""

import subprocess
import sys

from penstock.keyspace.shell.embedded.clock import BootClock

ASK = "from penstock.keyspace.shell.embedded.clock import BootClock as B; c = B(); print(c.now_ns(), c.id)"


def test_two_processes_read_one_clock() -> None:
    here = BootClock()
    before_ns = here.now_ns()
    asked = subprocess.run([sys.executable, "-c", ASK], capture_output=True, text=True, check=True)
    now_ns, _, name = asked.stdout.strip().partition(" ")
    assert name == here.id
    assert before_ns < int(now_ns) < here.now_ns()
