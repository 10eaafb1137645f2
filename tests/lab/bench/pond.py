"""Benchmarks of the tests' own, found as any other."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import penstock_lab.bench

POND = '''
"""How deep is a pond?"""
import time
from penstock_lab.bench.report import Options, RowRecorder, interleave

QUESTION = "How deep is a pond, next to a puddle?"

def run(recorder: RowRecorder, options: Options) -> None:
    recorder.progress("wading")
    medians = interleave({"penstock": lambda: 9.0, "puddle": lambda: 3.0}, options.repeats)
    for side, value in medians.items():
        recorder.row("depth", side, value, "m", stones=2)
    recorder.bar("depth_vs_puddle", medians["penstock"] / medians["puddle"], at_least=DEEP)
'''


@contextmanager
def benchmarks_in(folder: Path) -> Iterator[Path]:
    """`bench.pond`, whose bar holds, `bench.puddle`, whose does not, and a helper which is no benchmark."""
    folder.mkdir()
    (folder / "pond.py").write_text(POND.replace("DEEP", "2.0"))
    (folder / "puddle.py").write_text(
        POND.replace("DEEP", "4.0").replace("How deep is a pond,", "How wet is a puddle,")
    )
    (folder / "pond_helper.py").write_text("raise RuntimeError('imported only when used')\n")
    penstock_lab.bench.__path__.append(str(folder))
    try:
        yield folder
    finally:
        penstock_lab.bench.__path__.remove(str(folder))
        for name in ("pond", "puddle"):
            sys.modules.pop(f"penstock_lab.bench.{name}", None)
            vars(penstock_lab.bench).pop(name, None)
