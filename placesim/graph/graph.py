"""The graph: nodes with integer ids, their edges, and the function library.

A node's id is its index in GraphDef order. `Graph.runtime_order` gives the order in which TensorFlow's runtime numbers the
nodes (6.5), which is the order of placement and of the log.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import chain
from operator import attrgetter
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, TypeAlias
from weakref import WeakKeyDictionary

from placesim.core.dtypes import RESOURCE, DataType
from placesim.core.errors import InvalidArgumentError, Location
from placesim.core.grouped import numbered
from placesim.core.releases import CURRENT
from placesim.ops.attributes import Attrs, AttrValue, as_held_by_kernel
from placesim.ops.categories import MERGES, NEXT_ITERATIONS
from placesim.ops.definitions import OpDef
from placesim.ops.registry import Registry, load_registry

if TYPE_CHECKING:
    import numpy as np

COLUMNS = 4096
"""Factor of packed locations, `line * COLUMNS + column`; a larger column is stored as the largest possible column."""
FILE_POSITIONS = 1 << 40
"""Offset of locations in further files: n times this number is added to a location in the n-th further file."""


class TensorRef(NamedTuple):
    """An output of a node."""

    node: int
    slot: int


_NO_ATTRS: Attrs = {}
_MOST_SHARED = 20_000
"""Number of signatures that graphs share at most."""


class NodeDef(NamedTuple):
    """A node with names in place of ids, as in a GraphDef or function body.

    Inputs are `x`, `x:1` or `^x`; in a body, `x:output_arg:0`.
    """

    name: str
    op: str
    inputs: tuple[str, ...] = ()
    device: str = ""
    attrs: Attrs = _NO_ATTRS
    location: int = 0


class Signature:
    """The op and types of a node. Nodes with equal op and types share one signature.

    `attrs` holds only attrs that determine types and kernels. `definition` is None for an op that is not registered, such as a
    function's name. `defaults` are those of all attrs, and `kernel_defaults` the same as kernels read them.
    """

    __slots__ = (
        "attrs",
        "defaults",
        "definition",
        "input_dtypes",
        "input_is_ref",
        "kernel_defaults",
        "op",
        "output_dtypes",
        "output_is_ref",
        "tied_inputs",
    )

    def __init__(
        self,
        op: str,
        definition: OpDef | None,
        attrs: Attrs,
        inputs: Sequence[tuple[DataType, bool]],
        outputs: Sequence[tuple[DataType, bool]],
    ) -> None:
        self.op = op
        self.definition = definition
        self.attrs = attrs
        self.input_dtypes = tuple(dtype for dtype, _ in inputs)
        self.input_is_ref = tuple(is_ref for _, is_ref in inputs)
        self.output_dtypes = tuple(dtype for dtype, _ in outputs)
        self.output_is_ref = tuple(is_ref for _, is_ref in outputs)
        self.tied_inputs = tuple(i for i, (dtype, is_ref) in enumerate(inputs) if is_ref or dtype is RESOURCE)
        self.defaults: Attrs = {} if definition is None else definition.defaults()
        self.kernel_defaults: Attrs = {name: as_held_by_kernel(value) for name, value in self.defaults.items()}

    @property
    def is_stateful(self) -> bool:
        return self.definition is not None and self.definition.is_stateful

    @property
    def is_generator(self) -> bool:
        """Whether the node has no data inputs and exactly one output, which is not a reference (0.2)."""
        return not self.input_dtypes and len(self.output_dtypes) == 1 and not self.output_is_ref[0]

    @property
    def is_resource_generator(self) -> bool:
        """Whether the node has no data inputs and exactly one output, a reference or a resource (5.3d)."""
        return (
            not self.input_dtypes
            and len(self.output_dtypes) == 1
            and (self.output_is_ref[0] or self.output_dtypes[0] is RESOURCE)
        )


class Node:
    """A node of a graph. `attrs` has only the attrs that the graph gives, without defaults; nodes may share this mapping."""

    __slots__ = ("attrs", "control_inputs", "device", "id", "input_nodes", "input_slots", "location", "name", "signature")

    def __init__(
        self,
        node_id: int,
        name: str,
        signature: Signature,
        attrs: Attrs,
        input_nodes: tuple[int, ...] = (),
        input_slots: tuple[int, ...] = (),
        control_inputs: tuple[int, ...] = (),
        device: str = "",
        location: int = 0,
    ) -> None:
        self.id = node_id
        self.name = name
        self.signature = signature
        self.attrs = attrs
        self.input_nodes = input_nodes
        self.input_slots = input_slots
        self.control_inputs = control_inputs
        self.device = device
        self.location = location

    @property
    def op(self) -> str:
        return self.signature.op

    @property
    def inputs(self) -> Iterator[TensorRef]:
        return map(TensorRef, self.input_nodes, self.input_slots)

    def __repr__(self) -> str:
        return f"<Node {self.id} {self.name} ({self.op})>"


class FunctionArg(NamedTuple):
    """An argument or result of a function: a tensor of a fixed type, or of a type that an attr of the function gives."""

    name: str
    dtype: DataType | None = None
    type_attr: str | None = None
    value: str = ""


@dataclass(frozen=True, slots=True)
class LibraryFunction:
    """An entry of the function library. The `value` of a result is the name of a body's tensor (`node:output_arg:index`)."""

    name: str
    inputs: tuple[FunctionArg, ...]
    outputs: tuple[FunctionArg, ...]
    nodes: tuple[NodeDef, ...]
    control_outputs: Mapping[str, str] = field(default_factory=dict)
    attrs: Attrs = field(default_factory=dict)


