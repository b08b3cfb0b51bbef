"""Edits of devices, the machine and its session in a graph file's text; all other text and comments stay."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import yaml

from placesim.formats.graph_file.parsing.yaml_tree import pack_mark, resolve_plain
from placesim.formats.graph_file.writing.yaml_line import yaml_line

Own = str | None | list[str | None]
"""The value of an entry's own `device`: a text, null, or a list; `ABSENT` if there is none."""
ABSENT = "\0absent"
_Loader: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_ALIAS = re.compile(r"\s*:\s*(\*[^\s,\[\]{}]+)")
_ANCHOR = re.compile(r"(?<=[\s,\[{])&[^\s,\[\]{}]+\s+")
_FIRST_KEYS = frozenset(("op", "name", "id", "variable", "initializer", "scope", "inputs", "shape", "dtype"))
"""Keys after which a node's `device` is inserted."""
_STEP = 2
"""Number of spaces by which an expanded list is indented."""


class EntryRun(NamedTuple):
    """Consecutive entries of a list, from `first` to `last`, and the device of a scope to put around them."""

    list: int
    first: int
    last: int
    device: str


class UneditableText(Exception):  # internal to the modules that write plans
    """An entry can't be changed in its text. The file is then written in raw form."""


class NodeEntry:
    """An entry of `nodes` at its place in the text; aliases are the same entry.

    `children` are the entries in a scope, which several scopes may share by an alias; None for other entries. `op` is a node's
    op. `own` is the device of the entry itself.
    """

    __slots__ = ("children", "is_colocated", "is_group", "mapping", "op", "own", "position")

    def __init__(self, mapping: yaml.MappingNode, children: list[NodeEntry] | None) -> None:
        self.mapping = mapping
        self.children = children
        self.position = pack_mark(mapping.start_mark)
        self.op = _text(_value(mapping, "op"))
        self.is_group = all(_value(mapping, key) is None for key in ("op", "nodes", "variable"))
        self.is_colocated = _value(mapping, "colocate_with") is not None
        self.own: Own = _device(_value(mapping, "device"))


class Literals(NamedTuple):
    """The literal inputs of an entry: the full name of its node, and the full name and type of each constant."""

    entry: NodeEntry
    name: str
    constants: tuple[tuple[str, str], ...]


