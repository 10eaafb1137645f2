"""What the lake does through REST: linearizable reads and links, by real processes on this machine's cores.

One quorum node, one operator, some members of the lake, and a load generator in this process with kept connections: all
of them share the cores. **Per core** is requests by the CPU seconds which all of these processes used together, so the
figure holds whatever else the machine is doing. A write is a link (phase two of an upload), as in lakeFS's own sizing.
"""

import asyncio
import os
import re
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import msgspec
import uvloop

from penstock.lake.client.lake import LakeClient, LakeUrl
from penstock.server.cluster.local import LocalCluster
from penstock_lab.bench.report import Options, RowRecorder

__all__ = ["QUESTION", "run"]

QUESTION: Final = "How many linearizable reads and writes per second does the lake serve through REST, per core?"

OURS: Final = "lake"
READS_BAR: Final = 700.0  # twice what lakeFS plans with
WRITES_BAR: Final = 500.0
KEY: Final = "AKIABENCHMARKLAKE"
SECRET: Final = "a secret of the benchmark"
MAIN: Final = LakeUrl("bench", "main")
READY_S: Final = 120.0
TICKS: Final = os.sysconf("SC_CLK_TCK")


def run(recorder: RowRecorder, options: Options) -> None:
    """Every figure, as rows of the recorder."""
    members = 1 if options.quick else 3
    requests = 120 if options.quick else 4_000
    with tempfile.TemporaryDirectory() as folder, _running(Path(folder), members) as site:
        best = {"read": 0.0, "write": 0.0}
        for in_flight in (1, 64, 256):
            for kind in best:
                recorder.progress(f"{kind}s, {in_flight} in flight, {members} members")
                count = max(in_flight, requests // 20 if in_flight == 1 else requests)
                rates = [_load(site, kind, in_flight, count) for _ in range(1 if options.quick else options.repeats)]
                per_second, per_core, p50, p99 = sorted(rates)[len(rates) // 2]
                parameters = {"in_flight": in_flight, "members": members}
                recorder.row(f"{kind}s per second", OURS, per_second, "1/s", **parameters)
                recorder.row(f"{kind}s per core and second", OURS, per_core, "1/s", **parameters)
                recorder.row(f"{kind} latency p50", OURS, p50, "ms", **parameters)
                recorder.row(f"{kind} latency p99", OURS, p99, "ms", **parameters)
                recorder.row(f"{kind}s, memory of a member", OURS, _megabytes(site.members), "MB", **parameters)
                if in_flight == 64:
                    best[kind] = per_core
        recorder.bar("reads_per_core", best["read"], at_least=READS_BAR)
        recorder.bar("writes_per_core", best["write"], at_least=WRITES_BAR)


class _Site:
    """A lake which runs: where its members serve, and the processes whose CPU counts."""

    def __init__(self, ports: list[int], pids: list[int], members: list[int], read: bytes, write: bytes) -> None:
        self.ports = ports
        self.pids = pids
        self.members = members  # which of the processes are the lake's own
        self.requests = {"read": read, "write": write}


@contextmanager
def _running(folder: Path, members: int) -> Iterator[_Site]:
    cluster = LocalCluster.create(folder / "cluster", nodes=1, machine="log")
    processes: list[subprocess.Popen[bytes]] = []
    try:
        cluster.start_all()
        _call("quorum", "create", "main", "n1", "--cluster", str(cluster.folder))
        ports = [_free_port() for _ in range(members)]
        processes = [_member(folder, cluster.addresses("node")[0], port) for port in ports]
        for port in ports:
            _wait_for(port)
        yield _site(
            folder / "data" / "objects", ports, list(cluster.plan.pids.values()), [process.pid for process in processes]
        )
    finally:
        for process in processes:
            process.terminate()
        for process in processes:
            process.wait(30)
        cluster.stop_all()


def _member(folder: Path, node: str, port: int) -> "subprocess.Popen[bytes]":
    environment = {
        **os.environ,
        "PENSTOCK_DATA_FOLDER": str(folder / "data"),
        "PENSTOCK_LAKE_ACCESS_KEY_ID": KEY,
        "PENSTOCK_LAKE_SECRET_ACCESS_KEY": SECRET,
        "PENSTOCK_LOG_LEVEL": "warning",
    }
    command = [sys.executable, "-m", "penstock", "lake", "serve", "--node", node]
    with (folder / f"member-{port}.log").open("wb") as log:
        return subprocess.Popen([*command, "--listen", f"127.0.0.1:{port}"], env=environment, stderr=log)


def _call(*words: str) -> None:
    """Run a command of Penstock; while its server is starting, again."""
    deadline = time.monotonic() + READY_S
    while True:
        done = subprocess.run([sys.executable, "-m", "penstock", *words], capture_output=True, check=False)
        if done.returncode == 0 or b"already" in done.stderr:
            return
        assert time.monotonic() < deadline, done.stderr.decode()
        time.sleep(0.2)


def _wait_for(port: int) -> None:
    deadline = time.monotonic() + READY_S
    while True:
        try:
            socket.create_connection(("127.0.0.1", port), 1).close()
            return
        except OSError:
            assert time.monotonic() < deadline, f"no member serves on {port}"
            time.sleep(0.1)


def _free_port() -> int:
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        return int(held.getsockname()[1])


def _site(objects: Path, ports: list[int], others: list[int], members: list[int]) -> _Site:
    """Commit an object to read, and make an address to link repeatedly."""
    with LakeClient(f"http://127.0.0.1:{ports[0]}", KEY, SECRET) as lake:
        lake.call("POST", "/repositories", {"name": "bench", "storage_namespace": ""})
        address = lake.call("GET", f"{MAIN.branch_api}/staging/backing", path="linked")["physical_address"]
        body = msgspec.json.encode({"staging": {"physical_address": address}, "checksum": "c", "size_bytes": 1})
        place = objects / address.removeprefix("local://")
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_bytes(b"x")  # phase one of the upload: a link asks for its object
        lake.call("PUT", f"{MAIN.branch_api}/staging/backing", msgspec.json.decode(body), path="linked")
        lake.call("POST", f"{MAIN.branch_api}/commits", {"message": "one object"})
        headers = f"Host: lake\r\nAuthorization: {lake.authorization}\r\n".encode()
    read = f"GET /api/v1{MAIN.ref_api}/objects/stat?path=linked HTTP/1.1\r\n".encode() + headers + b"\r\n"
    write = f"PUT /api/v1{MAIN.branch_api}/staging/backing?path=linked HTTP/1.1\r\n".encode() + headers
    write += b"Content-Length: %d\r\n\r\n" % len(body) + body
    return _Site(ports, [*others, *members], members, read, write)


# the load generator

_LENGTH: Final = re.compile(rb"content-length: (\d+)")


def _load(site: _Site, kind: str, in_flight: int, count: int) -> tuple[float, float, float, float]:
    """Requests per second, per core and second, and the median and 99th percentile of their latency in ms."""
    times: list[float] = []
    before, began = _cpu_seconds(site.pids), time.perf_counter()
    uvloop.run(_clients(site, site.requests[kind], in_flight, count // in_flight, times))
    seconds, cpu = time.perf_counter() - began, _cpu_seconds(site.pids) - before
    times.sort()
    done = len(times)
    return done / seconds, done / cpu, times[done // 2] * 1e3, times[int(done * 0.99)] * 1e3


async def _clients(site: _Site, request: bytes, in_flight: int, each: int, times: list[float]) -> None:
    ports = site.ports
    await asyncio.gather(*(_client(ports[number % len(ports)], request, each, times) for number in range(in_flight)))


async def _client(port: int, request: bytes, count: int, times: list[float]) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    for _ in range(count):
        began = time.perf_counter()
        writer.write(request)
        head = await reader.readuntil(b"\r\n\r\n")
        assert head.startswith(b"HTTP/1.1 200"), head
        length = _LENGTH.search(head)
        await reader.readexactly(int(length[1]) if length is not None else 0)
        times.append(time.perf_counter() - began)
    writer.close()
    await writer.wait_closed()


def _cpu_seconds(pids: list[int]) -> float:
    """Return the processor time of these processes and of this one, up to now."""
    total = time.process_time()
    for pid in pids:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        total += (int(fields[11]) + int(fields[12])) / TICKS
    return total


def _megabytes(pids: list[int]) -> float:
    """The most memory that any of these processes has had."""
    statuses = [Path(f"/proc/{pid}/status").read_text() for pid in pids]
    return max(int(status.partition("VmHWM:")[2].split()[0]) for status in statuses) / 1024
