"""A plan as a patch that adds `tf.device` to the lines of a script that open scopes and make nodes."""

from __future__ import annotations

import ast
import json
import os
import textwrap
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from difflib import unified_diff
from itertools import chain
from pathlib import Path
from typing import NamedTuple

from placesim.core.grouped import grouped
from placesim.graph.graph import Graph
from placesim.graph.node_patterns import enclosing_scopes

_INDENT = "    "
_NO_NEWLINE = "\\ No newline at end of file\n"
Devices = Mapping[str, str]
"""Devices of edits by path, with `*` for the whole graph, as in `PlanEdit`."""


@dataclass
class ScriptPatch:
    """Changed texts of a script and its modules, by file path, and the scopes of the edits that no line can express."""

    texts: dict[str, tuple[str, str]] = field(default_factory=dict)
    left: list[str] = field(default_factory=list)

    def diff(self) -> str:
        """Return the unified diff, for `patch -p0` in the current folder."""
        return "".join(line for path, pair in self.texts.items() for line in _file_diff(os.path.relpath(path), *pair))


def _file_diff(path: str, before: str, after: str) -> Iterator[str]:
    for line in unified_diff(before.splitlines(True), after.splitlines(True), path, path):
        yield line if line.endswith("\n") else f"{line}\n{_NO_NEWLINE}"


def patch_script(graph: Graph, devices: Devices) -> ScriptPatch:
    """Return the changes of a script after which the nodes of each edit request its device."""
    found = ScriptPatch()
    lines, left = _lines_of_edits(graph, devices)
    found.left += left
    by_file = grouped((line.file, line) for line in lines)
    for path, rows in by_file.items():
        try:
            before = Path(path).read_bytes().decode()
            editor = _SourceEditor(before)
        except (OSError, SyntaxError, ValueError):
            found.left += [edit for row in rows for edit in row.devices]
            continue
        for row in sorted(rows, key=lambda row: row.number):
            if not editor.add(row):
                found.left += row.devices
        found.texts[path] = before, editor.text()
    found.texts = {path: pair for path, pair in found.texts.items() if pair[0] != pair[1]}
    return found


class _Line(NamedTuple):
    """A line of a script and the edits that a device there makes; `is_shared` is set if the line also opens other scopes."""

    file: str
    number: int
    devices: Devices
    is_shared: bool


def _lines_of_edits(graph: Graph, devices: Devices) -> tuple[list[_Line], list[str]]:
    """Return the line for each edit, and the edits without one.

    The line is the innermost running line under which only nodes of edits of the same device were made. If there is none, it is
    the line that opened the scope, and is shared with other scopes.
    """
    made = _made_under(graph)
    found: dict[int, dict[str, str]] = {}
    shared: dict[int, dict[str, str]] = {}
    left = []
    for path, device in devices.items():
        lines = graph.scope_lines.get(path) or _own_line(graph, path)
        whole = (line for line in lines if all(device in _around(name, devices) for name in made[line]))
        line = next(whole, None)
        if line is not None:
            found.setdefault(line, {})[path] = device
        elif lines and path in graph.scope_lines:
            shared.setdefault(lines[0], {})[path] = device
        else:
            left.append(path)
    rows = [_Line(*_place(graph, line), edits, False) for line, edits in found.items()]
    return rows + [_Line(*_place(graph, line), edits, True) for line, edits in shared.items()], left


def _place(graph: Graph, line: int) -> tuple[str, int]:
    location = graph.located(line)
    assert location is not None
    return location.file, location.line


def _own_line(graph: Graph, path: str) -> tuple[int, ...]:
    node = graph.ids.get(path.rstrip("/"))
    return () if node is None or not graph.nodes[node].location else (graph.nodes[node].location,)


def _made_under(graph: Graph) -> dict[int, set[str]]:
    """Return the nodes that were made while each line was running, as known from their own lines and their scopes."""
    found: dict[int, set[str]] = {}
    for node in graph.nodes:
        opened = chain.from_iterable(graph.scope_lines.get(scope, ()) for scope in enclosing_scopes(node.name))
        for line in {node.location, *opened}:
            found.setdefault(line, set()).add(node.name)
    return found


def _around(name: str, devices: Devices) -> list[str]:
    """Return the devices that edits give to the scopes around a node, from the outermost inwards."""
    return [devices[path] for path in ("*", *enclosing_scopes(f"{name}/")) if path in devices]


