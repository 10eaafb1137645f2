"""Blocking clients before and after forks, as a process: `python forking_process.py BROKER LAKE NODE`.

The environment has the keys of the lake. It prints one line of JSON for each child, and one for itself.
"""

import gc
import json
import multiprocessing
import os
import signal
import sys
from collections.abc import Callable
from typing import Any

import penstock
from penstock.journals.client.journal_blocking import BlockingAppendService
from penstock.kernel.errors import AlreadyClosed
from penstock.quorum.client.blocking import BlockingQuorumLog

BROKER, LAKE, NODE = sys.argv[1:]
STOCK = penstock.connect(BROKER, lake=LAKE)  # before any fork, as a preloading server does
ORDERS = STOCK.journal("shop/orders").create()
PUBLISH = STOCK.journal("shop/events").create().publisher()
MAIN = STOCK.lake("shop").branch("main")
SERVICE = BlockingAppendService(STOCK.journals)
NAMED = BlockingAppendService(STOCK.journals, writer="one")
LOG = BlockingQuorumLog([NODE])


def work(name: str) -> None:
    """Use every client."""
    ORDERS.append(b'{"from":"%s"}\n' % name.encode())
    SERVICE.append("shop/orders", b'{"from":"%s"}\n' % name.encode())
    PUBLISH({"from": name})
    PUBLISH.flush()
    MAIN[f"files/{name}"] = name.encode()
    assert MAIN[f"files/{name}"] == name.encode()
    LOG.append(b'{"op":"put"}', ack="majority")
    assert name in [message.value["from"] for message in ORDERS.read()]


def in_child(name: str, reading: Any) -> None:
    work(name)
    refused = []
    for stale in (lambda: list(reading), lambda: NAMED.append("shop/orders", b"never")):
        try:
            stale()
        except AlreadyClosed as error:
            refused.append(error.message)
    gc.collect()  # no value of the parent may be finalized here
    say({"name": name, "refused": refused})


def say(line: dict[str, Any]) -> None:
    """Print a line by one write: children write to the same pipe, and print may write the newline by itself."""
    os.write(sys.stdout.fileno(), json.dumps(line).encode() + b"\n")


def forked(work_in_child: Callable[[], None]) -> int:
    pid = os.fork()
    if pid == 0:
        signal.alarm(60)
        work_in_child()
        sys.exit(0)  # with finalizers, as a script ends
    return pid


def main() -> None:
    work("parent")
    NAMED.append("shop/orders", b'{"from":"named"}\n')
    reading = ORDERS.read(follow=True)
    first = next(reading).value
    context = multiprocessing.get_context("fork")
    children = [context.Process(target=in_child, args=(f"child{number}", reading)) for number in range(2)]
    for child in children:
        child.start()
    work("meanwhile")
    for child in children:
        child.join(60)
    pids = [forked(lambda name=name: in_child(name, reading)) for name in ("fork0", "fork1")]  # type: ignore[misc]
    statuses = [os.waitpid(pid, 0)[1] for pid in pids]
    work("afterwards")
    seen = [first["from"]]
    while seen[-1] != "afterwards":
        seen.append(next(reading).value["from"])
    exits = [child.exitcode for child in children]
    PUBLISH.__exit__(None, None, None)
    events = [message.value["from"] for message in STOCK.journal("shop/events").read()]
    say({"name": "parent", "exits": exits + statuses, "seen": seen, "events": events})
    LOG.close()
    STOCK.close()


main()
