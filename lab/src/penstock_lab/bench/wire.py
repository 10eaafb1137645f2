"""How fast is the wire? Requests, latency, messages and bulk, next to grpcio.aio and a bare socket.

Client and server are two processes on one machine; the sides take turns (`interleave`), and medians count. What each
side runs is in `wire_sides`.
"""

from collections.abc import Callable
from contextlib import ExitStack
from functools import partial
from multiprocessing.connection import Connection
from typing import Final

from penstock_lab.bench import wire_sides
from penstock_lab.bench.report import Options, RowRecorder, interleave
from penstock_lab.bench.wire_driver import Order, WireSide
from penstock_lab.bench.wire_sides import BODY_BYTES, CHUNK_BYTES

__all__ = ["QUESTION", "run"]

QUESTION: str = "How does the wire compare with grpcio.aio for requests, latency and bulk, and with a bare socket?"

OURS: Final = "penstock"
GRPC: Final = "grpcio.aio"
SOCKET: Final = "socket"
MAINS: Final[dict[str, tuple[Callable[[Connection], None], Callable[[Connection], None]]]] = {
    OURS: (wire_sides.penstock_server, wire_sides.penstock_client),
    GRPC: (wire_sides.grpc_server, wire_sides.grpc_client),
    SOCKET: (wire_sides.socket_server, wire_sides.socket_client),
}
IN_FLIGHT: Final = (1, 16, 64, 256, 1024)
IN_FLIGHT_BAR: Final = 256
ROUNDS_PER_REPEAT: Final = 3


def run(recorder: RowRecorder, options: Options) -> None:
    """Measure everything; the bars are the foundation's."""
    missing = wire_sides.grpc_missing()
    if missing is not None:
        recorder.peer_missing(GRPC, missing)
    names = [name for name in MAINS if name != GRPC or missing is None]
    # Many short rounds rather than few long ones: other work on the machine then spoils some, and the median is clean.
    seconds = 0.02 if options.quick else 0.3
    repeats = 1 if options.quick else ROUNDS_PER_REPEAT * max(3, options.repeats)
    with ExitStack() as stack:
        sides = {name: stack.enter_context(WireSide(*MAINS[name])) for name in names}
        talkers = {name: side for name, side in sides.items() if name != SOCKET}
        for side in talkers.values():  # the first calls pay for connections and caches
            side.measure(Order("requests", seconds / 4, in_flight=16))
        _requests(recorder, talkers, seconds, repeats)
        _latency(recorder, talkers, seconds, repeats)
        _messages(recorder, talkers, seconds, repeats)
        _bulk(recorder, sides, seconds, repeats)
        for name, side in talkers.items():
            if side.failed:  # grpcio.aio answers CANCELLED to some when a thousand are in flight
                recorder.row("unary requests which failed", name, side.failed, "requests")


def _measure(recorder: RowRecorder, sides: dict[str, WireSide], order: Order, repeats: int) -> dict[str, float]:
    recorder.progress(f"{order.what}, {order.in_flight} in flight")
    return interleave({name: partial(side.measure, order) for name, side in sides.items()}, repeats)


def _requests(recorder: RowRecorder, sides: dict[str, WireSide], seconds: float, repeats: int) -> None:
    series: dict[str, list[tuple[float, float]]] = {name: [] for name in sides}
    for in_flight in IN_FLIGHT:
        figures = _measure(recorder, sides, Order("requests", seconds, in_flight), repeats)
        for name, figure in figures.items():
            recorder.row("unary requests", name, figure, "requests/s", in_flight=in_flight, body_bytes=BODY_BYTES)
            series[name].append((in_flight, figure))
        if in_flight == IN_FLIGHT_BAR and GRPC in figures:
            recorder.bar("requests_vs_grpc", figures[OURS] / figures[GRPC], at_least=30)
    recorder.grows("unary requests by concurrency", "requests in flight", "requests/s", series)


def _latency(recorder: RowRecorder, sides: dict[str, WireSide], seconds: float, repeats: int) -> None:
    figures = _measure(recorder, sides, Order("latency", seconds), repeats)
    for name, figure in figures.items():
        recorder.row("unary latency p50", name, figure, "us", in_flight=1, body_bytes=BODY_BYTES)
    if GRPC in figures:
        recorder.bar("p50_vs_grpc", figures[OURS] / figures[GRPC], at_most=0.25)


def _messages(recorder: RowRecorder, sides: dict[str, WireSide], seconds: float, repeats: int) -> None:
    figures = _measure(recorder, sides, Order("messages", seconds, IN_FLIGHT_BAR), repeats)
    for name, figure in figures.items():
        recorder.row(
            "messages on one stream", name, figure, "messages/s", in_flight=IN_FLIGHT_BAR, body_bytes=BODY_BYTES
        )


def _bulk(recorder: RowRecorder, sides: dict[str, WireSide], seconds: float, repeats: int) -> None:
    figures = _measure(recorder, sides, Order("bulk", seconds), repeats)
    for name, figure in figures.items():
        recorder.row("bulk, one way", name, figure, "MB/s", chunk_bytes=CHUNK_BYTES)
    if GRPC in figures:
        recorder.bar("bulk_vs_grpc", figures[OURS] / figures[GRPC], at_least=3)
    recorder.bar("bulk_vs_socket", figures[OURS] / figures[SOCKET], at_least=0.5)