class _SourceEditor:
    """Adds `tf.device` to statements of a file. Raises SyntaxError for a text that Python cannot parse."""

    def __init__(self, text: str) -> None:
        self._lines = text.splitlines(True)
        tree = ast.parse(text)
        self._tensorflow = _tensorflow_name(tree)
        self._statements = list(_statements(tree.body))
        self._items: dict[tuple[int, int], str] = {}
        """The new item of a `with`, by the line and the byte of the line at which it is inserted."""
        self._blocks: dict[int, tuple[int, str]] = {}
        """The last statement and the device of each new block, by its first statement."""

    def add(self, row: _Line) -> bool:
        """Add the device of a line. Return whether that was possible."""
        around = [
            number
            for number, (statement, _) in enumerate(self._statements)
            if statement.lineno <= row.number <= (statement.end_lineno or 0)
        ]
        if self._tensorflow is None or not around:
            return False
        statement, _ = self._statements[around[-1]]
        if isinstance(statement, ast.With) and row.number < statement.body[0].lineno:
            return self._add_item(statement, row)
        if row.is_shared or hasattr(statement, "body") or hasattr(statement, "cases"):
            return False
        return self._add_block(around[-1], next(iter(row.devices.values())))

    def _add_item(self, statement: ast.With, row: _Line) -> bool:
        last = statement.items[-1]
        end = last.optional_vars or last.context_expr
        device = json.dumps(next(iter(row.devices.values())))
        if row.is_shared:
            device = f'{json.dumps(dict(row.devices))}.get({self._tensorflow}.get_default_graph().get_name_scope() + "/", "")'
        assert end.end_lineno is not None
        assert end.end_col_offset is not None
        place = end.end_lineno, end.end_col_offset
        if place in self._items:
            return False
        self._items[place] = f", {self._tensorflow}.device({device})"
        return True

    def _add_block(self, number: int, device: str) -> bool:
        """Put a statement into a block, and join the block of the statement just before if its device is the same."""
        statement, position = self._statements[number]
        indented = textwrap.indent("".join(self._lines[statement.lineno - 1 : statement.end_lineno]), _INDENT)
        try:  # a string of several lines, or a second statement on the line, would change
            body = ast.parse(f"if 1:\n{indented}").body[0].body  # type: ignore[attr-defined]
        except SyntaxError:
            return False
        if [ast.dump(one) for one in body] != [ast.dump(statement)]:
            return False
        for first, (last, own) in self._blocks.items():
            if first <= number <= last:
                return own == device
            if own == device and self._statements[last][1] == (position[0], position[1] - 1):
                self._blocks[first] = number, device
                return True
        self._blocks[number] = number, device
        return True

    def text(self) -> str:
        """Return the changed text."""
        lines = self._lines[:]
        for (line, column), item in self._items.items():
            raw = lines[line - 1].encode()
            lines[line - 1] = (raw[:column] + item.encode() + raw[column:]).decode()
        for first, (last, device) in sorted(self._blocks.items(), reverse=True):
            begin, end = self._statements[first][0].lineno - 1, self._statements[last][0].end_lineno
            block = lines[begin:end]
            margin = block[0][: len(block[0]) - len(block[0].lstrip())]
            newline = "\r\n" if block[0].endswith("\r\n") else "\n"
            head = f"{margin}with {self._tensorflow}.device({json.dumps(device)}):{newline}"
            lines[begin:end] = [head, *(textwrap.indent(line, _INDENT) for line in block)]
        return "".join(lines)


def _statements(body: Sequence[ast.stmt]) -> Iterator[tuple[ast.stmt, tuple[int, int]]]:
    """Yield all statements, outer ones first, each with the number of its block (by identity) and its place in the block."""
    for place, statement in enumerate(body):
        yield statement, (id(body), place)
        for inner in _blocks_of(statement):
            yield from _statements(inner)


def _blocks_of(statement: ast.AST) -> Iterable[Sequence[ast.stmt]]:
    blocks = [getattr(statement, name, []) for name in ("body", "orelse", "finalbody")]
    parts = [*getattr(statement, "handlers", []), *getattr(statement, "cases", [])]
    return [*blocks, *(part.body for part in parts)]


def _tensorflow_name(tree: ast.Module) -> str | None:
    """Return the name by which a module refers to TensorFlow, such as `tf`; None if it imports only parts of TensorFlow."""
    for node in ast.walk(tree):
        for alias in node.names if isinstance(node, ast.Import | ast.ImportFrom) else ():
            full = f"{node.module}.{alias.name}" if isinstance(node, ast.ImportFrom) else alias.name
            if full in _TENSORFLOW:
                return alias.asname or (alias.name if isinstance(node, ast.ImportFrom) else full)
    return None


_TENSORFLOW = ("tensorflow", "tensorflow.compat.v1")


def absolute_texts(patch: ScriptPatch) -> dict[str, str]:
    """Return the changed texts by absolute path."""
    return {os.path.abspath(path): after for path, (_, after) in patch.texts.items()}
