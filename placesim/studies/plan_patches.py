"""A plan as a patch of a script: new devices in its `tf.device` lines, and `tf.device` where it opens scopes or makes nodes."""

from __future__ import annotations

import ast
import json
import os
import textwrap
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field
from difflib import unified_diff
from itertools import chain
from pathlib import Path
from typing import NamedTuple

from placesim.core.grouped import grouped
from placesim.graph.graph import Graph
from placesim.graph.node_patterns import enclosing_scopes
from placesim.inspection.explaining.annotations import Annotation, AnnotationKind, Annotations
from placesim.machine.device_names import ANY, SHORT_TYPES, DeviceName, enclose, parse_python_spec, parse_runtime_name

_INDENT = "    "
_NO_NEWLINE = "\\ No newline at end of file\n"
Devices = Mapping[str, str]
"""Devices of edits by path, with `*` for the whole graph, as in `PlanEdit`."""


@dataclass
class ScriptPatch:
    """A patch of a script and its modules.

    - `texts`: the old and the new text by file path.
    - `left`: the scopes of the edits that no line can express.
    - `changes`: the new devices of the script's own `tf.device` lines.
    """

    texts: dict[str, tuple[str, str]] = field(default_factory=dict)
    left: list[str] = field(default_factory=list)
    changes: dict[Annotation, str] = field(default_factory=dict)

    def diff(self) -> str:
        """Return the unified diff, for `patch -p0` in the current folder."""
        return "".join(line for path, pair in self.texts.items() for line in _file_diff(os.path.relpath(path), *pair))


def _file_diff(path: str, before: str, after: str) -> Iterator[str]:
    for line in unified_diff(before.splitlines(True), after.splitlines(True), path, path):
        yield line if line.endswith("\n") else f"{line}\n{_NO_NEWLINE}"


def patch_script(graph: Graph, devices: Devices, planned: Mapping[str, str] | None = None) -> ScriptPatch:
    """Return the changes of a script after which its nodes request their devices.

    `devices` are those of edits, and `planned` the full names of the devices by node. The device of a `tf.device` line of the
    script changes if the plan has one device for all nodes to which it applies, or for those that no edit moves. An edit adds
    nothing if the script's own lines then request its device for all of its nodes.
    """
    found = ScriptPatch()
    editors = _Editors()
    own = _OwnLines(graph, devices, planned or {})
    found.changes = {line: text for line, text in own.changes().items() if editors.change(line, text)}
    held = own.held_edits(found.changes)
    lines, found.left = _lines_of_edits(graph, devices, held)
    for row in sorted(lines, key=lambda row: (row.file, row.number)):
        editor = editors.of_file(row.file)
        if editor is None or not editor.add(row):
            found.left += row.devices
    found.texts = editors.changed_texts()
    return found


class _OwnLines:
    """The `tf.device` lines of a script, and the nodes to which they apply.

    `devices` are those of edits by path, and `planned` the full names of the planned devices by node.
    """

    def __init__(self, graph: Graph, devices: Devices, planned: Mapping[str, str]) -> None:
        annotations = Annotations(graph, is_raw=True)
        self._devices = devices
        self._wanted = {name: parse_runtime_name(device) or ANY for name, device in planned.items()}
        self._origins = {node.name: annotations.origins(node) for node in graph.nodes if node.name in planned}

    def changes(self) -> dict[Annotation, str]:
        """Return the new device of each line that should have another one."""
        applies = grouped((line, (name, part)) for name in self._origins for line, part in self._parts(name, {}))
        found = {}
        for line, rows in applies.items():
            wanted = [_limited(self._wanted[name], part) for name, part in rows]
            others = [_limited(self._wanted[name], part) for name, part in rows if not _around(name, self._devices)]
            spec = _merged(wanted) or _merged(others)
            if spec is not None and (text := _with_device(line.text, spec)) != line.text:
                found[line] = text
        return found

    def held_edits(self, changes: Mapping[Annotation, str]) -> set[str]:
        """Return the edits all of whose nodes request the planned device by the script's own lines, with their new devices."""
        found = set()
        for path in self._devices:
            names = [name for name in self._wanted if _around(name, {path: ""}) and "/Initializer/" not in name]
            if names and all(self._is_held(name, changes) for name in names):
                found.add(path)
        return found

    def _is_held(self, name: str, changes: Mapping[Annotation, str]) -> bool:
        merged = ANY
        for _, part in self._parts(name, changes):
            merged = enclose(merged, part)
        return merged.id is not None and merged.matches(self._wanted[name])

    def _parts(self, name: str, changes: Mapping[Annotation, str]) -> Iterator[tuple[Annotation, DeviceName]]:
        return requested_parts(self._origins[name], changes)