class DeviceScope(NamedTuple):
    """A `device` scope around the nodes with ids [first, end): its text as written (None clears), and its location."""

    first: int
    end: int
    device: str | None
    location: int


class SignatureTable:
    """A table with one signature per op and types. `functions` gives the types of ops that are function names.

    Graphs of one registry share the signatures of its ops, if types and numbers alone determine them.
    """

    def __init__(self, registry: Registry, functions: Mapping[str, LibraryFunction]) -> None:
        self._registry = registry
        self._functions = functions
        self._signatures: dict[tuple[AttrValue, ...], Signature] = {}

    def all(self) -> Iterable[Signature]:
        """Return all signatures in use."""
        return self._signatures.values()

    def signature(self, op: str, attrs: Attrs) -> Signature:
        """Return the signature of a node; `attrs` may lack attrs that have a default."""
        names = self._registry.deciding_attrs(op)
        key = (op, *map(attrs.get, names))
        found = self._signatures.get(key)
        if found is None:
            found = self._signatures[key] = self._find(key, names, attrs)
        return found

    def _find(self, key: tuple[AttrValue, ...], names: Sequence[str], attrs: Attrs) -> Signature:
        op = str(key[0])
        definition = self._registry.op(op)
        if definition is None:
            function = self._functions.get(op)
            args, results = ((), ()) if function is None else (function.inputs, function.outputs)
            return Signature(op, None, {}, _function_types(args, attrs), _function_types(results, attrs))
        if not all(map(_is_distinct, key[1:])):
            return _make_signature(definition, names, attrs)
        shared = _SHARED.setdefault(self._registry, {})
        found = shared.get(key)
        if found is None:
            if len(shared) >= _MOST_SHARED:
                shared.clear()
            found = shared[key] = _make_signature(definition, names, attrs)
        return found


_SHARED: WeakKeyDictionary[Registry, dict[tuple[AttrValue, ...], Signature]] = WeakKeyDictionary()


def _is_distinct(value: AttrValue) -> bool:
    """Whether an attr is equal to none of another type, as True is to 1."""
    if type(value) is tuple:
        return all(type(item) is DataType for item in value)
    return value is None or type(value) in (DataType, int)


