"""Splits the project's files into sentences: docstrings, comments and string literals of Python, prose of Markdown.

The text of a sentence depends on neither its file nor the line breaks in it: spans of code become `x`, white space
becomes one space. An f-string is one text with `x` for each value, and comment lines that follow each other are one
text.
"""

import ast
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

__all__ = ["ROOT", "ROOTS", "Sentence", "files", "of_file", "of_python", "of_text", "project"]

ROOT: Final = Path(__file__).parents[2]
# The folders and files to scan; a root that does not exist is skipped. Literals of tests quote output and do not count.
ROOTS: Final = ("src", "lab/src", "tests", "lab/tests", "docs", "README.md", "CONTRIBUTING.md", "CHANGELOG.md")
QUOTING: Final = ("tests/", "lab/tests/")

_CODE_SPAN: Final = re.compile(r"``.+?``|`[^`]+`", re.DOTALL)
_LINK: Final = re.compile(r"!?\[([^\]]*)\]\([^)\s]*\)")
_MARKS: Final = re.compile(r"\*\*|<!--.*?-->", re.DOTALL)
_SENTENCE_END: Final = re.compile(r"(?<=[.!?])[\"')\]]*\s+(?=[\"'(\[]*[A-Z`])")
_BLOCK: Final = re.compile(r"\n\s*\n|\n(?=\s*(?:[-*+•] |\d+\. ))")
_BULLET: Final = re.compile(r"^\s*(?:[-*+•>#]+|\d+\.)\s+")
_DOCTEST: Final = re.compile(r"^\s*>>> .*(?:\n\s*\S.*)*", re.MULTILINE)
_FENCE: Final = re.compile(r"^ *```.*?^ *```$", re.DOTALL | re.MULTILINE)
_FRONT: Final = re.compile(r"\A---\n.*?^---$", re.DOTALL | re.MULTILINE)
_TABLE_RULE: Final = re.compile(r"^[|\s:-]+$")
_TOKEN: Final = re.compile(
    r"(?P<string>\"\"\"(?:\\.|[^\\])*?\"\"\"|'''(?:\\.|[^\\])*?'''|\"(?:\\.|[^\"\\\n])*\"|'(?:\\.|[^'\\\n])*')"
    r"|(?P<comment>#[^\n]*)",
    re.DOTALL,
)
_NO_COMMENT: Final = re.compile(r"#\s*(?:noqa|type:|fmt:|pragma|!|ruff:|mypy:)")
_Documented = ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef


@dataclass(frozen=True, slots=True)
class Sentence:
    """One sentence and its place; `opens` marks the first sentence of a function's docstring."""

    text: str
    path: str
    line: int
    kind: str  # "docstring", "comment", "literal" or "prose"
    opens: bool = False


def files(root: Path = ROOT, roots: Iterable[str] = ROOTS) -> Iterator[Path]:
    """Yield every file of Python or Markdown below the roots that exist."""
    for place in roots:
        path = root / place
        found = [path] if path.is_file() else path.rglob("*")
        yield from sorted(each for each in found if each.suffix in (".py", ".md"))


def project(root: Path = ROOT, roots: Iterable[str] = ROOTS) -> Iterator[Sentence]:
    """Yield every sentence of the project."""
    for path in files(root, roots):
        name = str(path.relative_to(root))
        quoting = name.startswith(QUOTING)
        yield from (each for each in of_file(path, name) if not (quoting and each.kind == "literal"))


def of_file(path: Path, name: str) -> Iterator[Sentence]:
    """Yield the sentences of one file. Raises ValueError with its name if it is not UTF-8 or does not parse."""
    try:
        text = path.read_text(encoding="utf-8")
        yield from of_python(text, name) if path.suffix == ".py" else of_markdown(text, name)
    except (SyntaxError, UnicodeDecodeError) as error:
        raise ValueError(f"{name} cannot be read: {error}") from error


