"""Loss scales: a fixed number, or a dynamic scale like that of TensorFlow's `LossScaleOptimizer`."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from placesim.core.dtypes import BOOL, FLOAT, INT32, DataType
from placesim.core.errors import UsageError
from placesim.graph.graph import split_tensor_name
from placesim.graph.node_patterns import gradient_scope
from placesim.graph.session_steps import GraphFile
from placesim.inspection.memory_categories import find_written_variable
from placesim.ops.attributes import Shape
from placesim.ops.categories import ASSIGNMENTS
from placesim.planning.strategies.node_writer import CPU, NodeWriter
from placesim.planning.strategies.training_graph import TrainingGraph

DYNAMIC = "dynamic"
SCOPE = "loss_scale"
FIRST_SCALE, LAST_SCALE = 2.0**15, 2.0**127
GROWTH_STEPS = 2000
"""Number of steps with finite gradients after which the scale is doubled."""


@dataclass(frozen=True, slots=True)
class FixedLossScale:
    """A number by which the gradient of the loss is multiplied, and the gradients of variables are divided."""

    writer: NodeWriter
    scale: float

    def scaled(self, name: str, tensor: str, dtype: DataType, device: str) -> str:
        return tensor if self.scale == 1.0 else self.writer.scaled(name, tensor, dtype, self.scale, device)

    def unscaled(self, name: str, tensor: str, dtype: DataType, device: str) -> str:
        return tensor if self.scale == 1.0 else self.writer.scaled(name, tensor, dtype, 1.0 / self.scale, device)

    def finished(self, file: GraphFile) -> GraphFile:
        return file


class _ScaleVariable(NamedTuple):
    """A variable of one number: the nodes that hold, initialize and read it."""

    name: str
    assign: str
    read: str
    dtype: DataType
    first: float


class DynamicLossScale:
    """A loss scale in a variable. It is halved, and the variables are not updated, if a gradient is not finite.

    After `GROWTH_STEPS` steps with finite gradients, the scale is doubled. Each update depends on a `Switch`, whose output is
    dead if a gradient is not finite, so that the update is skipped. Raises UsageError if no group of assignments initializes
    the variables.
    """

    def __init__(self, writer: NodeWriter, training: TrainingGraph, file: GraphFile) -> None:
        self._writer = writer
        self._training = training
        self._gradients: list[tuple[str, str]] = []
        self._initializers = frozenset(_find_initializers(training))
        if not self._initializers and not file.initial_values:
            raise UsageError(
                "no initializer: got variables that no group of assignments initializes, expected "
                "tf.global_variables_initializer, or an entry `initializer`, for the variables of the dynamic loss scale"
            )
        self._value = self._variable("value", FIRST_SCALE, FLOAT)
        self._good_steps = self._variable("good_steps", 0, INT32)
        scope = gradient_scope(training.graph.nodes[training.backward[0]].name)
        self._inverse = self._add(f"{scope}{SCOPE}/inverse", "Reciprocal", FLOAT, self._value.read)

    def scaled(self, name: str, tensor: str, dtype: DataType, device: str) -> str:
        """Multiply a tensor by the scale."""
        return self._product(name, tensor, self._value.read, dtype, device)

    def unscaled(self, name: str, tensor: str, dtype: DataType, device: str) -> str:
        """Divide a gradient by the scale."""
        found = self._product(name, tensor, self._inverse, dtype, device)
        self._gradients.append((found, device))
        return found

    def finished(self, file: GraphFile) -> GraphFile:
        """Write the nodes that change the scale and skip updates.

        Return the file, with initial values for the scale's variables.
        """
        finite = self._finite()
        decided = self._writer.identity(f"{SCOPE}/decided", finite, BOOL, CPU, self._changes(finite))
        places = {node.name: i for i, node in enumerate(self._writer.nodes)}
        graph = self._training.graph
        for number, place in _gradient_inputs(self._training):
            node = graph.nodes[number]
            written = self._writer.nodes[places[node.name]]
            inputs = [*written.inputs]
            device = self._writer.nodes[places[split_tensor_name(inputs[place])[0]]].device
            attrs = {"T": node.signature.input_dtypes[place]}
            switch = self._writer.add(f"{SCOPE}/{node.name}", "Switch", (inputs[place], decided), device, attrs)
            inputs[place] = f"{switch}:1"
            self._writer.nodes[places[node.name]] = written._replace(inputs=tuple(inputs))
        variables = self._value, self._good_steps
        for name in self._initializers:
            node_def = self._writer.nodes[places[name]]
            inits = (f"^{variable.assign}" for variable in variables)
            self._writer.nodes[places[name]] = node_def._replace(inputs=(*node_def.inputs, *inits))
        if not file.initial_values:
            return file
        values = {variable.name: np.array(variable.first, variable.dtype.numpy) for variable in variables}
        return replace(file, initial_values=file.initial_values | values)

    def _finite(self) -> str:
        """Return a tensor that says whether all gradients are finite."""
        each = []
        for tensor, device in self._gradients:
            base = f"{SCOPE}/{tensor.replace(':', '_')}"
            found = self._add(f"{base}/is_finite", "IsFinite", FLOAT, tensor, device=device)
            flat = self._writer.reshape(f"{base}/flat", found, [-1], BOOL, device)
            each.append(self._all(f"{base}/all", flat, device))
        packed = self._writer.add(f"{SCOPE}/each", "Pack", each, CPU, {"N": len(each), "T": BOOL, "axis": 0})
        return self._all(f"{SCOPE}/finite", packed, CPU)

    def _all(self, name: str, tensor: str, device: str) -> str:
        axis = self._writer.constant(f"{name}/axis", [0], INT32, device)
        return self._writer.add(name, "All", (tensor, axis), device, {"keep_dims": False, "Tidx": INT32})

    def _changes(self, finite: str) -> list[str]:
        """Write the new scale and number of steps, and return the nodes that assign them."""
        value, steps = self._value, self._good_steps
        more = self._writer.added(f"{SCOPE}/more_steps", steps.read, self._constant("one", 1, INT32), INT32, CPU)
        grows = self._add(f"{SCOPE}/grows", "GreaterEqual", INT32, more, self._constant("growth_steps", GROWTH_STEPS, INT32))
        double = self._writer.product(f"{SCOPE}/double", value.read, self._constant("two", 2, FLOAT), FLOAT, CPU)
        most = self._add(f"{SCOPE}/most", "Minimum", FLOAT, double, self._constant("last_scale", LAST_SCALE, FLOAT))
        half = self._writer.product(f"{SCOPE}/half", value.read, self._constant("one_half", 0.5, FLOAT), FLOAT, CPU)
        least = self._add(f"{SCOPE}/least", "Maximum", FLOAT, half, self._constant("first_scale", 1, FLOAT))
        grown = self._add(f"{SCOPE}/grown", "SelectV2", FLOAT, grows, most, value.read)
        zero = self._constant("zero", 0, INT32)
        counted = self._add(f"{SCOPE}/counted", "SelectV2", INT32, grows, zero, more)
        found = []
        for variable, if_finite, otherwise in ((value, grown, least), (steps, counted, zero)):
            new = self._add(f"{variable.name}/new", "SelectV2", variable.dtype, finite, if_finite, otherwise)
            found.append(self._add(f"{variable.name}/update", "Assign", variable.dtype, variable.name, new))
        return found

    def _variable(self, word: str, first: float, dtype: DataType) -> _ScaleVariable:
        attrs = {"shape": Shape(()), "dtype": dtype, "container": "", "shared_name": ""}
        name = self._writer.add(f"{SCOPE}/{word}", "VariableV2", (), CPU, attrs)
        value = self._constant(f"{word}/initial_value", first, dtype)
        assign = self._add(f"{name}/Assign", "Assign", dtype, name, value)
        return _ScaleVariable(name, assign, self._writer.identity(f"{name}/read", name, dtype, CPU), dtype, first)

    def _product(self, name: str, tensor: str, scale: str, dtype: DataType, device: str) -> str:
        if dtype is not FLOAT:
            scale = self._writer.cast(f"{name}/scale", scale, FLOAT, dtype, device)
        return self._writer.product(name, tensor, scale, dtype, device)

    def _constant(self, word: str, value: float, dtype: DataType) -> str:
        return self._writer.constant(f"{SCOPE}/{word}", value, dtype, CPU)

    def _add(self, name: str, op: str, dtype: DataType, *inputs: str, device: str = CPU) -> str:
        return self._writer.add(name, op, inputs, device, {"T": dtype})


def _find_initializers(training: TrainingGraph) -> Iterator[str]:
    """Yield the groups that assign the first values of the trained variables."""
    graph, variables = training.graph, frozenset(training.variables)
    updates = {update.node for update in training.updates}
    for node in graph.nodes:
        sources = [graph.nodes[number] for number in node.control_inputs] if node.op == "NoOp" else []
        writes = (source for source in sources if source.op in ASSIGNMENTS and source.id not in updates)
        if any(find_written_variable(graph, source) in variables for source in writes):
            yield node.name


def _gradient_inputs(training: TrainingGraph) -> Iterator[tuple[int, int]]:
    """Yield each update with the place of an input that depends on gradients."""
    graph, backward = training.graph, frozenset(training.backward)
    reached = set(backward)
    for number in graph.runtime_order():
        if not reached.isdisjoint(graph.nodes[number].input_nodes):
            reached.add(number)
    for update in training.updates:
        sources = graph.nodes[update.node].input_nodes
        yield update.node, next(place for place, source in enumerate(sources) if source in reached and place)
