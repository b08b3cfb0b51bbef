"""Recomputation: gradients read copies of forward nodes, so that the forward pass frees its tensors (Chen et al. 2016).

The forward pass is cut into segments. Tensors that leave a segment are kept. The copies of a segment's nodes wait for the
gradients that enter the segment, and read only kept tensors and each other.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from itertools import accumulate, pairwise
from math import prod
from types import MappingProxyType

from placesim.core.errors import UsageError
from placesim.core.grouped import grouped
from placesim.graph.graph import Node, NodeDef, TensorRef
from placesim.graph.node_patterns import did_you_mean_node
from placesim.graph.session_steps import GraphFile
from placesim.inspection.memory_categories import find_origin, find_written_variable
from placesim.ops.categories import CONSTANTS, CONTROL_FLOW, SHAPE_OPS
from placesim.ops.kernels import has_trait
from placesim.ops.kernels.kernel import Trait
from placesim.ops.kernels.shapes import Dims, is_fully_defined
from placesim.planning.strategies.node_writer import NodeWriter
from placesim.planning.strategies.segment_cuts import cut_segments
from placesim.planning.strategies.training_graph import (
    Edges,
    TrainingGraph,
    find_conditional_nodes,
    list_names,
    reachable,
)
from placesim.runtime.shapes.graph_shapes import GraphShapes

SQRT, AUTO = "sqrt", "auto"
"""Words for the number of segments: the square root of the number of tensors, and the number with the least predicted peak."""
COPIES = "recompute"
"""Scope of the copies."""
MAX_DIGITS = 7
_NOTHING: Mapping[TensorRef, Dims] = MappingProxyType({})


class NothingToRecomputeError(UsageError):
    """Raised when no forward node of the segments can be recomputed."""

    @property
    def type_name(self) -> str:
        return UsageError.__name__


class Recomputation:
    """The copies of forward nodes that gradients read. Raises UsageError for an unknown scope, or if nothing can be copied.

    - `copies`: for each copied node, the backward nodes that its copy waits for.
    - `readers`: the backward nodes that read copies.
    - `kept`: forward nodes whose original outputs are still read by gradients or copies.
    - `segments`: the number of segments with copies.
    - `notes`: sentences about scopes without copies, and about unknown sizes.
    - `waits`: for each node that writes a variable, the copies that must read the variable before the write.

    `chosen` has scopes, or one word: a number of segments, or `SQRT`. `fed` has the known shapes of fed tensors. `stage_of` has
    the nodes' stages in a pipeline; segments are cut at stages, so no stage needs copies of another stage.
    """

    def __init__(
        self,
        training: TrainingGraph,
        chosen: Sequence[str],
        fed: Mapping[TensorRef, Dims] = _NOTHING,
        stage_of: Mapping[int, int] = MappingProxyType({}),
    ) -> None:
        self.graph = training.graph
        self._shapes = GraphShapes(self.graph)
        for ref, dims in fed.items():
            self._shapes.settle(ref.node, dims, ref.slot)
        self._unknown: list[Node] = []
        self.copies: dict[int, tuple[int, ...]] = {}
        self.readers: set[int] = set()
        self.waits: dict[int, list[int]] = {}
        self.segments = 0
        self._conditional = find_conditional_nodes(self.graph)
        self._backward = {number: training.forward_node(self.graph.nodes[number]) for number in training.backward}
        self._later = self.graph.consumers()
        self._writers = _find_writers(training, self._later)
        sources = [(*node.input_nodes, *node.control_inputs) for node in self.graph.nodes]
        self._before = reachable(sources, self._backward)
        members = frozenset(training.forward)
        order = [self.graph.nodes[number] for number in self.graph.runtime_order() if number in members]
        forward = [node for node in order if node.op not in CONSTANTS]
        self._forward = frozenset(node.id for node in forward)
        self._data_readers: dict[int, set[int]] = {}
        for node in self.graph.nodes:
            for number in node.input_nodes:
                self._data_readers.setdefault(number, set()).add(node.id)
        has_cuts = tuple(chosen) == (SQRT,) or (len(chosen) == 1 and is_segment_count(chosen[0]))
        segments = {} if has_cuts else _cut_at_stages(_named_segments(forward, chosen), stage_of)
        for stage, nodes in _by_stage(forward, stage_of).items() if has_cuts else ():
            is_last = stage == max(stage_of.values(), default=None)
            parts = self._cut(nodes, None if chosen[0] == SQRT else int(chosen[0]), is_last=is_last)
            segments |= {f"{stage}/{name}": part for name, part in parts.items()}
        empty = [name for name, segment in segments.items() if not self._add(segment)]
        if not self.copies:
            raise NothingToRecomputeError(
                f"nothing to recompute: got {len(forward)} forward nodes, expected nodes that are neither random, "
                "stateful nor in branches or loops, and whose outputs are read after their segment only by gradients"
            )
        self.notes = () if has_cuts else tuple(f"nothing to recompute in {name}/" for name in empty)
        if self._unknown:
            self.notes = (f"unknown dimensions count as 1 for the bytes of segments: {list_names(self._unknown)}",)
        self.kept = self._find_kept()

    @cached_property
    def copy_names(self) -> dict[int, str]:
        """The name of each node's copy."""
        writer = NodeWriter(self.graph.ids)
        return {number: writer.unique(f"{COPIES}/{self.graph.nodes[number].name}") for number in sorted(self.copies)}

    def _cut(self, nodes: Sequence[Node], count: int | None, *, is_last: bool) -> dict[str, Sequence[Node]]:
        """Return the segments of a stage.

        The last segment of the last stage is left out, since its gradients are computed first, while its tensors are still in
        memory.
        """
        places = {node.id: place for place, node in enumerate(nodes)}
        sizes = {node.id: self._size(node) for node in nodes if self._buffer(node.id) is node}
        readers = (self.graph.nodes[number] for number in self._backward if self._reads_values(number))
        read = {self._buffer(number).id for reader in readers for number in reader.input_nodes}
        held = [sizes.get(node.id, 0) if node.id in read else 0 for node in nodes]
        starts = cut_segments(held, self._leaving_bytes(places, sizes), count)
        return {str(start): nodes[start:end] for start, end in pairwise([*starts] if is_last else [*starts, len(nodes)])}

    def _leaving_bytes(self, places: Mapping[int, int], sizes: Mapping[int, int]) -> list[int]:
        """Return for each place in the order of nodes the bytes of buffers that are made before it, and read at it or later."""
        last: dict[int, int] = {}
        end = len(places)
        for number in places:
            buffer, readers = self._buffer(number).id, self._data_readers.get(number, ())
            last[buffer] = max(last.get(buffer, 0), max((places.get(i, end) for i in readers if i in self._forward), default=0))
        changes = [0] * (end + 2)
        for number, size in sizes.items():
            if last[number] > places[number]:
                changes[places[number] + 1] += size
                changes[last[number] + 1] -= size
        return [*accumulate(changes[:-1])]

    def _size(self, node: Node) -> int:
        """Return the bytes of a node's outputs, where an unknown dimension counts as 1."""
        total = 0
        for dims, dtype in zip(self._shapes.outputs(node.id), node.signature.output_dtypes, strict=True):
            total += prod(max(dim, 1) for dim in dims or ()) * dtype.size
        if self._shapes.outputs(node.id)[:1] and not is_fully_defined(self._shapes.outputs(node.id)[0]):
            self._unknown.append(node)
        return total

    def _buffer(self, number: int) -> Node:
        """Return the node that makes the buffer of a node's output."""
        origin = find_origin(self.graph, number)
        while has_trait(origin.op, Trait.SHARES_MEMORY):
            origin = find_origin(self.graph, origin.input_nodes[0])
        return origin

    def _add(self, nodes: Sequence[Node]) -> bool:
        """Add the copies of a segment, and return whether there are any."""
        segment = frozenset(node.id for node in nodes)
        ids = {node.id for node in nodes if self._can_be_copied(node, segment)}
        read = {number: [i for i in self._data_readers.get(number, ()) if self._reads_values(i)] for number in ids}
        readers = {i for numbers in read.values() for i in numbers}
        starts = self._entering_gradients(segment, readers)
        if not readers or not starts:
            return False
        waiting = [number for number, numbers in read.items() if numbers]
        copied = set(waiting)
        while waiting:
            new = ids.intersection(self.graph.nodes[waiting.pop()].input_nodes) - copied
            copied |= new
            waiting += new
        for number in sorted(copied):
            node = self.graph.nodes[number]
            self.copies[number] = () if copied.intersection(node.input_nodes) else starts
            for writer in self._later_writers(node):
                self.waits.setdefault(writer, []).append(number)
        for start in starts:
            self._later[start] += readers
        self.readers |= readers
        self.segments += 1
        return True

    def _can_be_copied(self, node: Node, segment: frozenset[int]) -> bool:
        """Whether a node runs once and can run again with the same result, and only gradients and its segment read it."""
        signature = node.signature
        if node.id in self._conditional:
            return False
        if signature.definition is None or signature.is_stateful or node.op in CONTROL_FLOW or any(signature.output_is_ref):
            return False
        if not self._before.isdisjoint(self._later_writers(node)):
            return False  # the gradients wait for a writer, so a copy would read the new value
        return not any(i in self._forward and i not in segment for i in self._data_readers.get(node.id, ()))

    def _reads_values(self, number: int) -> bool:
        return number in self._backward and self.graph.nodes[number].op not in SHAPE_OPS

    def _later_writers(self, node: Node) -> Sequence[int]:
        """Return the nodes of a step that write a variable whose value a node reads."""
        found: list[int] = []
        for number in node.input_nodes:
            found += self._writers.get(self._buffer(number).id, ())
        return found

    def _entering_gradients(self, segment: frozenset[int], readers: set[int]) -> tuple[int, ...]:
        """Return the gradients that a segment's gradients read from other segments, and that do not depend on the copies.

        A copy waits for all of them, so gradients in branches, which may not run, are left out.
        """
        own = readers | {i for i, source in self._backward.items() if source is not None and source.id in segment}
        read = {i for number in own for i in self.graph.nodes[number].input_nodes if i in self._backward and i not in own}
        after = reachable(self._later, readers)
        always = (i for i in read if i not in after and i not in self._conditional)
        return tuple(sorted(i for i in always if self.graph.nodes[i].op not in CONSTANTS))

    def _find_kept(self) -> tuple[int, ...]:
        readers = [i for i in self._backward if self._reads_values(i)]
        read = {i for number in (*readers, *self.copies) for i in self.graph.nodes[number].input_nodes}
        return tuple(sorted((read & self._forward) - self.copies.keys()))


