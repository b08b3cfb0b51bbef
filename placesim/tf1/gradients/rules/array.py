"""Gradients of ops that move elements without computing: shapes, slices, padding, transposition, diagonals, scattering."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from placesim.tf1.gradients.registry import GradientFunction, text_of
from placesim.tf1.gradients.slices import dense, evaluated
from placesim.tf1.graphs.tensor import Operation, Tensor
from placesim.tf1.importing.namespaces import namespace
from placesim.tf1.ops.constant_values import constant_value
from placesim.tf1.ops.conversion import constant
from placesim.tf1.ops.generated_functions import gen
from placesim.tf1.sparse.values import IndexedSlices

tf = namespace("")


def _pass(op: Operation, grad: Tensor) -> Any:
    return grad


def _reshape_to_input(op: Operation, grad: Tensor) -> Any:
    x = op.inputs[0]
    grad = dense(grad)
    sizes = None if x.shape.rank is None else x.shape.as_list()
    if sizes is not None and sizes.count(None) == 1:
        # Reshape infers one unknown size, so that the backward pass need not read the forward tensor.
        return tf.reshape(grad, [-1 if size is None else size for size in sizes])
    return tf.reshape(grad, tf.shape(x))


def _back_to_input_shape(op: Operation, grad: Tensor) -> Any:
    return tf.reshape(dense(grad), tf.shape(op.inputs[0]))


def _tile(op: Operation, grad: Tensor) -> list[Any]:
    x, multiples = op.inputs
    input_shape = tf.shape(x, out_type=multiples.dtype)
    # [m0, s0, m1, s1, ...]: every other dimension is a repetition, and is summed.
    split_shape = tf.reshape(tf.transpose(tf.stack([multiples, input_shape])), [-1])
    # the even positions are the repetitions
    repetitions = tf.range(0, tf.size(split_shape), 2)
    if isinstance(grad, IndexedSlices):
        rows = tf.cast(input_shape[0], grad.indices.dtype)
        grad = tf.unsorted_segment_sum(grad.values, grad.indices % rows, rows)
        split_shape = tf.concat([[1], split_shape[1:]], axis=0)
    summed = tf.reduce_sum(tf.reshape(grad, split_shape), repetitions)
    summed.set_shape(x.shape)
    return [summed, None]


def _pad(op: Operation, grad: Tensor) -> list[Any]:
    x, paddings = op.inputs[0], op.inputs[1]
    before = tf.slice(paddings, [0, 0], tf.stack([tf.rank(x), 1]))
    begin = tf.reshape(before, [-1])
    return [tf.slice(grad, begin, tf.shape(x)), *([None] * (len(op.inputs) - 1))]


def _mirror_pad(back: str) -> GradientFunction:
    return lambda op, grad: [gen(back)(grad, op.inputs[1], mode=op.get_attr("mode")), None]


def _slice(op: Operation, grad: Tensor) -> list[Any]:
    x, begin = op.inputs[0], op.inputs[1]
    rank = tf.rank(x)
    slice_size = tf.shape(op.outputs[0])
    column = tf.stack([rank, 1])
    before = tf.reshape(begin, column)
    after = tf.reshape(tf.shape(x) - slice_size - begin, column)
    return [tf.pad(grad, tf.concat([before, after], 1)), None, None]


_MASKS = ("begin_mask", "end_mask", "ellipsis_mask", "new_axis_mask", "shrink_axis_mask")


def _masks(op: Operation) -> dict[str, int]:
    return {mask: op.get_attr(mask) for mask in _MASKS}


def _known(tensor: Tensor) -> Any:
    value = constant_value(tensor)
    return tensor if value is None else value


def _strided_slice(op: Operation, grad: Tensor) -> list[Any]:
    x, begin, end, strides = op.inputs
    # StridedSliceGrad wants shape and bounds of one type
    shape = tf.shape(x, out_type=begin.dtype)
    # Constant bounds become new constants beside the gradient, instead of tensors read from the forward pass.
    bounds = [_known(tensor) for tensor in (shape, begin, end, strides)]
    return [gen("StridedSliceGrad")(*bounds, grad, **_masks(op)), None, None, None]


def _strided_slice_grad(op: Operation, grad: Tensor) -> list[Any]:
    return [None, None, None, None, gen("StridedSlice")(grad, *op.inputs[1:4], **_masks(op))]


def _strided_slice_update(op: Operation, grad: Tensor) -> list[Any]:
    begin, end, strides, value = op.inputs[1:]
    value_grad = gen("StridedSlice")(grad, begin, end, strides, **_masks(op))
    x_grad = gen("TensorStridedSliceUpdate")(grad, begin, end, strides, tf.zeros_like(value), **_masks(op))
    return [x_grad, None, None, None, _summed_to(value_grad, value)]


def _summed_to(grad: Tensor, tensor: Tensor) -> Any:
    output_shape, input_shape = tf.shape(grad), tf.shape(tensor)
    axes = gen("BroadcastGradientArgs")(output_shape, input_shape)[1]
    return tf.reshape(tf.reduce_sum(grad, axes, keepdims=True), input_shape)


def _broadcast_to(op: Operation, grad: Tensor) -> list[Any]:
    x, broadcast_shape = op.inputs
    shape = tf.shape(x, out_type=broadcast_shape.dtype)
    known = evaluated(broadcast_shape)
    if known is not None:
        broadcast_shape = constant(known, dtype=broadcast_shape.dtype)
    axes = gen("BroadcastGradientArgs")(broadcast_shape, shape)[1]
    return [tf.reshape(tf.reduce_sum(grad, axes, keepdims=True), shape), None]


def _transpose(conjugate: bool) -> GradientFunction:
    return lambda op, grad: [tf.transpose(grad, tf.invert_permutation(op.inputs[1]), conjugate=conjugate), None]


def _reverse_sequence(op: Operation, grad: Tensor) -> list[Any]:
    lengths = op.inputs[1]
    seq_dim, batch_dim = op.get_attr("seq_dim"), op.get_attr("batch_dim")
    return [gen("ReverseSequence")(grad, lengths, seq_dim=seq_dim, batch_dim=batch_dim), None]


def _check_numerics(op_name: str, op: Operation, grad: Tensor) -> Any:
    # As in TensorFlow, the text contains Python's notation of the message's bytes: b'...'.
    message = f"Not a number (NaN) or infinity (Inf) values detected in gradient. {op.get_attr('message')}"
    return gen(op_name)(grad, message=message)


def _prevented(op: Operation, grad: Tensor) -> Any:
    raise LookupError(f"Gradient explicitly disabled. Reason: {op.get_attr('message')!r}")


# --- blocks and patches -----------------------------------------------------------------------------------------------------


def _space_and_batch(back: str) -> GradientFunction:
    return lambda op, grad: [gen(back)(grad, np.array([op.get_attr("block_size")] * 2, np.int64), op.inputs[1]), None]


def _depth_and_space(back: str, op: Operation, grad: Tensor) -> Any:
    data_format = text_of(op.get_attr("data_format"))
    if data_format == "NCHW_VECT_C":
        raise ValueError(f"Cannot compute {op.type} gradient with NCHW_VECT_C. NCHW_VECT_C requires qint8 data type.")
    return gen(back)(grad, op.get_attr("block_size"), data_format=data_format)


# --- diagonals ---------------------------------------------------------------------------------------------------------------


def _alignment(op: Operation) -> dict[str, Any]:
    """Alignment of diagonals: an attr of the third versions of ops."""
    return {"align": text_of(op.get_attr("align"))} if op.type.endswith("V3") else {}


def _matrix_diag_with_k(op: Operation, grad: Tensor) -> list[Any]:
    return [tf.matrix_diag_part(grad, k=op.inputs[1], **_alignment(op)), None, None, None, None]


def _matrix_diag_part(op: Operation, grad: Tensor) -> Any:
    sizes = None if op.inputs[0].shape.rank is None else op.inputs[0].shape.as_list()[-2:]
    if sizes and None not in sizes and sizes[0] == sizes[1]:
        return tf.matrix_diag(grad)
    return tf.matrix_set_diag(tf.zeros_like(op.inputs[0]), grad)


def _matrix_diag_part_with_k(op: Operation, grad: Tensor) -> list[Any]:
    x, k = op.inputs[0], op.inputs[1]
    align = _alignment(op)
    sizes = [None, None] if x.shape.rank is None else x.shape.as_list()[-2:]
    if None not in sizes:
        return [tf.matrix_diag(grad, k=k, num_rows=sizes[0], num_cols=sizes[1], **align), None, None]
    return [tf.matrix_set_diag(tf.zeros_like(x), grad, k=k, **align), None, None]


def _matrix_set_diag(op: Any, grad: Any) -> list[Any]:
    x, diagonal = op.inputs
    shape = x.shape.merge_with(grad.shape)
    batch, matrix = shape[:-2].merge_with(diagonal.shape[:-1]), shape[-2:]
    if batch.is_fully_defined() and matrix.is_fully_defined():
        zeros_shape: Any = [*batch.as_list(), min(matrix.as_list())]
    else:
        with tf.colocate_with(grad):
            sizes, rank = tf.shape(grad), tf.rank(grad)
            batch_sizes = tf.slice(sizes, [0], [rank - 2])
            smaller = tf.reduce_min(tf.slice(sizes, [rank - 2], [2]))
            zeros_shape = tf.concat([batch_sizes, [smaller]], 0)
    return [tf.matrix_set_diag(grad, tf.zeros(zeros_shape, dtype=grad.dtype)), tf.matrix_diag_part(grad)]


def _diagonals_shape(grad: Any, k: Any) -> Any:
    """Shape of the diagonals `k` of a gradient's matrices."""
    sizes = tf.shape(grad)
    batch, matrix = sizes[:-2], sizes[-2:]
    ends = tf.reshape(k, [-1])
    lowest, highest = ends[0], ends[-1]
    rows_less = tf.cond(tf.less(highest, 0), lambda: highest, lambda: 0)
    columns_less = tf.cond(tf.greater(lowest, 0), lambda: -lowest, lambda: 0)
    longest = tf.minimum(matrix[0] + rows_less, matrix[1] + columns_less)
    is_one = tf.equal(lowest, highest)
    of_matrix = tf.cond(
        is_one,
        lambda: tf.convert_to_tensor([longest]),
        lambda: tf.convert_to_tensor([highest - lowest + 1, longest]),
    )
    return tf.concat([batch, of_matrix], 0)


