"""GraphFile -> the graph file that a person would write: scopes, variables, literals, and the lines of a script as comments.

What is written is read again, and is only given where it is the same graph, node for node; the raw form says any other.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import PurePath
from typing import Any

from placesim.collector import collector_paused
from placesim.dtypes import DType
from placesim.errors import GraphFileError
from placesim.formats.graph_file.reader import read_graph_file
from placesim.formats.graph_file.scoped_items import Item, Itemizer, device_key, same_functions, same_node, same_value
from placesim.formats.graph_file.short_values import (
    fill_of,
    flow_text,
    literal_of,
    short_tensor,
)
from placesim.formats.graph_file.variable_forms import VariableForm
from placesim.formats.graph_file.writer import attr_document, file_parts, node_document
from placesim.graph.binding import Variable
from placesim.graph.constants import make_constant
from placesim.graph.graph import Graph, TensorRef
from placesim.graph.steps import GraphFile
from placesim.graph.variables import VALUE_KINDS, default_initializer
from placesim.ops.attributes import TensorValue

_MOST_TRIES = 8
_MOST_RAW = 0.5
"""Of a graph's nodes; one of which more are NodeDefs is written as one."""
_LEAST_IN_SCOPE = 4
_LEAST_ON_DEVICE = 3
"""Entries that a scope of their own is written for; with fewer, two lines more would say less."""
_SIDE_BY_SIDE = ("dtype", "shape", "value")


def scoped_lines(
    file: GraphFile, leaves_defaults: bool = False, accepts: Callable[[GraphFile], bool] = lambda again: True
) -> list[str] | None:
    """The lines of the file, each with its newline; None where the graph has no such form.

    With `leaves_defaults` attrs that equal their default are not written, and read back as such.  `accepts` is asked whether
    what the text is read as will do.
    """
    if leaves_defaults:
        file = replace(file, graph=_without_defaults(file.graph))
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
                continue  # who is waited for by NodeDefs is known only now
            if len(raw) > _MOST_RAW * len(file.graph):
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


def _without_defaults(graph: Graph) -> Graph:
    """The same graph, whose nodes do not give attrs that equal their default."""
    short = graph.emptied()
    short.functions, short.versions = graph.functions, graph.versions
    for node in graph.nodes:
        given = dict(node.attrs)
        definition = node.signature.definition
        for attr in () if definition is None else definition.attrs.values():
            if attr.has_default and attr.name in given and same_value(attr.default, given[attr.name]):
                del given[attr.name]
        short.add(
            node.name, node.op, given, node.input_nodes, node.input_slots, node.control_inputs, node.device, node.location
        )
    return short


def _first_odd(file: GraphFile, text: str, accepts: Callable[[GraphFile], bool]) -> int | None:
    """The first node that the text makes another one than the graph's; None where it says all that the file does."""
    try:
        again = read_graph_file(text, file.graph.file, file.graph.registry)
    except GraphFileError:
        return len(file.graph)
    for one, other in zip(again.graph.nodes, file.graph.nodes, strict=False):
        if not same_node(one, other):
            return other.id
    is_same = len(again.graph) == len(file.graph) and [(s.repeat, len(s.fetches), len(s.feeds)) for s in again.steps or ()] == [
        (s.repeat, len(s.fetches), len(s.feeds)) for s in file.steps or ()
    ]
    is_same &= again.rest == file.rest and same_functions(again.graph, file.graph) and accepts(again)
    return None if is_same else len(file.graph)


def _lines(file: GraphFile, items: Sequence[Item], itemizer: Itemizer) -> Iterator[str]:
    writer = _Writer(file.graph, itemizer.marked if itemizer.marks else None)
    for key, value in file_parts(file, {"marks": True} if itemizer.marks else {}).items():
        if key == "nodes":
            yield "nodes:\n"
            yield from writer.lines(items)
        elif key == "versions" and writer.script:
            continue  # it was no file
        elif isinstance(value, Iterator):
            listed = list(value)
            yield f"{key}:\n" if listed else f"{key}: []\n"
            for entry in listed:
                yield f"  - {flow_text(entry)}\n"
        else:
            yield f"{key}: {flow_text(value)}\n"


# --- scopes ---------------------------------------------------------------------------------------------------------


@dataclass(slots=True)
class _Scope:
    """Entries in a name scope, a device scope, or both; `prefix` has a trailing slash, and is empty at the root."""

    prefix: str
    children: list[Item | _Scope] = field(default_factory=list)
    device: str = ""
    is_named: bool = True


