"""CRC-32C (Castagnoli), little-endian on disk."""

from google_crc32c import extend, value

__all__ = ["crc32c", "has_crc", "with_crc"]


def crc32c(data: bytes, before: int = 0) -> int:
    """The sum of the data, or of some data before and this."""
    crc: int = extend(before, data)
    return crc


def with_crc(data: bytes) -> bytes:
    """Return the data with its own sum in the four bytes after it."""
    crc: int = value(data)
    return data + crc.to_bytes(4, "little")


def has_crc(data: bytes) -> bool:
    """Return whether the last four bytes are the sum of the bytes before."""
    crc: int = value(data[:-4])
    return crc.to_bytes(4, "little") == data[-4:]
