import doctest
import io

import pytest
from rich.console import Console

from penstock_lab.bench import render as render_module
from penstock_lab.bench.render import render
from penstock_lab.bench.report import Report, RowRecorder

MACHINE: dict[str, str | int] = {
    "cpu": "Abacus 9000",
    "cores": 2,
    "memory_bytes": 24 << 30,
    "kernel": "Linux 6.1",
    "python": "CPython 3.11.7",
    "filesystem": "ext4",
    "load": "0.3",
}


def text_of(recorder: RowRecorder, width: int = 80) -> str:
    report = Report(
        "wire", MACHINE, "abc123", recorder.rows, recorder.bars, recorder.growth, recorder.missing, seconds=12.34
    )
    console = Console(file=io.StringIO(), width=width, color_system=None)
    for part in render(report, "How fast is the wire?", columns=width):
        console.print(part)
    assert isinstance(console.file, io.StringIO)
    return "\n".join(line.rstrip() for line in console.file.getvalue().splitlines())


def test_the_examples_in_the_documentation() -> None:
    assert doctest.testmod(render_module).failed == 0


def test_a_table_per_what_with_sides_as_columns_and_ratios_to_peers() -> None:
    recorder = RowRecorder()
    for in_flight, ours, theirs in ((1, 13_029, 1_991), (256, 412_000, 4_510)):
        recorder.row("unary requests", "grpc", theirs, "requests/s", in_flight=in_flight, payload_bytes=100)
        recorder.row("unary requests", "penstock", ours, "requests/s", in_flight=in_flight, payload_bytes=100)
    recorder.row("unary requests", "socket", 20_000, "requests/s", in_flight=1, payload_bytes=100)
    assert (
        text_of(recorder)
        == """\
How fast is the wire?
Abacus 9000, 2 cores, 24 GiB, ext4, Linux 6.1, CPython 3.11.7, load 0.3; commit
abc123

unary requests in requests/s, payload_bytes=100
in_flight   penstock    grpc   socket   vs grpc   vs socket
───────────────────────────────────────────────────────────
1             13,029   1,991   20,000     6.54x      0.651x
256          412,000   4,510        -     91.4x           -


no bars, 12.3 s"""
    )


def test_bars_show_how_far_they_are_kept_or_missed() -> None:
    recorder = RowRecorder()
    recorder.bar("requests_vs_grpc", 91.3, at_least=30)
    recorder.bar("p50_vs_grpc", 0.275, at_most=0.25)
    recorder.peer_missing("kafka", "no broker here", bars=["bulk_vs_kafka"])
    assert (
        text_of(recorder).split("\n\n", 1)[1]
        == """\
missing: kafka: no broker here
bar                         value   asked for       how far
──────────────────────────────────────────────────────────────────
✓ requests_vs_grpc           91.3   at least 30     kept by 204 %
✗ p50_vs_grpc               0.275   at most 0.250   missed by 10 %
✗ bulk_vs_kafka      not measured                   missed

1 of 3 bars kept, 12.3 s"""
    )


def test_growth_is_a_table_and_a_plot() -> None:
    recorder = RowRecorder()
    recorder.grows("load", "in flight", "requests/s", {"penstock": [(1, 10), (100, 1000)], "grpc": [(1, 5)]})
    shown = text_of(recorder)
    assert "load: requests/s by in flight" in shown
    assert "\n        1         10      5\n      100      1,000      -\n" in shown
    assert "● penstock   ○ grpc" in shown


@pytest.mark.parametrize("width", [60, 80, 120, 200])
def test_no_line_is_wider_than_the_terminal(width: int) -> None:
    recorder = RowRecorder()
    recorder.row("bulk", "penstock", 3392.0, "MB/s", chunk_bytes=65536)
    recorder.row("bulk", "grpc", 643.0, "MB/s", chunk_bytes=65536)
    recorder.grows("load", "in flight", "requests/s", {"penstock": [(1, 10), (100, 1000)]})
    recorder.bar("bulk_vs_grpc", 5.3, at_least=3)
    assert max(map(len, text_of(recorder, width).splitlines())) <= width


def test_without_ours_there_is_no_ratio() -> None:
    recorder = RowRecorder()
    recorder.row("fsync", "ext4", 84.0, "us")
    recorder.row("fsync", "tmpfs", 0.0, "us")
    assert "vs" not in text_of(recorder)
    recorder.row("fsync", "penstock", 1.0, "us")
    assert "0.0119x" in text_of(recorder)
