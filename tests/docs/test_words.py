"""The ratchet of words (docs/contributing/style.md): an old sentence may stay or move, a new or edited one is clean."""

import subprocess
from functools import cache
from pathlib import Path

import pytest
from tests.docs.words_ratchet import (
    Hit,
    added_by_hand,
    broken,
    drop,
    fingerprint,
    hits,
    known,
    new_hits,
    stale,
)
from tests.docs.words_rules import RULES, Rule
from tests.docs.words_text import Sentence, of_file, of_markdown, of_python, of_text, project

# Pages of users, which have no allowance: words.txt does not count for them.
ZONE: tuple[str, ...] = (
    "README.md",
    "docs/index.md",
    "docs/tutorials/",
    "docs/how-to/",
    "docs/explanation/",
    "docs/reference/api.md",
    "docs/reference/cli.md",
    "docs/reference/config.md",
    "docs/reference/errors.md",
    "src/penstock/cli/",
    "src/penstock/server/error_guide.py",
)

GOOD = (
    "The broker runs behind a load balancer.",
    "The follower is behind the leader.",
    "Its lag behind the primary is 3 entries.",
    "Is nobody there?",
    "See what was committed.",
    "The command shows what is configured.",
    "There is a leader.",
    "The name stands for the whole journal.",
    "A broker that does not serve the journal names the brokers that do.",
    "Give the name of the person who asked.",
    "Start after it: `what is behind it`.",
    "Append stdin as one atomic write of any size.",
    "Return the effects of a member that starts without a checkpoint.",
)


def texts(source: str) -> list[str]:
    return [each.text for each in of_python(source, "a.py")]


def sentence(text: str, *, opens: bool = False, path: str = "src/a.py") -> Sentence:
    return Sentence(text, path, 1, "docstring", opens)


@cache
def found() -> tuple[Hit, ...]:
    return tuple(hits(project()))


def test_no_new_sentence_breaks_a_rule() -> None:
    new = new_hits(found(), known(), zone=ZONE)
    assert not new, "reword these sentences (words.txt takes no new ones):\n" + "\n".join(map(str, new))


def test_words_txt_only_shrinks() -> None:
    assert not stale(found(), known()), "run `make words`: sentences of words.txt were reworded"
    assert not added_by_hand(), "words.txt takes no new lines: reword the sentences"


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.id)
def test_each_rule_finds_its_bad_sentence_alone(rule: Rule) -> None:
    assert broken(sentence(rule.bad, opens=rule.openings_only)) == (rule,)
    assert broken(sentence(rule.good, opens=rule.openings_only)) == ()


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.id)
def test_a_removed_rule_is_missed(rule: Rule) -> None:
    others = [each for each in RULES if each is not rule]
    missed = [each for each in RULES if not broken(sentence(each.bad, opens=each.openings_only), others)]
    assert missed == [rule]


@pytest.mark.parametrize("text", GOOD)
def test_clear_sentences_break_no_rule(text: str) -> None:
    assert list(hits(of_text(text, "a.md", 1, "prose"))) == []


def test_openings_are_judged_in_the_first_sentence_of_a_function_only() -> None:
    source = '''
class Log:
    """What a log has."""

    def read(self):
        """What a reader gets. As before."""
'''
    assert [(each.text, [rule.id for rule in broken(each)]) for each in of_python(source, "a.py")] == [
        ("What a log has.", []),
        ("What a reader gets.", ["W13"]),
        ("As before.", []),
    ]


def test_an_f_string_is_judged_as_one_text() -> None:
    assert texts('f"{name} who reads it"') == ["`x` who reads it"]
    assert texts('f"so {count} many" "; what "\nraise E(f"so "\n  f"many {x}")') == [
        "so `x` many; what",
        "so many `x`",
    ]


def test_lines_of_a_comment_are_joined() -> None:
    assert texts("# so\n# many\nx = 1  # a tail\n# not its line\n") == ["so many", "a tail", "not its line"]
    assert texts("x = 'a # text'\nif x:\n    # so\n    # many\n    pass\n") == ["a # text", "so many"]


