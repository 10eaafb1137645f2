from penstock.plumbing.wire.protocol.blocks import GRAIN_BYTES, BlockPool

SIZE = 3 * GRAIN_BYTES


def test_a_block_nobody_holds_is_used_again() -> None:
    pool = BlockPool(1 << 20)
    block = pool.take(SIZE)
    memory = id(block.obj)
    del block
    assert id(pool.take(SIZE).obj) == memory


def test_a_block_of_which_a_part_is_held_is_not_used_again() -> None:
    pool = BlockPool(1 << 20)
    part = pool.take(SIZE)[5:6].toreadonly()
    other = pool.take(SIZE)
    other[:] = b"x" * SIZE
    assert other.obj is not part.obj
    assert bytes(part) == b"\0"


def test_a_block_fits_what_is_asked_for_and_is_not_wasted_on_less() -> None:
    pool = BlockPool(1 << 20)
    assert len(pool.take(SIZE - 1)) == SIZE - 1
    small = pool.take(SIZE // 4)
    assert isinstance(small.obj, bytearray)
    assert len(small.obj) < SIZE


def test_no_more_is_kept_than_allowed() -> None:
    pool = BlockPool(2 * SIZE)
    blocks = [pool.take(SIZE) for _ in range(5)]
    oldest = id(blocks[0].obj)
    blocks.clear()
    again = [pool.take(SIZE) for _ in range(2)]
    assert oldest not in [id(block.obj) for block in again]
    pool.trim()
    assert pool.take(SIZE).obj is not again[0].obj
