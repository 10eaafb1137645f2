"""`penstock up`, killed with -9 again and again while clients append, put and commit. Run by `make soak-up`.

    python -m tests.integration.soak_up --lives 25 --report docs/reports/faults-up.md

After each start everything acknowledged must exist once, and nothing that was never sent.
"""

import argparse
import os
import signal
import sys
import tempfile
import threading
import time
from datetime import UTC, datetime
from io import BytesIO
from pathlib import Path
from random import Random

from tests.cli.ups import UpProcess
from tests.integration.evidence import keep
from tests.lake.rest.servers import KEY, SECRET

from penstock.journals.client.journal_blocking import BlockingJournals
from penstock.journals.records.fragment import CompressionCodec
from penstock.journals.records.spec import FragmentSpec, JournalSpec
from penstock.kernel.errors import PenstockError
from penstock.lake.client.lake import LakeClient, LakeUrl

LIFE_S = (0.3, 3.0)
LINE_BYTES_MAX = 3_000
APPEND_S = 5.0
SPECS = (
    JournalSpec(name="soak/one", replication=1),
    JournalSpec(name="soak/three", replication=3),
    JournalSpec(  # fragments of this one go to the store all the time
        name="soak/small",
        replication=1,
        fragment=FragmentSpec(length=1 << 12, compression_codec=CompressionCodec.ZSTANDARD),
    ),
)


class Ledger:
    """The requests, and the acknowledged ones."""

    def __init__(self) -> None:
        self.sent: dict[str, set[str]] = {spec.name: set() for spec in SPECS}
        self.acknowledged: dict[str, set[str]] = {spec.name: set() for spec in SPECS}
        self.objects: dict[str, bytes] = {}
        self.commits: list[str] = []

    def audit(self, journals: BlockingJournals, lake: LakeClient) -> None:
        for name, acknowledged in self.acknowledged.items():
            content = b"".join(bytes(chunk.content) for chunk in journals.read(name, 0))
            found = [line.partition(b":")[0].decode() for line in content.splitlines()]
            lost, strange = acknowledged - set(found), set(found) - self.sent[name]
            assert len(found) == len(set(found)), f"{name}: lines are there twice"
            assert not lost, f"{name}: {len(lost)} lines are lost, like {min(lost)}"
            assert not strange, f"{name}: {len(strange)} lines were never sent, like {min(strange)}"
        for path, content in self.objects.items():
            assert b"".join(lake.download(LakeUrl("soak", "main", path))) == content, path
        if self.commits:
            logged = {each["message"] for each in lake.pages("/repositories/soak/refs/main/commits")}
            assert set(self.commits) <= logged, f"commits are lost: {set(self.commits) - logged}"


def work(ledger: Ledger, journals: BlockingJournals, lake: LakeClient, rng: Random, is_over: threading.Event) -> None:
    """Until the server is gone."""
    number = sum(map(len, ledger.sent.values()))
    while not is_over.is_set():
        for spec in SPECS:
            number += 1
            ledger.sent[spec.name].add(str(number))
            line = f"{number}:{'-' * rng.randrange(LINE_BYTES_MAX)}\n"
            journals.append(spec.name, line.encode(), timeout=APPEND_S)
            ledger.acknowledged[spec.name].add(str(number))
        path, content = f"{number}", str(number).encode()
        lake.upload(LakeUrl("soak", "main", path), BytesIO(content))
        ledger.objects[path] = content
        if rng.random() < 0.3:
            lake.call("POST", "/repositories/soak/branches/main/commits", {"message": str(number)})
            ledger.commits.append(str(number))


def live(up: UpProcess, ledger: Ledger, rng: Random, *, is_first: bool) -> None:
    """Run one life: the audit of everything before it, then work, until it is killed."""
    running, is_over = up.running, threading.Event()
    with BlockingJournals([running.broker]) as journals, LakeClient(running.lake, KEY, SECRET) as lake:
        if is_first:
            journals.create(*SPECS)
            lake.call("POST", "/repositories", {"name": "soak", "storage_namespace": ""})
        ledger.audit(journals, lake)

        def kill() -> None:
            is_over.set()
            os.kill(running.pid, signal.SIGKILL)

        timer = threading.Timer(rng.uniform(*LIFE_S), kill)
        timer.start()
        try:
            work(ledger, journals, lake, rng, is_over)
        except PenstockError as error:
            if not is_over.is_set():
                raise AssertionError(f"an error before it was killed: {error!r}") from error
        finally:
            timer.join()
    up.ended()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--lives", type=int, default=25)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--report", type=Path)
    arguments = parser.parse_args()
    ledger, rng, starts_s = Ledger(), Random(arguments.seed), list[float]()
    with tempfile.TemporaryDirectory() as folder:
        up = UpProcess(Path(folder) / "penstock-data")
        for number in range(arguments.lives):
            began = time.monotonic()
            up.start()
            starts_s.append(time.monotonic() - began)
            live(up, ledger, rng, is_first=number == 0)
            print(f"life {number + 1}: {sum(map(len, ledger.acknowledged.values())):,} appends so far", flush=True)
        with up, BlockingJournals([up.running.broker]) as journals, LakeClient(up.running.lake, KEY, SECRET) as lake:
            ledger.audit(journals, lake)
    acknowledged, sent = (sum(map(len, each.values())) for each in (ledger.acknowledged, ledger.sent))
    report = f"""# `penstock up`, killed again and again

Written by `make soak-up` on {datetime.now(UTC):%Y-%m-%d}, seed {arguments.seed}. The one process is killed with
kill -9 after {LIFE_S[0]} to {LIFE_S[1]} s of work, and started again. After each start all which was acknowledged was
there once, and nothing which nobody sent.

| figure | count |
|---|---|
| lives | {arguments.lives} |
| appends acknowledged, to journals with one replica, three, and small fragments | {acknowledged:,} |
| appends whose fate was unknown when it died | {sent - acknowledged:,} |
| objects put | {len(ledger.objects):,} |
| commits | {len(ledger.commits):,} |
| seconds to start, slowest | {max(starts_s):.1f} |
"""
    print(report)
    if arguments.report is not None:
        arguments.report.write_text(report)
        amount = f"{arguments.lives} lives, {acknowledged:,} appends, {len(ledger.commits):,} commits"
        keep(arguments.report, "60-faults-up", amount, "every acknowledged append and commit found")
    return 0


if __name__ == "__main__":
    sys.exit(main())