def _matrix_set_diag_with_k(op: Operation, grad: Tensor) -> list[Any]:
    k = op.inputs[2]
    align = _alignment(op)
    static = op.inputs[1].shape
    shape = static if static.is_fully_defined() else _diagonals_shape(grad, k)
    x_grad = tf.matrix_set_diag(grad, tf.zeros(shape, dtype=grad.dtype), k=k, **align)
    return [x_grad, tf.matrix_diag_part(grad, k=k, **align), None]


# --- scattering --------------------------------------------------------------------------------------------------------------


def _scatter_update(op: Operation, grad: Tensor) -> list[Any]:
    _, indices, updates = op.inputs
    updates_grad = tf.gather_nd(grad, indices)
    return [gen("TensorScatterUpdate")(tf.identity(grad), indices, tf.zeros_like(updates)), None, updates_grad]


def _scatter_add(op: Operation, grad: Tensor) -> list[Any]:
    updates_grad = tf.gather_nd(grad, op.inputs[1])
    return [tf.identity(grad), None, updates_grad]


def _scatter_subtract(op: Operation, grad: Tensor) -> list[Any]:
    x_grad, _, updates_grad = _scatter_add(op, grad)
    return [x_grad, None, -updates_grad]


def _scatter_extreme(op: Operation, grad: Tensor) -> list[Any]:
    x, indices, updates = op.inputs
    output = op.outputs[0]
    of_x = tf.cast(tf.equal(x, output), x.dtype)
    of_updates = tf.cast(tf.equal(updates, tf.gather_nd(output, indices)), x.dtype)
    # equal values share the gradient
    counts = of_x + tf.scatter_nd(indices, of_updates, tf.shape(x))
    x_grad = grad * of_x / counts
    return [x_grad, None, tf.gather_nd(grad / counts, indices) * of_updates]


