"""The pages of the manual, as they lie in `manual/` -> topics, and the sections and numbered rules of a page."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

_FOLDER = Path(__file__).parent.parent / "manual"
_HEADING = re.compile(r"(#+) +(?:(?:Appendix ([A-Z])|([0-9]+(?:\.[0-9]+)*))\.? )?(.*)")
_RULE = re.compile(r"( *)(- )?\*\*([0-9]+\.[0-9][^*]*)\*\*")


class Part(NamedTuple):
    """A heading or a numbered rule of a page, and the lines that it holds.

    `number` is the heading's or the rule's, without blanks and in small letters; "" for a heading without one.  `title` is the
    heading's text, "" for a rule; `level` the number of its `#`, 0 for a rule.
    """

    number: str
    title: str
    level: int
    first: int
    end: int


def topics() -> dict[str, str]:
    """Each page's name and title, in the order of names."""
    return {path.stem: _title(path) for path in sorted(_FOLDER.glob("*.md"), key=lambda path: path.stem)}


def _title(path: Path) -> str:
    with path.open(encoding="utf-8") as lines:
        return next(lines, "").removeprefix("# ").strip()


def read_page(topic: str) -> str:
    """The text of a page, in Markdown; `topic` is one of `topics`."""
    return (_FOLDER / f"{topic}.md").read_text(encoding="utf-8")


def find_sections(text: str, wanted: str) -> str:
    """The section or the rule of a number, else the section of a heading, else all that have `wanted` in their headings.

    A rule stands under the heading of its section; "" where there is nothing.
    """
    lines, parts = text.splitlines(), read_parts(text)
    number = plain_number(wanted)
    for part in parts:
        if number and part.number == number:
            heading = [] if part.level else _heading_above(lines, parts, part)
            return "\n".join([*heading, *_dedented(lines[part.first : part.end])]) + "\n"
    found = _outermost(_parts_named(parts, wanted.lower()))
    return "\n".join("\n".join(lines[part.first : part.end]).rstrip("\n") + "\n" for part in found)


def _parts_named(parts: Sequence[Part], wanted: str) -> list[Part]:
    """The parts with this heading, else those with it in theirs; the whole page only where no part of it has."""
    exact = [part for part in parts if part.title.lower() == wanted]
    near = [part for part in parts if wanted in part.title.lower()]
    return exact or [part for part in near if part.level > 1] or near


def plain_number(text: str) -> str:
    """A rule's number as it is compared: `7.2c (i)` is `7.2ci`."""
    return re.sub(r"^(section|rule)\b|appendix|[\s().]+$|[\s()]", "", text.strip().lower())


def read_parts(text: str) -> list[Part]:
    """All headings and rules of a page, in its order."""
    lines = text.splitlines()
    marks = list(_marks(lines))
    return [part._replace(end=_end(lines, part, marks[index + 1 :])) for index, part in enumerate(marks)]


def _marks(lines: Sequence[str]) -> Iterator[Part]:
    """Where each part starts; what stands in a fenced block starts none."""
    is_fenced = False
    for index, line in enumerate(lines):
        is_fenced ^= line.lstrip().startswith("```")
        if is_fenced:
            continue
        heading, rule = _HEADING.fullmatch(line), _RULE.match(line)
        if heading is not None:
            yield Part(plain_number(heading[2] or heading[3] or ""), heading[4], len(heading[1]), index, len(lines))
        elif rule is not None:
            yield Part(plain_number(rule[3]), "", 0, index, len(lines))


def _end(lines: Sequence[str], part: Part, later: Sequence[Part]) -> int:
    if part.level:
        return next((other.first for other in later if 0 < other.level <= part.level), len(lines))
    end = next((other.first for other in later if other.level or not _is_within(other.number, part.number)), len(lines))
    if not lines[part.first].lstrip().startswith("- "):
        return end
    indent = _indent(lines[part.first])
    return next((i for i in range(part.first + 1, end) if lines[i].strip() and _indent(lines[i]) <= indent), end)


def _is_within(number: str, outer: str) -> bool:
    """Whether a rule is a part of another: `7.2ci` of `7.2c`, and `7.2c` of `7.2`, but not `7.20`, nor `7.2cii` of `7.2ci`."""
    rest = number.removeprefix(outer)
    if rest == number:
        return False
    return not rest[:1].isdigit() if outer[-1].isdigit() else len(re.sub(r"[0-9.]", "", outer)) == 1


def _heading_above(lines: Sequence[str], parts: Sequence[Part], rule: Part) -> list[str]:
    above = [part for part in parts if part.level and part.first < rule.first]
    return [lines[above[-1].first], ""] if above else []


def _outermost(parts: Sequence[Part]) -> Iterator[Part]:
    """Without what lies inside of another of them."""
    end = 0
    for part in parts:
        if part.first >= end:
            yield part
            end = part.end


def _indent(line: str) -> int:
    return len(line) - len(line.lstrip())


def _dedented(lines: Sequence[str]) -> list[str]:
    indent = _indent(lines[0])
    return "\n".join(line[indent:] if line[:indent].isspace() else line for line in lines).rstrip("\n").split("\n")
