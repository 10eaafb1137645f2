"""What one request to the lake costs: processor time of the server and time by the clock, one and 64 in flight.

The server is one process: a member of the lake with a quorum node of its own, whose log and objects are synced before
an answer. With `--before CHECKOUT` the tree of another checkout answers the same requests in the same run, in turns;
its figures are the side `before`, and goals are ratios to it. The side `lakefs` holds figures of lakeFS 1.84 that were
measured once, on a machine of two cores: with its local key-value store, which never syncs, and with PostgreSQL, which
does. They are for orientation: another machine has another pace.
"""

import tempfile
from collections.abc import Callable, Iterator
from itertools import cycle
from pathlib import Path
from typing import Final

import msgspec

from penstock_lab.bench.lake_requests.load import rest_request, s3_request, send
from penstock_lab.bench.lake_requests.sides import KEYS, Lakeside, lakesides
from penstock_lab.bench.report import Options, RowRecorder

__all__ = ["run"]

BATCH_S: Final = 0.25
KIB: Final = bytes(range(256)) * 4
LARGE: Final = bytes(8 << 20)
IN_FLIGHT: Final = (1, 64)
Requests = Callable[[Lakeside, int], Iterator[bytes]]  # of a side, and a number of them


class Case(msgspec.Struct, frozen=True):
    """A kind of request, how many are made before each batch (0: as many as fit), and the goal as a ratio to before."""

    name: str
    requests: Requests
    goal: float | None = None
    in_flight: tuple[int, ...] = IN_FLIGHT
    made: int = 0
    lakefs_ms: tuple[float, ...] = ()  # never syncs; syncs


def _get(path: str) -> Requests:
    """The same request each time; `COMMIT` in its path is the commit of the data."""
    return lambda side, _: cycle([rest_request("GET", path.replace("COMMIT", side.commit), KEYS)])


def _link(side: Lakeside, _: int) -> Iterator[bytes]:
    return cycle([side.link("hot", "linked")])


def _upload(side: Lakeside, _: int) -> Iterator[bytes]:
    for number in side.branches:
        yield rest_request("POST", f"/branches/hot/objects?path=up/{number}", KEYS, KIB, "application/octet-stream")


def _s3_put(content: bytes) -> Requests:
    keys = [f"/bench/hot/s3/{number}" for number in range(50)]
    return lambda side, _: (s3_request("PUT", keys[number % 50], KEYS, content) for number in side.branches)


def _s3_get(path: str, content: bytes) -> Requests:
    def requests(side: Lakeside, _: int) -> Iterator[bytes]:
        send(side.port, iter([s3_request("PUT", path, KEYS, content)]), 1, 60.0)
        return cycle([s3_request("GET", path, KEYS)])

    return requests


def _create_branch(side: Lakeside, _: int) -> Iterator[bytes]:
    for number in side.branches:
        yield rest_request("POST", "/branches", KEYS, msgspec.json.encode({"name": f"b{number}", "source": "main"}))


def _changed(side: Lakeside, count: int) -> list[str]:
    """Branches with one staged object each."""
    names = [f"c{next(side.branches)}" for _ in range(count)]
    bodies = [msgspec.json.encode({"name": name, "source": "main"}) for name in names]
    send(side.port, iter([rest_request("POST", "/branches", KEYS, body) for body in bodies]), 16, 60.0)
    side.stage((name, f"new/{name}") for name in names)
    return names


def _commit_request(branch: str) -> bytes:
    return rest_request("POST", f"/branches/{branch}/commits", KEYS, b'{"message":"one object"}')


def _commit(side: Lakeside, count: int) -> Iterator[bytes]:
    return iter([_commit_request(name) for name in _changed(side, count)])


def _merge(side: Lakeside, count: int) -> Iterator[bytes]:
    names = _changed(side, count)
    send(side.port, iter([_commit_request(name) for name in names]), 16, 60.0)
    return iter([rest_request("POST", f"/refs/{name}/merge/main", KEYS, b"{}") for name in names])