# --- quantization ------------------------------------------------------------------------------------------------------------


def _fake_quant_args(op: Operation, grad: Tensor) -> Any:
    attrs = {name: op.get_attr(name) for name in ("min", "max", "num_bits", "narrow_range")}
    return gen("FakeQuantWithMinMaxArgsGradient")(grad, op.inputs[0], **attrs)


def _fake_quant_vars(back: str, op: Operation, grad: Tensor) -> list[Any]:
    attrs = {name: op.get_attr(name) for name in ("num_bits", "narrow_range")}
    return list(gen(back)(grad, *op.inputs, **attrs))


def _quantize_with_range(op: Operation, grad: Tensor) -> list[Any]:
    return list(gen("QuantizeAndDequantizeV4Grad")(grad, *op.inputs, axis=op.get_attr("axis")))


def _first_of(count: int) -> GradientFunction:
    """Gradient function that passes the gradient to the first of `count` inputs."""
    return lambda op, grad: [grad, *([None] * (count - 1))]


def _print(op: Operation, *grads: object) -> list[Any]:
    return [*grads, *([None] * (len(op.inputs) - len(grads)))]


def _swap(back: str) -> GradientFunction:
    """Gradient function that applies the op `back` to the gradient."""
    return lambda op, grad: gen(back)(grad)


