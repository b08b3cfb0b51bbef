"""Gradients of TensorArray ops: each array has a second array for the gradients of its elements."""

from __future__ import annotations

from typing import Any

from placesim.tf1.gradients.registry import GradientFunction
from placesim.tf1.graphs.default_graph_scopes import control_dependencies
from placesim.tf1.graphs.tensor import Operation, Tensor
from placesim.tf1.graphs.tensor_likes import DTypeLike
from placesim.tf1.importing.namespaces import namespace

tf = namespace("")


def _source(grad: Tensor) -> str:
    """Identifier of one call of `tf.gradients`: the scope of its nodes."""
    parts = grad.name.split(":")[0].split("/")
    places = [index for index, part in enumerate(parts) if part.startswith("gradients")]
    if not places:
        raise ValueError(f"Expected op/tensor name to start with gradients (excluding scope), got: {grad.name}")
    # two calls of `tf.gradients` must not add into the same array
    return "/".join(parts[: places[-1] + 1])


def _gradients_of(handle: object, dtype: DTypeLike, source: str, flow: object) -> Any:
    """Array of gradients, for an op that reads elements."""
    array = tf.TensorArray(dtype=dtype, handle=handle, flow=flow, colocate_with_first_write_call=False)
    return array.grad(source=source, flow=flow)


def _gradients_after(op: Operation, handle: object, dtype: DTypeLike, flow_grad: Tensor) -> tuple[Any, Any]:
    """For an op that writes elements: the array of gradients, and the gradient of the flow.  Both wait for the forward op."""
    flow_out = tf.identity(op.outputs[0], "flow_out")
    with control_dependencies([flow_out]):
        flow = tf.identity(flow_grad, "write_barrier")
    return _gradients_of(handle, dtype, _source(flow), flow), flow


def _read(op: Operation, grad: Tensor) -> list[Any]:
    handle, index, flow = op.inputs
    array = _gradients_of(handle, op.get_attr("dtype"), _source(grad), flow)
    return [None, None, array.write(index, grad).flow]


def _write(op: Operation, flow_grad: Tensor) -> list[Any]:
    handle, index = op.inputs[:2]
    array, after = _gradients_after(op, handle, op.get_attr("T"), flow_grad)
    return [None, None, array.read(index), after]


def _gather(op: Operation, grad: Tensor) -> list[Any]:
    handle, indices, flow = op.inputs
    array = _gradients_of(handle, op.get_attr("dtype"), _source(grad), flow)
    return [None, None, array.scatter(indices, grad).flow]


def _scatter(op: Operation, flow_grad: Tensor) -> list[Any]:
    handle, indices = op.inputs[:2]
    array, after = _gradients_after(op, handle, op.get_attr("T"), flow_grad)
    return [None, None, array.gather(indices), after]


def _concat(op: Operation, grad: Tensor, _: object) -> list[Any]:
    handle, flow = op.inputs
    lengths = op.outputs[1]
    array = _gradients_of(handle, op.get_attr("dtype"), _source(grad), flow)
    return [None, array.split(grad, lengths=lengths).flow]


def _split(op: Operation, flow_grad: Tensor) -> list[Any]:
    handle = op.inputs[0]
    array, after = _gradients_after(op, handle, op.get_attr("T"), flow_grad)
    return [None, array.concat(), None, after]


_RULES: dict[str, GradientFunction] = {
    "Concat": _concat,
    "Gather": _gather,
    "Read": _read,
    "Scatter": _scatter,
    "Split": _split,
    "Write": _write,
}
GRADIENTS: dict[str, GradientFunction] = {
    f"TensorArray{word}{version}": rule for word, rule in _RULES.items() for version in ("", "V2", "V3")
}