def requested_parts(
    origins: Iterable[Annotation], changes: Mapping[Annotation, str]
) -> Iterator[tuple[Annotation, DeviceName]]:
    """Yield the `tf.device` lines that apply to a node, each with the fields of the node's request that come from it.

    `changes` has the lines with a new device.
    """
    merged = ANY
    for line in origins:
        if line.kind != AnnotationKind.SCOPE or line.location is None:
            return
        before, merged = merged, enclose(merged, parse_python_spec(changes.get(line, line.text)))
        pairs = zip(merged, before, strict=True)
        yield line, DeviceName(*(new if old is None else None for new, old in pairs))  # type: ignore[arg-type]


def _limited(device: DeviceName, part: DeviceName) -> DeviceName:
    """Return the fields of a device that `part` sets."""
    return DeviceName(*(one if own is not None else None for one, own in zip(device, part, strict=True)))  # type: ignore[arg-type]


def _merged(specs: Sequence[DeviceName]) -> DeviceName | None:
    """Return the fields that any of the names sets; None if two names set a field to different values, or without names."""
    merged = ANY
    for spec in set(specs):
        if not merged.is_compatible_with(spec):
            return None
        merged = enclose(merged, spec)
    return merged if specs else None


def _with_device(text: str, spec: DeviceName) -> str:
    """Return the text of a device with the values of `spec` in place of its own; the text sets all fields of `spec`."""
    if spec == _limited(parse_python_spec(text), spec):
        return text
    return "/".join(_with_value(part.split(":"), spec) for part in text.split("/"))


def _with_value(words: list[str], spec: DeviceName) -> str:
    """Return a part of a device's text, given as words such as `gpu` and `0`, with the value of `spec` if it has one."""
    *_, last = words
    number = last if spec.id is None else str(spec.id)
    match words:
        case ["job" | "replica" | "task" as key, _] if (value := spec._asdict()[key]) is not None:
            return f"{key}:{value}"
        case ["device", kind, _]:
            return f"device:{spec.type or kind}:{number}"
        case [kind, *tail] if kind.upper() in SHORT_TYPES:
            new = spec.type or kind
            return ":".join([new.lower() if kind.islower() else new, *([number] if tail else [])])
    return ":".join(words)


class _Editors:
    """The editors of a script's files by path, made when they are first needed."""

    def __init__(self) -> None:
        self._editors: dict[str, tuple[str, _SourceEditor] | None] = {}

    def of_file(self, path: str) -> _SourceEditor | None:
        """Return the editor of a file; None if the file cannot be read or parsed."""
        if path not in self._editors:
            try:
                before = Path(path).read_bytes().decode()
                self._editors[path] = before, _SourceEditor(before)
            except (OSError, SyntaxError, ValueError):
                self._editors[path] = None
        found = self._editors[path]
        return found and found[1]

    def change(self, line: Annotation, text: str) -> bool:
        """Change the device of a script's own line. Return whether that was possible."""
        assert line.location is not None
        editor = self.of_file(line.location.file)
        return editor is not None and editor.change(line.location.line, line.text, text)

    def changed_texts(self) -> dict[str, tuple[str, str]]:
        """Return the old and the new text of each changed file."""
        pairs = {path: (found[0], found[1].text()) for path, found in self._editors.items() if found}
        return {path: pair for path, pair in pairs.items() if pair[0] != pair[1]}


class _Line(NamedTuple):
    """A line of a script and the edits that a device there makes; `is_shared` is set if the line also opens other scopes."""

    file: str
    number: int
    devices: Devices
    is_shared: bool