class EditableText:
    """A text and its entries. Raises UneditableText for invalid YAML, or if `nodes` is not a list of mappings."""

    def __init__(self, text: str) -> None:
        self.text = text
        try:
            root = yaml.compose(text, Loader=_Loader)
        except yaml.YAMLError:
            raise UneditableText from None
        if not isinstance(root, yaml.MappingNode):
            raise UneditableText
        self.root = root
        self._starts = [0, *(found.end() for found in re.finditer("\n", text))]
        self._lists: dict[int, list[NodeEntry]] = {}
        self._entries: dict[int, NodeEntry] = {}
        self._nodes: list[Any] = []
        self._numbers: dict[int, int] = {}
        self._list_of: dict[NodeEntry, list[NodeEntry]] = {}
        self.entries = self._list(_value(root, "nodes"))

    def _list(self, node: Any) -> list[NodeEntry]:
        if not isinstance(node, yaml.SequenceNode):
            raise UneditableText
        found = self._lists.get(id(node))
        if found is None:
            number = len(self._nodes)
            self._nodes.append(node)
            found = self._lists[id(node)] = [self._entry(item) for item in node.value]
            self._numbers[id(found)] = number
            self._list_of.update((entry, found) for entry in found)
        return found

    def number(self, entries: list[NodeEntry]) -> int:
        """Return the index of a list of entries among the lists in the text. A change of devices does not change the index."""
        return self._numbers[id(entries)]

    def list_with(self, entry: NodeEntry) -> list[NodeEntry]:
        """Return the list that contains an entry."""
        return self._list_of[entry]

    def can_wrap(self, entries: list[NodeEntry]) -> bool:
        """Whether entries can be put into a new scope, because each is on its own lines."""
        node = self._nodes[self.number(entries)]
        return not node.flow_style and bool(entries) and all(entry.mapping in node.value for entry in entries[:1])

    def _entry(self, node: Any) -> NodeEntry:
        if not isinstance(node, yaml.MappingNode):
            raise UneditableText
        found = self._entries.get(id(node))
        if found is None:
            below = None if _value(node, "op") is not None else _value(node, "nodes")
            found = self._entries[id(node)] = NodeEntry(node, None if below is None else self._list(below))
        return found

    @property
    def initializers(self) -> set[int]:
        """Return the positions of the entries that run the initializers of variables."""
        return {entry.position for entry in self._entries.values() if _value(entry.mapping, "initializer") and entry.is_group}

    # --- places in the text -----------------------------------------------------------------------------------------

    def _offset(self, mark: Any) -> int:
        return int(self._starts[mark.line] + mark.column)

    def _alias(self, key: Any) -> tuple[int, int] | None:
        """Return the start and end of a key's value if it is an alias, else None."""
        found = _ALIAS.match(self.text, self._offset(key.end_mark))
        return None if found is None else found.span(1)

    def _end(self, node: Any) -> int:
        """Return the end of a value's text. For a block, the parser's end includes blank text after it."""
        if isinstance(node, yaml.ScalarNode) and node.style not in ("|", ">"):
            return self._offset(node.end_mark)
        if not isinstance(node, yaml.ScalarNode) and node.flow_style:
            return self._offset(node.end_mark)
        return len(self.text[: self._offset(node.end_mark)].rstrip())

    # --- changes ----------------------------------------------------------------------------------------------------

    def with_devices(self, devices: Mapping[NodeEntry, Own]) -> str:
        """Return the text with these devices of entries; `ABSENT` removes a device."""
        return self._changed(change for entry, own in devices.items() for change in self._set(entry.mapping, "device", own))

    def without_devices(self) -> str:
        """Return the text without devices of entries; lists of devices, which make copies, stay."""
        entries, found = list(self.entries), dict[NodeEntry, Own]()
        while entries:
            entry = entries.pop()
            entries += entry.children or ()
            if not isinstance(entry.own, list) and entry.own != ABSENT:
                found[entry] = ABSENT
        return self.with_devices(found)

    @property
    def release(self) -> str | None:
        """The release of TensorFlow that the text names."""
        return _text(_value(self.root, "tensorflow"))

    def with_machine(self, values: Mapping[str, Any], config: Mapping[str, Any]) -> str:
        """Return the text with other values of its keys, and changed fields of its config; `ABSENT` removes a field."""
        changes = [change for key, value in values.items() for change in self._set(self.root, key, value)]
        given = _value(self.root, "config")
        if isinstance(given, yaml.MappingNode) and given.value:
            changes += [change for field, value in config.items() for change in self._set(given, field, value)]
        elif config:
            changes += self._set(self.root, "config", dict(config))
        return self._changed(changes)

    def with_links(self, old: Sequence[Any], rows: Sequence[Any]) -> str:
        """Return the text with these rows of `links` in place of the `old` ones, which stay as they are if they come first."""
        given = _value(self.root, "links")
        is_block = isinstance(given, yaml.SequenceNode) and not given.flow_style and bool(given.value)
        if not is_block or list(old) != list(rows[: len(old)]):
            return self._changed(self._set(self.root, "links", list(rows)))
        first = given.value[0].start_mark
        indent = " " * (self.text.rindex("-", self._starts[first.line], self._offset(first)) - self._starts[first.line])
        end = self.text.find("\n", self._end(given.value[-1]))
        added = "".join(f"\n{indent}- {yaml_line(row)}" for row in rows[len(old) :])
        return f"{self.text[:end]}{added}{self.text[end:]}" if end >= 0 else self.text + added

    def with_placement(self, rows: Mapping[str, str | None]) -> str:
        """Return the text with devices by node name, after the existing rows."""
        given = _value(self.root, "placement")
        pairs = given.value if isinstance(given, yaml.MappingNode) else ()
        merged = {str(key.value): _device_text(value) for key, value in pairs if key.value not in rows} | dict(rows)
        if self.root.flow_style:
            return self._changed(self._set(self.root, "placement", merged))
        text = self._changed(self._set(self.root, "placement", ABSENT)).rstrip("\n")
        return "\n".join(
            [text, "placement:", *(f"  {yaml_line(name)}: {yaml_line(device)}" for name, device in merged.items()), ""]
        )

    def with_files(self, moved: Mapping[str, str]) -> str:
        """Return the text with changed paths of feeds."""
        nodes = [node for key in ("run", "feed") for node in _scalars_of_files(_value(self.root, key))]
        # a value that an alias repeats occurs twice
        changes = {self._offset(node.start_mark): node for node in nodes if moved.get(node.value, node.value) != node.value}
        return self._changed((at, self._offset(node.end_mark), yaml_line(moved[node.value])) for at, node in changes.items())

    def expanded(self, scopes: Sequence[NodeEntry]) -> str:
        """Return the text with copies of entries in place of the aliases of these scopes.

        Raises UneditableText if no such scope has an alias that can be replaced.
        """
        changes = []
        for scope in scopes:
            key, value = next((key, value) for key, value in scope.mapping.value if key.value == "nodes")
            alias = self._alias(key)
            if alias is not None and not scope.mapping.flow_style:
                changes.append((*alias, self._copy(value, key.start_mark.column)))
        if not changes:
            raise UneditableText
        return self._changed(changes)

    def with_constants(self, literals: Sequence[Literals]) -> str:
        """Return the text with the literal inputs of entries as entries of their own, each before the entry that reads it.

        Raises UneditableText if the literals can't be found in the text.
        """
        return self._changed(change for known in literals for change in self._with_constants(known))

    def _with_constants(self, literals: Literals) -> Iterator[tuple[int, int, str]]:
        mapping = literals.entry.mapping
        key, inputs = next(((key, value) for key, value in mapping.value if key.value == "inputs"), (None, None))
        if not isinstance(inputs, yaml.SequenceNode) or self._alias(key) is not None:
            raise UneditableText
        items = [item for item in inputs.value if not isinstance(_scalar(item), str)]
        if len(items) != len(literals.constants) or not self.can_wrap(self.list_with(literals.entry)):
            raise UneditableText
        own = _text(_value(mapping, "name"))
        prefix = literals.name.removesuffix(own) if own is not None and literals.name.endswith(own) else None
        lines = []
        for item, (full, dtype) in zip(items, literals.constants, strict=True):
            known = full if prefix is None else full.removeprefix(prefix)
            start, end = self._offset(item.start_mark), self._end(item)
            yield start, end, yaml_line(known)
            # a slash at the end makes it a full name
            called = f"{full}/" if prefix is None else known
            lines.append(f"{{op: Const, name: {yaml_line(called)}, dtype: {dtype}, value: {self.text[start:end]}}}")
        first = self._offset(mapping.start_mark)
        line = self._starts[mapping.start_mark.line]
        indent = " " * (self.text.rindex("-", line, first) - line)
        yield first, first, "".join(f"{line}\n{indent}- " for line in lines)

    def _copy(self, node: Any, column: int) -> str:
        """Return the text of a list, indented for a key in that column."""
        if node.flow_style or not node.value:
            start = self.text.index("[", self._offset(node.start_mark))
            return self.text[start : self._end(node)]
        first = node.value[0].start_mark
        dash = self.text.rindex("-", self._starts[first.line], self._offset(first))
        # a comment after the last entry is copied too
        end = self.text.find("\n", self._end(node))
        # anchors stay in the original
        lines = _ANCHOR.sub("", self.text[dash : end if end >= 0 else len(self.text)]).split("\n")
        was = dash - self._starts[first.line]
        indent = " " * (column + _STEP)
        return "".join(
            f"\n{indent}{line[was:] if number else line}" if line.strip() else "\n" for number, line in enumerate(lines)
        )

    def wrapped(self, runs: Sequence[EntryRun]) -> str:
        """Return the text with consecutive entries in new scopes, like `wrap_runs`."""
        lines = self.text.split("\n")
        deeper, heads = [0] * len(lines), [[] for _ in lines]  # type: list[int], list[list[tuple[int, str]]]
        for run in runs:
            node = self._nodes[run.list]
            first = node.value[run.first].start_mark
            head = lines[first.line][: first.column]
            column = len(head) - len(head.lstrip(" "))
            end = self._end(node.value[run.last])
            if head.strip() != "-" or self.text[end : end + 1] not in ("", "\n", "\r", " "):
                raise UneditableText
            # the outer one of several scopes that begin in a line comes first
            heads[first.line].append((column, run.device))
            for number in range(first.line, self.text.count("\n", 0, end) + 1):
                deeper[number] += 1
        found = []
        for line, inner, above in zip(lines, deeper, heads, strict=True):
            for place, (column, device) in enumerate(sorted(above)):
                indent = " " * (column + 2 * _STEP * (inner - len(above) + place))
                found += [f"{indent}- device: {yaml_line(device)}", f"{indent}  nodes:"]
            found.append(" " * (2 * _STEP * inner) + line if line.strip() else line)
        return "\n".join(found)

    def _set(self, mapping: yaml.MappingNode, name: str, value: Any) -> Iterator[tuple[int, int, str]]:
        """Yield the text changes that set or remove a mapping's key."""
        rows = mapping.value
        place = next((number for number, (key, _) in enumerate(rows) if key.value == name), None)
        if place is None:
            if value != ABSENT:
                yield self._inserted(mapping, name, value)
            return
        key, old = rows[place]
        alias = self._alias(key)
        if value != ABSENT:
            start, end = alias or (self._offset(old.start_mark), self._end(old))
            if alias is None and self.text[start] == "&":  # aliases need the anchor
                start = re.compile(r"&\S+\s*").match(self.text, start).end()  # type: ignore[union-attr]
            written = json.dumps(value) if key.style == '"' else yaml_line(value)
            if alias is None and old.start_mark.line > key.end_mark.line and not old.start_mark.column:
                # a flow list cannot begin a line without an indent
                start, written = self.text.index(":", self._offset(key.end_mark)) + 1, f" {written}"
            yield start, end, written
            return
        start, end = self._offset(key.start_mark), alias[1] if alias else self._end(old)
        if place + 1 < len(rows):
            yield start, self._offset(rows[place + 1][0].start_mark), ""
        elif mapping.flow_style:
            yield self.text.rindex(",", 0, start) if place else start, end, ""
        else:
            yield len(self.text[:start].rstrip()), end, ""

    def _inserted(self, mapping: yaml.MappingNode, name: str, value: Any) -> tuple[int, int, str]:
        rows = mapping.value
        if not rows:
            raise UneditableText
        is_quoted = rows[0][0].style == '"'
        pair = f'"{name}": {json.dumps(value)}' if is_quoted else f"{name}: {yaml_line(value)}"
        if mapping.flow_style and "nodes" not in {key.value for key, _ in rows}:
            brace = self._offset(mapping.end_mark) - 1
            before = self.text[:brace].rstrip()
            if "#" in before[before.rfind("\n") + 1 :]:  # perhaps a comment
                raise UneditableText
            at = len(before)
            return at, at, f" {pair}" if before.endswith(",") else f", {pair}"
        follower = next((key for key, _ in rows if key.value not in _FIRST_KEYS), rows[-1][0])
        if mapping is self.root:
            follower = next((key for key, _ in rows if key.value == "nodes"), follower)
        at = self._offset(follower.start_mark)
        return at, at, f"{pair}, " if mapping.flow_style else f"{pair}\n{' ' * follower.start_mark.column}"

    def _changed(self, changes: Iterator[tuple[int, int, str]] | Any) -> str:
        found, pieces = 0, []
        for start, end, piece in sorted(changes):
            if start < found:
                raise UneditableText
            pieces += [self.text[found:start], piece]
            found = end
        return "".join([*pieces, self.text[found:]])