def _ragged_to_tensor(op: Operation, grad: Any) -> list[Any]:
    values, default = op.inputs[1:3]
    kinds, partitions = op.get_attr("row_partition_types"), op.inputs[3:]
    shape = tf.shape(values)
    rank = len(kinds) - (text_of(kinds[0]) == "FIRST_DIM_SIZE")
    # the number of its value for each element, and -1 for the default value
    sizes = tf.shape(grad)[: 1 + rank]
    numbers = gen("RaggedTensorToTensor")(
        shape=sizes,
        values=tf.range(shape[0]),
        default_value=-1,
        row_partition_types=kinds,
        row_partition_tensors=partitions,
    )
    is_value = tf.not_equal(numbers, -1)
    of_values = IndexedSlices(
        values=tf.boolean_mask(grad, is_value), indices=tf.boolean_mask(numbers, is_value), dense_shape=shape
    )
    of_default = tf.boolean_mask(grad, ~is_value)
    dims = default.shape.as_list()
    while dims and dims[0] == 1:
        dims = dims[1:]
    summed = tf.reduce_sum(of_default, axis=tf.range(tf.rank(of_default) - len(dims)))
    return [None, of_values, tf.reshape(summed, tf.shape(default)), *(None for _ in partitions)]


def _ragged_to_sparse(op: Operation, *grads: Any) -> list[Any]:
    values = op.inputs[-1]
    return [*(None for _ in op.inputs[:-1]), tf.reshape(grads[1], tf.shape(values))]