def _lines_of_edits(graph: Graph, devices: Devices, held: Set[str]) -> tuple[list[_Line], list[str]]:
    """Return the line for each edit that is not in `held`, and the edits without one.

    The line is the innermost running line under which only nodes of edits of the same device were made. If there is none, it is
    the line that opened the scope, and is shared with other scopes.
    """
    made = _made_under(graph)
    found: dict[int, dict[str, str]] = {}
    shared: dict[int, dict[str, str]] = {}
    left = []
    for path, device in devices.items():
        if path in held:
            continue
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
    """Adds `tf.device` to statements of a file, and changes devices. Raises SyntaxError for a text that Python cannot parse."""

    def __init__(self, text: str) -> None:
        self._lines = text.splitlines(True)
        tree = ast.parse(text)
        self._tensorflow = _tensorflow_name(tree)
        self._statements = list(_statements(tree.body))
        self._items: dict[tuple[int, int], str] = {}
        """The new item of a `with`, by the line and the byte of the line at which it is inserted."""
        self._devices: dict[tuple[int, int], tuple[int, str]] = {}
        """The end and the new text of each changed device, by the line and the byte of the line at which it begins."""
        self._blocks: dict[int, tuple[int, str]] = {}
        """The last statement and the device of each new block, by its first statement."""

    def add(self, row: _Line) -> bool:
        """Add the device of a line. Return whether that was possible."""
        innermost = self._innermost(row.number)
        if self._tensorflow is None or innermost is None:
            return False
        statement, _ = self._statements[innermost]
        if isinstance(statement, ast.With) and row.number < statement.body[0].lineno:
            return self._add_item(statement, row)
        if row.is_shared or hasattr(statement, "body") or hasattr(statement, "cases"):
            return False
        return self._add_block(innermost, next(iter(row.devices.values())))

    def change(self, line: int, device: str, new: str) -> bool:
        """Change the only string `device` in a `device(...)` of the `with` at a line. Return whether there is one."""
        innermost = self._innermost(line)
        statement = None if innermost is None else self._statements[innermost][0]
        if not isinstance(statement, ast.With) or line >= statement.body[0].lineno:
            return False
        found = [text for item in statement.items for text in _device_texts(item.context_expr) if text.value == device]
        if len(found) != 1 or found[0].lineno != found[0].end_lineno:
            return False
        (text,) = found
        assert text.end_col_offset is not None
        raw = self._lines[text.lineno - 1].encode()[text.col_offset : text.end_col_offset].decode()
        if raw not in (f"'{device}'", f'"{device}"'):
            return False
        self._devices[text.lineno, text.col_offset] = text.end_col_offset, f"{raw[0]}{new}{raw[0]}"
        return True

    def _innermost(self, line: int) -> int | None:
        """Return the number of the innermost statement around a line; None if there is none."""
        rows = enumerate(self._statements)
        around = [number for number, (one, _) in rows if one.lineno <= line <= (one.end_lineno or 0)]
        return around[-1] if around else None

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
        inserted = {place: (place[1], item) for place, item in self._items.items()}
        for (line, column), (end, item) in sorted((inserted | self._devices).items(), reverse=True):
            raw = lines[line - 1].encode()
            lines[line - 1] = (raw[:column] + item.encode() + raw[end:]).decode()
        for first, (last, device) in sorted(self._blocks.items(), reverse=True):
            begin, after = self._statements[first][0].lineno - 1, self._statements[last][0].end_lineno
            block = lines[begin:after]
            margin = block[0][: len(block[0]) - len(block[0].lstrip())]
            newline = "\r\n" if block[0].endswith("\r\n") else "\n"
            head = f"{margin}with {self._tensorflow}.device({json.dumps(device)}):{newline}"
            lines[begin:after] = [head, *(textwrap.indent(line, _INDENT) for line in block)]
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


def _device_texts(call: ast.expr) -> list[ast.Constant]:
    """Return the strings that are arguments of a call such as `tf.device("/gpu:0")`."""
    if not isinstance(call, ast.Call) or getattr(call.func, "attr", getattr(call.func, "id", "")) != "device":
        return []
    arguments = [*call.args, *(keyword.value for keyword in call.keywords)]
    return [one for one in arguments if isinstance(one, ast.Constant) and isinstance(one.value, str)]


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
