"""Gradients of function calls: calls of a gradient function, which reads further outputs of the called function."""

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
from placesim.tf1.gradients.slices import dense
from placesim.tf1.graphs.tensor import Operation, Tensor, uid
from placesim.tf1.importing.namespaces import namespace

tf = namespace("")


class CalledFunction(Protocol):
    """A function that can be called.  Its constructor needs only a body."""

    attrs: dict[str, Any]

    def __init__(self, graph: FunctionGraph) -> None: ...

    @property
    def graph(self) -> FunctionGraph:
        """Body of the function."""

    def operation(self, tensors: Sequence[Tensor], captures: Sequence[Tensor] | None = None) -> Operation:
        """A new call of the function."""

    def result(self, op: Operation) -> Any:
        """Results of the function, from the outputs of a call."""


class _Backward(FunctionGraph):
    """Body of a function's gradient, which reads tensors of the function's body, `forward`."""

    def __init__(self, name: str, forward: FunctionGraph) -> None:
        super().__init__(name, outer=forward, keeps_devices=False)


def call_gradient(called: CalledFunction, op: Operation, *grads: Any) -> list[Any]:
    """Call the gradient of the called function; its results are the gradients of the call's inputs."""
    forward = called.graph
    outputs = forward.outputs[: len(grads)]
    back, base_name = _backward(forward, outputs)
    known = list(forward.outputs)
    known += [tensor for tensor in back.captures if tensor.graph is forward and tensor not in known]
    ahead_name = function_name((f"__forward_{base_name}",))
    back.name = function_name((f"__inference_{back.name}",))
    plain, forward.name = forward.name, ahead_name
    count = len(forward.outputs)
    try:
        forward.outputs = known
        add_function(op.graph, forward, {"backward_function_name": back.name})
    finally:
        forward.name = plain
    attrs = {"f": FunctionName(ahead_name), "Tout": tuple(tensor.element for tensor in known)}
    extend_op(op, attrs, known[count:])
    for slot, tensor in enumerate(known):
        op.graph.shapes.settle(op.node.id, tensor.sizes, slot)
    # reversed, so that a tensor that is returned twice is read at its first output
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
    """Body of a function's gradient, and the function's name without prefix and number."""
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
    return tf.zeros_like(tensor) if grad is None else dense(grad)