def _make_signature(definition: OpDef, names: Sequence[str], attrs: Attrs) -> Signature:
    deciding: dict[str, AttrValue] = {}
    for name in names:
        if name in attrs:
            deciding[name] = attrs[name]
        elif name in definition.attrs and definition.attrs[name].has_default:
            deciding[name] = definition.attrs[name].default
    inputs, outputs = (
        [(dtype, arg.is_ref) for arg in args for dtype in arg.dtypes(deciding)]
        for args in (definition.inputs, definition.outputs)
    )
    return Signature(definition.name, definition, deciding, inputs, outputs)


def _function_types(args: Sequence[FunctionArg], attrs: Attrs) -> list[tuple[DataType, bool]]:
    return [(arg.dtype or attrs[arg.type_attr or ""], False) for arg in args]


NodeClass = tuple[Signature, str, bool]
"""A signature and requested device of nodes, and whether they have the attr `_class`, which may hold labels."""
Integers: TypeAlias = "np.ndarray[Any, np.dtype[np.int64]]"


class NodeClasses(NamedTuple):
    """The distinct classes of a graph's nodes, and each node's index among them."""

    classes: Sequence[NodeClass]
    numbers: Integers


class UnmadeNodes(Protocol):
    """Nodes of a file, with the ids from 0 on, before anybody has asked for them as objects. Each comes after its inputs."""

    def __len__(self) -> int: ...

    def make(self) -> list[Node]:
        """Return the nodes as objects."""

    def node(self, node_id: int) -> Node:
        """Return a copy of a single node."""

    def names(self) -> Sequence[str]:
        """Return the names of the nodes."""

    def classes(self) -> NodeClasses:
        """Return the classes of the nodes."""

    def edges_from(self, sources: bytearray) -> Iterator[tuple[int, int]]:
        """Yield the source and the reader of each edge from the nodes with a byte other than 0, sorted by reader."""


class Origin(NamedTuple):
    """The source of a node made by lowering: the path `call/f/x` for node x of the called function f.

    Nodes that lowering adds around bodies have the path `call/`, and empty `function` and `node`. Otherwise `function` is the
    function's name, and `node` the node's name in it.
    """

    path: str
    function: str = ""
    node: str = ""