CASES: Final = (
    Case("stat", _get("/refs/main/objects/stat?path=f0001/o0001"), 0.5, lakefs_ms=(0.229, 0.383)),
    Case("get 1 KB", _get("/refs/main/objects?path=small"), 0.4, lakefs_ms=(0.232, 0.394)),
    Case("link", _link, 0.5, lakefs_ms=(0.140, 0.340)),
    Case("upload 1 KB", _upload, 0.2, lakefs_ms=(0.222, 0.406)),
    Case("list 1,000 at a commit", _get("/refs/COMMIT/objects/ls?amount=1000"), 0.9, lakefs_ms=(4.0, 4.4)),
    Case(
        "list folders at a commit", _get("/refs/COMMIT/objects/ls?amount=1000&delimiter=/"), 0.35, lakefs_ms=(2.5, 2.5)
    ),
    Case("list 1,000, rows staged", _get("/refs/dirty/objects/ls?amount=1000"), lakefs_ms=(5.0, 6.4)),
    Case(
        "list folders, rows staged",
        _get("/refs/dirty/objects/ls?amount=1000&delimiter=/"),
        0.02,
        (1,),
        lakefs_ms=(26.0, 5.0),
    ),
    Case("uncommitted diff, 100 names", _get("/branches/dirty/diff?amount=100")),
    Case("S3 put 1 KB", _s3_put(KIB), 0.2, (4,), lakefs_ms=(0.88,)),
    Case("S3 get 1 KB", _s3_get("/bench/hot/get-small", KIB), 0.2, (4,), lakefs_ms=(0.50,)),
    Case("S3 put 8 MiB", _s3_put(LARGE), None, (1,)),
    Case("S3 get 8 MiB", _s3_get("/bench/hot/get-large", LARGE), None, (1,)),
    Case("create a branch", _create_branch, 0.4, (16,), lakefs_ms=(0.23,)),
    Case("get a branch", _get("/branches/main"), 0.25, lakefs_ms=(0.10,)),
    Case("small commit", _commit, 0.2, (1,), 30, lakefs_ms=(3.0,)),
    Case("small merge", _merge, 0.06, (1,), 30, lakefs_ms=(1.3,)),
    Case("merges of 8 clients", _merge, None, (8,), 80, lakefs_ms=(3.8,)),
)


def run(recorder: RowRecorder, options: Options) -> None:
    """Every case on each side, in turns."""
    pythons = {"now": Path()}
    if options.before:
        pythons["before"] = Path(options.before) / ".venv/bin/python"
    else:
        recorder.peer_missing("before", "no checkout of the tree before was given", bars=[])
    repeats, seconds = (1, 0.02) if options.quick else (options.repeats, BATCH_S)
    with tempfile.TemporaryDirectory(prefix="penstock-bench-") as folder, lakesides(Path(folder), pythons) as sides:
        for name, side in sides.items():
            recorder.progress(f"filling the lake of {name}")
            side.fill(*((10, 10, 10) if options.quick else (100, 100, 1000)))
        for case in CASES:
            for in_flight in case.in_flight:
                recorder.progress(f"{case.name}, {in_flight} in flight")
                _measure(recorder, case, in_flight, sides, repeats, seconds)


def _measure(
    recorder: RowRecorder, case: Case, in_flight: int, sides: dict[str, Lakeside], repeats: int, seconds: float
) -> None:
    """Rows of one case: the least processor time of the rounds, and the median of the clock."""
    costs: dict[str, list[tuple[float, float, float]]] = {name: [] for name in sides}
    for _ in range(repeats):
        for name, side in sides.items():
            requests = case.requests(side, case.made)
            before = side.processor_s()
            load = send(side.port, requests, in_flight, 60.0 if case.made else seconds)
            processor = side.processor_s() - before
            costs[name].append((processor / load.done * 1e3, load.median_s * 1e3, load.done / load.seconds))
    least = {name: min(each[0] for each in found) for name, found in costs.items()}
    for name, found in costs.items():
        middle = len(found) // 2
        recorder.row(f"{case.name}, processor", name, least[name], "ms", in_flight=in_flight)
        recorder.row(f"{case.name}, median", name, sorted(each[1] for each in found)[middle], "ms", in_flight=in_flight)
        recorder.row(f"{case.name}, rate", name, sorted(each[2] for each in found)[middle], "1/s", in_flight=in_flight)
    if in_flight == case.in_flight[-1]:
        for kind, figure in zip(("never syncs", "syncs"), case.lakefs_ms, strict=False):
            recorder.row(f"{case.name}, processor", f"lakefs, {kind}", figure, "ms", in_flight=in_flight)
        if case.goal is not None and "before" in least:
            recorder.bar(f"{case.name}, by before", least["now"] / least["before"], at_most=case.goal)
