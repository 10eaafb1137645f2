from hypothesis import given
from hypothesis import strategies as st

from penstock.plumbing.wal.batch import (
    HEAD_BYTES,
    INDEX_BYTES,
    BatchHead,
    crcs_in,
    decode_head,
    encode,
    is_index,
    lengths_in,
)
from penstock.plumbing.wal.checksum import crc32c

SALT = 0x0123_4567_89AB_CDEF


def test_the_bytes_are_as_documented() -> None:
    data, chain = encode([b"abc", b"", b"de"], first_lsn=7, salt=SALT, chain=0x11223344)
    first = crc32c(b"abc", 0x11223344)
    crcs = [first, first, crc32c(b"de", first)]
    index = b"".join(number.to_bytes(4, "little") for number in (3, 0, 2, *crcs))
    head = b"".join(
        [
            b"PnB1",
            (3).to_bytes(4, "little"),
            (7).to_bytes(8, "little"),
            SALT.to_bytes(8, "little"),
            (5).to_bytes(4, "little"),
            (0x11223344).to_bytes(4, "little"),
            crc32c(index).to_bytes(4, "little"),
        ]
    )
    assert data == head + crc32c(head).to_bytes(4, "little") + index + b"abcde"
    assert chain == crcs[2]


@given(st.lists(st.binary(max_size=40), max_size=10), st.integers(1, 2**64 - 1), st.integers(0, 2**32 - 1))
def test_what_was_encoded_is_decoded(records: list[bytes], first_lsn: int, chain: int) -> None:
    data, after = encode(records, first_lsn, SALT, chain)
    head = decode_head(data, 0, SALT)
    assert head is not None
    assert (head.count, head.first_lsn, head.chain) == (len(records), first_lsn, chain)
    payload = data[HEAD_BYTES + INDEX_BYTES * len(records) :]
    assert payload == b"".join(records)
    assert len(payload) == head.payload_bytes
    index = data[HEAD_BYTES : HEAD_BYTES + INDEX_BYTES * len(records)]
    assert is_index(head, index)
    assert list(lengths_in(index)) == [len(record) for record in records]
    assert [chain, *crcs_in(index)][-1] == after == crc32c(payload, chain)


def test_a_head_with_any_bit_changed_is_none() -> None:
    data, _ = encode([b"abc"], 7, SALT, 0)
    for bit in range(HEAD_BYTES * 8):
        changed = bytearray(data)
        changed[bit // 8] ^= 1 << bit % 8
        assert decode_head(bytes(changed), 0, SALT) is None


def test_a_head_of_another_life_is_none() -> None:
    data, _ = encode([b"abc"], 7, SALT, 0)
    assert decode_head(data, 0, SALT + 1) is None


def test_a_head_which_is_not_all_there_is_none() -> None:
    data, _ = encode([b"abc"], 7, SALT, 0)
    assert decode_head(data[: HEAD_BYTES - 1], 0, SALT) is None
    assert decode_head(data, len(data) - 1, SALT) is None


def test_an_index_with_any_bit_changed_is_none_of_this_head() -> None:
    data, _ = encode([b"abc", b"d"], 7, SALT, 0)
    head = decode_head(data, 0, SALT)
    assert isinstance(head, BatchHead)
    index = data[HEAD_BYTES : HEAD_BYTES + 2 * INDEX_BYTES]
    assert is_index(head, index)
    assert not is_index(head, index[:-1])
    for bit in range(len(index) * 8):
        changed = bytearray(index)
        changed[bit // 8] ^= 1 << bit % 8
        assert not is_index(head, bytes(changed))
