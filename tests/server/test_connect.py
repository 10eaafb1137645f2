"""`penstock.open`: a server of its own on a folder, whose data stays."""

import signal
import subprocess
import sys
from pathlib import Path

import pytest

import penstock
from penstock.kernel.errors import PreconditionFailed

KILLED = """
import os, signal, sys
import penstock

if len(sys.argv) > 2:  # while its server starts
    signal.signal(signal.SIGALRM, lambda *_: os.kill(os.getpid(), signal.SIGKILL))
    signal.setitimer(signal.ITIMER_REAL, float(sys.argv[2]))
stock = penstock.open(sys.argv[1])
with stock.journal("shop/orders").publisher() as publish:
    publish({"sku": "cup"})
os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.mark.timeout(300)
def test_what_was_written_is_there_when_it_is_opened_again(tmp_path: Path) -> None:
    with penstock.open(tmp_path / "data") as stock:
        orders = stock.journal("shop/orders").create()
        with orders.publisher() as publish:
            publish({"sku": "kettle"})
        stock.lake("shop").create()
        stock.lake("shop").branch("main")["prices.csv"] = b"kettle,39.90"
        with pytest.raises(PreconditionFailed, match="another process runs"):
            penstock.open(tmp_path / "data")
    killed = [sys.executable, "-c", KILLED, str(tmp_path / "data")]
    assert subprocess.run([*killed, "0.4"], check=False).returncode == -signal.SIGKILL
    assert subprocess.run(killed, check=False).returncode == -signal.SIGKILL
    with penstock.open(tmp_path / "data") as stock:  # as soon as its server has noticed, and ended
        orders = stock.journal("shop/orders").create(exists_ok=True)
        assert [message.value for message in orders.read()] == [{"sku": "kettle"}, {"sku": "cup"}]
        assert stock.lake("shop").branch("main")["prices.csv"] == b"kettle,39.90"