def is_segment_count(text: str) -> bool:
    """Whether a text is a number of segments."""
    return text.isascii() and text.isdecimal() and len(text) < MAX_DIGITS


def _named_segments(nodes: Sequence[Node], scopes: Sequence[str]) -> dict[str, Sequence[Node]]:
    """Return the nodes of each scope; a node of several scopes belongs to the first."""
    found: dict[str, list[Node]] = {scope.rstrip("/"): [] for scope in scopes}
    for node in nodes:
        scope = next((scope for scope in found if node.name.startswith(f"{scope}/")), None)
        if scope is not None:
            found[scope].append(node)
    for scope, members in found.items():
        if not members:
            hint = did_you_mean_node(f"{scope}/", (node.name for node in nodes))
            expected = f"{AUTO}, {SQRT}, a number of segments, or a scope of forward nodes"
            raise UsageError(f"no such scope: got '{scope}' in --recompute, expected {expected}{hint}")
    return dict(found)


def _cut_at_stages(segments: Mapping[str, Sequence[Node]], stage_of: Mapping[int, int]) -> dict[str, Sequence[Node]]:
    """Return the parts of segments in each stage of a pipeline."""
    found: dict[str, Sequence[Node]] = {}
    for name, nodes in segments.items():
        parts = _by_stage(nodes, stage_of)
        found |= {f"{name} in stage {stage}" if len(parts) > 1 else name: part for stage, part in parts.items()}
    return found