def wrap_runs(text: str, runs: Sequence[EntryRun]) -> str:
    """Return the text with consecutive entries in new scopes. Raises UneditableText if two entries share a line."""
    return EditableText(text).wrapped(runs) if runs else text


def _scalar(node: Any) -> Any:
    if not isinstance(node, yaml.ScalarNode):
        return None
    return resolve_plain(node.value) if not node.style else node.value


def _scalars_of_files(node: Any) -> Iterator[Any]:
    if isinstance(node, yaml.MappingNode):
        for key, value in node.value:
            if key.value == "file" and isinstance(value, yaml.ScalarNode):
                yield value
            else:
                yield from _scalars_of_files(value)
    elif isinstance(node, yaml.SequenceNode):
        for item in node.value:
            yield from _scalars_of_files(item)


def _value(mapping: yaml.MappingNode, name: str) -> Any:
    """Return the value of a key, its own or merged; None if there is none."""
    merged: list[Any] = []
    for key, value in mapping.value:
        if isinstance(key, yaml.ScalarNode) and key.value == name:
            return value
        if isinstance(key, yaml.ScalarNode) and key.value == "<<":
            merged += value.value if isinstance(value, yaml.SequenceNode) else [value]
    found = (_value(source, name) for source in merged if isinstance(source, yaml.MappingNode))
    return next((value for value in found if value is not None), None)


def _text(node: Any) -> str | None:
    return node.value if isinstance(node, yaml.ScalarNode) else None


def _device(node: Any) -> Own:
    if node is None:
        return ABSENT
    if isinstance(node, yaml.SequenceNode):
        return [_device_text(item) for item in node.value]
    return _device_text(node)


def _device_text(node: Any) -> str | None:
    if not isinstance(node, yaml.ScalarNode):
        raise UneditableText
    value = _scalar(node)
    if value is not None and not isinstance(value, str):
        raise UneditableText
    return value
