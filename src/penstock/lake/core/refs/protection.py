"""The rules of branch protection, as clients give and get them: patterns of branches, and the actions that they block.

A pattern is matched against a whole name. `*` stands for any characters, `?` for one, `[a-z]` for one of a set, `[!a]`
for one outside of it; `\\` takes a special meaning away. Every member decides at apply, so a match costs at most the
length of the pattern times the length of the name.
"""

import hashlib
from collections.abc import Iterable
from typing import Final, Literal, get_args

import msgspec

__all__ = ["ACTIONS", "RULES_MAX", "Action", "ProtectionRule", "are_sound", "blocks", "etag_of", "is_match"]

Action = Literal["staging_write", "commit"]
ACTIONS: Final[tuple[Action, ...]] = get_args(Action)
RULES_MAX: Final = 100
PATTERN_CHARACTERS_MAX: Final = 255


class ProtectionRule(msgspec.Struct, frozen=True):
    """A pattern of branches, and the actions that are refused on them. Whether both can be read, `are_sound` says."""

    pattern: str
    blocks: tuple[str, ...] = ACTIONS


def are_sound(rules: tuple[ProtectionRule, ...]) -> bool:
    """Return whether a repository can have these rules."""
    return len(rules) <= RULES_MAX and all(
        0 < len(rule.pattern) <= PATTERN_CHARACTERS_MAX
        and rule.blocks
        and set(rule.blocks) <= set(ACTIONS)
        and _parts(rule.pattern) is not None
        for rule in rules
    )


def blocks(rules: Iterable[ProtectionRule], branch: str, action: Action) -> bool:
    """Return whether a rule refuses an action on a branch.

    >>> blocks([ProtectionRule("release-*", ("commit",))], "release-7", "commit")
    True
    """
    return any(action in rule.blocks and is_match(rule.pattern, branch) for rule in rules)


def etag_of(rules: tuple[ProtectionRule, ...]) -> str:
    """Return a name for these rules; none have an empty one."""
    return hashlib.sha256(msgspec.json.encode(rules)).hexdigest()[:32] if rules else ""


def is_match(pattern: str, name: str) -> bool:
    """Match a whole name. After a mismatch only the last `*` takes a character more, so no pattern is slow.

    >>> is_match("v?.*", "v1.2"), is_match("[!a-c]*", "beta")
    (True, False)
    """
    parts = _parts(pattern) or []
    at, place = 0, 0
    star, taken = -1, 0
    while place < len(name):
        part = parts[at] if at < len(parts) else None
        if part is not None and part.is_star:
            star, taken, at = at, place, at + 1
        elif part is not None and part.holds(name[place]):
            at, place = at + 1, place + 1
        elif star >= 0:
            taken += 1
            at, place = star + 1, taken
        else:
            return False
    return all(part.is_star for part in parts[at:])


class _Part(msgspec.Struct, frozen=True):
    """One character: any, or one between the bounds of some pairs, or one outside of them; or any number of them."""

    pairs: tuple[tuple[str, str], ...] = (("\0", "\U0010ffff"),)
    is_outside: bool = False
    is_star: bool = False

    def holds(self, character: str) -> bool:
        return any(low <= character <= high for low, high in self.pairs) is not self.is_outside


def _parts(pattern: str) -> list[_Part] | None:
    """Return the parts of a pattern, or None for one that cannot be read."""
    found: list[_Part] = []
    place = 0
    while place < len(pattern):
        character = pattern[place]
        place += 1
        if character == "*":
            found.append(_Part(is_star=True))
        elif character == "?":
            found.append(_Part())
        elif character == "[":
            end = pattern.find("]", place + 1)
            if end < 0:
                return None
            found.append(_set(pattern[place:end]))
            place = end + 1
        elif character in "{}" or (character == "\\" and place == len(pattern)):
            return None
        else:
            if character == "\\":
                character, place = pattern[place], place + 1
            found.append(_Part(((character, character),)))
    return found


def _set(text: str) -> _Part:
    is_outside = text[:1] in ("!", "^") and len(text) > 1
    rest = text[1:] if is_outside else text
    pairs: list[tuple[str, str]] = []
    while rest:
        if len(rest) >= 3 and rest[1] == "-":
            pairs.append((rest[0], rest[2]))
            rest = rest[3:]
        else:
            pairs.append((rest[0], rest[0]))
            rest = rest[1:]
    return _Part(tuple(pairs), is_outside)
