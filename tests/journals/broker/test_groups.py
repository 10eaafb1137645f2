"""Appends that travel together: a group has the fate that each of its appends would have had alone, in its turn."""

from collections.abc import Callable, Sequence

import msgspec
import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from penstock.journals.broker import groups
from penstock.journals.broker.groups import last_of_group, wish_of
from penstock.journals.records.labels import LabelSelector, LabelSet
from penstock.journals.records.protocol import AppendPart, AppendWish, PartKind
from penstock.journals.records.registers import RegisterChange, Registers, Txn
from penstock.kernel.ids import Offset

LENGTHS = (0, 1, 1, 1, 2, 2)
CHECKS = (LabelSelector(), LabelSelector.parse("author = a"), LabelSelector.parse("author = b"))
CHANGES = (RegisterChange(), RegisterChange(LabelSet.of({"author": "a"})), RegisterChange(LabelSet.of({"author": "b"})))


class Journal(msgspec.Struct):
    """What appends see of a journal."""

    end: int
    registers: Registers

    def takes(self, part: AppendPart) -> bool:
        """Append one, if its conditions hold."""
        wish = part.wish
        assert wish is not None
        if not self.registers.matches(wish.check) or wish.offset not in (None, self.end):
            return False
        self.end += part.length
        self.registers = self.registers.changed(wish.change)
        return True


@st.composite
def histories(draw: st.DrawFn) -> tuple[Journal, list[AppendPart]]:
    """A journal, and parts of one message, most of which continue where the one before ends."""
    journal = Journal(draw(st.integers(0, 3)), Registers().changed(draw(st.sampled_from(CHANGES))))
    at, parts = journal.end, []
    for number in range(draw(st.integers(1, 7))):
        length = draw(st.sampled_from(LENGTHS))
        offset = draw(st.sampled_from((at, at, at, at + 1, None)))
        wish = AppendWish(
            draw(st.sampled_from((1_000, 1_000, 1_500, 2_000, 9_000))),
            None if offset is None else Offset(offset),
            draw(st.sampled_from((CHECKS[0], *CHECKS))),
            draw(st.sampled_from((CHANGES[0],) * 8 + CHANGES)),
            draw(st.sampled_from((None,) * 8 + (Txn("w", number + 1),))),
        )
        parts.append(AppendPart(number, length, draw(st.sampled_from((PartKind.COMMIT,) * 5 + (PartKind.MORE,))), wish))
        at += length
    return journal, parts


def divided(parts: Sequence[AppendPart]) -> list[list[AppendPart]]:
    found, index = [], 0
    while index < len(parts):
        last = last_of_group(parts, index)
        found.append(list(parts[index:last]))
        index = last
    return found


def check_history(journal: Journal, parts: list[AppendPart]) -> None:
    for group in divided(parts):
        if len(group) == 1:
            journal.takes(group[0])
            continue
        assert all(part.kind is PartKind.COMMIT and part.wish is not None and part.wish.txn is None for part in group)
        wishes = [part.wish for part in group if part.wish is not None]
        wish = wish_of(group)
        assert wish.timeout_ms == min(each.timeout_ms for each in wishes)
        assert max(each.timeout_ms for each in wishes) <= 4 * wish.timeout_ms, "a patient one is not ended early"
        together = AppendPart(0, sum(part.length for part in group), PartKind.COMMIT, wish)
        alone = msgspec.structs.replace(journal)
        fates = [alone.takes(part) for part in group]
        if journal.takes(together):
            assert all(fates), "one of them would have been refused"
            assert journal == alone
        else:
            assert not fates[0], "its conditions hold"


@given(histories())
def test_a_group_has_the_fate_of_its_appends(history: tuple[Journal, list[AppendPart]]) -> None:
    check_history(*history)


def test_a_chain_and_plain_appends_are_groups() -> None:
    def part(number: int, wish: AppendWish) -> AppendPart:
        return AppendPart(number, 10, PartKind.COMMIT, wish)

    check = CHECKS[1]
    chain = [part(number, AppendWish(1_000, Offset(50 + 10 * number), check)) for number in range(5)]
    plain = [part(5 + number, AppendWish(1_000)) for number in range(3)]
    assert [len(group) for group in divided([*chain, *plain])] == [5, 3]
    assert wish_of(chain) is chain[0].wish


Mutant = Callable[[AppendWish, int | None, AppendPart], bool]
FOLLOWS, MAY = groups._follows, groups._may_be_grouped


def _with(part: AppendPart, **changes: object) -> AppendPart:
    assert part.wish is not None
    return msgspec.structs.replace(part, wish=msgspec.structs.replace(part.wish, **changes))


MUTANTS: dict[str, Mutant] = {
    "another check": lambda first, end, part: FOLLOWS(first, end, _with(part, check=first.check)),
    "a gap of one byte": lambda first, end, part: (
        FOLLOWS(first, end, part) or (end is not None and FOLLOWS(first, end + 1, part))
    ),
    "a plain append in a chain, which anything may precede": lambda first, end, part: (
        FOLLOWS(first, end, part) or (end is None and MAY(part) and part.wish is not None)
    ),
    "a transaction at the end": lambda first, end, part: FOLLOWS(first, end, _with(part, txn=None)),
    "a change of registers": lambda first, end, part: FOLLOWS(first, end, _with(part, change=CHANGES[0])),
    "parts that are not whole": lambda first, end, part: FOLLOWS(
        first, end, msgspec.structs.replace(part, kind=PartKind.COMMIT)
    ),
    "any time-out": lambda first, end, part: FOLLOWS(first, end, _with(part, timeout_ms=first.timeout_ms)),
}


@pytest.mark.parametrize("name", MUTANTS)
def test_each_mutant_of_a_chain_is_caught(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(groups, "_follows", MUTANTS[name])

    @settings(max_examples=2_000, database=None, phases=[Phase.generate], report_multiple_bugs=False)
    @given(histories())
    def judge(history: tuple[Journal, list[AppendPart]]) -> None:
        check_history(*history)

    with pytest.raises(AssertionError):
        judge()


def test_the_conditions_of_a_group_are_those_of_its_first_append() -> None:
    """The mutant that takes the whole wish with the least time-out fails here."""
    parts = [
        AppendPart(0, 10, PartKind.COMMIT, AppendWish(2_000, Offset(0))),
        AppendPart(1, 10, PartKind.COMMIT, AppendWish(1_000, Offset(10))),
    ]
    wish = wish_of(parts)
    assert (wish.offset, wish.timeout_ms) == (0, 1_000)