def _by_stage(nodes: Sequence[Node], stage_of: Mapping[int, int]) -> dict[int | None, list[Node]]:
    """Return the nodes of each stage of a pipeline; without one, of the stage None."""
    return grouped((stage_of.get(node.id), node) for node in nodes)


def _find_writers(training: TrainingGraph, later: Edges) -> dict[int, list[int]]:
    """Return for each variable the nodes that write it in the same step as the training."""
    found: dict[int, list[int]] = {}
    for number in sorted(reachable(later, (*training.forward, *training.backward))):
        variable = find_written_variable(training.graph, training.graph.nodes[number])
        if variable is not None:
            found.setdefault(variable, []).append(number)
    return found


def recompute(file: GraphFile, recomputation: Recomputation) -> GraphFile:
    """Return the file with the copies."""
    graph, copies = recomputation.graph, recomputation.copies
    names, nodes = recomputation.copy_names, list[NodeDef]()

    def written(name: str, node: Node, reads_copies: bool, after: Iterable[str]) -> NodeDef:
        inputs = graph.input_texts(node)
        for place, (number, slot) in enumerate(node.inputs if reads_copies else ()):
            if number in names:
                inputs[place] = f"{names[number]}:{slot}" if slot else names[number]
        inputs += [f"^{other}" for other in after]
        return NodeDef(name, node.op, tuple(inputs), node.device, node.attrs, node.location)

    for node in graph.nodes:
        after = [names[number] for number in recomputation.waits.get(node.id, ())]
        nodes.append(written(node.name, node, node.id in recomputation.readers, after))
    for number, starts in copies.items():
        node = graph.nodes[number]
        nodes.append(written(names[number], node, True, [graph.nodes[start].name for start in starts]))
    new = graph.emptied()
    new.extend(nodes)
    return replace(file, graph=new.in_runtime_order(), as_read=None)
