"""Writer of entries as readable YAML, in scopes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import PurePath
from typing import Any

from placesim.core.dtypes import DataType
from placesim.formats.graph_file.writing.raw_writer import attr_document, node_document
from placesim.formats.graph_file.writing.scoped_items import ScopedItem, device_key
from placesim.formats.graph_file.writing.short_values import fill_of, flow_text, literal_of, short_tensor
from placesim.formats.graph_file.writing.variable_recognition import VariableForm
from placesim.graph.argument_binding import VariableNodes
from placesim.graph.constants import make_constant
from placesim.graph.graph import Graph, TensorRef
from placesim.graph.variables import HANDLE_OPS, VALUE_KINDS, default_initializer
from placesim.ops.attributes import TensorValue

_LEAST_IN_SCOPE = 4
_LEAST_ON_DEVICE = 3
"""Minimum number of entries for a separate device scope, which costs two lines."""
_SIDE_BY_SIDE = ("dtype", "shape", "value")


# --- scopes ---------------------------------------------------------------------------------------------------------


@dataclass(slots=True)
class _Scope:
    """Entries in a name scope, a device scope, or both. `prefix` is the full scope name with a slash; empty at the root."""

    prefix: str
    children: list[ScopedItem | _Scope] = field(default_factory=list)
    device: str = ""
    is_named: bool = True


def _tree(items: Sequence[ScopedItem], prefix: str) -> list[ScopedItem | _Scope]:
    """Return the entries with scopes around consecutive entries whose names have the same next scope after `prefix`."""
    found: list[ScopedItem | _Scope] = []
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


def _part(item: ScopedItem, prefix: str) -> str:
    """Return the scope directly below `prefix` in an entry's name; empty if there is none."""
    return item.name[len(prefix) :].partition("/")[0] if "/" in item.name[len(prefix) :] else ""


def _common(items: Sequence[ScopedItem]) -> str:
    """Return the longest scope in which all names lie, with its trailing slash."""
    first, last = min(item.name for item in items), max(item.name for item in items)
    length = next((i for i, (a, b) in enumerate(zip(first, last, strict=False)) if a != b), min(len(first), len(last)))
    return first[: first.rfind("/", 0, length) + 1]


_MIXED = object()


def _device(entry: ScopedItem | _Scope) -> Any:
    """Return the requested device of an entry, or of all entries in a scope; None without one, _MIXED if they differ."""
    if isinstance(entry, ScopedItem) or entry.device:
        return entry.device
    found = {device for child in entry.children if (device := _device(child)) is not None}
    return found.pop() if len(found) == 1 else _MIXED if found else None


def _with_devices(entries: list[ScopedItem | _Scope]) -> list[ScopedItem | _Scope]:
    """Return the entries with device scopes around neighbours that request the same device."""
    found: list[ScopedItem | _Scope] = []
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
        elif sum(1 if isinstance(entry, ScopedItem) else _LEAST_ON_DEVICE for entry in run) < _LEAST_ON_DEVICE or len(run) == 1:
            found += [_Scope(e.prefix, e.children, device) if isinstance(e, _Scope) else e for e in run]
        else:
            found.append(_Scope("", run, device, is_named=False))
        start = end
    return found


# --- text -----------------------------------------------------------------------------------------------------------


class EntryTextWriter:
    """A writer of entries. `claimed` has the names in use before the first entry.

    `marked` has the nodes that are written under `control_inputs` if an entry waits for them; other nodes stand under `inputs`,
    as `^name`. None puts all under `control_inputs`.
    """

    def __init__(self, graph: Graph, marked: set[int] | None, claimed: Iterable[str] = ()) -> None:
        self._graph = graph
        self._marked = marked
        self._claimed = {name.lower() for name in claimed}
        self._prefixes = [""]
        self._now = 0
        self.script = graph.file if PurePath(graph.file).suffix == ".py" else ""
        self._line = 0

    def lines(self, items: Sequence[ScopedItem], indent: str = "  ") -> Iterator[str]:
        """Yield the lines of all entries, as under `nodes`."""
        yield from self._entries(_with_devices(_tree(items, "")), indent, "")

    def reference(self, ref: TensorRef) -> str:
        """Return the name by which an entry after all others would refer to a tensor."""
        self._now = len(self._graph)
        return self._reference(ref)

    def _entries(self, entries: Sequence[ScopedItem | _Scope], indent: str, device: str) -> Iterator[str]:
        for entry in entries:
            if isinstance(entry, ScopedItem):
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

    def _comment(self, item: ScopedItem) -> str:
        """Return a comment with the line of the script, if it differs from the previous entry's."""
        place = self._graph.location(item.main) if self.script else None
        if place is None or place.line == self._line:
            return ""
        self._line = place.line
        return f"  # {PurePath(place.file).name}:{place.line}"

    # --- entries ----------------------------------------------------------------------------------------------------

    def _entry(self, item: ScopedItem, device: str) -> dict[str, Any]:
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

    def _name(self, item: ScopedItem) -> str:
        """Return the name of an entry in its scopes; if it is in use, the full name with a slash, which is kept unchanged."""
        return f"{item.name}/" if item.name.lower() in self._claimed else item.name[len(self._prefixes[-1]) :]

    def _variable(self, item: ScopedItem, form: VariableForm) -> dict[str, Any]:
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

    def _node(self, item: ScopedItem) -> dict[str, Any]:
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
                written[key] = attrs[key].python_name if isinstance(attrs[key], DataType) else shown.pop(key)
                shown.pop(key, None)
        return written | ({"attrs": shown} if shown else {})

    # --- references -------------------------------------------------------------------------------------------------

    def _input(self, value: Any) -> Any:
        if isinstance(value, VariableNodes):
            return self._node_name(value.node)
        return self._reference(value) if isinstance(value, TensorRef) else value

    def _reference(self, ref: TensorRef) -> str:
        name = self._node_name(ref.node)
        return f"{name}:{ref.slot}" if ref.slot or self._is_variable(ref.node) else name

    def _is_variable(self, node: int) -> bool:
        return self._graph.nodes[node].op in HANDLE_OPS.values()

    def _node_name(self, node_id: int) -> str:
        """Return the shortest name that stands for a node here; the full name with a leading slash if none is unambiguous."""
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
    """Return the value of a variable's constant initializer."""
    if isinstance(value, int | float | bool | str):
        return value
    tensor = make_constant(value, form.dtype)
    literal = fill_of(tensor) if tensor.array.ndim == 0 else literal_of(tensor)
    return tensor.array.tolist() if literal is None else literal


def _inserted(written: dict[str, Any], key: str, value: Any) -> dict[str, Any]:
    """Return the mapping with a key inserted before the attrs."""
    attrs = written.pop("attrs", None)
    written[key] = value
    return written if attrs is None else {**written, "attrs": attrs}
