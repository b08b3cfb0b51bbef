"""Rules of language for documents, help texts and docstrings."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from statistics import median

import click

from placesim.cli.commands import COMMANDS, command_named

ROOT = Path(__file__).parent.parent
PACKAGE = ROOT / "placesim"
PAGES = [ROOT / "README.md", *sorted((PACKAGE / "manual").glob("*.md"))]
QUESTION = re.compile(r'"""(What|Where|Which|Who|Whose|How|When|That|Why|Whatever|Whoever)\b.*')
LONG = 30
"""Words of a long sentence; quoted texts of TensorFlow and lists of keys make some unavoidable."""


def sentences(page: str) -> Iterator[str]:
    """The sentences of a page in Markdown, without code; each cell of a table is one or more."""
    text = re.sub(r"```.*?```", " ", page, flags=re.DOTALL)
    for block in re.split(r"\n\s*\n|\n\s*(?:[-*]|\d+\.)\s|\n(?=\|)|\n#+ ", text):
        for part in block.split("|") if block.lstrip().startswith("|") else [block]:
            yield from re.split(r"(?<=[.:;?!])\s+", part)


def words(sentence: str) -> list[str]:
    return re.findall(r"[A-Za-z`'][\w`'./-]*", sentence)


def options() -> Iterator[click.Option]:
    for name in COMMANDS:
        yield from (param for param in command_named(name).params if isinstance(param, click.Option) and not param.hidden)


def test_no_docstring_begins_with_a_question_word() -> None:
    found = [
        f"{path.relative_to(ROOT)}: {match[0]}"
        for path in PACKAGE.rglob("*.py")
        for match in QUESTION.finditer(path.read_text())
        if match[0]
        != '"""Where would TensorFlow place every op of a graph on a machine, and what happens next?'  # the first help
    ]
    assert not found


def test_tables_in_docstrings_have_a_line_for_each_row() -> None:
    joined = re.compile(r"\| \|-+\|")
    assert not [path for path in PACKAGE.rglob("*.py") if joined.search(path.read_text(encoding="utf-8"))]


def test_sentences_are_short() -> None:
    lengths = [len(words(sentence)) for page in PAGES for sentence in sentences(page.read_text())]
    assert sum(length > LONG for length in lengths) <= sum(length > 1 for length in lengths) / 200


def test_helps_are_short_and_complete() -> None:
    helps = {option.opts[0]: option.help or "" for option in options()}
    assert median(len(text.split()) for text in helps.values()) <= 10
    assert max(len(text.split()) for text in helps.values()) <= 25
    unpunctuated = [name for name, text in helps.items() if not text.endswith((".", ")"))]
    assert not unpunctuated


def test_words_to_avoid_are_avoided() -> None:
    _, _, table = (PACKAGE / "manual" / "glossary.md").read_text().partition("## Words to avoid")
    avoided = [word.strip() for row in table.splitlines()[6:] if row.startswith("|") for word in row.split("|")[1].split(",")]
    assert len(avoided) > 10
    text = {page.name: page.read_text().partition("## Words to avoid")[0] for page in PAGES}
    text |= {option.opts[0]: option.help or "" for option in options()}
    pattern = re.compile(rf"\b(?:{'|'.join(map(re.escape, avoided))})s?\b", re.IGNORECASE)
    found = [f"{place}: {match[0]}" for place, page in text.items() for match in pattern.finditer(page)]
    assert not found