def _tree(items: Sequence[Item], prefix: str) -> list[Item | _Scope]:
    """Entries that follow each other and share a part of their names after `prefix`, in scopes of that name."""
    found: list[Item | _Scope] = []
    start = 0
    while start < len(items):
        part = _part(items[start], prefix)
        end = start + 1
        while part and end < len(items) and _part(items[end], prefix) == part:
            end += 1
        if part and end - start >= _LEAST_IN_SCOPE:
            inner = _common(items[start:end])
            found.append(_Scope(inner, _tree(items[start:end], inner)))
        else:
            found += items[start:end]
        start = end
    return found


def _part(item: Item, prefix: str) -> str:
    """The scope right below `prefix` that an entry's name has; empty for none."""
    return item.name[len(prefix) :].partition("/")[0] if "/" in item.name[len(prefix) :] else ""


def _common(items: Sequence[Item]) -> str:
    """The longest scope that all the names begin with."""
    first, last = min(item.name for item in items), max(item.name for item in items)
    length = next((i for i, (a, b) in enumerate(zip(first, last, strict=False)) if a != b), min(len(first), len(last)))
    return first[: first.rfind("/", 0, length) + 1]


_MIXED = object()


def _device(entry: Item | _Scope) -> Any:
    """The device that all of an entry asks for; None where none has to, _MIXED where they differ."""
    if isinstance(entry, Item):
        return entry.device
    if entry.device:
        return entry.device
    found = {device for child in entry.children if (device := _device(child)) is not None}
    return found.pop() if len(found) == 1 else _MIXED if found else None


def _with_devices(entries: list[Item | _Scope]) -> list[Item | _Scope]:
    """The same with scopes for the devices that neighbours share."""
    found: list[Item | _Scope] = []
    start = 0
    while start < len(entries):
        device, end = _device(entries[start]), start + 1
        if isinstance(device, str) and device:
            while end < len(entries) and _device(entries[end]) in (device, None):
                end += 1
            while _device(entries[end - 1]) is None:
                end -= 1
        run = entries[start:end]
        if not isinstance(device, str) or not device:
            found += [_Scope(e.prefix, _with_devices(e.children)) if isinstance(e, _Scope) else e for e in run]
        elif sum(1 if isinstance(entry, Item) else _LEAST_ON_DEVICE for entry in run) < _LEAST_ON_DEVICE or len(run) == 1:
            found += [_Scope(e.prefix, e.children, device) if isinstance(e, _Scope) else e for e in run]
        else:
            found.append(_Scope("", run, device, is_named=False))
        start = end
    return found


# --- text -----------------------------------------------------------------------------------------------------------