class Graph:
    """Nodes in GraphDef order, found by id or name.

    `file` is the file that locations refer to, and `files` are further files, such as the modules of a script. `gradients_of`
    maps the name of each node in a gradient to the forward node whose gradient it computes. `device_scopes` are the scopes of a
    graph file, inner ones first. `scope_lines` has the lines of a script that were running when a name scope was first opened,
    packed as `Node.location`, the innermost first. `versions` are the producer and minimal consumer of a converted GraphDef.

    `unmade` has the nodes of a GraphDef until somebody asks for `nodes`. `peek`, `names`, `classes` and `edges_from` leave them
    unmade, which is faster and takes less memory.

    `runtime_ids` is set only on a graph that the runtime has changed: its nodes are in the runtime's order, and `runtime_ids`
    has the runtime's numbers of these nodes. `origins` maps nodes made by lowering to their sources.

    `handles` maps each id of a graph file to the names of its nodes. `tensors` maps ids with several outputs to the names of
    these tensors. `values` maps ids of resource variables to the nodes that read their values.
    """

    def __init__(self, registry: Registry, functions: Mapping[str, LibraryFunction] | None = None, file: str = "") -> None:
        self.registry = registry
        self.functions = dict(functions or {})
        self.file = file
        self.files: list[str] = []
        self.gradients_of: dict[str, str] = {}
        self.versions: dict[str, int] = {}
        self.device_scopes: list[DeviceScope] = []
        self.scope_lines: dict[str, tuple[int, ...]] = {}
        self.unmade: UnmadeNodes | None = None
        self.ids: dict[str, int] = {}
        self.signatures = SignatureTable(registry, self.functions)
        self.runtime_ids: list[int] | None = None
        self.handles: dict[str, tuple[str, ...]] = {}
        self.tensors: dict[str, tuple[str, ...]] = {}
        self.values: dict[str, str] = {}
        self.origins: dict[str, Origin] = {}

    @cached_property
    def nodes(self) -> list[Node]:
        """The nodes by id."""
        unmade, self.unmade = self.unmade, None
        return [] if unmade is None else unmade.make()

    def __len__(self) -> int:
        return len(self.nodes if self.unmade is None else self.unmade)

    def hold(self, unmade: UnmadeNodes) -> None:
        """Let these be the nodes of a graph without nodes until somebody asks for `nodes`. Does nothing if somebody has."""
        if "nodes" not in self.__dict__ and self.unmade is None:
            self.unmade = unmade

    def peek(self, node_id: int) -> Node:
        """Return a node to look at; changes of it may be lost."""
        return self.nodes[node_id] if self.unmade is None else self.unmade.node(node_id)

    def names(self) -> Sequence[str]:
        """Return the names of the nodes."""
        return [node.name for node in self.nodes] if self.unmade is None else self.unmade.names()

    def classes(self) -> NodeClasses:
        """Return the classes of the nodes."""
        if self.unmade is not None:
            return self.unmade.classes()
        import numpy as np

        classes, numbers = numbered((node.signature, node.device, "_class" in node.attrs) for node in self.nodes)
        return NodeClasses(classes, np.array(numbers, np.int64))

    def edges_from(self, sources: bytearray) -> Iterator[tuple[int, int]]:
        """Yield the source and the reader of each edge from the nodes with a byte other than 0, sorted by reader."""
        if self.unmade is not None:
            yield from self.unmade.edges_from(sources)
            return
        for node in self.nodes:
            for i in node.input_nodes:
                if sources[i]:
                    yield i, node.id
            for i in node.control_inputs:
                if sources[i]:
                    yield i, node.id

    def node(self, name: str) -> Node:
        """Return the node called `name`. Raises KeyError if there is none."""
        return self.nodes[self.ids[name]]

    def spelled_out(self, text: str) -> tuple[str, ...]:
        """Return the names of the tensors or nodes of an id (`id`, `id:1`); any other text is returned unchanged."""
        if text in self.tensors:
            return self.tensors[text]
        name, _ = split_tensor_name(text)
        return tuple(full + text[len(name) :] for full in self.handles.get(name, (name,)))

    def add(
        self,
        name: str,
        op: str,
        attrs: Attrs,
        input_nodes: tuple[int, ...] = (),
        input_slots: tuple[int, ...] = (),
        control_inputs: tuple[int, ...] = (),
        device: str = "",
        location: int = 0,
    ) -> Node:
        """Append a node; its name must be new. Inputs are node ids; in loops, their nodes may be added later."""
        signature = self.signatures.signature(op, attrs)
        node_id = len(self.nodes)
        node = Node(node_id, name, signature, attrs, input_nodes, input_slots, control_inputs, device, location)
        self.nodes.append(node)
        self.ids[name] = node_id
        return node

    def extend(self, node_defs: Sequence[NodeDef]) -> None:
        """Append nodes whose inputs are given by name; the inputs may be later nodes.

        Raises KeyError for an input that does not exist. The caller has checked names, ops and attrs.
        """
        first = len(self.nodes)
        ids = self.ids
        for offset, node_def in enumerate(node_defs):
            ids[node_def.name] = first + offset
        for node_def in node_defs:
            nodes, slots, controls = [], [], []
            for text in node_def.inputs:
                if text.startswith("^"):
                    controls.append(ids[text[1:]])
                else:
                    name, slot = split_tensor_name(text)
                    nodes.append(ids[name])
                    slots.append(slot)
            self.add(
                node_def.name,
                node_def.op,
                node_def.attrs,
                tuple(nodes),
                tuple(slots),
                tuple(controls),
                node_def.device,
                node_def.location,
            )

    def location(self, node: Node) -> Location | None:
        """Return the location of a node in its file; None if unknown."""
        return self.located(node.location)

    def located(self, position: int) -> Location | None:
        """Return the line and column of a packed location in the graph's files; None for 0."""
        if not position:
            return None
        index, place = divmod(position, FILE_POSITIONS)
        return Location(self.files[index - 1] if index else self.file, *divmod(place, COLUMNS))

    def full_attrs(self, node: Node) -> dict[str, AttrValue]:
        """Return a node's attrs, including defaults."""
        return {**node.signature.defaults, **node.attrs}

    def kernel_attrs(self, node: Node) -> dict[str, AttrValue]:
        """Return a node's attrs in the form that placesim's kernels read.

        Floats are float32, and missing attrs have the defaults of the current release.
        """
        given = {name: as_held_by_kernel(value) for name, value in node.attrs.items()}
        defaults = node.signature.kernel_defaults
        later = None if self.registry.rules is CURRENT else load_registry().op(node.op)
        if later is not None:
            defaults = {**{name: as_held_by_kernel(value) for name, value in later.defaults().items()}, **defaults}
        return {**defaults, **given}

    def input_texts(self, node: Node, controls: Sequence[int] | None = None) -> list[str]:
        """Return a node's inputs in NodeDef notation, with its control inputs in the order of `controls`, if given."""
        texts = [self.tensor_name(ref) for ref in node.inputs]
        return texts + ["^" + self.nodes[i].name for i in (node.control_inputs if controls is None else controls)]

    def tensor_name(self, ref: TensorRef) -> str:
        """Return a tensor's name: `x`, or `x:1` for an output that is not the first."""
        name = self.nodes[ref.node].name
        return f"{name}:{ref.slot}" if ref.slot else name

    def tensor_name_full(self, ref: TensorRef) -> str:
        """Return a tensor's name with the index, such as `x:0`."""
        return f"{self.nodes[ref.node].name}:{ref.slot}"

    def runtime_order(self) -> Sequence[int]:
        """Return node ids in the order in which TensorFlow's runtime numbers them (6.5.2).

        The next node is always the one with the smallest index among those whose inputs are all numbered. A `Merge` waits for
        one data input and its control inputs. Nodes on a cycle that no Merge breaks are left out (`find_cycle` names them).
        """
        if self.runtime_ids is not None or self._is_in_order():
            return range(len(self))
        waiting = [self._inputs_to_wait_for(node) for node in self.nodes]
        ready = [node.id for node in self.nodes if not waiting[node.id]]
        consumers = self.consumers()
        order: list[int] = []
        while ready:
            node_id = heapq.heappop(ready)
            order.append(node_id)
            for consumer in consumers[node_id]:
                waiting[consumer] -= 1
                if waiting[consumer] == 0:
                    heapq.heappush(ready, consumer)
        return order

    def _is_in_order(self) -> bool:
        """Whether every node comes after its inputs."""
        for own, node in enumerate(() if self.unmade is not None else self.nodes):
            for i in node.input_nodes:
                if i >= own:
                    return False
            if node.control_inputs and max(node.control_inputs) >= own:
                return False
        return True

    def _inputs_to_wait_for(self, node: Node) -> int:
        # a Merge of a loop does not wait for the next iteration, which depends on it (6.5.2)
        is_loop_merge = node.op in MERGES and any(self.nodes[i].op in NEXT_ITERATIONS for i in node.input_nodes)
        return (1 if is_loop_merge else len(node.input_nodes)) + len(node.control_inputs)

    def is_back_edge(self, source: int, node: Node) -> bool:
        """Whether an input closes a loop: from a `NextIteration` into a `Merge`."""
        return node.op in MERGES and self.nodes[source].op in NEXT_ITERATIONS

    def in_runtime_order(self) -> Graph:
        """Return the graph with its nodes in `runtime_order`.

        Raises InvalidArgumentError if nodes are left out, because of a cycle without `Merge` or a loop that nothing enters.
        """
        order = self.runtime_order()
        if len(order) < len(self):
            error = InvalidArgumentError(f"{len(self) - len(order)} nodes in a cycle")
            cycle = self.find_cycle()
            error.help = () if cycle is None else (f"cycle: {' -> '.join(cycle)}",)
            raise error
        return self.in_order(order)

    def in_order(self, order: Sequence[int]) -> Graph:
        """Return the graph with only the nodes of `order`, renumbered: node `order[i]` becomes i. `order` must also
        have all inputs of these nodes.
        """
        if order == range(len(self)):
            return self
        ids = {old: new for new, old in enumerate(order)}
        graph = self.emptied()
        for old in order:
            node = self.nodes[old]
            graph.add(
                node.name,
                node.op,
                node.attrs,
                tuple(ids[i] for i in node.input_nodes),
                node.input_slots,
                tuple(ids[i] for i in node.control_inputs),
                node.device,
                node.location,
            )
        return graph

    def copied(self) -> Graph:
        """Return a copy that can be extended: it shares the nodes with this graph, but not the lists of nodes."""
        graph = self.emptied()
        graph.nodes, graph.ids = self.nodes.copy(), self.ids.copy()
        graph.device_scopes = self.device_scopes
        return graph

    def emptied(self) -> Graph:
        """Return a graph that has no nodes, but shares everything else with this one."""
        graph = Graph(self.registry, self.functions, self.file)
        graph.functions = self.functions
        graph.signatures = self.signatures
        graph.versions = self.versions
        graph.files, graph.gradients_of = self.files, self.gradients_of
        graph.handles, graph.tensors, graph.values = self.handles, self.tensors, self.values
        return graph

    def consumers(self) -> list[list[int]]:
        """Return for each node the ids of the nodes that read it, with one id per edge.

        The ids are sorted, with data edges before control edges.
        """
        found: list[list[int]] = [[] for _ in self.nodes]
        for node in self.nodes:
            for i in node.input_nodes:
                found[i].append(node.id)
            for i in node.control_inputs:
                found[i].append(node.id)
        return found

    def sinks(self) -> list[Node]:
        """Return the nodes that no other node reads or waits for."""
        is_read = bytearray(len(self.nodes))
        for inputs in (attrgetter("input_nodes"), attrgetter("control_inputs")):
            for i in chain.from_iterable(map(inputs, self.nodes)):
                is_read[i] = 1
        return [node for node, read in zip(self.nodes, is_read, strict=True) if not read]

    def find_cycle(self) -> list[str] | None:
        """Return the names of the nodes on a cycle without `Merge`, with the first repeated at the end.

        Returns None if there is no such cycle.
        """
        done = bytearray(len(self.nodes))
        for start in range(len(self.nodes)):
            if done[start]:
                continue
            path, iterators = [start], [iter(self._waited_inputs(start))]
            done[start] = 1
            while path:
                following = next(iterators[-1], None)
                if following is None:
                    done[path.pop()] = 2
                    iterators.pop()
                elif done[following] == 1:
                    cycle = [*path[path.index(following) :], following]
                    return [self.nodes[i].name for i in reversed(cycle)]
                elif not done[following]:
                    done[following] = 1
                    path.append(following)
                    iterators.append(iter(self._waited_inputs(following)))
        return None

    def _waited_inputs(self, node_id: int) -> Sequence[int]:
        node = self.nodes[node_id]
        inputs = (*node.input_nodes, *node.control_inputs)
        return [i for i in inputs if not self.is_back_edge(i, node)] if node.op in MERGES else inputs


MAX_SLOT_DIGITS = 10


def split_tensor_name(text: str) -> tuple[str, int]:
    """Split a tensor's name: `x:1` gives `("x", 1)`, and `x` gives `("x", 0)`."""
    name, colon, slot = text.rpartition(":")
    return (name, int(slot)) if colon and slot.isascii() and slot.isdigit() and len(slot) < MAX_SLOT_DIGITS else (text, 0)
