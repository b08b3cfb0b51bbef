"""Shapes of the nodes of a step, and the bytes of its tensors."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import prod

from placesim.core.dtypes import FLOAT
from placesim.graph.graph import Graph
from placesim.ops.attributes import Attrs
from placesim.ops.categories import CONSTANTS, VARIABLES
from placesim.ops.kernels import cost_of
from placesim.ops.kernels.cost_model import DISPATCH, VIEW
from placesim.ops.kernels.kernel import Kernel
from placesim.prediction.node_work import NodeShapes
from placesim.runtime.accounting.node_sites import Site
from placesim.runtime.partitioning.pruning import is_step_end
from placesim.runtime.recording.recorder import Execution, TypedShape

_ROOTS = frozenset((*CONSTANTS, *VARIABLES))
_PASSING = (DISPATCH.kind, VIEW.kind)


def node_shapes(site: Site, execution: Execution) -> NodeShapes:
    """Return the shapes of a node in one of its executions."""
    instruction = site.instruction
    return kernel_shapes(instruction.node.op, instruction.kernel, instruction.attrs, execution.inputs, execution.outputs)


def kernel_shapes(
    op: str, kernel: Kernel, attrs: Attrs, taken: tuple[TypedShape, ...], given: tuple[TypedShape, ...]
) -> NodeShapes:
    """Return the shapes of a kernel that takes and gives tensors of these shapes."""
    inputs, outputs = tuple(dims for dims, _ in taken), tuple(dims for dims, _ in given)
    made = (*given, *taken)
    operations = int(kernel.flops(inputs, outputs, attrs)) if kernel.flops is not None and made else 0
    dtype = made[0][1] if made else FLOAT
    cost = cost_of(op)
    updated = max(0, num_bytes(taken[: cost.updated]) - num_bytes(given))  # a ref op returns a variable
    moved = num_bytes(made) + updated
    shapes = NodeShapes(op, attrs, inputs, outputs, dtype, operations, moved, num_bytes(taken), updated)
    access = cost.access
    if access is None or not inputs:
        return shapes
    rest = taken[access.tensors :] + (() if access.updates else given)
    touched = shapes.touched_elements * sum(dtype.size for _, dtype in taken[: access.tensors])
    return shapes._replace(moved_bytes=num_bytes(rest) + touched * (1 + access.updates))


def num_bytes(shapes: Sequence[TypedShape]) -> int:
    """Return the bytes of tensors; strings, handles and variants count as 0."""
    return sum(dtype.size * prod(dims) for dims, dtype in shapes)


class KeptTensors:
    """The tensors that a step reads and does not make; none, if it is constructed without executions.

    `step_bytes` is the size in bytes of the data that is accessed between two reads of such a tensor: all of these tensors, and
    the data of the largest kernel.
    """

    def __init__(self, step: Sequence[Execution]) -> None:
        self._kept: dict[tuple[int, int], bool] = {}
        sizes: dict[tuple[int, int, int], int] = {}
        largest = 0
        for execution in step:
            site = execution.site
            if site is None or execution.is_dead or cost_of(site.instruction.node.op).kind in _PASSING:
                continue
            shapes = node_shapes(site, execution)
            largest = max(largest, shapes.accessed_bytes)
            node = site.instruction.node
            for number in self._inputs(site, execution):
                key = id(site.program), node.input_nodes[number], node.input_slots[number]
                read = min(shapes.moved_bytes, num_bytes(execution.inputs[number : number + 1]))
                sizes[key] = max(read, sizes.get(key, 0))
        self.step_bytes = sum(sizes.values()) + largest

    def shapes(self, site: Site, execution: Execution) -> NodeShapes:
        """Return the shapes of a node in one of the step's executions, including the bytes of kept tensors."""
        return node_shapes(site, execution)._replace(kept_bytes=self.read_bytes(site, execution), step_bytes=self.step_bytes)

    def read_bytes(self, site: Site, execution: Execution) -> int:
        """Return the bytes of the kept tensors among a node's inputs."""
        return num_bytes([execution.inputs[number] for number in self._inputs(site, execution)]) if self.step_bytes else 0

    def _inputs(self, site: Site, execution: Execution) -> Iterator[int]:
        """Yield the numbers of the node's inputs that are kept tensors."""
        for number, source in enumerate(site.instruction.node.input_nodes[: len(execution.inputs)]):
            key = id(site.program), source
            if key not in self._kept:
                self._kept[key] = _is_kept(site.program.graph, source)
            if self._kept[key]:
                yield number


def _is_kept(graph: Graph, number: int) -> bool:
    """Return whether a node's outputs are kept tensors, or views of kept tensors."""
    seen: set[int] = set()
    while number not in seen:
        seen.add(number)
        node = graph.nodes[number]
        if node.op in _ROOTS or is_step_end(node):
            return True
        if not node.input_nodes or cost_of(node.op).kind not in _PASSING:
            return False
        number = node.input_nodes[0]
    return False