def test_a_sentence_depends_on_no_line_break_and_no_code() -> None:
    wrapped = texts('"""A replica of `penstock.journals.core`\n    keeps\n    bytes. Second one."""')
    assert wrapped == texts('"""A replica of `penstock.journals.core` keeps bytes. Second one."""')
    assert wrapped == ["A replica of `x` keeps bytes.", "Second one."]


def test_every_part_of_a_page_is_prose() -> None:
    page = """# A title of words

Text that
is **wrapped**. See [the link](a.md).

- an item
- another item:
  its end

| a head | b |
|---|---|
| so many | `code` |

```sh
penstock up   # in another terminal
```

```text
so many lines
```
"""
    assert [(each.line, each.text) for each in of_markdown(page, "a.md")] == [
        (15, "in another terminal"),
        (1, "A title of words"),
        (3, "Text that is wrapped."),
        (3, "See the link."),
        (6, "an item"),
        (7, "another item: its end"),
        (10, "a head"),
        (12, "so many"),
    ]


def test_a_sentence_has_one_fingerprint_in_all_files() -> None:
    twice = list(hits([sentence("so many"), sentence("so  many", path="docs/b.md")]))
    assert {fingerprint(hit.sentence.text) for hit in twice} == {fingerprint("so many")}
    assert new_hits(twice, {fingerprint("so many")}) == []


def test_an_edited_sentence_fails_with_its_place_and_an_example() -> None:
    (hit,) = new_hits(hits([sentence("so many words")]), {fingerprint("so many")})
    assert str(hit) == "src/a.py:1: so many words\n    W8: write like 'Take a snapshot every N entries.'"


def test_a_zone_never_uses_words_txt() -> None:
    twice = list(hits([sentence("so many"), sentence("so many", path="docs/b.md")]))
    assert new_hits(twice, {fingerprint("so many")}, zone=("docs/b",)) == twice[1:]


def test_dropping_adds_nothing(tmp_path: Path) -> None:
    path = tmp_path / "words.txt"
    path.write_text(f"{fingerprint('so many')}\n{fingerprint('goes on')}\n")
    assert drop(hits([sentence("so many"), sentence("nobody")]), path) == 1
    assert path.read_text() == f"{fingerprint('so many')}\n"


def test_a_line_that_was_added_by_hand_is_found(tmp_path: Path) -> None:
    def git(*arguments: str) -> None:
        who = ["-c", "user.name=a", "-c", "user.email=a@b"]
        subprocess.run(["git", *who, *arguments], cwd=tmp_path, check=True, capture_output=True)

    path = tmp_path / "words.txt"
    git("init", "-b", "main")
    path.write_text("aa\nbb\n")
    assert added_by_hand(path, tmp_path) == set()  # no history yet
    git("add", ".")
    git("commit", "-m", "a")
    git("switch", "-c", "branch")
    path.write_text("bb\ncc\n")
    git("commit", "-am", "b")
    assert added_by_hand(path, tmp_path) == {"cc"}
    path.write_text("bb\n")
    assert added_by_hand(path, tmp_path) == set()
    git("switch", "-f", "main")
    git("merge", "branch")
    assert added_by_hand(path, tmp_path) == {"cc"}


@pytest.mark.parametrize(("name", "content"), [("a.py", b"def"), ("a.md", b"\xff"), ("b.py", b'"\xff"')])
def test_a_file_that_cannot_be_read_is_named(name: str, content: bytes, tmp_path: Path) -> None:
    path = tmp_path / name
    path.write_bytes(content)
    with pytest.raises(ValueError, match=name):
        list(of_file(path, name))


def test_roots_that_do_not_exist_are_skipped_and_literals_of_tests_too(tmp_path: Path) -> None:
    for place in ("src/a.py", "tests/a.py", "lab/src/a.py"):
        path = tmp_path / place
        path.parent.mkdir(parents=True)
        path.write_text("# so many\nx = 'a text'\n")
    assert [(each.path, each.text) for each in project(tmp_path)] == [
        ("src/a.py", "a text"),
        ("src/a.py", "so many"),
        ("lab/src/a.py", "a text"),
        ("lab/src/a.py", "so many"),
        ("tests/a.py", "so many"),
    ]
