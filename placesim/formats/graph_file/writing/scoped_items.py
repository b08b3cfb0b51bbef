"""Readable entries for the nodes of a graph, each verified with a builder.

An entry may expand to several nodes: a variable, an initializer of all variables, an op with its literals. If no short entry
expands to exactly the nodes of the graph, a full entry is tried, and then a NodeDef.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence, Set
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import cache
from typing import Any

from placesim.core.errors import GraphBuildError, UnimplementedError
from placesim.core.tensor_fields import has_one_value
from placesim.formats.graph_file.entries.scope_entries import make_device_function
from placesim.formats.graph_file.writing.short_values import literal_of, short_device
from placesim.formats.graph_file.writing.variable_recognition import VariableForm, variable_forms
from placesim.graph.argument_binding import VariableNodes
from placesim.graph.builder import AWAITED, DeviceFunction, ScopedGraphBuilder
from placesim.graph.graph import Graph, LibraryFunction, Node, TensorRef
from placesim.graph.variables import add_global_initializer, add_variable
from placesim.machine.device_names import format_spec, parse_python_spec
from placesim.ops.attributes import Attrs, TensorValue
from placesim.ops.categories import MERGES, VARIABLE_READS
from placesim.ops.deprecation import check_not_removed

_LITERALS = ("Const", *VARIABLE_READS)
"""Ops of the nodes that literals and variables among the inputs of an entry make."""
_MOST_LITERAL_ELEMENTS = 16
"""Maximum number of elements of a constant that is written as a literal; larger constants are separate entries."""


class _ItemMismatch(GraphBuildError):
    """The nodes that an entry expands to differ from the graph's."""


@dataclass(slots=True)
class ScopedItem:
    """An entry for the nodes of the graph from `first` to before `end`, with the name of the node `main`.

    `inputs` are TensorRefs, VariableNodes, and literals as plain values. `device` is the requested device; None if the scope's
    device has no effect on the entry.
    """

    first: int
    end: int
    main: Node
    device: str | None = None
    inputs: tuple[Any, ...] = ()
    controls: tuple[int, ...] = ()
    attrs: Mapping[str, Any] = field(default_factory=dict)
    colocated: int | None = None
    variable: VariableForm | None = None
    is_initializer: bool = False
    is_raw: bool = False

    @property
    def name(self) -> str:
        """Return the full name of the entry's node."""
        return self.main.name


def same_value(one: Any, other: Any) -> bool:
    """Whether two attrs are equal, bit for bit."""
    if isinstance(one, TensorValue) and isinstance(other, TensorValue):
        a, b = one.array, other.array
        if one.dtype is not other.dtype or a.shape != b.shape:
            return False
        if has_one_value(a) and has_one_value(b):
            a, b = a.reshape(-1)[:1], b.reshape(-1)[:1]
        return bool((a == b).all()) if a.dtype == object else a.tobytes() == b.tobytes()
    if isinstance(one, tuple) and one.__class__ is tuple:
        return other.__class__ is tuple and len(one) == len(other) and all(map(same_value, one, other))
    return one.__class__ is other.__class__ and (one == other or (one != one and other != other))


def without_defaults(graph: Graph) -> Graph:
    """Return a copy of a graph without attrs equal to their defaults."""
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


def same_node(one: Node, other: Node, ignored: str = "") -> bool:
    """Whether two nodes have equal fields, which refer to other nodes by id. The attr `ignored` is not compared."""
    mine, others = ({k: v for k, v in node.attrs.items() if k != ignored} for node in (one, other))
    return bool(
        (one.name, one.op, one.device, one.input_nodes, one.input_slots, one.control_inputs)
        == (other.name, other.op, other.device, other.input_nodes, other.input_slots, other.control_inputs)
        and _same_attrs(mine, others)
    )


def same_functions(one: Graph, other: Graph) -> bool:
    """Whether two function libraries are equal."""
    if one.functions.keys() != other.functions.keys():
        return False
    return all(same_function(function, other.functions[name]) for name, function in one.functions.items())


