from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.lake.s3.protocol.crc64 import ALL_ONES, POLYNOMIAL, Crc64Nvme


def bit_by_bit(data: bytes) -> bytes:
    state = ALL_ONES
    for byte in data:
        state ^= byte
        for _ in range(8):
            state = (state >> 1) ^ (POLYNOMIAL if state & 1 else 0)
    return (state ^ ALL_ONES).to_bytes(8, "big")


def test_the_check_value_of_the_catalogue() -> None:
    assert Crc64Nvme(b"123456789").digest().hex() == "ae8b14860a799888"
    assert Crc64Nvme().digest() == bytes(8)


@settings(max_examples=30, deadline=None)
@given(st.randoms(use_true_random=False), st.integers(0, 20_000), st.integers(1, 9000))
def test_it_is_the_bit_by_bit_one_however_it_is_fed(random: object, size: int, piece: int) -> None:
    data = random.randbytes(size)  # type: ignore[attr-defined]
    running = Crc64Nvme()
    for at in range(0, size, piece):
        running.update(memoryview(data)[at : at + piece])
    assert running.digest() == bit_by_bit(data)


def test_a_whole_round_joins_as_its_pieces_do() -> None:
    data = bytes(range(256)) * 2100
    running = Crc64Nvme()
    for at in range(0, len(data), 1000):
        running.update(data[at : at + 1000])
    assert Crc64Nvme(data).digest() == running.digest()
