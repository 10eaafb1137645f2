"""Clients in processes of their own, one at a time: Penstock's, the tree before's, and librdkafka's.

Each tree has a broker of its own; Kafka's client has librdkafka's mock cluster, in a process of its own, so that its
processor time is compared without a Kafka cluster. Only the client's processor time counts: the servers differ.
"""

import json
import os
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any, Final

from penstock.plumbing.process.ports import ReservedPorts
from penstock_lab.bench.report import Options, RowRecorder

__all__ = ["KAFKA_PYTHON", "run"]

KAFKA_PYTHON: Final = Path(".matrix/kafka/bin/python")  # `make bench-clients` makes it
CASES: Final = (("published one by one", "one", 0.4), ("published in lists", "lists", 0.5), ("read", "read", 0.45))
COUNT: Final = 100_000
COUNT_QUICK: Final = 2_000
KAFKA_COUNT_MIN: Final = 20_000  # it is read in stretches
SERVES: Final = "serves on"
HERE: Final = Path(__file__).parent


def run(recorder: RowRecorder, options: Options) -> None:
    """Each case on each side, in turns; the bars are those of issue 23, by processor time."""
    count = COUNT_QUICK if options.quick else COUNT
    with tempfile.TemporaryDirectory(prefix="penstock-bench-") as folder, ExitStack() as stack:
        sides = {"penstock": (sys.executable, stack.enter_context(_broker(sys.executable, Path(folder) / "now")))}
        if options.before:
            python = str(Path(options.before) / ".venv/bin/python")
            sides["before"] = (python, stack.enter_context(_broker(python, Path(folder) / "before")))
        else:
            recorder.peer_missing("before", "no checkout of the tree before was given", bars=[])
        clients = {
            name: partial(_client, python, HERE / "ours.py", address, count)
            for name, (python, address) in sides.items()
        }
        if KAFKA_PYTHON.exists():
            address = stack.enter_context(_mock_cluster(str(KAFKA_PYTHON)))
            kafka_count = max(count, KAFKA_COUNT_MIN)
            clients["kafka"] = partial(_client, str(KAFKA_PYTHON), HERE / "kafka.py", address, kafka_count)
        else:
            recorder.peer_missing("kafka", "no confluent-kafka: make bench-clients", bars=[])
        for name, what, at_most in CASES:
            _measure(recorder, name, at_most, {side: partial(each, what) for side, each in clients.items()}, options)


def _measure(recorder: RowRecorder, name: str, at_most: float, sides: dict[str, Any], options: Options) -> None:
    found: dict[str, list[tuple[float, float]]] = {side: [] for side in sides}
    for turn in range(1 if options.quick else options.repeats):
        for side, client in sides.items():
            recorder.progress(f"{name}, {side}, {turn + 1}")
            found[side].append(client())
    cpu_us = {side: median(each[0] for each in each_turn) * 1e6 for side, each_turn in found.items()}
    for side, each_turn in found.items():
        recorder.row(f"{name}: processor time of the client", side, cpu_us[side], "us")
        recorder.row(f"{name}: rate", side, median(1 / each[1] for each in each_turn), "messages/s")
    if "before" in cpu_us:
        recorder.bar(f"{name}, by before", cpu_us["penstock"] / cpu_us["before"], at_most=at_most)


def _client(python: str, script: Path, address: str, count: int, what: str) -> tuple[float, float]:
    """Run one client; return processor time and clock of a message, in seconds."""
    command = [python, str(script), what, address, str(count)]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
    figures = json.loads(done.stdout)
    return figures["cpu_s"] / count, figures["s"] / count


@contextmanager
def _broker(python: str, folder: Path) -> Iterator[str]:
    """Run one broker of a tree; yield its address."""
    folder.mkdir()
    ports = ReservedPorts(1)
    address = f"127.0.0.1:{ports.numbers[0]}"
    where = ["--folder", str(folder / "b1"), "--keyspace", str(folder / "keyspace")]
    store = ["--store", f"{(folder / 'objects').as_uri()}/"]
    command = [python, "-m", "penstock", "broker", "--id", "b1", "--listen", address, *where, *store]
    ports.close()
    with _serving(command, SERVES):
        yield address


@contextmanager
def _mock_cluster(python: str) -> Iterator[str]:
    with _serving([python, str(HERE / "kafka.py"), "cluster"], ":") as line:
        yield line.strip()


@contextmanager
def _serving(command: list[str], sign: str) -> Iterator[str]:
    """Run a process until the block ends; yield the first line of its output that has the sign."""
    with subprocess.Popen(
        command,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env={**os.environ, "PYTHONUNBUFFERED": "1"},
    ) as process:
        assert process.stdout is not None
        try:
            found = next(line for line in process.stdout if sign in line)
            threading.Thread(target=process.stdout.read, daemon=True).start()  # a full pipe would stop the server
            yield found
        finally:
            process.terminate()
            process.wait()
