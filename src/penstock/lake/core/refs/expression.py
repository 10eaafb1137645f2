"""Ref expressions: how people name a commit.

    main  v1  0123abcd…     a branch, a tag, a commit id or the unique beginning of one
    main~2                  its second ancestor, by first parents
    v1^  v1^2               its first parent; its second parent, which a merge has
    main^~3                 both, from left to right
    main@                   the branch without its uncommitted changes

A base is looked up as a whole commit id, then as a branch, then a tag, then the beginning of a commit id: a branch
named like an id's beginning hides it, and never the other way round.
"""

import re
from enum import Enum
from typing import Final

import msgspec

from penstock.kernel.errors import InvalidArgument, NotFound
from penstock.lake.core.refs.graph import Search
from penstock.lake.core.staging.records import CommitId

__all__ = ["BaseKind", "RefExpression", "Step", "StepKind", "follow", "lookup_order", "parse_ref"]

PREFIX_DIGITS_MIN: Final = 4  # of a commit id's beginning
STEPS_MAX: Final = 1000  # ancestors to go back, in all
LOOK: Final = "run penstock lake log with the ref alone to see how far back it goes"
_REF: Final = re.compile(r"([^~^@$:\s]+)((?:[~^]\d{0,6})*)(@?)")
_STEP: Final = re.compile(r"([~^])(\d*)")
_DIGITS: Final = re.compile(r"[0-9a-f]+")


class StepKind(Enum):
    """How to go from a commit to an earlier one."""

    ANCESTOR = "~"
    PARENT = "^"


class Step(msgspec.Struct, frozen=True):
    """`~n`: n times to the first parent. `^n`: once, to the n-th parent; 0 is the commit itself, as in Git."""

    kind: StepKind
    count: int


class RefExpression(msgspec.Struct, frozen=True):
    """An expression, taken apart."""

    base: str
    steps: tuple[Step, ...] = ()
    committed_only: bool = False  # it was said with "@", or follows from the steps: ancestors have nothing staged


class BaseKind(Enum):
    """What the base of an expression may be."""

    COMMIT = "commit"
    BRANCH = "branch"
    TAG = "tag"
    COMMIT_PREFIX = "commit-prefix"


def parse_ref(text: str) -> RefExpression:
    """An expression taken apart, or `InvalidArgument`.

    >>> parse_ref("main~2^")
    RefExpression(base='main', steps=(Step(kind=<StepKind.ANCESTOR: '~'>, count=2), Step(kind=<StepKind.PARENT: '^'>, count=1)), committed_only=True)
    """  # noqa: E501
    found = _REF.fullmatch(text)
    if found is None:
        raise InvalidArgument(f"{text[:100]!r} is no ref: write a branch, a tag or a commit id, then ~N, ^N or @")
    base, steps_text, at = found.groups()
    steps = tuple(Step(StepKind(kind), int(count or 1)) for kind, count in _STEP.findall(steps_text))
    if sum(step.count for step in steps) > STEPS_MAX:
        raise InvalidArgument(f"{text[:100]!r} goes back more than {STEPS_MAX} commits")
    return RefExpression(base, steps, committed_only=bool(at or steps))


def lookup_order(base: str) -> list[BaseKind]:
    """Return the kinds that the base may be, in this order; the first that exists counts."""
    names = [BaseKind.BRANCH, BaseKind.TAG]
    if not _DIGITS.fullmatch(base) or not PREFIX_DIGITS_MIN <= len(base) <= 64:
        return names
    return [BaseKind.COMMIT, *names] if len(base) == 64 else [*names, BaseKind.COMMIT_PREFIX]


def _no_parent(commit: CommitId, parents: int, wanted: int) -> str:
    if not parents:
        return f"commit {commit} is the first of all: nothing came before it"
    return f"commit {commit} has {parents} {'parent' if parents == 1 else 'parents'}, and no number {wanted}"


def follow(start: CommitId, steps: tuple[Step, ...]) -> Search[CommitId]:
    """The commit which the steps lead to, or `NotFound` where there is none."""
    at = start
    for step in steps:
        times, parent = (step.count, 1) if step.kind is StepKind.ANCESTOR else (min(step.count, 1), step.count)
        for _ in range(times):
            commit = yield at
            if len(commit.parents) < parent:
                raise NotFound(_no_parent(at, len(commit.parents), parent), kind="commit", next_step=LOOK)
            at = commit.parents[parent - 1]
    return at
