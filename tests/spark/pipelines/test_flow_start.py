"""Every interleaving of backfills, streams, lost checkpoints and zombies in a small world: each row exactly once.

The rule under test is the lake's own `verdict`. The world is a journal of three rows that grows, two backfills, and two
lives of a stream; each plans a batch, may freeze there, and commits later. Design: spark-2.md S6, S7.
"""

from collections.abc import Callable, Iterator

import msgspec
import pytest

from penstock.lake.core.staging.proposing.sink_rule import BatchOffer, Register, SinkVerdict, verdict
from penstock.spark.shared.offsets import journal_positions, positions_text

ROWS = 3
FILL = "backfill-x"
Judge = Callable[[Register | None, BatchOffer], SinkVerdict]


class PlannedBatch(msgspec.Struct, frozen=True):
    """What an actor will commit, now or when it wakes."""

    query: str
    number: int
    begin: int
    end: int
    is_done: bool = False


class Shop(msgspec.Struct, frozen=True):
    """The whole world."""

    head: int = 1
    register: Register | None = None
    rows: tuple[int, ...] = ()
    plans: tuple[PlannedBatch | None, ...] = (None, None, None, None)  # two backfills, two lives of a stream


def at(position: int) -> str:
    return positions_text([{"a": position}])


def reached(register: Register | None) -> int:
    return 0 if register is None else (journal_positions(register.ends) or {})["a"]


def steps(world: Shop, judge: Judge) -> Iterator[Shop]:
    if world.head < ROWS:
        yield msgspec.structs.replace(world, head=world.head + 1)
    for who, plan in enumerate(world.plans):
        for planned in planned_by(world, who, plan):
            yield msgspec.structs.replace(world, plans=(*world.plans[:who], planned, *world.plans[who + 1 :]))
        if plan is not None:
            yield committed(world, who, plan, judge)


def planned_by(world: Shop, who: int, plan: PlannedBatch | None) -> Iterator[PlannedBatch]:
    """The next batches of an actor. A backfill asks the register; a stream knows its checkpoint, if it has one."""
    register = world.register
    if who < 2:
        if register is not None and register.query != FILL:
            return
        number, begin, query = (0, 0, FILL) if register is None else (register.batch + 1, reached(register), FILL)
    elif plan is None:
        number, begin, query = 0, reached(register), f"stream-{who}"
    elif plan.is_done:
        number, begin, query = plan.number + 1, plan.end, plan.query
    else:
        return  # a planned batch is in the checkpoint
    for end in range(begin + 1, world.head + 1):
        yield PlannedBatch(query, number, begin, end)


def committed(world: Shop, who: int, plan: PlannedBatch, judge: Judge) -> Shop:
    offer = BatchOffer(plan.query, plan.number, f"{plan.begin}-{plan.end}", at(plan.begin), at(plan.end))
    what = judge(world.register, offer)
    done = msgspec.structs.replace(plan, is_done=True)
    plans = (*world.plans[:who], done if who >= 2 else plan, *world.plans[who + 1 :])
    if what is SinkVerdict.REPLAY:
        return msgspec.structs.replace(world, plans=plans)
    if what is not SinkVerdict.COMMIT:
        return world
    register = Register(plan.query, plan.number, offer.guard, offer.ends)
    rows = (*world.rows, *range(plan.begin, plan.end))
    return Shop(world.head, register, rows, plans)


def explore(judge: Judge) -> tuple[int, Shop | None]:
    """Return the number of states, and the first wrong one."""
    seen, waiting = {Shop()}, [Shop()]
    while waiting:
        for following in steps(waiting.pop(), judge):
            if following.rows != tuple(range(len(following.rows))):
                return len(seen), following
            if following not in seen:
                seen.add(following)
                waiting.append(following)
    return len(seen), None


def test_no_interleaving_loses_a_row_or_writes_it_twice() -> None:
    count, wrong = explore(verdict)
    assert wrong is None
    assert count > 1000


def not_compared(last: Register | None, batch: BatchOffer) -> SinkVerdict:
    """A mutant: another query may follow wherever it begins."""
    if last is not None and last.query != batch.query and batch.batch == 0:
        return SinkVerdict.COMMIT
    return verdict(last, batch)


def taken_at_commit(last: Register | None, batch: BatchOffer) -> SinkVerdict:
    """A mutant: a batch says that it begins where the register is, when it commits."""
    return verdict(last, batch if last is None else msgspec.structs.replace(batch, begins=last.ends))


@pytest.mark.parametrize("judge", [not_compared, taken_at_commit])
def test_without_the_chain_rows_come_twice(judge: Judge) -> None:
    _, wrong = explore(judge)
    assert wrong is not None
