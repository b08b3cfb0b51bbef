"""Mixed precision: ops of the forward and backward pass in half precision, with variables and updates in float32.

The gradient of the loss is multiplied by the loss scale, so that small gradients do not become zero in half precision. The
gradients of variables are cast to float32 and divided by the scale.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace

import numpy as np

from placesim.core.dtypes import BFLOAT16, FLOAT, HALF, DataType
from placesim.core.errors import UsageError
from placesim.graph.graph import Node, NodeDef, TensorRef, split_tensor_name
from placesim.graph.session_steps import GraphFile, GraphStep
from placesim.ops.attributes import TensorValue
from placesim.ops.categories import CONSTANTS
from placesim.planning.strategies.loss_scaling import DYNAMIC, DynamicLossScale, FixedLossScale
from placesim.planning.strategies.node_writer import NodeWriter
from placesim.planning.strategies.precision_painting import PrecisionPainting
from placesim.planning.strategies.training_graph import TrainingGraph

PRECISIONS: Mapping[str, DataType] = {"float16": HALF, "bfloat16": BFLOAT16}
"""Types of half precision."""
DEFAULT_SCALES: Mapping[str, float] = {"float16": 2.0**15, "bfloat16": 1.0}
"""Default loss scales. bfloat16 has the range of float32, so it needs no scaling."""


@dataclass(frozen=True, slots=True)
class MixedPrecision:
    """A graph in mixed precision.

    `nodes` is the number of nodes in the forward and backward pass, and `half` the number of these in half precision. `casts`
    is the number of new casts. `loss_scale` is a number or `DYNAMIC`.
    """

    file: GraphFile
    precision: str
    loss_scale: float | str
    half: int
    nodes: int
    casts: int


def mix_precision(
    file: GraphFile, training: TrainingGraph, precision: str, loss_scale: float | str | None, *, has_gpus: bool
) -> MixedPrecision:
    """Return the file in mixed precision. `has_gpus` says whether nodes without a request are on a GPU.

    Raises UsageError if no op can be computed in half precision, or if the loss cannot be scaled.
    """
    scale = DEFAULT_SCALES[precision] if loss_scale is None else loss_scale
    writer = _MixedWriter(file, training, PRECISIONS[precision], scale, has_gpus=has_gpus)
    return MixedPrecision(writer.file(), precision, scale, len(writer.changes), len(writer.region), writer.casts)


class _MixedWriter:
    """Writes the new graph: changed nodes, casts between types, and the loss scale. `changes` has new attrs by node."""

    def __init__(
        self, file: GraphFile, training: TrainingGraph, dtype: DataType, scale: float | str, *, has_gpus: bool
    ) -> None:
        self._file, self._training, self._dtype = file, training, dtype
        self._graph = training.graph
        self._backward = frozenset(training.backward)
        self.region = self._backward.union(training.forward)
        self._initial = frozenset(self._find_initial_gradients())
        members = self.region - {training.loss.node, *self._initial, *self._named_in_steps()}
        painting = PrecisionPainting(self._graph, members, dtype, has_gpus=has_gpus)
        self._painting = painting
        self.changes: dict[int, dict[str, DataType]] = {}
        for own in painting.half:
            self.changes.setdefault(own.node, {})[own.key] = dtype
        if not self.changes:
            raise UsageError(
                f"no op can be in half precision: got {len(self.region)} forward and backward nodes, expected products or "
                f"convolutions of float32, with a kernel for {dtype.python_name}"
            )
        self._writer = NodeWriter(self._graph.ids)
        self._scale: FixedLossScale | DynamicLossScale = (
            DynamicLossScale(self._writer, training, file) if scale == DYNAMIC else FixedLossScale(self._writer, float(scale))
        )
        self._written: dict[tuple[str, str], str] = {}
        self.casts = 0

    def file(self) -> GraphFile:
        """Return the rewritten file."""
        for node in self._graph.nodes:
            inputs = [self._input(node, place, ref) for place, ref in enumerate(node.inputs)]
            inputs += [f"^{self._graph.nodes[number].name}" for number in node.control_inputs]
            attrs = {**node.attrs, **self.changes[node.id]} if node.id in self.changes else node.attrs
            self._writer.nodes.append(NodeDef(node.name, node.op, tuple(inputs), node.device, attrs, node.location))
        file = self._scale.finished(self._file)
        steps = None if file.steps is None else tuple(map(self._step, file.steps))
        each = None if file.each_step is None else tuple(map(self._step, file.each_step))
        new = self._graph.emptied()
        new.extend(self._writer.nodes)
        return replace(file, graph=new.in_runtime_order(), steps=steps, each_step=each, as_read=None)

    # --- inputs -----------------------------------------------------------------------------------------------------

    def _input(self, node: Node, place: int, ref: TensorRef) -> str:
        """Return the new tensor that a node reads instead of an input."""
        if node.id not in self.region:
            return self._outside(ref)
        name = self._scaled(ref) if ref.node in self._initial else self._graph.tensor_name(ref)
        is_half = self._painting.made(ref) in self._painting.half
        if is_half == (self._painting.read(node, place) in self._painting.half):
            return name
        return self._cast(name, ref, FLOAT if is_half else self._dtype)

    def _outside(self, ref: TensorRef) -> str:
        """Return a tensor for nodes that are not in the forward and backward pass: in float32, and without the loss scale."""
        name, dtype, device = self._facts(ref)
        if self._painting.made(ref) in self._painting.half:
            name = self._cast(name, ref, FLOAT)
        if ref.node not in self._backward or not dtype.is_floating:
            return name
        return self._once("unscaled", name, lambda new: self._scale.unscaled(new, name, dtype, device))

    def _scaled(self, ref: TensorRef) -> str:
        name, dtype, device = self._facts(ref)
        return self._once("scaled", name, lambda new: self._scale.scaled(new, name, dtype, device))

    def _cast(self, name: str, ref: TensorRef, dtype: DataType) -> str:
        """Cast a tensor; a constant is written again with the new type instead."""

        def write(new: str) -> str:
            node = self._graph.nodes[ref.node]
            if node.op in CONSTANTS:
                with np.errstate(over="ignore"):
                    array = node.attrs["value"].array.astype(dtype.numpy)
                controls = [f"^{self._graph.nodes[number].name}" for number in node.control_inputs]
                attrs = {"dtype": dtype, "value": TensorValue(dtype, array)}
                return self._writer.add(new, node.op, controls, node.device, attrs)
            self.casts += 1
            source = FLOAT if dtype is self._dtype else self._dtype
            return self._writer.cast(new, name, source, dtype, node.device)

        return self._once(dtype.python_name, name, write)

    def _once(self, word: str, name: str, write: Callable[[str], str]) -> str:
        """Return the tensor that `write` makes from a tensor.

        The new node is named after the tensor and the word, and made once.
        """
        key = word, name
        if key not in self._written:
            self._written[key] = write(f"{name.replace(':', '_')}/{word}")
        return self._written[key]

    def _facts(self, ref: TensorRef) -> tuple[str, DataType, str]:
        """Return the name, type and requested device of a tensor."""
        node = self._graph.nodes[ref.node]
        return self._graph.tensor_name(ref), node.signature.output_dtypes[ref.slot], node.device

    # --- nodes with a role ------------------------------------------------------------------------------------------

    def _find_initial_gradients(self) -> Iterator[int]:
        """Yield the nodes with the gradient of the loss (ones), from which `tf.gradients` starts.

        Raises UsageError if there is none.
        """
        readers = self._graph.consumers()
        found = False
        for number in self._training.backward:
            node = self._graph.nodes[number]
            read_by = (self._graph.nodes[i] for i in readers[number] if i in self._backward)
            is_start = node.op in _STARTS and node.signature.output_dtypes[0].is_floating
            if is_start and self._is_first(node) and any(not self._is_first(reader) for reader in read_by):
                found = True
                yield number
        if not found:
            raise UsageError(
                "no initial gradient: got gradients with `grad_ys`, expected a loss whose gradient starts with ones"
            )

    def _is_first(self, node: Node) -> bool:
        """Whether a node starts the backward pass, and is not the gradient of a forward node."""
        return self._training.forward_node(node) is None

    def _named_in_steps(self) -> Iterator[int]:
        """Yield the nodes that steps fetch or feed. These nodes keep their types."""
        for step in (*(self._file.steps or ()), *(self._file.each_step or ())):
            for text in (*(fetch.name for fetch in step.fetches), *(feed.tensor for feed in step.feeds)):
                for name in self._graph.spelled_out(text):
                    number = self._graph.ids.get(split_tensor_name(name.removeprefix("^"))[0])
                    if number is not None:
                        yield number

    def _step(self, step: GraphStep) -> GraphStep:
        """Return a step that fetches gradients without the loss scale."""
        fetches = []
        for fetch in step.fetches:
            spelled = self._graph.spelled_out(fetch.name)
            name, slot = split_tensor_name(spelled[0])
            number = self._graph.ids.get(name, -1)
            if len(spelled) == 1 and number in self._backward and self._graph.nodes[number].signature.output_dtypes:
                new = self._outside(TensorRef(number, slot))
                fetch = fetch if new == fetch.name else fetch._replace(name=new, label=fetch.label or fetch.name)
            fetches.append(fetch)
        return replace(step, fetches=tuple(fetches))


_STARTS = ("Fill", "OnesLike", *CONSTANTS)
"""Ops that make the gradient of the loss."""
