"""What the code cites exists: every rule is in the manual's page on placement, every file named is there.

A citation is a rule's number, or several, alone in parentheses after what it backs: `(5.6)`, `(5.3 to 5.10, 6.1)`,
`(section 5)`, `(7.2c i)`; or a number and a colon at the start of a docstring, where the docstring is the rule: `5.6: a
reference edge ...`.
"""

from __future__ import annotations

import ast
import re
from functools import cache
from pathlib import Path

import pytest

from placesim.cli.manual_pages import plain_number, read_page, read_parts, topics

ROOT = Path(__file__).parent.parent.parent
SOURCES = sorted([*(ROOT / "placesim").rglob("*.py"), *(ROOT / "tests").rglob("*.py")])
SOURCES = [path for path in SOURCES if path.parent != Path(__file__).parent]
RULE = r"(?:(?:section|appendix) \w+|[0-9]{1,2}\.[0-9]{1,2}(?:\.[0-9]{1,2})?[a-h]?(?: (?:i{1,3}|[A-Z][0-9]?)\b)?)"
IN_PARENTHESES = re.compile(rf"\(({RULE}(?:(?:,| and| to) {RULE})*)\)")
AT_THE_START = re.compile(rf"\s*({RULE}):")
NOT_CITATIONS = {"(0.1)", "(2.21)"}
"""Other numbers that stand alone in parentheses: the default of `balance`, TensorFlow's release."""
NAMED = re.compile(rf"""(?<!\w)\(\s*(?:section\b|appendix\b|{RULE}[),\s"'])|["']\s*{RULE}:|\.md\b""")
"""How a citation or a file's name looks in a module's source, unlike a call with a number: only such a module is parsed."""
FILE_NAME = re.compile(r"(?<![\w/.-])(?:[\w-]+/)*[\w-]+\.md\b")
ADDRESS = re.compile(r"https?://\S+")
"""What stands in one is no file of ours."""
FOREIGN_FILES = {"doc/table_format.md"}
"""Files of other projects that are named as a source: LevelDB's."""


@cache
def texts(path: Path) -> tuple[str, ...]:
    """Everything in a module that a person reads, where it may cite: its docstrings, comments, and what it prints."""
    source = path.read_text()
    if not NAMED.search(source):
        return ()
    nodes = ast.walk(ast.parse(source))
    strings = [node.value for node in nodes if isinstance(node, ast.Constant) and isinstance(node.value, str)]
    return (*(" ".join(text.split()) for text in strings), *re.findall(r"(?:^ *|  )# (.*)$", source, re.MULTILINE))


def cited_in(path: Path) -> set[str]:
    """The rules that a module cites."""
    found = [match[1] for text in texts(path) for match in IN_PARENTHESES.finditer(text) if match[0] not in NOT_CITATIONS]
    found += [match[1] for text in texts(path) if (match := AT_THE_START.match(text))]
    return {rule for group in found for rule in re.findall(RULE, group)}


def cited_in_package() -> set[str]:
    return {rule for path in SOURCES if path.is_relative_to(ROOT / "placesim") for rule in cited_in(path)}


@pytest.mark.slow
def test_every_rule_that_is_cited_is_in_the_manual() -> None:
    numbers = {part.number for part in read_parts(read_page("placement")) if part.number}
    wrong = [
        f"{path.relative_to(ROOT)}: {rule}" for path in SOURCES for rule in cited_in(path) if plain_number(rule) not in numbers
    ]
    assert not wrong


@pytest.mark.slow
def test_the_citations_are_found() -> None:
    """The grammar above reads what the code is known to cite, in docstrings, comments and texts that are printed."""
    cited = cited_in_package()
    assert {"section 3", "5.3", "5.10", "8.10", "4.2d", "6.1.4", "6.3 A", "6.3 B2", "7.2c i", "7.2c ii", "12.1.3"} <= cited
    assert len(cited) > 70


@pytest.mark.parametrize("topic", [topic for topic in topics() if topic != "ops"])
def test_a_page_names_only_rules_that_there_are(topic: str) -> None:
    """In the manual itself, too, a rule that another one names exists; the table of ops holds other numbers."""
    numbers = {part.number for part in read_parts(read_page("placement")) if part.number}
    text = " ".join(read_page(topic).split())
    groups = [match[1] for match in IN_PARENTHESES.finditer(text) if match[0] not in NOT_CITATIONS]
    assert {plain_number(rule) for group in groups for rule in re.findall(RULE, group)} <= numbers


@pytest.mark.slow
def test_a_file_that_is_named_is_there() -> None:
    for path in SOURCES:
        places = (ROOT, path.parent, ROOT / "placesim" / "manual", ROOT / "placesim" / "report" / "assets")
        for name in {name for text in texts(path) for name in FILE_NAME.findall(ADDRESS.sub("", text))} - FOREIGN_FILES:
            assert any((place / name).exists() for place in places), f"{path.relative_to(ROOT)} names {name}"


def test_no_rule_has_two_places() -> None:
    for topic in topics():
        numbers = [part.number for part in read_parts(read_page(topic)) if part.number]
        assert len(numbers) == len(set(numbers)), topic