GRADIENTS: dict[str, GradientFunction] = {
    "BatchToSpace": _space_and_batch("SpaceToBatchND"),
    "BatchToSpaceND": lambda op, grad: [gen("SpaceToBatchND")(grad, *op.inputs[1:]), None, None],
    "BroadcastTo": _broadcast_to,
    "RaggedTensorToSparse": _ragged_to_sparse,
    "RaggedTensorToTensor": _ragged_to_tensor,
    "CheckNumerics": partial(_check_numerics, "CheckNumerics"),
    "CheckNumericsV2": partial(_check_numerics, "CheckNumericsV2"),
    "ConjugateTranspose": _transpose(conjugate=True),
    "DepthToSpace": partial(_depth_and_space, "SpaceToDepth"),
    "Diag": _swap("DiagPart"),
    "DiagPart": _swap("Diag"),
    "EnsureShape": _pass,
    "ExpandDims": lambda op, grad: [_back_to_input_shape(op, grad), None],
    "FakeQuantWithMinMaxArgs": _fake_quant_args,
    "FakeQuantWithMinMaxVars": partial(_fake_quant_vars, "FakeQuantWithMinMaxVarsGradient"),
    "FakeQuantWithMinMaxVarsPerChannel": partial(_fake_quant_vars, "FakeQuantWithMinMaxVarsPerChannelGradient"),
    "Fill": lambda op, grad: [None, tf.reduce_sum(grad)],
    "Identity": _pass,
    "IdentityN": lambda op, *grads: list(grads),
    "MatrixBandPart": lambda op, grad: [tf.matrix_band_part(grad, op.inputs[1], op.inputs[2]), None, None],
    "MatrixDiag": lambda op, grad: tf.matrix_diag_part(grad),
    "MatrixDiagPart": _matrix_diag_part,
    "MatrixDiagPartV2": _matrix_diag_part_with_k,
    "MatrixDiagPartV3": _matrix_diag_part_with_k,
    "MatrixDiagV2": _matrix_diag_with_k,
    "MatrixDiagV3": _matrix_diag_with_k,
    "MatrixSetDiag": _matrix_set_diag,
    "MatrixSetDiagV2": _matrix_set_diag_with_k,
    "MatrixSetDiagV3": _matrix_set_diag_with_k,
    "MirrorPad": _mirror_pad("MirrorPadGrad"),
    "MirrorPadGrad": _mirror_pad("MirrorPad"),
    "Pad": _pad,
    "PadV2": _pad,
    "PlaceholderWithDefault": _pass,
    "PreventGradient": _prevented,
    "Print": _print,
    "QuantizeAndDequantize": _pass,
    "QuantizeAndDequantizeV2": _first_of(3),
    "QuantizeAndDequantizeV3": _first_of(4),
    "QuantizeAndDequantizeV4": _quantize_with_range,
    "QuantizeAndDequantizeV4Grad": _first_of(4),
    "RefIdentity": _pass,
    "Reshape": lambda op, grad: [_reshape_to_input(op, grad), None],
    "Reverse": lambda op, grad: [gen("Reverse")(grad, op.inputs[1]), None],
    "ReverseSequence": _reverse_sequence,
    "ReverseV2": lambda op, grad: [tf.reverse(grad, op.inputs[1]), None],
    "Roll": lambda op, grad: [gen("Roll")(grad, -op.inputs[1], op.inputs[2]), None, None],
    "ScatterNd": lambda op, grad: [None, tf.gather_nd(grad, op.inputs[0]), None],
    "ScatterNdNonAliasingAdd": lambda op, grad: [grad, None, tf.gather_nd(grad, op.inputs[1])],
    "Slice": _slice,
    "SpaceToBatch": _space_and_batch("BatchToSpaceND"),
    "SpaceToBatchND": lambda op, grad: [gen("BatchToSpaceND")(grad, *op.inputs[1:]), None, None],
    "SpaceToDepth": partial(_depth_and_space, "DepthToSpace"),
    "Squeeze": _back_to_input_shape,
    "StridedSlice": _strided_slice,
    "StridedSliceGrad": _strided_slice_grad,
    "TensorScatterAdd": _scatter_add,
    "TensorScatterMax": _scatter_extreme,
    "TensorScatterMin": _scatter_extreme,
    "TensorScatterSub": _scatter_subtract,
    "TensorScatterUpdate": _scatter_update,
    "TensorStridedSliceUpdate": _strided_slice_update,
    "Tile": _tile,
    "Transpose": _transpose(conjugate=False),
}
