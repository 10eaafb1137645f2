"""Thirteen patterns of unclear English, each with the sentence to write instead (docs/contributing/style.md).

A pattern is here only if it finds at least ten times as many sentences in this project as in twelve packages of other
authors: `make words` prints both shares.
"""

import re
from dataclasses import dataclass
from re import Pattern
from typing import Final

__all__ = ["RULES", "Rule"]


@dataclass(frozen=True)
class Rule:
    """A pattern, with a bad sentence that it finds and a good one that says the same."""

    id: str
    pattern: Pattern[str]
    bad: str
    good: str
    openings_only: bool = False  # judges only the first sentence of a function's docstring


def _rule(number: int, pattern: str, bad: str, good: str, *, openings_only: bool = False) -> Rule:
    return Rule(f"W{number}", re.compile(pattern, re.IGNORECASE), bad, good, openings_only)


def _not_after(*words: str) -> str:
    return "".join(rf"(?<!\b{word} )" for word in words)


_ASKED: Final = (
    *("see", "know", "knows", "show", "shows", "check", "explain", "explains", "decide", "decides"),
    *("ask", "asks", "learn", "guess", "about", "exactly"),
)
_WHAT: Final = "is|was|are|were|has|had|it|they|came|comes|goes|stands"
_AFTER_BEHIND: Final = "it|that|them|this|what|the|a|its|which|each|every|one|all|our"
_OPENINGS: Final = (
    "what|where|whether|who|whoever|which|whose|one|of|how|all|those|nobody|nothing|as|from|behind|its|up|by|for|so"
)

RULES: Final = (
    _rule(
        1,
        r"\bwho(?:m|se|so)?ever\b",
        "Open the stream to whoever is the primary.",
        "Open an append stream to the primary that this client knows of.",
    ),
    _rule(
        2,
        r"\b(?:nobody|somebody)\b",
        "Nobody serves the journal.",
        "No broker serves the journal.",
    ),
    _rule(
        3,
        rf"{_not_after(*_ASKED)}\bwhat (?:{_WHAT})\b",
        "Append what is on stdin.",
        "Append stdin as one atomic write of any size.",
    ),
    _rule(
        4,
        r"(?:^|\b(?:to|for|by|than|with|from) )who(?:se)? \w+",
        "Who reads a fragment as a whole has its SHA-1 checked.",
        "The client checks the SHA-1 of a fragment that it reads as a whole.",
    ),
    _rule(
        5,
        r"\b(?:is|are|was|were|be) (?:(?:not|still|already|no longer) )?there\b"
        r"(?! (?:a|an|any|no|is|are|enough|more)\b)",
        "Tagging is not there in this gateway.",
        "Tagging is not supported.",
    ),
    _rule(
        6,
        _not_after("lag", "fall", "left", "far", "is", "are")
        + rf"\bbehind (?:{_AFTER_BEHIND})\b(?! (?:load|proxy|reverse|firewall)\b)",
        "Trim the log behind that.",
        "Trim the log after that entry.",
    ),
    _rule(
        7,
        r"\b(?:is|are|was|were|be|been) told\b|\bhear(?:s|d|ing)?\b",
        "A replica hears a moment later that all have an append.",
        "A replica learns of a commit slightly after the primary.",
    ),
    _rule(
        8,
        r"\bso many\b",
        "Take a snapshot after so many entries.",
        "Take a snapshot every N entries.",
    ),
    _rule(
        9,
        r"\b(?:go|goes|went|going) on\b",
        "The query goes on where it was.",
        "The query continues from its checkpoint.",
    ),
    _rule(
        10,
        r"\b(?:stands?|stood|standing)\b(?! (?:for|by)\b)",
        "Each assignment stands in the KeySpace.",
        "The allocator stores the assignments in the KeySpace.",
    ),
    _rule(
        11,
        r"\b(?:ones?|those) (?:which|who)\b",
        "A broker names those who serve it.",
        "A broker names the brokers that serve it.",
    ),
    _rule(
        12,
        r"\b(?:beside|anew|once more|of ours|of theirs|mend|parted|all there is|all that is|let go of)\b",
        "The mirror reads everything anew.",
        "The mirror reloads every key.",
    ),
    _rule(
        13,
        rf"^(?:{_OPENINGS})\b",
        "What a fresh member does first.",
        "Return the effects of a member that starts without a checkpoint.",
        openings_only=True,
    ),
)
