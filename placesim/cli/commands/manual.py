"""`placesim manual`."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import click

from placesim.cli.command import EXITS, command
from placesim.cli.manual_pages import page_pieces, plain_number, read_notebook, read_outline, read_parts, read_sections, topics
from placesim.cli.option_types import Word, option
from placesim.core.errors import UsageError
from placesim.core.suggestions import did_you_mean


def _graph_schema() -> dict[str, Any]:
    from placesim.formats.graph_file.schema import graph_file_schema

    return graph_file_schema()


def _policy_schema() -> dict[str, Any]:
    from placesim.inspection.checking.policy import policy_schema

    return policy_schema()


TOP_LEVEL, MAX_HEADINGS = 2, 30
"""Level and maximum number of a page's headings that an error lists."""
SCHEMAS: Mapping[str, Callable[[], dict[str, Any]]] = {"graph": _graph_schema, "policy": _policy_schema}


@command("manual", exits={0: EXITS[0], 2: "there is no such page or section"})
@click.argument("topic", required=False)
@click.argument("section", nargs=-1)
@option(
    "--schema",
    type=Word(list(SCHEMAS)),
    help="Print the JSON Schema of graph files or policies, for editors.",
    folder_values="none",
)
@option("--notebook", is_flag=True, help="Print the tutorial as a notebook, for Jupyter.", folder_values="none")
def manual_command(topic: str | None, section: tuple[str, ...], schema: str | None, notebook: bool) -> int:
    """Read the manual: the list of topics, a page, or a section.

    SECTION is the number of a section or rule, such as 7.2c in the output of `explain`, or part of a heading.
    In a pipe, the output is Markdown.

    \b
    Examples:
      placesim manual
      placesim manual graph-file
      placesim manual graph-file scopes
      placesim manual placement 7.2c
      placesim manual kernels | less
      placesim manual --schema graph > graph.schema.json
      placesim manual --notebook > tutorial.ipynb
    """
    from placesim.cli.output import is_terminal, write, write_pieces, write_rows

    wanted = [schema and f"--schema {schema}", "--notebook" if notebook else None, topic and f"'{topic}'"]
    if sum(map(bool, wanted)) > 1:
        raise UsageError(f"several outputs: got {' and '.join(filter(None, wanted))}, expected one of them")
    if notebook:
        write(read_notebook())
        return 0
    if schema is not None:
        import json

        write(json.dumps(SCHEMAS[schema](), indent=2, ensure_ascii=False) + "\n")
        return 0
    if topic is None:
        write_rows([{"topic": name, "title": title} for name, title in topics().items()], "topics", ("topic", "title"), "text")
        return 0
    pieces = _pieces(_known_topic(topic), " ".join(section))
    if is_terminal(sys.stdout):
        from placesim.report.terminal.manual import styled_page

        write(styled_page("".join(pieces), sys.stdout), is_styled=True)
    else:
        write_pieces(pieces)
    return 0


def _known_topic(topic: str) -> str:
    name, known = topic.lower().removesuffix(".md"), topics()
    if name not in known:
        raise UsageError(f"no such topic: got '{topic}', expected one of {', '.join(known)}{did_you_mean(name, list(known))}")
    return name


def _pieces(topic: str, section: str) -> Iterable[str]:
    if not section:
        return page_pieces(topic)
    found = read_sections(topic, section)
    if not found:
        outline = read_outline(topic)
        near = did_you_mean(section, _names(outline, section))
        error = UsageError(f"no such section of '{topic}': got '{section}', expected a number or a part of a heading{near}")
        headings = [f"{part.number} {part.title}".strip() for part in read_parts(outline) if part.level == TOP_LEVEL]
        if not near:
            more = len(headings) - MAX_HEADINGS
            error.help = (*headings[:MAX_HEADINGS], *((f"{more} more headings",) if more > 0 else ()))
        raise error
    return [found]


def _names(text: str, section: str) -> list[str]:
    """Return suggestions for a section: numbers if it starts with a number, else headings."""
    is_number = plain_number(section)[:1].isdigit()
    return [part.number if is_number else part.title for part in read_parts(text) if part.number or not is_number]
