"""Reader of the entries that are single nodes."""

from __future__ import annotations

from contextlib import ExitStack
from typing import Any

from placesim.core.errors import GraphBuildError, UnimplementedError
from placesim.formats.graph_file.entries.limits import EntryLimits
from placesim.formats.graph_file.entries.loop_back_edges import Loops, NewNode, add_resolved
from placesim.formats.graph_file.entries.node_attrs import AttrReader
from placesim.formats.graph_file.entries.references import EntryContext
from placesim.formats.graph_file.entries.scope_entries import enter_colocation, is_device_text, make_device_function
from placesim.formats.graph_file.entries.scoped_names import EntryBreak, UnresolvedName
from placesim.formats.graph_file.parsing.yaml_tree import Mapping as Tree
from placesim.formats.graph_file.parsing.yaml_tree import pack_mark
from placesim.formats.graph_file.plain_values import constant_value, dtype_value, known_shape
from placesim.formats.problems import WRONG, InvalidValue, key_position, own_position, spell, value_position
from placesim.graph.argument_binding import AttrError, InputError, Operand
from placesim.ops.attributes import Attrs, TensorValue
from placesim.ops.categories import MERGES
from placesim.ops.definitions import OpDef
from placesim.ops.deprecation import check_not_removed
from placesim.ops.registry import describe_other_releases

NODE_KEYS = dict.fromkeys(
    ("op", "name", "id", "inputs", "control_inputs", "device", "colocate_with", "attrs", "value", "dtype", "shape", "raw")
).keys()
PLAIN_KEYS = NODE_KEYS - {"control_inputs", "colocate_with", "raw"}
NO_ATTRS: Attrs = {}
_TENSOR_KEYS = ("value", "dtype", "shape")
_FIRST_OUTPUTS = tuple((0,) * n for n in range(64))


