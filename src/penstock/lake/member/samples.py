"""Sample data for a new repository: a table of lakes, where it came from, some pictures, a page to read first.

All of it is made here, from numbers: the lakes are invented, and the same ones every time.
"""

import io
import struct
import zlib
from collections.abc import Iterator
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

__all__ = ["sample_objects"]

LAKES: Final = 40_000
PICTURES: Final = 29
SIDE: Final = 96  # of a picture, in pixels


def sample_objects() -> Iterator[tuple[str, bytes, str]]:
    """Path, bytes and content type of each."""
    yield "README.md", _README.encode(), "text/markdown"
    yield "lakes.parquet", _lakes(), "application/octet-stream"
    yield "data/lakes.source.md", _SOURCE.encode(), "text/markdown"
    for number in range(PICTURES):
        yield f"images/lake-{number:02d}.png", _picture(number), "image/png"


def _lakes() -> bytes:
    random = np.random.default_rng(1)
    table = pa.table(
        {
            "id": np.arange(LAKES, dtype=np.int64),
            "name": [f"Lake {number}" for number in range(LAKES)],
            "country": np.array(["Norway", "Chile", "Kenya", "Japan", "Canada"])[random.integers(0, 5, LAKES)],
            "depth_m": np.round(random.gamma(2.0, 20.0, LAKES), 1),
            "area_km2": np.round(random.lognormal(1.0, 2.0, LAKES), 3),
        }
    )
    sink = io.BytesIO()
    pq.write_table(table, sink, compression="none")
    return sink.getvalue()


def _picture(number: int) -> bytes:
    """A small PNG of waves, each with its own tint and wave length."""
    x, y = np.meshgrid(np.arange(SIDE), np.arange(SIDE))
    height = np.sin(x / (3 + number)) + np.cos(y / (5 + number / 2)) + 2
    blue = (height * 55 + 30).astype(np.uint8)
    pixels = np.stack([blue // 3, (blue // 2 + 3 * number).astype(np.uint8), blue], axis=-1)
    rows = b"".join(b"\0" + row.tobytes() for row in pixels)
    head = struct.pack(">IIBBBBB", SIDE, SIDE, 8, 2, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + _chunk(b"IHDR", head) + _chunk(b"IDAT", zlib.compress(rows, 0)) + _chunk(b"IEND", b"")


def _chunk(kind: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


_README: Final = """# Sample data

`lakes.parquet` is a table of lakes which do not exist. Make a branch, change something, look at the difference,
commit it, merge it: nothing here is precious.
"""
_SOURCE: Final = """# Where the lakes come from

From a random number generator with the seed 1. See `penstock.lake.member.samples`.
"""
