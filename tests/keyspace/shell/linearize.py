"""Did these transactions happen one after the other? A model of the KeySpace as a dict, and a check against it.

The model knows nothing of `penstock.keyspace.core.transaction.execute`: it is written a second time, as plainly as
possible. The revision of an outcome says where in the order the transaction is, so nothing has to be searched.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from random import Random

from penstock.kernel.ids import Revision
from penstock.keyspace.core.records import KeySnapshot, KeyValue
from penstock.keyspace.core.transaction import (
    Compare,
    DeleteKey,
    Operation,
    PutKey,
    ReadKey,
    Relation,
    Target,
    Transaction,
    TransactOutcome,
)

KEYS = 4


@dataclass(frozen=True)
class Attempt:
    """A transaction, its outcome, and the newest revision known before it began."""

    transaction: Transaction
    outcome: TransactOutcome
    known: Revision


def random_transaction(prefix: str, seed: int) -> Iterator[Transaction]:
    """Transactions on few keys, so that they collide; operands near the truth, so that compares hold now and then."""
    rng = Random(seed)

    def key() -> str:
        return f"{prefix}{rng.randrange(KEYS)}"

    def compare() -> Compare:
        target = rng.choice([Target.VERSION, Target.VERSION, Target.VALUE, Target.LEASE])
        operand = b"%d" % rng.randrange(3) if target is Target.VALUE else rng.randrange(3)
        return Compare(key(), target, rng.choice(list(Relation)), operand)

    def branch() -> tuple[Operation, ...]:
        changed = rng.sample(range(KEYS), rng.randrange(3))
        changes: list[Operation] = [
            PutKey(f"{prefix}{n}", b"%d" % rng.randrange(3)) if rng.random() < 0.6 else DeleteKey(f"{prefix}{n}")
            for n in changed
        ]
        reads: list[Operation] = [ReadKey(key()), ReadKey(prefix, is_prefix=True)]
        operations = changes + reads[: rng.randrange(3)]
        rng.shuffle(operations)
        return tuple(operations)

    while True:
        yield Transaction(tuple(compare() for _ in range(rng.randrange(3))), branch(), branch())


def check_linearizable(attempts: list[Attempt], base: Revision, final: KeySnapshot) -> None:
    """Replay all attempts in the order of their revisions; raise AssertionError where reality differs."""
    state: dict[str, KeyValue] = {}
    revision = base
    # A changing transaction comes first at its revision; a reading one saw the state after it.
    for attempt in sorted(attempts, key=lambda a: (a.outcome.revision, not _is_changing(a))):
        outcome = attempt.outcome
        assert outcome.revision >= attempt.known, f"{attempt} happened before what had already been answered"
        holds = all(_holds(compare, state) for compare in attempt.transaction.compares)
        branch = attempt.transaction.then if holds else attempt.transaction.otherwise
        after, results = _run(branch, state, Revision(revision + 1))
        if after != state:
            revision = Revision(revision + 1)
        assert outcome == TransactOutcome(holds, revision, results), attempt
        state = after
    assert final.entries == tuple(state[key] for key in sorted(state))


def _is_changing(attempt: Attempt) -> bool:
    taken = attempt.transaction.then if attempt.outcome.succeeded else attempt.transaction.otherwise
    return any(
        isinstance(operation, PutKey) or (isinstance(operation, DeleteKey) and result != ())
        for operation, result in zip(taken, attempt.outcome.results, strict=True)
    )


def _holds(compare: Compare, state: dict[str, KeyValue]) -> bool:
    entry = state.get(compare.key)
    match compare.target:
        case Target.VERSION:
            actual: int | bytes = entry.version if entry else 0
        case Target.LEASE:
            actual = entry.lease if entry else 0
        case Target.VALUE:
            if entry is None:
                return False
            actual = entry.value
        case _:
            raise AssertionError(compare)
    order = (actual > compare.operand) - (actual < compare.operand)  # type: ignore[operator]
    return {Relation.EQUAL: order == 0, Relation.NOT_EQUAL: order != 0, Relation.GREATER: order > 0}.get(
        compare.relation, order < 0
    )


def _run(
    branch: tuple[Operation, ...], state: dict[str, KeyValue], revision: Revision
) -> tuple[dict[str, KeyValue], tuple[tuple[KeyValue, ...], ...]]:
    state = dict(state)
    results: list[tuple[KeyValue, ...]] = []
    for operation in branch:
        if isinstance(operation, ReadKey) and operation.is_prefix:
            results.append(tuple(state[key] for key in sorted(state) if key.startswith(operation.key)))
            continue
        before = state.get(operation.key)
        results.append(() if before is None else (before,))
        if isinstance(operation, PutKey):
            born, version = (before.create_revision, before.version) if before else (revision, 0)
            state[operation.key] = KeyValue(operation.key, operation.value, born, revision, version + 1)
        elif isinstance(operation, DeleteKey):
            state.pop(operation.key, None)
    return state, tuple(results)