class NodeEntries:
    """A maker of the node of an entry: a fast path for most entries, and a slow one that finds all problems."""

    def __init__(self, context: EntryContext, loops: Loops, limits: EntryLimits) -> None:
        self._builder, self._problems, self._names, self._references = context
        self._loops = loops
        self._attr_reader = AttrReader(
            context.builder.registry, context.builder.graph.functions, self._report, open_types=limits.open_types
        )
        self._limits = limits
        self._known_ops: set[str] = set()
        self._plain_keys: set[tuple[Any, ...]] = set()

    def _report(self, tree: Any, key: Any, message: str) -> None:
        position = key_position(tree, key) if message.startswith("unknown attr") else value_position(tree, key)
        self._problems.add(position, message)

    def take(self, entry: dict[Any, Any]) -> None:
        """Read an entry with `op`. Raises EntryBreak if its name is invalid."""
        op, name = entry["op"], entry.get("name")
        position = pack_mark(entry.marks[0]) if entry.__class__ is Tree else 0
        is_plain = tuple(entry) in self._plain_keys
        is_good = is_plain or self._check_keys(entry)
        if op.__class__ is not str or op not in self._known_ops:
            is_good &= self._check_op(entry, op)
        full = self._names.claim(entry, op, name, position)
        waits: list[UnresolvedName] = []
        node_id = self._add_plain(entry, op, full, position) if is_plain and is_good else None
        if node_id is None:
            try:
                node_id = self._add(entry, op, full, position, waits, is_good)
            except EntryBreak:
                self._names.mark_broken(entry, full, position, waits)
                return
        if name is not None:
            self._names.mark_named(node_id)
        self._names.bind_entry(entry, name, node_id)

    def _check_keys(self, entry: dict[Any, Any]) -> bool:
        """Whether a node's entry may have all of these keys. Sets of keys for the fast path are remembered."""
        if entry.keys() <= PLAIN_KEYS:
            self._plain_keys.add(tuple(entry))
            return True
        return entry.keys() <= NODE_KEYS or not self._refuse_keys(entry)

    def _refuse_keys(self, entry: dict[Any, Any]) -> bool:
        """Report unknown keys, and attrs of the op, which belong under `attrs`. Returns whether there are any."""
        op = entry["op"]
        definition = self._builder.registry.op(op) if isinstance(op, str) else None
        known_attrs = () if definition is None else definition.attrs
        misplaced = [key for key in entry if key not in NODE_KEYS and key in known_attrs]
        for key in misplaced:
            message = f"an attr of '{op}' among a node's keys: got '{key}', expected it under 'attrs': attrs: {{{key}: ...}}"
            self._problems.add(key_position(entry, key), message)
        return self._problems.unknown_keys(entry, (*NODE_KEYS, *misplaced), "a node") or bool(misplaced)

    def _check_op(self, entry: dict[Any, Any], op: Any) -> bool:
        """Whether an entry's op is an op or a function that it may use; problems are reported."""
        registry, library, functions = self._builder.registry, self._limits.library, self._builder.graph.functions
        if not isinstance(op, str):
            message = f"wrong type of 'op': got {spell(op)}, expected an op's name"
            self._problems.add(value_position(entry, "op"), message)
            return False
        definition = registry.op(op)
        if definition is not None:
            return self._check_not_removed(entry, op, definition)
        if op in self._limits.broken:
            return False
        if op in library:
            functions.setdefault(op, library[op])
        if op in functions:
            self._known_ops.add(op)
            return True
        known = (*registry.op_names, *library, *functions)
        near = describe_other_releases(op, registry) or self._problems.did_you_mean(op, known)
        message = f"unknown op: got '{op}', expected an op of TensorFlow {registry.release}{near}"
        self._problems.add(value_position(entry, "op"), message)
        return False

    def _check_not_removed(self, entry: dict[Any, Any], op: str, definition: OpDef) -> bool:
        """Whether TensorFlow's Python accepts the op. Ops that only old graphs may have are reported."""
        try:
            check_not_removed(definition, self._builder.registry.rules.producer)
        except UnimplementedError as error:
            self._problems.add_error(value_position(entry, "op"), error)
            return False
        self._known_ops.add(op)
        return True

    # --- the fast path ----------------------------------------------------------------------------------------------

    def _add_plain(self, entry: dict[Any, Any], op: str, full: str, position: int) -> int | None:
        """If an entry has no problems and its inputs are tensors, add its node and return the node's id; otherwise None."""
        get, builder = entry.get, self._builder
        nodes = self._references.plain_inputs(get("inputs"))
        device: Any = get("device", "")
        if nodes is None or (device is not None and device.__class__ is not str):
            return None
        attrs = get("attrs")
        try:
            if op == "Const":
                if nodes or attrs is not None or "value" not in entry:
                    return None
                tensor = constant_value(entry["value"], get("dtype"), get("shape"))
                if "shape" in entry:
                    self._doubt_shape(entry, tensor)
                return builder.add_constant(full, tensor, NO_ATTRS, (), position, device).id
            if "value" in entry or "dtype" in entry or "shape" in entry:
                return None
            if attrs is None:
                attrs = NO_ATTRS
            else:
                attrs = self._attr_reader.read(op, attrs) if isinstance(attrs, dict) else None
                if attrs is None:
                    return None
            return builder.add_resolved(op, full, tuple(nodes), _first_outputs(len(nodes)), attrs, (), position, device).id
        except (GraphBuildError, InvalidValue):
            return None

    # --- the slow path ----------------------------------------------------------------------------------------------

    def _add(self, entry: dict[Any, Any], op: Any, full: str, position: int, waits: list[UnresolvedName], is_good: bool) -> int:
        """Add a node and return its id. Raises EntryBreak for an invalid entry, after all its problems have been reported."""
        references, builder = self._references, self._builder
        inputs = references.inputs(entry, full, waits)
        if "control_inputs" in entry:
            awaited = references.nodes(entry, "control_inputs", full, waits)
            inputs = inputs._replace(controls=(*inputs.controls, *awaited))
            if builder.leaves_marks:
                builder.mark_awaited(awaited)
        is_good &= "device" not in entry or self._check_device(entry)
        device = entry.get("device", "")
        with ExitStack() as scopes:
            if "colocate_with" in entry:
                enter_colocation(scopes, builder, references.colocated(entry, full, waits))
            # like the result of a device function, a text is not merged with the devices of inner scopes (2.1.4)
            if is_device_text(device):
                scopes.enter_context(builder.device(make_device_function(device["text"])))
                device = ""
            if op == "Const":
                tensor, attrs = self._constant(entry, bool(inputs.items)) if is_good else (None, None)
                if tensor is None or attrs is None or waits:
                    raise EntryBreak
                return builder.add_constant(full, tensor, attrs, inputs.controls, position, device).id
            attrs = self._attrs(entry, op) if is_good else None
            if attrs is None:
                raise EntryBreak
            new = NewNode(op, full, inputs.items, attrs, inputs.controls, position, device)
            # only a Merge may read a node further down: the back edge of a loop
            if op in MERGES and waits and all(any(wait is item for item in new.items) for wait in waits):
                return self._loops.add_merge(new, waits)
            if waits or any(item is WRONG for item in new.items):
                raise EntryBreak
            try:
                return self._make(new)
            except GraphBuildError as error:
                self._problems.add_error(self._error_position(entry, error, position), error)
                raise EntryBreak from None

    def _make(self, new: NewNode) -> int:
        """Add a node whose inputs exist or are literals, and return its id. Raises GraphBuildError."""
        builder = self._builder
        if all(item.__class__ is Operand for item in new.items):
            return add_resolved(builder, new, new.items)
        with ExitStack() as scopes:
            # constants made for literals get the entry's device too, as inside a scope (2.3.5)
            if new.device != "":
                scopes.enter_context(builder.device(new.device))
            return builder.add_named(new.op, new.full_name, new.items, new.attrs, new.controls, new.position).id

    def _check_device(self, entry: dict[Any, Any]) -> bool:
        device = entry["device"]
        try:
            if is_device_text(device):
                return True
            if device is None or device.__class__ is str:
                self._builder.device_text(device)
                return True
            message = f"wrong type of 'device': got {spell(device)}, expected a device specification"
            self._problems.add(value_position(entry, "device"), message)
        except GraphBuildError as error:
            self._problems.add_error(value_position(entry, "device"), error)
        return False

    def _error_position(self, entry: dict[Any, Any], error: GraphBuildError, position: int) -> int:
        given = entry.get("attrs")
        if isinstance(error, AttrError) and isinstance(given, dict) and error.attr in given:
            return value_position(given, error.attr)
        if isinstance(error, AttrError) and error.attr in entry:
            return value_position(entry, error.attr)
        return self._references.input_position(entry, error.index, position) if isinstance(error, InputError) else position

    def _attrs(self, entry: dict[Any, Any], op: str) -> Attrs | None:
        given = entry.get("attrs")
        if given is None:
            attrs: Attrs | None = self._builder.intern(op, {})
        else:
            tree = self._problems.mapping_at(entry, "attrs")
            attrs = self._attr_reader.read(op, tree)
        own = {key: entry[key] for key in _TENSOR_KEYS if key in entry}
        if not own:
            return attrs
        for key in own:
            if isinstance(given, dict) and key in given:
                self._problems.add(key_position(entry, key), f"attr given twice: got '{key}' here and in 'attrs', expected one")
        reader = AttrReader(
            self._builder.registry, {}, lambda _, key, text: self._report(entry, key, text), open_types=self._limits.open_types
        )
        more = reader.read(op, own)
        return None if attrs is None or more is None else self._builder.intern(op, {**attrs, **more})

    # --- constants --------------------------------------------------------------------------------------------------

    def _constant(self, entry: dict[Any, Any], has_inputs: bool) -> tuple[TensorValue | None, Attrs | None]:
        """Return a Const's tensor, and its other attrs; None for an invalid part, after a report."""
        if has_inputs:
            self._problems.add(value_position(entry, "inputs"), "too many inputs of 'Const': got inputs, expected none")
        attrs: Attrs | None = self._builder.intern("Const", {})
        given: dict[str, Any] = {}
        if "attrs" in entry:
            tree = self._problems.mapping_at(entry, "attrs")
            attrs = self._attr_reader.read("Const", tree)
            given = {key: value for key, value in (attrs or {}).items() if key in ("value", "dtype")}
            attrs = None if attrs is None else {key: value for key, value in attrs.items() if key not in given}
        shape = self._problems.read(entry, "shape", known_shape, None)
        dtype = self._problems.read(entry, "dtype", dtype_value, given.get("dtype"))
        if "value" not in entry and "value" not in given:
            self._problems.add(own_position(entry), "Const without a value: expected the key 'value'")
            return None, None
        if shape is WRONG or dtype is WRONG:
            return None, None
        try:
            tensor = constant_value(entry.get("value", given.get("value")), dtype, shape)
            self._doubt_shape(entry, tensor)
            return tensor, attrs
        except InvalidValue as wrong:
            self._problems.add(value_position(entry, "value") if "value" in entry else own_position(entry), str(wrong))
            return None, None

    def _doubt_shape(self, entry: dict[Any, Any], tensor: TensorValue) -> None:
        """Warn about a list that is shorter than its shape, because TensorFlow then repeats its last value."""
        given = _count(entry.get("value"))
        if 1 < given < tensor.array.size:
            shape = list(tensor.array.shape)
            message = f"{given} values for shape {shape}, which holds {tensor.array.size}: the last value is repeated"
            self._problems.doubt(value_position(entry, "value"), message)


def _count(value: Any) -> int:
    """Return the number of elements of nested lists, whose lists at one level have the same length."""
    count = 1
    while isinstance(value, list | tuple) and value:
        count, value = count * len(value), value[0]
    return count


def _first_outputs(count: int) -> tuple[int, ...]:
    return _FIRST_OUTPUTS[count] if count < len(_FIRST_OUTPUTS) else (0,) * count
