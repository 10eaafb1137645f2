from hypothesis import given
from hypothesis import strategies as st

from penstock.plumbing.wal.checksum import crc32c, has_crc, with_crc


def test_it_is_castagnolis_polynomial() -> None:
    assert crc32c(b"123456789") == 0xE3069283  # the check value of the catalogue of CRCs


@given(st.binary(), st.binary())
def test_a_sum_goes_on_from_the_sum_before(first: bytes, second: bytes) -> None:
    assert crc32c(second, crc32c(first)) == crc32c(first + second)


@given(st.binary(), st.data())
def test_a_changed_bit_is_noticed(body: bytes, data: st.DataObject) -> None:
    summed = bytearray(with_crc(body))
    assert has_crc(bytes(summed))
    bit = data.draw(st.integers(0, len(summed) * 8 - 1))
    summed[bit // 8] ^= 1 << bit % 8
    assert not has_crc(bytes(summed))
