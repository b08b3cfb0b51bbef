"""Gradients of ops on lists of tensors, and on optionals.  The gradient of a list is a list."""

from __future__ import annotations

from typing import Any

from placesim.tf1.control_flow.tensor_lists import element_shape_argument
from placesim.tf1.gradients.registry import GradientFunction
from placesim.tf1.graphs.tensor import Operation, Tensor
from placesim.tf1.importing.namespaces import namespace
from placesim.tf1.ops.generated_functions import gen

tf = namespace("")


def _push_back(op: Operation, grad: Tensor) -> list[Any]:
    return list(gen("TensorListPopBack")(grad, tf.shape(op.inputs[1]), op.get_attr("element_dtype")))


def _pop_back(op: Operation, list_grad: Tensor, grad: Tensor) -> list[Any]:
    # after the last pop nothing else reads the list, so its gradient begins empty
    if list_grad is None:
        shape = gen("TensorListElementShape")(op.outputs[0], "int32")
        list_grad = gen("EmptyTensorList")(shape, -1, op.get_attr("element_dtype"))
    if grad is None:
        grad = tf.zeros_like(op.outputs[1])
    return [gen("TensorListPushBack")(list_grad, grad), None]


def _from_tensor(op: Operation, grad: Tensor) -> list[Any]:
    tensor = op.inputs[0]
    count = tensor.shape.as_list()[0] if tensor.shape.rank else None
    found = gen("TensorListStack")(grad, tf.slice(tf.shape(tensor), [1], [-1]), tensor.dtype, -1 if count is None else count)
    return [found, None]


def _get_item(op: Operation, grad: Tensor) -> list[Any]:
    handle, index, _ = op.inputs
    size = gen("TensorListLength")(handle)
    empty = gen("TensorListReserve")(gen("TensorListElementShape")(handle, "int32"), size, grad.dtype)
    return [gen("TensorListSetItem")(empty, index, grad), None, None]


def _set_item(op: Operation, grad: Tensor) -> list[Any]:
    _, index, item = op.inputs
    list_grad = gen("TensorListSetItem")(grad, index, tf.zeros_like(item))
    return [list_grad, None, gen("TensorListGetItem")(grad, index, tf.shape(item), item.dtype)]


def _gather(op: Operation, grad: Tensor) -> list[Any]:
    handle, indices, _ = op.inputs
    size = gen("TensorListLength")(handle)
    shape = gen("TensorListElementShape")(handle, "int32")
    return [gen("TensorListScatterV2")(grad, indices, shape, size), None, None]


def _scatter(op: Operation, grad: Tensor) -> list[Any]:
    tensor, indices = op.inputs[:2]
    shape = tf.slice(tf.shape(tensor), [1], [-1])
    return [gen("TensorListGather")(grad, indices, shape, tensor.dtype), *[None] * (len(op.inputs) - 1)]


def _concat(op: Operation, grad: Tensor, _: object) -> list[Any]:
    lengths = op.outputs[1]
    shape = gen("TensorListElementShape")(op.inputs[0], "int32")
    return [gen("TensorListSplit")(grad, shape, lengths), None, None]


def _split(op: Operation, grad: Tensor) -> list[Any]:
    tensor, _, lengths = op.inputs
    shape = tf.concat([[-1], tf.slice(tf.shape(tensor), [1], [-1])], 0)
    return [gen("TensorListConcatV2")(grad, shape, lengths, op.get_attr("element_dtype"))[0], None, None]


def _nothing(op: Operation, *grads: object) -> list[Any]:
    return [None] * len(op.inputs)


def _optional_from_value(op: Operation, grad: Tensor) -> list[Any]:
    return list(gen("OptionalGetValue")(grad, [x.dtype for x in op.inputs], [x.shape for x in op.inputs]))


GRADIENTS: dict[str, GradientFunction] = {
    "TensorListPushBack": _push_back,
    "TensorListPopBack": _pop_back,
    "TensorListStack": lambda op, grad: [gen("TensorListFromTensor")(grad, element_shape_argument(grad.shape[1:])), None],
    "TensorListFromTensor": _from_tensor,
    "TensorListGetItem": _get_item,
    "TensorListSetItem": _set_item,
    "TensorListGather": _gather,
    **dict.fromkeys(("TensorListScatter", "TensorListScatterV2", "TensorListScatterIntoExistingList"), _scatter),
    "TensorListResize": lambda op, grad: [gen("TensorListResize")(grad, gen("TensorListLength")(op.inputs[0])), None],
    "TensorListConcatV2": _concat,
    "TensorListSplit": _split,
    **dict.fromkeys(("EmptyTensorList", "TensorListReserve"), _nothing),
    "OptionalFromValue": _optional_from_value,
    "OptionalGetValue": lambda op, *grads: [gen("OptionalFromValue")(list(grads))],
}