def of_python(source: str, path: str) -> Iterator[Sentence]:
    """Yield the sentences of a module: docstrings, string literals with a space in them, and comments."""
    seen: set[ast.AST] = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, _Documented):
            literal = _docstring(node)
            if literal is not None:
                seen.add(literal)
                opens = not isinstance(node, ast.Module | ast.ClassDef)
                yield from of_text(str(literal.value), path, literal.lineno, "docstring", opens=opens)
        elif isinstance(node, ast.JoinedStr):
            seen.update(part for part in node.values if isinstance(part, ast.Constant))
            yield from of_text(_joined(node), path, node.lineno, "literal")
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and node not in seen and " " in node.value:
            yield from of_text(node.value, path, node.lineno, "literal")
    for line, comment in _comments(source):
        yield from of_text(comment, path, line, "comment")


def _docstring(node: _Documented) -> "ast.Constant | None":
    match node.body:
        case [ast.Expr(value=ast.Constant(value=str()) as literal), *_]:
            return literal
        case _:
            return None


def _joined(node: ast.JoinedStr) -> str:
    return "".join(str(part.value) if isinstance(part, ast.Constant) else "`x`" for part in node.values)


def _comments(source: str) -> Iterator[tuple[int, str]]:
    """Yield each comment with its first line; lines of the same column that follow each other are one comment."""
    if "#" not in source:
        return
    text, first, last, column, line, at = "", 0, 0, -1, 1, 0
    for match in _TOKEN.finditer(source):
        comment = match["comment"]
        if comment is None or _NO_COMMENT.match(comment):
            continue
        line += source.count("\n", at, match.start())
        at = match.start()
        begin = at - source.rfind("\n", 0, at) - 1
        alone = not source[at - begin : at].strip()
        if text and alone and line == last + 1 and begin == column:
            text += "\n" + comment.lstrip("# ")
        else:
            if text:
                yield first, text
            text, first, column = comment.lstrip("# "), line, begin
        last = line
    if text:
        yield first, text


def of_markdown(text: str, path: str) -> Iterator[Sentence]:
    """Yield the sentences of a page: prose, headings, items, table cells, comments in shell and Python."""
    blank = _FRONT.sub(_as_lines, text)
    for fence in _FENCE.finditer(blank):
        line = blank.count("\n", 0, fence.start()) + 1
        if fence[0].lstrip(" `").startswith(("sh\n", "python\n")):
            for offset, each in enumerate(fence[0].splitlines()):
                _, mark, comment = each.partition("# ") if not each.lstrip().startswith("```") else ("", "", "")
                if mark:
                    yield from of_text(comment, path, line + offset, "prose")
    prose = _FENCE.sub(_as_lines, blank)
    line, block = 1, list[str]()
    for number, each in enumerate([*prose.splitlines(), ""], 1):
        stripped = each.strip()
        if stripped.startswith(("|", "#")) or not stripped:
            yield from of_text("\n".join(block), path, line, "prose")
            block = []
            cells = [] if not stripped or _TABLE_RULE.match(stripped) else re.split(r"(?<!\\)\|", stripped)
            for cell in cells:
                yield from of_text(cell, path, number, "prose")
        else:
            line = number if not block else line
            block.append(each)


def _as_lines(match: re.Match[str]) -> str:
    return "\n" * match[0].count("\n")


def of_text(text: str, path: str, line: int, kind: str, *, opens: bool = False) -> Iterator[Sentence]:
    """Yield the sentences of a text of several paragraphs, with code replaced and white space joined."""
    if ">>>" in text:
        text = _DOCTEST.sub("", text)
    begin = 0
    for block in [*_BLOCK.finditer(text), None]:
        part = text[begin : block.start() if block else len(text)]
        plain = _MARKS.sub("", _LINK.sub(r"\1", _CODE_SPAN.sub("`x`", part)))
        plain = " ".join(_BULLET.sub("", plain.strip()).split())
        where = line + text.count("\n", 0, begin)
        for sentence in _SENTENCE_END.split(plain):
            if " " in sentence:
                yield Sentence(sentence, path, where, kind, opens)
            opens = False
        begin = block.end() if block else begin