def same_function(one: LibraryFunction, other: LibraryFunction) -> bool:
    """Whether two functions are equal, bit for bit."""
    plain = (one.inputs, one.outputs, dict(one.control_outputs), [node[:4] for node in one.nodes])
    return (
        plain == (other.inputs, other.outputs, dict(other.control_outputs), [node[:4] for node in other.nodes])
        and _same_attrs(one.attrs, other.attrs)
        and all(_same_attrs(a.attrs, b.attrs) for a, b in zip(one.nodes, other.nodes, strict=True))
    )


def _same_attrs(one: Attrs, other: Attrs) -> bool:
    return one.keys() == other.keys() and all(same_value(value, other[key]) for key, value in one.items())


class Itemizer:
    """A search for the entries of a graph, in order. `marks` says whether its nodes have TensorFlow's internal attrs.

    A node of `plain` gets an entry for itself, and a node of `raw` is written as a NodeDef. In a function's body, the first
    `arguments` nodes are no entries, and there are no variables.
    """

    def __init__(
        self,
        graph: Graph,
        plain: Set[int] = frozenset(),
        raw: Set[int] = frozenset(),
        arguments: int | None = None,
        marks: bool | None = None,
    ) -> None:
        self._is_body = arguments is not None
        self._nodes = graph.nodes
        self._ids = graph.ids
        self._values: dict[int, VariableNodes] = {}
        self._starts: set[int] = set()
        self._plain = plain
        self._builder = ScopedGraphBuilder(graph.registry, graph.functions)
        self.raw = {*raw, *(node.id for node in graph.nodes if self._must_be_raw(node))}
        self._awaited = {i for node in graph.nodes if node.id not in self.raw for i in node.control_inputs}
        self.marked = {node.id for node in graph.nodes if AWAITED in node.attrs}
        self.marks = bool(self.marked) if marks is None else marks
        self._builder.leaves_marks = self.marks
        self._arguments = arguments or 0
        for node in graph.nodes[: self._arguments]:
            self._keep(node)

    def _must_be_raw(self, node: Node) -> bool:
        """Whether a node reads a later node, which only a Merge may do."""
        return node.op not in MERGES and any(i >= node.id for i in (*node.input_nodes, *node.control_inputs))

    def items(self) -> Iterator[ScopedItem]:
        """Yield the entries. Afterwards, `raw` has all nodes that are written as NodeDefs."""
        at = self._arguments
        while at < len(self._nodes):
            item = self._item(at)
            yield item
            at = item.end

    def _item(self, first: int) -> ScopedItem:
        if first in self.raw:
            return self._raw_item(self._nodes[first])
        if first not in self._plain:
            found = None if self._is_body else self._variable(first) or self._initializer(first)
            found = found or self._with_literals(first)
            if found is not None:
                return found
        return self._node(self._nodes[first])

    # --- attempts ---------------------------------------------------------------------------------------------------

    def _check(self, first: int, end: int | None = None) -> int:
        """Return the end of the nodes that the builder made, from `first` on. Raises _ItemMismatch if they differ."""
        made = self._builder.graph.nodes[first:]
        wanted = self._nodes[first : first + len(made)]
        if len(wanted) != len(made) or (end is not None and first + len(made) != end):
            raise _ItemMismatch("another number of nodes")
        for one, other in zip(made, wanted, strict=True):
            if not same_node(one, other, AWAITED if self._is_mark_known(other) else ""):
                raise _ItemMismatch(f"another node: {one.name}")
        return first + len(made)

    def _is_mark_known(self, node: Node) -> bool:
        return self.marks and node.id in self._awaited

    def _variable(self, first: int) -> ScopedItem | None:
        builder = self._builder
        for form in variable_forms(self._nodes, first):
            main = self._nodes[self._ids[form.full_name]]
            for colocated in (None, *self._labelled(main)):
                try:
                    with builder.attempt(), ExitStack() as scopes:
                        scopes.enter_context(builder.name_scope(form.scope))
                        if colocated is None:
                            scopes.enter_context(builder.device(as_scope(main.device)))
                        else:
                            scopes.enter_context(builder.colocate_with([colocated]))
                        made = add_variable(builder, form.name, form.shape, form.dtype, form.initializer, form.kind)
                        end = self._check(first)
                except GraphBuildError:
                    continue
                self._starts.add(made.initializer)
                if made.kind == "ref":
                    self._values[made.value] = made
                device = main.device if colocated is None else None
                return ScopedItem(first, end, main, device, colocated=colocated, variable=form)
        return None

    def _labelled(self, node: Node) -> tuple[int, ...]:
        """Return the earlier node that a node's only colocation label names, in a tuple; empty without such a node."""
        labels = node.attrs.get("_class", ())
        if len(labels) != 1 or not str(labels[0]).startswith("loc:@"):
            return ()
        found = self._builder.graph.ids.get(labels[0].removeprefix("loc:@"))
        return () if found is None else (found,)

    def _initializer(self, first: int) -> ScopedItem | None:
        node, builder = self._nodes[first], self._builder
        if node.op != "NoOp" or not node.control_inputs or not self._starts.issuperset(node.control_inputs):
            return None
        full = node.name.rpartition("/")[0] if node.name.endswith("/NoOp") else node.name
        scope, _, name = full.rpartition("/")
        try:
            with builder.attempt(), builder.name_scope(scope + "/" if scope else None):
                made = add_global_initializer(builder, name)
                end = self._check(first)
                awaited = {i for one in builder.graph.nodes[first:] for i in one.control_inputs}
                if self.marks and not self.marked.issuperset(awaited):
                    raise _ItemMismatch("a node that is not marked")
        except GraphBuildError:
            return None
        return ScopedItem(first, end, self._nodes[made.id], self._nodes[made.id].device, is_initializer=True)

    # --- nodes ------------------------------------------------------------------------------------------------------

    def _with_literals(self, first: int) -> ScopedItem | None:
        """Return an op's entry with literals, if the nodes from `first` on are constants and reads in its scope; else None."""
        owner = self._nodes[first].name.rpartition("/")[0]
        if not owner or self._nodes[first].op not in _LITERALS:
            return None
        at = first
        while at < len(self._nodes) and self._nodes[at].name.startswith(owner + "/"):
            if self._nodes[at].op not in _LITERALS:
                return None
            at += 1
        if at == len(self._nodes) or self._nodes[at].name != owner:
            return None
        node = self._nodes[at]
        made = {part.id: self._as_input(part) for part in self._nodes[first:at]}
        if any(value is None for value in made.values()) or not made.keys() <= set(node.input_nodes):
            return None
        inputs = tuple(made.get(ref.node, ref) for ref in node.inputs)
        named = tuple(self._variable_value(value) if isinstance(value, TensorRef) else value for value in inputs)
        return self._try_node(node, named, first) or self._try_node(node, inputs, first)

    def _as_input(self, part: Node) -> Any:
        """Return the literal of a constant, or the variable of a read; None for another node."""
        if part.op in VARIABLE_READS:
            return self._builder.variables.get(part.input_nodes[0])
        tensor = part.attrs.get("value")
        if part.control_inputs or not isinstance(tensor, TensorValue) or tensor.array.size > _MOST_LITERAL_ELEMENTS:
            return None
        literal = literal_of(tensor)
        if literal is None and tensor.array.size:
            literal = tensor.array.tolist() if tensor.dtype.is_integer else None
        return None if literal is None or _has_texts(literal) else literal

    def _node(self, node: Node) -> ScopedItem:
        found = self._try_node(node, tuple(self._variable_value(ref) for ref in node.inputs), node.id)
        found = found or self._try_node(node, tuple(node.inputs), node.id)
        return found or self._raw_item(node)

    def _raw_item(self, node: Node) -> ScopedItem:
        self.raw.add(node.id)
        self._keep(node)
        return ScopedItem(node.id, node.id + 1, node, is_raw=True)

    def _keep(self, node: Node) -> None:
        """Add a node unchanged, outside the scopes."""
        self._builder.note_name(node.name)
        self._builder.graph.add(
            node.name, node.op, node.attrs, node.input_nodes, node.input_slots, node.control_inputs, node.device
        )

    def _variable_value(self, ref: TensorRef) -> Any:
        """Return the variable whose value a tensor is; the tensor itself if it is not a variable's value."""
        found = self._values.get(ref.node) or self._builder.variables.get(ref.node)
        return ref if found is None or ref.slot else found

    def _try_node(self, node: Node, inputs: Sequence[Any], first: int) -> ScopedItem | None:
        if node.op not in self._builder.graph.functions:
            definition = self._builder.registry.op(node.op)
            if definition is None:
                return None
            try:
                check_not_removed(definition, self._builder.registry.rules.producer)
            except UnimplementedError:
                return None
        for attrs, colocated, device in self._forms(node):
            try:
                with self._builder.attempt():
                    self._add(node, inputs, attrs, colocated, device)
                    end = self._check(first, node.id + 1)
            except GraphBuildError:
                continue
            return ScopedItem(first, end, node, device, tuple(inputs), node.control_inputs, attrs, colocated)
        return None

    def _forms(self, node: Node) -> Iterator[tuple[dict[str, Any], int | None, str | None]]:
        """Yield the attrs, the colocated node and the device of possible entries for a node, the shortest first."""
        ignored = {AWAITED} if self._is_mark_known(node) else set()
        given = {name: value for name, value in node.attrs.items() if name not in ignored}
        inferred = {name for name in given if self._is_inferred(node, name)}
        few = {name: value for name, value in given.items() if name not in inferred and name != "_class"}
        is_tied = True in node.signature.input_is_ref
        if is_tied or "_class" not in given:
            yield few, None, None if is_tied else node.device
        if "_class" in given:
            for label in self._labelled(node):
                yield few, label, None
            yield {**few, "_class": given["_class"]}, None, None if is_tied else node.device
        yield given, None, None if is_tied else node.device

    def _is_inferred(self, node: Node, attr: str) -> bool:
        definition = node.signature.definition
        if definition is None:
            called = self._builder.graph.functions.get(node.op)
            return called is not None and any(attr == arg.type_attr for arg in called.inputs)
        return any(attr in (arg.type_attr, arg.number_attr, arg.type_list_attr) for arg in definition.inputs)

    def _add(
        self, node: Node, inputs: Sequence[Any], attrs: Mapping[str, Any], colocated: int | None, device: str | None
    ) -> None:
        builder = self._builder
        with ExitStack() as scopes:
            if colocated is not None:
                scopes.enter_context(builder.colocate_with([colocated]))
            if device:
                scopes.enter_context(builder.device(as_scope(device)))
            full = builder.claim_name(node.op, node.name + "/")
            if node.op == "Const":
                more = {name: value for name, value in attrs.items() if name not in ("value", "dtype")}
                builder.add_constant(full, node.attrs["value"], builder.intern("Const", more), node.control_inputs, 0)
                return
            later = [i for i in node.input_nodes if i >= node.id]
            known = next((ref for ref in inputs if not isinstance(ref, TensorRef) or ref.node < node.id), None)
            made = builder.add_named(
                node.op,
                full,
                [known if isinstance(ref, TensorRef) and ref.node >= node.id else ref for ref in inputs],
                builder.intern(node.op, dict(attrs)),
                node.control_inputs,
                0,
            )
            if later:
                made.input_nodes, made.input_slots = node.input_nodes, node.input_slots


def as_scope(device: str) -> str | DeviceFunction:
    """Return an argument of `ScopedGraphBuilder.device` that gives nodes exactly this request."""
    return make_device_function(device) if device_key(device).__class__ is dict else device


@cache
def device_key(device: str) -> str | dict[str, str]:
    """Return a device as an entry has it: in short form, or as `{text: D}` if a scope would change its text."""
    short = short_device(device)
    try:
        return short if format_spec(parse_python_spec(short)) == device else {"text": device}
    except GraphBuildError:
        return {"text": device}


def _has_texts(value: Any) -> bool:
    return any(map(_has_texts, value)) if isinstance(value, list) else isinstance(value, str)
