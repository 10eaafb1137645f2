"""Reads of journals and of NATS JetStream: right after the appends, out of Spools, and cold.

Cold is what the brokers have handed to the store and keep no longer: read through a broker, and by the client itself.
JetStream has no such place, so its reader begins at the start of the stream's files.
"""

from collections.abc import Callable

from penstock_lab.bench.journal_sides import Ours
from penstock_lab.bench.peers.nats import Nats
from penstock_lab.bench.report import Options, RowRecorder, interleave

__all__ = ["compare_reads"]

MB = 1e6
SIZE, IN_FLIGHT = 10 << 10, 64


def compare_reads(recorder: RowRecorder, options: Options, seconds: float, ours: Ours, nats: Nats | None) -> None:
    """MB/s of one reader."""
    recorder.progress("reads behind the appends")
    tails: dict[str, Callable[[], float]] = {"penstock": lambda: ours.tail(SIZE, IN_FLIGHT, seconds)}
    if nats is not None:
        tails["nats"] = lambda: nats.tail(SIZE, IN_FLIGHT, seconds)
    for side, rate in interleave(tails, options.repeats).items():
        recorder.row("reads behind 10 KiB appends, 64 in flight", side, rate / MB, "MB/s", bytes=SIZE)
    recorder.progress("reads from the start")
    size = (8 if options.quick else 256) << 20
    ours.store(size)
    cold: dict[str, Callable[[], float]] = {
        "penstock": lambda: ours.read_stored(size, is_direct=False),
        "penstock, by the client itself": lambda: ours.read_stored(size, is_direct=True),
        "penstock, out of Spools": lambda: ours.read_spools(size),
    }
    if nats is not None:
        cold["nats"] = lambda: nats.read(SIZE, size)
    for side, rate in interleave(cold, options.repeats).items():
        recorder.row("reads from the start", side, rate / MB, "MB/s", total_bytes=size)
