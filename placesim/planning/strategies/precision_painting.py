"""The choice of the nodes that are computed in half precision, by the rules of TensorFlow's `auto_mixed_precision`.

1. All ops of the list `ALLOW` are computed in half precision.
2. Ops of `DENY` are computed in float32, and so are dependent ops of `INFER`, and ops of `CLEAR` between them.
3. Other ops of `INFER` and `CLEAR` are computed in half precision if they are between ops of `ALLOW`.
4. Other ops of `INFER` follow an op in half precision whose output they read, unless they also read an output of rule 2.
5. Other ops of `CLEAR` follow if only such ops are between them and an op in half precision.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple

from placesim.core.dtypes import FLOAT, DataType
from placesim.graph.graph import Graph, Node, TensorRef
from placesim.machine.device_names import parse_runtime_name
from placesim.ops.definitions import ArgDef
from placesim.ops.kernel_lookup import find_kernel
from placesim.ops.precision_classes import ALLOW, CLEAR, DENY, INFER


class TypedNode(NamedTuple):
    """A node and one of its tensor types: a type attr, or the name of a fixed type."""

    node: int
    key: str


class PrecisionPainting:
    """`half` are the type attrs that change from float32 to `dtype`, among those of the `members`.

    `has_gpus` says whether nodes without a request are on a GPU. A node changes only if its device has a kernel.
    """

    def __init__(self, graph: Graph, members: Iterable[int], dtype: DataType, *, has_gpus: bool) -> None:
        self._graph = graph
        self._dtype = dtype
        self._usual_device = "GPU" if has_gpus else "CPU"
        self._inputs = [tuple(_keys(node, is_output=False)) for node in graph.nodes]
        self._outputs = [tuple(_keys(node, is_output=True)) for node in graph.nodes]
        self._before: dict[TypedNode, list[TypedNode]] = {}
        self._after: dict[TypedNode, list[TypedNode]] = {}
        typed: dict[TypedNode, None] = {}
        for node in graph.nodes:
            typed |= dict.fromkeys(TypedNode(node.id, key) for key in (*self._inputs[node.id], *self._outputs[node.id]))
            for place, ref in enumerate(node.inputs):
                source, reader = self.made(ref), self.read(node, place)
                self._before.setdefault(reader, []).append(source)
                self._after.setdefault(source, []).append(reader)
        self._typed = tuple(typed)
        processed = frozenset(members)
        self._able = frozenset(own for own in typed if own.node in processed and self._can_change(own))
        self.half = frozenset(self._paint())

    def made(self, ref: TensorRef) -> TypedNode:
        """Return the typed node that makes a tensor."""
        return TypedNode(ref.node, self._outputs[ref.node][ref.slot])

    def read(self, node: Node, place: int) -> TypedNode:
        """Return the typed node that reads an input."""
        return TypedNode(node.id, self._inputs[node.id][place])

    def _can_change(self, own: TypedNode) -> bool:
        node = self._graph.nodes[own.node]
        definition, attrs = node.signature.definition, node.signature.attrs
        if definition is None or attrs.get(own.key) is not FLOAT:
            return False
        allowed = definition.attrs[own.key].allowed
        if allowed is not None and self._dtype not in allowed:
            return False
        asked = parse_runtime_name(node.device)
        kind = (asked and asked.type) or self._usual_device
        registry = self._graph.registry
        if find_kernel(registry, node.op, kind, attrs, node.name) is None:
            kind = "CPU"  # as the placer does
        return find_kernel(registry, node.op, kind, {**attrs, own.key: self._dtype}, node.name) is not None

    def _paint(self) -> set[TypedNode]:
        allowed = [own for own in self._able if self._op(own) in ALLOW]
        denied = self._denied()

        def may_be_between(own: TypedNode) -> bool:
            return own in self._able and own not in denied and self._op(own) in CLEAR | INFER

        later = _reached(allowed, self._after, may_be_between)
        found = _reached(allowed, self._before, later.__contains__)
        for own in self._typed:
            if own in self._able and own not in denied and self._op(own) in INFER:
                sources = self._before.get(own, ())
                if denied.isdisjoint(sources) and not found.isdisjoint(sources):
                    found.add(own)
        around = {own: [*self._before.get(own, ()), *self._after.get(own, ())] for own in self._able}
        found = _reached(found, around, lambda own: own in self._able and own not in denied and self._op(own) in CLEAR)
        casts = (own for own in self._able if self._op(own) == "Cast" and own.key == "DstT")
        return found.union(own for own in casts if own in self._after and found.issuperset(self._after[own]))

    def _denied(self) -> set[TypedNode]:
        """Return the typed nodes of rule 2."""
        ends = [own for own in self._typed if self._op(own) in DENY | INFER]
        towards = _reached(ends, self._before, lambda own: self._op(own) in CLEAR)
        return _reached((own for own in ends if self._op(own) in DENY), self._after, towards.__contains__)

    def _op(self, own: TypedNode) -> str:
        return self._graph.nodes[own.node].op


def _keys(node: Node, *, is_output: bool) -> Iterator[str]:
    """Yield the attr that gives the type of each input or output; for a fixed type, its name."""
    definition, dtypes = node.signature.definition, node.signature.output_dtypes if is_output else node.signature.input_dtypes
    if definition is None:
        yield from (dtype.name for dtype in dtypes)
        return
    for arg in definition.outputs if is_output else definition.inputs:
        yield from _arg_keys(arg, node)


def _arg_keys(arg: ArgDef, node: Node) -> Iterator[str]:
    for i, dtype in enumerate(arg.dtypes(node.signature.attrs)):
        if arg.type_list_attr is not None:
            yield f"{arg.type_list_attr}:{i}"
        else:
            yield arg.type_attr or dtype.name


def _reached(
    starts: Iterable[TypedNode], edges: dict[TypedNode, list[TypedNode]], enters: Callable[[TypedNode], bool]
) -> set[TypedNode]:
    """Return the starts, and all typed nodes that can be reached from them through nodes that `enters` accepts."""
    found = set(starts)
    waiting = [*found]
    while waiting:
        for own in edges.get(waiting.pop(), ()):
            if own not in found and enters(own):
                found.add(own)
                waiting.append(own)
    return found
