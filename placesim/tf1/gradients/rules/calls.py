"""Gradients of calls of functions: the called one gives more, for a function that differentiates it to read."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

from placesim.ops.attributes import FunctionName
from placesim.tf1.functions.building import build, function_name
from placesim.tf1.functions.definitions import add_function
from placesim.tf1.functions.function_graph import FunctionGraph
from placesim.tf1.functions.rewriting import extend_op
from placesim.tf1.gradients.backward import gradients
from placesim.tf1.gradients.checks import is_trainable
from placesim.tf1.graphs.tensor import Operation, Tensor, uid
from placesim.tf1.importing.namespaces import namespace
from placesim.tf1.ops.conversion import convert_to_tensor
from placesim.tf1.sparse.values import IndexedSlices

tf = namespace("")


class CalledFunction(Protocol):
    """A function that is called, of a class that makes one of a body alone."""

    attrs: dict[str, Any]

    def __init__(self, graph: FunctionGraph) -> None: ...

    @property
    def graph(self) -> FunctionGraph:
        """Its body."""

    def operation(self, tensors: Sequence[Tensor], captures: Sequence[Tensor] | None = None) -> Operation:
        """Call of the function."""

    def result(self, op: Operation) -> Any:
        """Its results, of a call's outputs."""


class _Backward(FunctionGraph):
    """Body of a function's gradient; it reads the tensors of that function's body."""

    def __init__(self, name: str, forward: FunctionGraph) -> None:
        super().__init__(name, outer=forward, keeps_devices=False)


def call_gradient(called: CalledFunction, op: Operation, *grads: Any) -> list[Any]:
    """The gradients of a call's inputs, by a call of the function that differentiates it."""
    forward = called.graph
    outputs = forward.outputs[: len(grads)]
    back, gave = _backward(forward, outputs)
    known = list(forward.outputs)
    for tensor in back.captures:
        if tensor.graph is forward and not any(tensor is each for each in known):
            known.append(tensor)
    ahead_name = function_name((f"__forward_{gave}",))
    back.name = function_name((f"__inference_{back.name}",))
    plain, forward.name = forward.name, ahead_name
    count = len(forward.outputs)
    try:
        forward.outputs = known
        attrs = {"backward_function_name": back.name}
        add_function(op.graph, forward, attrs)
    finally:
        forward.name = plain
    added = known[count:]
    extend_op(op, {"f": FunctionName(ahead_name), "Tout": tuple(tensor.element for tensor in known)}, added)
    for slot, tensor in enumerate(known):
        op.graph.shapes.settle(op.node.id, tensor.sizes, slot)
    after = {tensor: op.outputs[i] for i, tensor in reversed(list(enumerate(known)))}
    captures = [after.get(tensor, tensor) for tensor in back.captures]
    concrete = type(called)(back)
    concrete.attrs = {"forward_function_name": ahead_name}
    forward.outputs = known[:count]
    if not back.outputs:
        return [None] * len(op.inputs)
    given = [_given(grad, tensor) for grad, tensor in zip(grads, outputs, strict=True) if is_trainable(tensor)]
    return list(concrete.result(concrete.operation(given, captures)))


def _backward(forward: FunctionGraph, outputs: list[Tensor]) -> tuple[_Backward, str]:
    """The body that differentiates a function, and the function's own name without numbers."""
    plain = forward.name.removeprefix("__inference_").rpartition("_")[0]
    back = _Backward(f"__backward_{plain}_{uid()}", forward)
    trainable = [tensor for tensor in outputs if is_trainable(tensor)]
    arguments = [back.placeholder_of(tensor, None) for tensor in trainable]

    def differentiate() -> Any:
        with tf.device(None):
            return gradients(trainable, forward.inputs, grad_ys=arguments, source=forward)

    build(back, differentiate, orders_effects=True)
    return back, plain


def _given(grad: Tensor, tensor: Tensor) -> Any:
    if grad is None:
        return tf.zeros_like(tensor)
    return convert_to_tensor(grad) if isinstance(grad, IndexedSlices) else grad
