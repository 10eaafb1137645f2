"""A process that appends to a kept Spool, rolls and finishes Fragments, and prints its saves."""

import hashlib
import sys
from pathlib import Path
from random import Random

from penstock.journals.broker.spools.spool_files import Keeps, SpoolFiles
from penstock.journals.core.spool import SpoolState
from penstock.journals.records.epoch import NO_EPOCH
from penstock.journals.records.fragment import EMPTY_SUM, Fragment
from penstock.journals.records.point import Point
from penstock.kernel.ids import Incarnation, Offset, Revision
from penstock.plumbing.ports.ports import system_ports

JOURNAL = "a/journal"


def content_at(begin: int, end: int) -> bytes:
    """Return the journal's bytes, which are a function of their offset, so that a reader can check them."""
    return bytes(offset * 31 % 251 for offset in range(begin, end))


def sum_of(begin: int, end: int) -> bytes:
    return hashlib.sha1(content_at(begin, end), usedforsecurity=False).digest() if end > begin else EMPTY_SUM


def point_of(begin: int, end: int) -> Point:
    return Point(Offset(begin), Offset(end), sum_of(begin, end))


def state_of(*points: Point) -> SpoolState:
    return SpoolState(Incarnation("i"), Revision(1), NO_EPOCH, NO_EPOCH, points[0].begin, points)


def main(folder: Path, keeps: Keeps, seed: int) -> None:
    random = Random(seed)
    files, recovered = SpoolFiles.open(system_ports(), folder, JOURNAL, keeps)
    points = list(recovered.state.points) if recovered is not None else [point_of(0, 0)]
    print(points[-1].end, flush=True)
    while True:
        last = points[-1]
        if last.end - last.begin > 5_000:
            points.append(last.rolled())
            files.roll(points[-1])
        begin, end = points[-1].begin, points[-1].end
        upto = end + random.randint(1, 2_000)
        files.write(content_at(end, upto))
        points.append(point_of(begin, upto))
        assert files.sum == points[-1].sum
        save = files.prepare_save(state_of(*points))
        save.run()
        save.end()
        print(upto, flush=True)
        if points[0].begin != points[-1].begin:
            final = [point for point in points if point.begin == points[0].begin][-1]
            points = [point for point in points if point.begin != final.begin]
            fragment = Fragment(JOURNAL, final.begin, final.end, final.sum)
            files.finish(fragment).release()
            if random.random() < 0.5:
                files.forget(fragment)


if __name__ == "__main__":
    main(Path(sys.argv[1]), Keeps(sys.argv[2]), int(sys.argv[3]))
