"""Pages of the manual by topic, and their sections and numbered rules.

Most pages are files in `manual/`. Pages about tables are generated section by section when they are read; the tutorial's page
is generated from its notebook.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

_FOLDER = Path(__file__).parent.parent / "manual"
TUTORIAL = "tutorial"
"""Topic of the page that is a notebook."""
_HEADING = re.compile(r"(#+) +(?:(?:Appendix ([A-Z])|([0-9]+(?:\.[0-9]+)*))\.? )?(.*)")
_RULE = re.compile(r"( *)(- )?\*\*([0-9]+\.[0-9][^*]*)\*\*")


class Part(NamedTuple):
    """A heading or a numbered rule of a page, with the range of its lines.

    `number` is the number of the heading or rule, in lower case without blanks; "" if it has none. `title` is the heading's
    text; "" for a rule. `level` is the heading's number of `#`; 0 for a rule.
    """

    number: str
    title: str
    level: int
    first: int
    end: int


Sections = Mapping[str, Callable[[], str]]
"""Headings of a generated page, each with a function that returns its text.

The key "" has the text before the first heading.
"""


def _ops() -> Sections:
    from placesim.report.ops_page import ops_sections

    return ops_sections()


def _functions() -> Sections:
    from placesim.tf1.importing.functions_page import functions_sections

    return functions_sections()


class MadePage(NamedTuple):
    """A generated page: its title for lists of topics, and its sections."""

    title: str
    sections: Callable[[], Sections]


MADE: Mapping[str, MadePage] = {
    "ops": MadePage("Ops: inputs, attrs, kernels by device, and where the numpy kernel is", _ops),
    "tf1-functions": MadePage("TensorFlow 1's functions: what scripts find, and what they do not", _functions),
}


def topics() -> dict[str, str]:
    """Return the name and title of each page, sorted by name."""
    written = {path.stem: _title(path) for path in _FOLDER.glob("*.md")} | {TUTORIAL: _heading(read_page(TUTORIAL))}
    return dict(sorted((written | {name: page.title for name, page in MADE.items()}).items()))


def _title(path: Path) -> str:
    with path.open(encoding="utf-8") as lines:
        return _heading(next(lines, ""))


def _heading(text: str) -> str:
    return text.partition("\n")[0].removeprefix("# ").strip()


def read_notebook() -> str:
    """Return the tutorial as a notebook, in Jupyter's JSON."""
    return (_FOLDER / f"{TUTORIAL}.ipynb").read_text(encoding="utf-8")


def _tutorial_page() -> Iterator[str]:
    """Yield the cells of the tutorial as Markdown: texts, code, and the outputs under it."""
    for number, cell in enumerate(json.loads(read_notebook())["cells"]):
        source = "".join(cell["source"])
        yield "\n" * (number > 0) + (f"{source}\n" if cell["cell_type"] == "markdown" else f"```python\n{source}\n```\n")
        shown = "".join("".join(part.get("text") or (*part["data"]["text/plain"], "\n")) for part in cell.get("outputs", ()))
        if shown:
            yield f"\n```text\n{shown}```\n"


def read_page(topic: str) -> str:
    """Return the text of a page, in Markdown; `topic` is one of `topics`."""
    return "".join(page_pieces(topic))


def page_pieces(topic: str) -> Iterator[str]:
    """Yield a page piece by piece."""
    if topic in MADE:
        sections = MADE[topic].sections()
        return _filled(_outline(topic, sections), sections)
    if topic == TUTORIAL:
        return _tutorial_page()
    return iter([(_FOLDER / f"{topic}.md").read_text(encoding="utf-8")])


def read_sections(topic: str, wanted: str) -> str:
    """Return the sections of a page that `find_sections` finds. In a generated page, only these sections are generated."""
    if topic in MADE:
        sections = MADE[topic].sections()
        return "".join(_filled(find_sections(_outline(topic, sections), wanted), sections))
    return find_sections(read_page(topic), wanted)


def read_outline(topic: str) -> str:
    """Return a page, or only the headings of a generated page."""
    return _outline(topic, MADE[topic].sections()) if topic in MADE else read_page(topic)


def _outline(topic: str, sections: Sections) -> str:
    return f"# {MADE[topic].title}\n" + "".join(f"\n{heading}\n" for heading in sections if heading)


def _filled(outline: str, sections: Sections) -> Iterator[str]:
    """Yield the lines of an outline; after each heading, yield the text of its section."""
    for line in outline.splitlines(keepends=True):
        heading = line.rstrip("\n")
        yield line
        if heading:
            yield sections["" if heading.startswith("# ") else heading]()


def find_sections(text: str, wanted: str) -> str:
    """Return a section or a rule of a page, or "" if nothing is found.

    The section or rule with the number `wanted` comes first, then the section with that heading, then all sections whose
    heading contains it. A rule is shown under its section's heading.
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
    """Return the parts with this heading, else those whose heading contains it.

    The whole page is returned only if no other part matches.
    """
    exact = [part for part in parts if part.title.lower() == wanted]
    near = [part for part in parts if wanted in part.title.lower()]
    return exact or [part for part in near if part.level > 1] or near


def plain_number(text: str) -> str:
    """Normalise a rule's number for comparison: `7.2c (i)` becomes `7.2ci`."""
    return re.sub(r"^(section|rule)\b|appendix|[\s().]+$|[\s()]", "", text.strip().lower())


def read_parts(text: str) -> list[Part]:
    """Return all headings and rules of a page, in order."""
    lines = text.splitlines()
    marks = list(_marks(lines))
    return [part._replace(end=_end(lines, part, marks[index + 1 :])) for index, part in enumerate(marks)]


def _marks(lines: Sequence[str]) -> Iterator[Part]:
    """Yield the first lines of all parts. Fenced code blocks are skipped."""
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
    """Whether a rule is a part of another.

    `7.2ci` is a part of `7.2c`, and `7.2c` of `7.2`. `7.20` is no part of `7.2`, nor `7.2cii` of `7.2ci`.
    """
    rest = number.removeprefix(outer)
    if rest == number:
        return False
    return not rest[:1].isdigit() if outer[-1].isdigit() else len(re.sub(r"[0-9.]", "", outer)) == 1


def _heading_above(lines: Sequence[str], parts: Sequence[Part], rule: Part) -> list[str]:
    above = [part for part in parts if part.level and part.first < rule.first]
    return [lines[above[-1].first], ""] if above else []


def _outermost(parts: Sequence[Part]) -> Iterator[Part]:
    """Yield the parts that are not inside another given part."""
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
