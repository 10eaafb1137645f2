"""Compares the project's sentences with the rules, and remembers the old ones that may stay: words.txt.

A line of words.txt is the fingerprint of one sentence that breaks a rule. Such a sentence may stay or move to another
file; a new or edited one must be clean. Nothing adds a line: `make words` drops the lines that no longer occur.
"""

import hashlib
import subprocess
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Final

from tests.docs.words_rules import RULES, Rule
from tests.docs.words_text import ROOT, Sentence, of_file, project

__all__ = ["WORDS", "Hit", "added_by_hand", "broken", "drop", "fingerprint", "hits", "known", "new_hits", "stale"]

WORDS: Final = Path(__file__).with_name("words.txt")
CONTROL: Final = (
    *("sqlalchemy", "pandas", "pyspark", "polars", "hypothesis", "_pytest"),
    *("fsspec", "rich", "cyclopts", "structlog", "msgspec", "uvicorn"),
)


@dataclass(frozen=True, slots=True)
class Hit:
    """A sentence and the rules that it breaks."""

    sentence: Sentence
    rules: tuple[Rule, ...]

    def __str__(self) -> str:
        place = f"{self.sentence.path}:{self.sentence.line}"
        advice = "; ".join(f"{rule.id}: write like {rule.good!r}" for rule in self.rules)
        return f"{place}: {self.sentence.text}\n    {advice}"


def broken(sentence: Sentence, rules: Iterable[Rule] = RULES) -> tuple[Rule, ...]:
    """Return the rules that a sentence breaks. A question breaks none."""
    if sentence.text.endswith("?"):
        return ()
    return tuple(
        rule for rule in rules if (sentence.opens or not rule.openings_only) and rule.pattern.search(sentence.text)
    )


def hits(sentences: Iterable[Sentence], rules: Iterable[Rule] = RULES) -> Iterator[Hit]:
    """Yield the sentences that break a rule."""
    rules = tuple(rules)
    for sentence in sentences:
        found = broken(sentence, rules)
        if found:
            yield Hit(sentence, found)


def fingerprint(text: str) -> str:
    """Return ten hexadecimal digits that depend on the words of a sentence only."""
    return hashlib.blake2b(" ".join(text.split()).encode(), digest_size=5).hexdigest()


def known(path: Path = WORDS) -> set[str]:
    """Return the fingerprints of the old sentences that may stay."""
    return set(path.read_text(encoding="ascii").split())


def new_hits(found: Iterable[Hit], allowed: set[str], *, zone: Iterable[str] = ()) -> list[Hit]:
    """Return the hits that are not in words.txt, and all hits below a path of the zone."""
    zone = tuple(zone)
    return [hit for hit in found if hit.sentence.path.startswith(zone) or fingerprint(hit.sentence.text) not in allowed]


def stale(found: Iterable[Hit], allowed: set[str]) -> set[str]:
    """Return the fingerprints that no sentence has any more."""
    return allowed - {fingerprint(hit.sentence.text) for hit in found}


def drop(found: Iterable[Hit], path: Path = WORDS) -> int:
    """Drop the lines of words.txt that no longer occur, and return their number. Adds none."""
    before = known(path)
    after = before - stale(found, before)
    path.write_text("".join(f"{each}\n" for each in sorted(after)), encoding="ascii")
    return len(before) - len(after)


def added_by_hand(path: Path = WORDS, root: Path = ROOT) -> set[str]:
    """Return the lines of words.txt that its version at the merge base with main lacks. Empty without Git history."""
    name = path.relative_to(root).as_posix()
    for upstream in ("main", "origin/main"):
        base = _git(root, "merge-base", "HEAD", upstream)
        if base is None:
            continue
        if base == _git(root, "rev-parse", "HEAD"):
            base = "HEAD^"
        before = _git(root, "show", f"{base.strip()}:{name}")
        if before is not None:
            return known(path) - set(before.split())
    return set()


def _git(root: Path, *arguments: str) -> str | None:
    try:
        ran = subprocess.run(["git", "-C", root, *arguments], capture_output=True, text=True, timeout=30, check=False)
    except OSError:
        return None
    return ran.stdout if ran.returncode == 0 else None


def control() -> Iterator[Sentence]:
    """Yield the docstring sentences of packages that other authors wrote."""
    for name in CONTROL:
        spec = find_spec(name)
        if spec is None or spec.origin is None:
            continue  # an extra that this environment lacks
        for path in Path(spec.origin).parent.rglob("*.py"):
            yield from (each for each in of_file(path, str(path)) if each.kind == "docstring")


def share(sentences: Iterable[Sentence]) -> str:
    """Return how many sentences break a rule, as a line of text."""
    every = list(sentences)
    bad = sum(1 for _ in hits(every))
    return f"{bad:,} of {len(every):,} sentences ({100 * bad / max(len(every), 1):.2f} %)"


def main() -> int:
    """Drop what no longer occurs, print both shares and every new hit. Returns 1 if there is a new hit."""
    sentences = list(project())
    found = list(hits(sentences))
    dropped = drop(found)
    ours = [each for each in sentences if each.kind == "docstring" and not each.path.startswith("tests/")]
    print(f"dropped {dropped} lines of words.txt; {len(known()):,} remain")
    pages = [each for each in sentences if each.path.startswith("docs/")]
    print(f"all text:             {share(sentences)}")
    print(f"pages and decisions:  {share(pages)}")
    print(f"docstrings, ours:     {share(ours)}")
    print(f"docstrings, control:  {share(control())}")
    new = new_hits(found, known())
    print(*new, sep="\n")
    return 1 if new else 0


if __name__ == "__main__":  # python -m tests.docs.words_ratchet
    sys.exit(main())