class _Writer:
    """Writes entries; `marked` are the nodes that others wait for by scopes, None where nobody notes that."""

    def __init__(self, graph: Graph, marked: set[int] | None) -> None:
        self._graph = graph
        self._marked = marked
        self._claimed: set[str] = set()
        self._prefixes = [""]
        self._now = 0
        self.script = graph.file if PurePath(graph.file).suffix == ".py" else ""
        self._line = 0

    def lines(self, items: Sequence[Item]) -> Iterator[str]:
        """The lines under `nodes`."""
        yield from self._entries(_with_devices(_tree(items, "")), "  ", "")

    def _entries(self, entries: Sequence[Item | _Scope], indent: str, device: str) -> Iterator[str]:
        for entry in entries:
            if isinstance(entry, Item):
                yield f"{indent}- {flow_text(self._entry(entry, device))}{self._comment(entry)}\n"
            else:
                yield from self._scope(entry, indent, device)

    def _scope(self, scope: _Scope, indent: str, device: str) -> Iterator[str]:
        keys: dict[str, Any] = {}
        if scope.is_named:
            keys["scope"] = self._scope_name(scope.prefix)
        if scope.device and scope.device != device:
            keys["device"] = device_key(scope.device)
        head = f"{indent}- "
        for key, value in keys.items():
            yield f"{head}{key}: {flow_text(value)}\n"
            head = f"{indent}  "
        yield f"{head}nodes:\n"
        if scope.is_named:
            self._prefixes.append(scope.prefix)
        yield from self._entries(scope.children, indent + "    ", scope.device or device)
        if scope.is_named:
            self._prefixes.pop()

    def _scope_name(self, prefix: str) -> str:
        full = prefix[:-1]
        if full.lower() in self._claimed:
            return prefix
        self._claimed.add(full.lower())
        return full[len(self._prefixes[-1]) :]

    def _comment(self, item: Item) -> str:
        """The script's line, where it is another one than that of the entry before."""
        place = self._graph.location(item.main) if self.script else None
        if place is None or place.line == self._line:
            return ""
        self._line = place.line
        return f"  # {PurePath(place.file).name}:{place.line}"

    # --- entries ----------------------------------------------------------------------------------------------------

    def _entry(self, item: Item, device: str) -> dict[str, Any]:
        self._now = item.end
        if item.variable is not None:
            written = self._variable(item, item.variable)
        elif item.is_initializer:
            written = {"initializer": self._name(item)}
        elif item.is_raw:
            written = {"raw": True, **node_document(self._graph, item.main)}
        else:
            written = self._node(item)
        if item.device and item.device != device:
            written = _inserted(written, "device", device_key(item.device))
        self._claimed.update(node.name.lower() for node in self._graph.nodes[item.first : item.end])
        return written

    def _name(self, item: Item) -> str:
        """The name inside the scopes; exactly itself where something has claimed it."""
        return f"{item.name}/" if item.name.lower() in self._claimed else item.name[len(self._prefixes[-1]) :]

    def _variable(self, item: Item, form: VariableForm) -> dict[str, Any]:
        written: dict[str, Any] = {"variable": self._name(item)}
        kind, values = form.initializer
        more: Any = kind if not values else {kind: dict(values)}
        shown = form.dtype.python_name
        if kind in VALUE_KINDS:
            tensor = make_constant(values[kind], form.dtype)
            short = short_tensor(tensor)
            more = {kind: short["value"]}
            if "dtype" not in short:
                shown = ""
            if "shape" in short:
                written["shape"] = list(form.shape)
        else:
            written["shape"] = list(form.shape)
            if kind == "constant":
                more = {kind: _figure(values[kind], form)}
            elif kind == "tensor":
                more = {kind: self._reference(values[kind])}
                shown = ""
        if shown and shown != "float32":
            written["dtype"] = shown
        if kind != default_initializer(form.dtype).kind or values:
            written["initializer"] = more
        if form.kind != "ref":
            written["kind"] = form.kind
        if item.colocated is not None:
            written["colocate_with"] = self._node_name(item.colocated)
        return written

    def _node(self, item: Item) -> dict[str, Any]:
        node = item.main
        written: dict[str, Any] = {"op": node.op}
        name = self._name(item)
        if name != node.op:
            written["name"] = name
        inputs = [self._input(value) for value in item.inputs]
        awaited = [i for i in item.controls if self._marked is None or i in self._marked]
        inputs += [f"^{self._node_name(i)}" for i in item.controls if i not in awaited]
        if inputs:
            written["inputs"] = inputs
        if awaited:
            names = [self._node_name(i) for i in awaited]
            written["control_inputs"] = names if len(names) > 1 else names[0]
        if item.colocated is not None:
            written["colocate_with"] = self._node_name(item.colocated)
        attrs = dict(item.attrs)
        if node.op == "Const" and isinstance(attrs.get("value"), TensorValue):
            written |= short_tensor(attrs.pop("value"))
            attrs.pop("dtype", None)
        shown = {key: attr_document(self._graph.registry, node.op, key, value) for key, value in attrs.items()}
        for key in _SIDE_BY_SIDE:
            if key in shown and node.op != "Const":
                written[key] = attrs[key].python_name if isinstance(attrs[key], DType) else shown.pop(key)
                shown.pop(key, None)
        return written | ({"attrs": shown} if shown else {})

    # --- references -------------------------------------------------------------------------------------------------

    def _input(self, value: Any) -> Any:
        if isinstance(value, Variable):
            return self._node_name(value.node)
        return self._reference(value) if isinstance(value, TensorRef) else value

    def _reference(self, ref: TensorRef) -> str:
        name = self._node_name(ref.node)
        return f"{name}:{ref.slot}" if ref.slot or self._is_variable(ref.node) else name

    def _is_variable(self, node: int) -> bool:
        return self._graph.nodes[node].op in ("VariableV2", "VarHandleOp")

    def _node_name(self, node_id: int) -> str:
        """The shortest name that leads to a node from here; the full one with a slash where scopes have others like it."""
        node, ids = self._graph.nodes[node_id], self._graph.ids
        if node_id >= self._now:
            return f"/{node.name}" if len(self._prefixes) > 1 else node.name
        for depth in range(len(self._prefixes) - 1, -1, -1):
            prefix = self._prefixes[depth]
            if not node.name.startswith(prefix):
                continue
            short = node.name[len(prefix) :]
            inner = (ids.get(nearer + short) for nearer in self._prefixes[depth + 1 :])
            if all(other is None or other >= self._now for other in inner):
                return short
        return f"/{node.name}"


def _figure(value: Any, form: VariableForm) -> Any:
    """What a variable's constant initializer is made of."""
    if isinstance(value, int | float | bool | str):
        return value
    tensor = make_constant(value, form.dtype)
    literal = fill_of(tensor) if tensor.array.ndim == 0 else literal_of(tensor)
    return tensor.array.tolist() if literal is None else literal


def _inserted(written: dict[str, Any], key: str, value: Any) -> dict[str, Any]:
    """The mapping with a key before the attrs."""
    attrs = written.pop("attrs", None)
    written[key] = value
    return written if attrs is None else {**written, "attrs": attrs}


__all__ = ["scoped_lines"]
