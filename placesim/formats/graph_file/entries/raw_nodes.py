"""Reader of the `nodes` of a raw file: NodeDefs in any order, passed to the importer."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from placesim.formats.graph_file.entries.node_attrs import AttrReader
from placesim.formats.graph_file.plain_values import constant_value
from placesim.formats.node_import import NodeImport
from placesim.formats.problems import FileProblems, InvalidValue, own_position, spell, value_position
from placesim.graph.graph import Graph, LibraryFunction, NodeDef, split_tensor_name
from placesim.ops.attributes import Attrs
from placesim.ops.registry import Registry

RAW_KEYS = dict.fromkeys(("op", "name", "inputs", "device", "attrs", "value", "dtype", "shape")).keys()
_TENSOR_KEYS = ("value", "dtype", "shape")


class NodeDefReader:
    """A reader of NodeDefs, which refuses only entries that no NodeDef can express. Equal attrs share one mapping.

    `where` names the entries in messages. With `is_marked`, entries may have a key `raw`.
    """

    def __init__(
        self,
        registry: Registry,
        functions: Mapping[str, LibraryFunction],
        problems: FileProblems,
        where: str,
        is_marked: bool = False,
    ) -> None:
        self._keys = RAW_KEYS | {"raw"} if is_marked else RAW_KEYS
        self._registry = registry
        self._functions = functions
        self._problems = problems
        self._where = where
        self._attr_reader = AttrReader(registry, functions, self._report, is_raw=True)

    def _report(self, tree: Any, key: Any, message: str) -> None:
        self._problems.add(value_position(tree, key), message)

    def read(self, entry: dict[Any, Any]) -> NodeDef | None:
        """Return the NodeDef of an entry, with missing fields empty; None for an invalid entry, after a report."""
        if not entry.keys() <= self._keys:
            self._problems.unknown_keys(entry, RAW_KEYS, self._where)
        op, name, device = self._text(entry, "op"), self._text(entry, "name"), self._text(entry, "device")
        attrs = None if op is None else self._attrs(entry, op)
        inputs = self._inputs(entry) if "inputs" in entry else ()
        if op is None or name is None or device is None or attrs is None or inputs is None:
            return None
        return NodeDef(name, op, inputs, device, attrs, own_position(entry))

    def _text(self, entry: dict[Any, Any], key: str) -> str | None:
        value = entry.get(key, "")
        if isinstance(value, str):
            return value
        self._report(entry, key, f"wrong type of '{key}': got {spell(value)}, expected a string")
        return None

    def _inputs(self, entry: dict[Any, Any]) -> tuple[str, ...] | None:
        listed = self._problems.sequence_at(entry, "inputs")
        wrong = [index for index, text in enumerate(listed) if not isinstance(text, str)]
        for index in wrong:
            self._report(listed, index, f"wrong type of an input: got {spell(listed[index])}, expected a node's name")
        return None if wrong else tuple(listed)

    def _attrs(self, entry: dict[Any, Any], op: str) -> Attrs | None:
        if self._registry.op(op) is None and op not in self._functions:
            return {}  # the importer refuses the op
        tree = self._problems.mapping_at(entry, "attrs") if "attrs" in entry else {}
        attrs = self._attr_reader.read(op, tree)
        if "value" not in entry and "dtype" not in entry and "shape" not in entry:
            return attrs
        own = {key: entry[key] for key in _TENSOR_KEYS if key in entry}
        if op == "Const" and "value" in entry:
            return self._const_attrs(entry, own, attrs)
        reader = AttrReader(self._registry, {}, lambda _, key, text: self._report(entry, key, text), is_raw=True)
        more = reader.read(op, own)
        return None if attrs is None or more is None else {**attrs, **more}

    def _const_attrs(self, entry: dict[Any, Any], own: dict[str, Any], attrs: Attrs | None) -> Attrs | None:
        try:
            tensor = constant_value(own["value"], own.get("dtype"), own.get("shape"))
        except InvalidValue as wrong:
            self._report(entry, "value", str(wrong))
            return None
        # attrs of the entry have priority over the type and value made from its `value`
        return None if attrs is None else {"dtype": tensor.dtype, "value": tensor, **attrs}


class RawNodes:
    """A reader of the entries of `nodes`. `finish` connects their inputs, which may be forward references."""

    def __init__(self, graph: Graph, problems: FileProblems, is_marked: bool = False) -> None:
        self._problems = problems
        self._reader = NodeDefReader(graph.registry, graph.functions, problems, "a raw node", is_marked)
        self._nodes = NodeImport(graph, problems)

    def take_all(self, entries: Any, position: int = 0) -> None:
        """Read a list of entries."""
        for index, entry in enumerate(self._problems.sequence(entries, position, "'nodes'")):
            self.take(entry, position if isinstance(entry, dict) else value_position(entries, index))

    def take(self, entry: Any, position: int = 0) -> None:
        """Read one NodeDef; problems are reported, never raised."""
        if not isinstance(entry, dict):
            self._problems.add(position, f"wrong type of an entry of 'nodes': got {spell(entry)}, expected a mapping")
            return
        node_def = self._reader.read(entry)
        if node_def is not None:
            self._nodes.add_all((node_def,), entry)
        elif isinstance(entry.get("name"), str):
            self._nodes.mark_broken(entry["name"], own_position(entry))

    def finish(self) -> None:
        """Report problems that need the whole list."""
        self._nodes.finish()

    def tensor_names(self, text: str) -> list[str] | None:
        """Return the text in a list if it names a node of the graph, else None."""
        return [text] if self._nodes.is_named(split_tensor_name(text)[0]) else None
