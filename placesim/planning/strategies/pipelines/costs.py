"""Predicted seconds and bytes of a training graph's nodes for one micro-batch on a GPU of the graph's machine."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import cached_property
from math import prod

from placesim.core.dtypes import RESOURCE
from placesim.core.errors import InvalidArgumentError
from placesim.graph.graph import Node, TensorRef
from placesim.graph.session_steps import GraphFile
from placesim.machine.inventory import build_devices, with_gpus
from placesim.ops.kernels import load_kernels
from placesim.ops.kernels.cost_model import DISPATCH
from placesim.ops.kernels.op_families import OP_FAMILIES
from placesim.planning.strategies.batch_shapes import BatchShapes
from placesim.planning.strategies.training_graph import TrainingGraph, batch_dims, fed_shapes, find_declared_size
from placesim.prediction.cost_formulas import predict
from placesim.prediction.machine_resources import DevicePlace, SimulatedMachine
from placesim.prediction.node_shapes import kernel_shapes
from placesim.prediction.node_work import node_work
from placesim.runtime.recording.recorder import TypedShape
from placesim.runtime.shapes.graph_shapes import GraphShapes

ASSUMED_BATCH = 32
"""Number of examples if neither the graph nor a feed determines it."""


class PipelineCosts:
    """Costs of nodes for one of `parts` equal parts of the batch.

    `shapes` is required if `parts` is greater than 1. An unknown dimension other than the batch counts as 1. `is_assumed` says
    whether the number of examples is assumed.
    """

    def __init__(self, file: GraphFile, training: TrainingGraph, shapes: BatchShapes | None, parts: int) -> None:
        self._graph = training.graph
        self._shapes, self._parts = shapes, parts
        self._full = GraphShapes(self._graph) if shapes is None else shapes.full
        declared = find_declared_size(training, self._full) if shapes is None else shapes.batch_size
        examples = _find_fed_examples(file, training) if declared is None else declared
        self.is_assumed = examples is None
        self._examples = examples or ASSUMED_BATCH
        for ref in training.batch if shapes is None else ():
            size, *others = batch_dims(self._graph, self._full, ref) or (-1,)
            self._full.settle(ref.node, (self._examples if size < 0 else size, *others), ref.slot)
        self._kernels = load_kernels()
        self._known: dict[tuple[object, ...], float] = {}
        self._file = file

    def seconds(self, node: Node) -> float:
        """Return the seconds of a node's kernel, or of its launch if that takes longer; 0 if its shapes are unknown."""
        taken = self._typed(node.inputs, node.signature.input_dtypes)
        slots = range(len(node.signature.output_dtypes))
        given = self._typed([TensorRef(node.id, slot) for slot in slots], node.signature.output_dtypes)
        if taken is None or given is None or node.op not in OP_FAMILIES:
            return 0.0
        key = (node.op, id(node.attrs), taken, given)
        found = self._known.get(key)
        if found is None:
            found = self._known[key] = self._kernel_seconds(node, taken, given)
        return found

    def size(self, ref: TensorRef) -> int:
        """Return the bytes of a tensor; 0 if its shape is unknown. A resource handle has the bytes of its variable."""
        dtype = self._graph.nodes[ref.node].signature.output_dtypes[ref.slot]
        dims = self._dims(ref)
        if dtype is RESOURCE:
            handle = self._full.handle(ref)
            dims, dtype = (None, dtype) if handle is None or handle.shape is None else (handle.shape, handle.dtype)
        return 0 if dims is None else dtype.size * prod(dims)

    def transfer_seconds(self, num_bytes: int) -> float:
        """Return the seconds to send a tensor from one GPU to the next; 0 if there are no bytes."""
        one, two, *_ = self._gpus
        route = self._machine.route(one, two, from_host=False, to_host=False)
        return self._machine.copy_seconds(route, num_bytes) if num_bytes else 0.0

    @property
    def room(self) -> int:
        """The bytes that may be allocated on a GPU."""
        memory = self._gpus[0].device.gpu
        assert memory is not None
        return memory.memory_limit

    @cached_property
    def _machine(self) -> SimulatedMachine:
        return SimulatedMachine(build_devices(with_gpus(self._file.inventory, 2)), links=self._file.links)

    @cached_property
    def _gpus(self) -> list[DevicePlace]:
        return [place for place in self._machine.places.values() if place.gpu is not None]

    def _kernel_seconds(self, node: Node, taken: tuple[TypedShape, ...], given: tuple[TypedShape, ...]) -> float:
        place, kernel = self._gpus[0], self._kernels[node.op]
        assert place.gpu is not None
        shapes = kernel_shapes(node.op, kernel, self._graph.kernel_attrs(node), taken, given)
        work = None if kernel.cost.kind == DISPATCH.kind else node_work(shapes, place.gpu.processor)
        if work is None:
            return place.host.dispatch
        launch = place.gpu.launch or place.host.launch
        try:
            return max(launch, predict(work, place.gpu.processor).seconds)
        except InvalidArgumentError:  # the GPU's model has no rate for this type
            return launch

    def _typed(self, refs: Iterable[TensorRef], dtypes: Sequence[object]) -> tuple[TypedShape, ...] | None:
        found = [self._dims(ref) for ref in refs]
        if None in found:
            return None
        return tuple(zip(found, dtypes, strict=True))  # type: ignore[arg-type]

    def _dims(self, ref: TensorRef) -> tuple[int, ...] | None:
        """Return the shape of a tensor in a part of the batch."""
        dims = self._full.shape(ref)
        if dims is None:
            return None
        axis = None if self._shapes is None else self._shapes.axis(ref)
        known = [max(dim, 1) if dim < 0 else dim for dim in dims]
        if axis is not None and self._shapes is not None:
            known[axis] = max(1, known[axis] * self._examples // (self._shapes.examples * self._parts))
        return tuple(known)


def _find_fed_examples(file: GraphFile, training: TrainingGraph) -> int | None:
    """Return the number of examples in a feed of the batch; None if no value is fed, or only a file."""
    shapes = fed_shapes(file)
    return next((dims[0] for ref in training.batch if (dims := shapes.get(ref))), None)
