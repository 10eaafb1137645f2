"""The papers hold together: links resolve, pages are found, commands exist, words are used as the glossary says."""

import ast
import re
import shlex
import tomllib
from collections.abc import Iterator
from contextlib import suppress
from functools import cache
from itertools import takewhile
from pathlib import Path
from typing import Any

import pytest
from cyclopts import MissingArgumentError

from penstock.cli.main import NOUNS, command_tree

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
PAGES = sorted(DOCS.rglob("*.md"))
PAPERS = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", ROOT / "CHANGELOG.md", *PAGES]
LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")

# Words of other systems for things which have another name in the glossary. Identifiers must not use them.
FORBIDDEN = {"term", "terms", "coordinator", "coordinators", "ballot", "slave", "slaves", "topic", "topics"}
LOOKS_FORBIDDEN = re.compile(rf"(?i:\b|_|(?<=[a-z]))(?i:{'|'.join(sorted(FORBIDDEN))})(?![a-z])")


def text_of(page: Path) -> str:
    return page.read_text(encoding="utf-8")


def prose_of(page: Path) -> str:
    return re.sub(r"^```.*?^```$", "", text_of(page), flags=re.DOTALL | re.MULTILINE)


def links(page: Path) -> Iterator[tuple[Path, str]]:
    """The files a page links to, and the heading in them, if any."""
    for link in LINK.findall(prose_of(page)):
        if not re.match(r"[a-z]+:", link):
            path, _, heading = link.partition("#")
            yield (page.parent / path).resolve() if path else page, heading


def headings(page: Path) -> set[str]:
    """Return the anchors of a page's headings, as GitHub and the site name them."""
    titles = re.findall(r"^#+ (.+)$", prose_of(page), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", title.lower()).strip().replace(" ", "-") for title in titles}


@pytest.mark.parametrize("page", PAPERS, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_somewhere(page: Path) -> None:
    for target, heading in links(page):
        assert target.is_file(), f"{page.name} links to {target}, which is not there"
        if heading:
            assert heading in headings(target), f"{target.name} has no heading #{heading}"


def test_every_page_is_found_from_the_index() -> None:
    found: set[Path] = set()
    queue = [DOCS / "index.md"]
    while queue:
        page = queue.pop()
        if page not in found and page.suffix == ".md" and page.is_relative_to(DOCS):
            found.add(page)
            queue += [target for target, _ in links(page)]
    assert found == set(PAGES)


def test_every_page_has_its_place_in_the_site() -> None:
    def pages(entries: list[Any]) -> Iterator[Path]:
        for entry in entries:
            for target in entry.values():
                yield from pages(target) if isinstance(target, list) else [DOCS / target]

    site = tomllib.loads(text_of(ROOT / "zensical.toml"))["project"]
    assert sorted(pages(site["nav"])) == PAGES


@pytest.mark.parametrize("page", PAPERS, ids=lambda page: str(page.relative_to(ROOT)))
def test_a_page_has_one_title(page: Path) -> None:
    assert len(re.findall(r"^# ", prose_of(page), re.MULTILINE)) == 1


def commands(page: Path) -> Iterator[str]:
    """Yield the commands of a page: `make …` and `penstock …` between backticks, or as lines of shell."""
    text = text_of(page)
    shell = re.findall(r"^```sh\n(.*?)^```$", text, re.DOTALL | re.MULTILINE)
    for line in [*"".join(shell).splitlines(), *re.findall(r"`((?:make|penstock) [^`]+)`", prose_of(page))]:
        command = " ".join(shlex.split(line, comments=True))
        if command.startswith(("make ", "penstock ")):
            yield command


def check_make(words: list[str]) -> None:
    targets = set(re.findall(r"^([a-z0-9-]+):", text_of(ROOT / "Makefile"), re.MULTILINE))
    unknown = {word for word in words if "=" not in word} - targets
    assert not unknown, f"make has no target {unknown}"


tree = cache(command_tree)


def check_penstock(words: list[str]) -> None:
    """Parse the line as far as it is given, and run nothing. A command may be named without its arguments."""
    given = list(takewhile(lambda word: word not in ("…", "NOUN", "||"), words))
    with suppress(MissingArgumentError):
        tree().parse_args(re.sub(r" ?--output json", "", " ".join(given)).split())


@pytest.mark.parametrize("page", PAPERS, ids=lambda page: str(page.relative_to(ROOT)))
def test_commands_named_in_the_papers_exist(page: Path) -> None:
    for command in commands(page):
        first, *words = command.split()
        check_make(words) if first == "make" else check_penstock(words)


def test_all_nouns_are_in_the_reference() -> None:
    assert all(f"## penstock {noun}\n" in text_of(DOCS / "reference/cli.md") for noun in NOUNS)


def identifiers(module: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(text_of(module))):
        match node:
            case ast.Name(id=name) | ast.arg(arg=name) | ast.Attribute(attr=name):
                yield name
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
                yield name
            case ast.keyword(arg=str(name)):
                yield name
            case _:
                pass


def words_of(identifier: str) -> set[str]:
    return {word.lower() for word in re.findall(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])", identifier)}


def test_the_code_uses_the_words_of_the_glossary() -> None:
    used = {
        f"{module.relative_to(ROOT)}: {name}"
        for module in (ROOT / "src").rglob("*.py")
        if LOOKS_FORBIDDEN.search(text_of(module))  # to parse them all takes seconds
        for name in set(identifiers(module))
        if words_of(name) & FORBIDDEN
    }
    assert used == set()


def test_words_are_found_in_names_of_every_style() -> None:
    assert words_of("current_term") & words_of("CurrentTerm") & words_of("TERM_MAX") == {"term"}
    assert words_of("terminal") == {"terminal"}
    assert words_of("HTTPTerm") == {"http", "term"}
