"""Writer of readable graph files: scopes, variables, literals, and the lines of a script as comments.

The text is read back, and returned only if it gives exactly the same graph; other graphs use the raw form.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

from placesim.core.errors import GraphFileError
from placesim.core.process.gc_pause import collector_paused
from placesim.formats.graph_file.reader import read_graph_file
from placesim.formats.graph_file.writing.function_texts import MOST_RAW, add_default_attrs, function_lines
from placesim.formats.graph_file.writing.raw_writer import file_parts
from placesim.formats.graph_file.writing.scoped_items import Itemizer, ScopedItem, same_functions, same_node, without_defaults
from placesim.formats.graph_file.writing.scoped_texts import EntryTextWriter
from placesim.formats.graph_file.writing.short_values import flow_text
from placesim.graph.session_steps import GraphFile

_MOST_TRIES = 8


def scoped_lines(
    file: GraphFile, leaves_defaults: bool = False, accepts: Callable[[GraphFile], bool] = lambda again: True
) -> list[str] | None:
    """Return the lines of the file with newlines; None if the graph has no such form.

    With `leaves_defaults`, attrs equal to their defaults are left out. `accepts` decides whether the file that the text gives
    is acceptable.
    """
    if leaves_defaults:
        short = without_defaults(file.graph)
        short.functions = {name: add_default_attrs(short, function) for name, function in file.graph.functions.items()}
        file = replace(file, graph=short)
    if file.initial_values or not len(file.graph):
        return None
    plain: set[int] = set()
    raw: set[int] = set()
    with collector_paused():
        for _ in range(_MOST_TRIES):
            itemizer = Itemizer(file.graph, plain, raw)
            known = len(itemizer.raw)
            items = list(itemizer.items())
            raw = itemizer.raw
            if len(raw) > known:
                continue  # entries depend on whether a NodeDef waits for them
            if len(raw) > MOST_RAW * len(file.graph):
                return None
            lines = list(_lines(file, items, itemizer))
            odd = _first_odd(file, "".join(lines), accepts)
            if odd is None:
                return lines
            guilty = next((item for item in items if item.first <= odd < item.end), None)
            if guilty is None or guilty.is_raw:
                return None
            (raw if guilty.first in plain else plain).add(guilty.first)
    return None


def _first_odd(file: GraphFile, text: str, accepts: Callable[[GraphFile], bool]) -> int | None:
    """Read the text; return the first node that differs, the number of nodes for another difference, or None without any."""
    try:
        again = read_graph_file(text, file.graph.file, file.graph.registry)
    except GraphFileError:
        return len(file.graph)
    for one, other in zip(again.graph.nodes, file.graph.nodes, strict=False):
        if not same_node(one, other):
            return other.id
    own, others = ([(s.repeat, len(s.fetches), len(s.feeds)) for s in each.steps or ()] for each in (again, file))
    is_same = len(again.graph) == len(file.graph) and own == others and again.rest == file.rest
    is_same = is_same and same_functions(again.graph, file.graph) and accepts(again)
    return None if is_same else len(file.graph)


def _lines(file: GraphFile, items: Sequence[ScopedItem], itemizer: Itemizer) -> Iterator[str]:
    writer = EntryTextWriter(file.graph, itemizer.marked if itemizer.marks else None)
    for key, value in file_parts(file, {"marks": True} if itemizer.marks else {}).items():
        if key == "nodes":
            yield "nodes:\n"
            yield from writer.lines(items)
        elif key == "versions" and writer.script:
            continue  # a script has no versions
        elif key == "functions":
            yield "functions:\n"
            for function, raw in zip(file.graph.functions.values(), value, strict=True):
                yield from function_lines(file.graph, function, itemizer.marks) or [f"  - {flow_text(raw)}\n"]
        elif isinstance(value, Iterator):
            listed = list(value)
            yield f"{key}:\n" if listed else f"{key}: []\n"
            for entry in listed:
                yield f"  - {flow_text(entry)}\n"
        else:
            yield f"{key}: {flow_text(value)}\n"
