"""Does a broker's memory stay flat while one append of 4 GiB streams through it?

`penstock bench journal` asks it with 1 GiB, so that all of it ends within minutes on a busy machine too.
"""

from typing import Final

from penstock_lab.bench.journal_sides import JournalWatch, Ours, bench_folder, cluster_of
from penstock_lab.bench.report import Options, RowRecorder

__all__ = ["QUESTION", "run", "stream_one"]

QUESTION = "Does a broker's memory stay flat while one append of 4 GiB streams through it?"

MB: Final = 1e6
GROWTH_MB_MAX: Final = 64.0  # of a broker's memory while an append of any length goes through it


def run(recorder: RowRecorder, options: Options) -> None:
    """Measure one append to three replicas."""
    with bench_folder() as folder, cluster_of(folder / "brokers", 3) as ours:
        stream_one(recorder, options, ours, 4 << 30)


def stream_one(recorder: RowRecorder, options: Options, ours: Ours, size: int) -> None:
    """Measure an append that is longer than any process may hold in memory."""
    size = (32 << 20) if options.quick else size
    recorder.progress(f"one append of {size >> 20} MiB")
    watch = JournalWatch(ours.pids)
    before = watch.memory_bytes()
    with watch.peaks() as peaks:
        rate = ours.stream(size)
    what = "one append, streamed"
    recorder.row(what, "penstock", rate / MB, "MB/s", bytes=size, replicas=len(before))
    recorder.row(f"{what}: memory of the largest broker before", "penstock", max(before) / MB, "MB", bytes=size)
    recorder.row(f"{what}: memory of the largest broker at its peak", "penstock", max(peaks) / MB, "MB", bytes=size)
    growth = max(peak - was for peak, was in zip(peaks, before, strict=True))
    recorder.bar("stream_memory_growth_mb", growth / MB, at_most=GROWTH_MB_MAX)
