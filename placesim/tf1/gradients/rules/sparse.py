"""Gradients of ops on sparse tensors.  Only their values have gradients, not their indices and shapes."""

from __future__ import annotations

from functools import partial
from typing import Any

from placesim.tf1.gradients.registry import GradientFunction
from placesim.tf1.gradients.rules.reductions import kept_dims_shape
from placesim.tf1.graphs.tensor import Operation, Tensor
from placesim.tf1.importing.namespaces import namespace
from placesim.tf1.ops.generated_functions import gen

tf = namespace("")


def _matmul(op: Operation, grad: Tensor) -> list[Any]:
    indices, values, shape, dense = op.inputs
    adjoint_a, adjoint_b = op.get_attr("adjoint_a"), op.get_attr("adjoint_b")
    complex_ = values.dtype.is_complex
    of_dense = gen("SparseTensorDenseMatMul")(indices, values, shape, grad, adjoint_a=not adjoint_a)
    if adjoint_b:
        of_dense = tf.linalg.matrix_transpose(of_dense, conjugate=complex_)
    rows, columns = indices[:, 0], indices[:, 1]
    of_rows = tf.gather(grad, columns if adjoint_a else rows)
    dense = tf.transpose(dense, conjugate=complex_) if adjoint_b else dense
    of_columns = tf.gather(dense, rows if adjoint_a else columns)
    is_turned = adjoint_a == adjoint_b
    left = tf.expand_dims(of_rows, -1 if adjoint_a else -2)
    right = tf.expand_dims(of_columns, -2 if is_turned else -1)
    found = tf.matmul(left, right, adjoint_a=adjoint_a, adjoint_b=is_turned)
    return [None, tf.squeeze(found, axis=[-2, -1]), None, of_dense]


def _to_dense(op: Operation, grad: Tensor) -> list[Any]:
    indices, shape, _, _default = op.inputs
    of_values = tf.gather_nd(grad, indices)
    of_default = tf.reduce_sum(grad) - tf.reduce_sum(of_values)
    return [tf.zeros_like(indices), tf.zeros_like(shape), of_values, of_default]


def _add(op: Operation, *grads: object) -> list[Any]:
    a_indices, _, _, b_indices = op.inputs[:4]
    a_grad, b_grad = gen("SparseAddGrad")(grads[1], a_indices, b_indices, op.outputs[0])
    a_grad.set_shape(op.inputs[1].get_shape())
    b_grad.set_shape(op.inputs[4].get_shape())
    return [None, a_grad, None, None, b_grad, None, None]


def _reduce_sum(op: Operation, grad: Tensor) -> list[Any]:
    indices, _, shape, axes = op.inputs
    kept = kept_dims_shape(shape, axes)
    grad = tf.reshape(grad, kept)
    scale = shape // tf.cast(kept, tf.int64)
    return [None, tf.gather_nd(grad, indices // scale), None, None]


def _reorder(op: Operation, *grads: object) -> list[Any]:
    indices, _, shape = op.inputs
    count = tf.shape(indices)[0]
    entries = tf.SparseTensor(indices, tf.range(count), shape)
    order = tf.sparse_reorder(entries)
    return [None, tf.gather(grads[1], tf.invert_permutation(order.values)), None]


def _softmax(op: Operation, grad: Tensor) -> list[Any]:
    indices, shape, found = op.inputs[0], op.inputs[2], op.outputs[0]
    weighted = tf.SparseTensor(indices, found * grad, shape)
    summed = -tf.sparse_reduce_sum(weighted, [-1], keepdims=True)
    return [None, gen("SparseDenseCwiseAdd")(indices, grad, shape, summed) * found, None]


def _slice(op: Operation, *grads: object) -> list[Any]:
    found = gen("SparseSliceGrad")(grads[1], op.inputs[0], op.inputs[3], op.outputs[0])
    return [None, found, None, None, None]


def _fill_empty_rows(op: Operation, *grads: object) -> list[Any]:
    values, default = gen("SparseFillEmptyRowsGrad")(op.outputs[3], grads[1])
    return [None, values, None, default]


def _cwise(divide: bool, op: Operation, grad: Tensor) -> list[Any]:
    """Gradient of a sparse tensor times, or divided by, a dense tensor that is broadcast."""
    indices, values, shape, dense = op.inputs
    dense_shape = tf.cast(tf.shape(dense), tf.int64)
    more = tf.expand_dims(tf.size(shape) - tf.size(dense_shape), 0)
    full = tf.concat([tf.ones(more, tf.int64), dense_shape], 0)
    places = indices // (shape // full)
    places = tf.slice(places, tf.concat([[0], more], 0), [-1, -1])
    picked = tf.gather_nd(dense, places)
    if divide:
        of_values = grad / picked
        of_dense = grad * ((-values) / tf.square(picked))
    else:
        of_values, of_dense = grad * picked, grad * values
    target = tf.zeros_like(dense)
    return [None, of_values, None, gen("SparseTensorDenseAdd")(places, of_dense, dense_shape, target)]


GRADIENTS: dict[str, GradientFunction] = {
    "SparseTensorDenseMatMul": _matmul,
    "SparseToDense": _to_dense,
    "SparseAdd": _add,
    "SparseTensorDenseAdd": lambda op, grad: [None, tf.gather_nd(grad, op.inputs[0]), None, grad],
    "SparseReduceSum": _reduce_sum,
    "SparseReorder": _reorder,
    "SparseSoftmax": _softmax,
    "SparseSlice": _slice,
    "SparseFillEmptyRows": _fill_empty_rows,
    "SparseDenseCwiseMul": partial(_cwise, False),
    "SparseDenseCwiseDiv": partial(_cwise, True),
}
