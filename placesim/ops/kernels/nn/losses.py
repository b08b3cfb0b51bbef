"""Softmax and cross-entropies over the last axis, and the square loss; half precision is float32 inside, except in Softmax."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import numpy as np

from placesim.core.errors import InvalidArgumentError
from placesim.ops.attributes import Attrs, TensorValue, format_elements
from placesim.ops.kernels.blocks.elementwise_blocks import in_parts
from placesim.ops.kernels.cost_model import REDUCTION, CostModel
from placesim.ops.kernels.kernel import Kernel, Table, Tensor, Trait, along, per_element
from placesim.ops.kernels.memory_rules import KernelMemory, forwards, item_size
from placesim.ops.kernels.precision import wide_dtype, widened
from placesim.ops.kernels.shapes import (
    Dims,
    ShapeContext,
    ShapeError,
    broadcast,
    format_dims,
    infer_by,
    merge,
    scalar,
    with_rank,
)

_PACKET, _SUMS = 8, 4

# --- kernels --------------------------------------------------------------------------------------------------------


def shifted(logits: Tensor, out: Tensor | None = None) -> Tensor:
    """Logits `[..., classes]` minus the largest of each row, so that no exponential overflows; written to `out` if given."""
    # numpy needs `initial` for rows without classes
    found: Tensor = np.subtract(logits, np.max(logits, axis=-1, keepdims=True, initial=-np.inf), out=out)
    return found


def softmax(logits: Tensor, out: Tensor | None = None) -> Tensor:
    """exp(x) divided by its sum along the last axis of `[..., classes]`. Written to `out` if given, which may be the logits."""
    exponentials = shifted(logits, out)
    np.exp(exponentials, out=exponentials)
    exponentials /= np.sum(exponentials, axis=-1, keepdims=True)
    return exponentials


def _half_softmax(logits: Tensor) -> Tensor:
    """The softmax of float16, rounded after each operation."""
    exponentials = np.exp(shifted(logits).astype(np.float32)).astype(np.float16)
    return np.asarray(exponentials * np.reciprocal(_half_sums(exponentials)))


def _half_sums(x: Tensor) -> Tensor:
    """The sums `[..., 1]` of float16 rows `[..., classes]`, in the order of TensorFlow's kernel for up to about 1000 classes.

    Packets of 8 are added to four sums in turn, and the packets and elements at the end one after another.
    """
    classes = x.shape[-1]
    long, whole = classes - classes % (_SUMS * _PACKET), classes - classes % _PACKET
    packets = np.zeros((_SUMS, *x.shape[:-1], _PACKET), x.dtype)
    for start in range(0, long, _PACKET):
        packets[start // _PACKET % _SUMS] += x[..., start : start + _PACKET]
    packet = packets[0] + packets[1] + packets[2] + packets[3]
    for start in range(long, whole, _PACKET):
        packet += x[..., start : start + _PACKET]
    rest = np.zeros((*x.shape[:-1], 1), x.dtype)
    for start in range(whole, classes):
        rest += x[..., start : start + 1]
    rest += np.sum(packet, axis=-1, keepdims=True, dtype=np.float32).astype(x.dtype)
    return rest


def log_softmax(logits: Tensor) -> Tensor:
    """The logarithm of the softmax of `[..., classes]`, without the softmax's rounding."""
    differences = shifted(logits)
    differences -= np.log(np.sum(np.exp(differences), axis=-1, keepdims=True))
    return differences


def apply_softmax(inputs: Sequence[Tensor], attrs: Attrs, is_log: bool) -> Sequence[Tensor]:
    """Softmax, LogSoftmax: `[..., classes]` -> the same shape. Raises InvalidArgumentError for a scalar."""
    (logits,) = inputs
    if logits.ndim < 1:
        raise InvalidArgumentError(f"logits must have >= 1 dimension, got {format_dims(logits.shape)}")
    function = _half_softmax if logits.dtype == np.float16 and not is_log else widened(log_softmax if is_log else softmax)
    return (in_parts(function, has_rows=True)(logits),)


def cross_entropy(inputs: Sequence[Tensor], attrs: Attrs) -> Sequence[Tensor]:
    """(logits, labels), both `[batch, classes]` or broadcast to that -> (losses `[batch]`, gradients `[batch, classes]`).

    Raises InvalidArgumentError if the two do not broadcast to a matrix.
    """
    logits, labels = inputs
    sizes = f"logits_size={format_dims(logits.shape)} labels_size={format_dims(labels.shape)}"
    try:
        shape = np.broadcast_shapes(logits.shape, labels.shape)
    except ValueError:
        raise InvalidArgumentError(f"logits and labels must be broadcastable: {sizes}") from None
    if len(shape) != 2:
        raise InvalidArgumentError("logits and labels must be either 2-dimensional, or broadcasted to be 2-dimensional")
    dtype = logits.dtype
    wide = wide_dtype(dtype)
    differences = shifted(np.broadcast_to(logits, shape).astype(wide))
    wide_labels = np.broadcast_to(labels, shape).astype(wide)
    exponentials = np.exp(differences)
    sums = np.sum(exponentials, axis=1, keepdims=True)
    losses = np.sum(wide_labels * (np.log(sums) - differences), axis=1)
    return losses.astype(dtype), (exponentials / sums - wide_labels).astype(dtype)


def sparse_cross_entropy(inputs: Sequence[Tensor], attrs: Attrs) -> Sequence[Tensor]:
    """(logits `[batch, classes]`, labels `[batch]`) -> (losses `[batch]`, gradients `[batch, classes]`).

    Raises InvalidArgumentError for other shapes, for logits without classes, and for a label that is not a class.
    """
    logits, labels = inputs
    if logits.ndim != 2:
        raise InvalidArgumentError(f"logits must be 2-D, but got shape {format_dims(logits.shape)}")
    if labels.ndim != 1:
        raise InvalidArgumentError(f"labels must be 1-D, but got shape {format_dims(labels.shape)}")
    if len(logits) != len(labels):
        raise InvalidArgumentError(
            "logits and labels must have the same first dimension, got "
            f"logits shape {format_dims(logits.shape)} and labels shape {format_dims(labels.shape)}"
        )
    classes = logits.shape[1]
    if classes <= 0:
        raise InvalidArgumentError(f"Must have at least one class, but got logits shape {format_dims(logits.shape)}")
    _check_labels(labels, classes, attrs)
    dtype = logits.dtype
    differences = shifted(logits.astype(wide_dtype(dtype), copy=False))
    grads = np.exp(differences)
    sums = np.sum(grads, axis=1, keepdims=True)
    rows = np.arange(len(labels))
    losses = np.log(sums[:, 0]) - differences[rows, labels]
    grads /= sums
    grads[rows, labels] -= 1
    return losses.astype(dtype), grads.astype(dtype)


def _check_labels(labels: Tensor, classes: int, attrs: Attrs) -> None:
    # TensorFlow's message names the first bad label, then shows all labels
    wrong = labels[(labels < 0) | (labels >= classes)]
    if len(wrong):
        shown = format_elements(TensorValue(attrs["Tlabels"], labels), 1000)
        raise InvalidArgumentError(
            f"Received a label value of {wrong[0]} which is outside the valid range of [0, {classes}).  Label values: {shown}"
        )


def square_loss(inputs: Sequence[Tensor], attrs: Attrs) -> Sequence[Tensor]:
    """L2Loss: half the sum of a tensor's squares, a scalar."""
    flat = inputs[0].reshape(-1)
    wide = flat.astype(wide_dtype(flat.dtype), copy=False)
    return ((np.dot(wide, wide) / 2).astype(flat.dtype),)


# --- shape functions and memory -------------------------------------------------------------------------------------


def _infer_cross_entropy(context: ShapeContext) -> Sequence[Dims]:
    logits, labels = context.shapes
    # merging keeps what either shape knows of a dimension; shapes that cannot be merged must broadcast
    try:
        found = merge(with_rank(logits, 2), labels)
    except ShapeError:
        found = broadcast(logits, labels)
    # the second "is" is TensorFlow's
    if found is None:
        raise ShapeError("Shape must be broadcasted with rank 2, but is rank is unknown.")
    if len(found) != 2:
        raise ShapeError(f"Shape must be broadcasted with rank 2, but is rank {len(found)}")
    return found[:1], found


def cross_entropy_memory(memory: KernelMemory) -> None:
    """The losses, a temporary value per row, and the gradient, which reuses the logits' buffer."""
    gradient = memory.outputs[1]
    memory.temporary(gradient.dims[0] * item_size(gradient.dtype), (gradient.dims[0], 1), gradient.dtype)
    memory.allocate(0)
    memory.forward(1, 0)


_CROSS_ENTROPY = CostModel("cross entropy")

TABLE: Table = {
    "Softmax": Kernel(
        partial(apply_softmax, is_log=False),
        infer_by("x:1+ -> x"),
        per_element(0, 5),
        memory=forwards(0),
        in_place=softmax,
        cost=CostModel("softmax"),
        mixes=along(-1),
    ),
    "LogSoftmax": Kernel(
        partial(apply_softmax, is_log=True),
        infer_by("x:1+ -> x"),
        per_element(0, 5),
        memory=forwards(0),
        cost=CostModel("softmax"),
        mixes=along(-1),
    ),
    "SoftmaxCrossEntropyWithLogits": Kernel(
        cross_entropy,
        _infer_cross_entropy,
        per_element(0, 9),
        memory=cross_entropy_memory,
        cost=_CROSS_ENTROPY,
    ),
    "SparseSoftmaxCrossEntropyWithLogits": Kernel(
        sparse_cross_entropy,
        infer_by("[batch, classes], [batch] -> [batch], [batch, classes]"),
        per_element(0, 6),
        memory=cross_entropy_memory,
        cost=_CROSS_ENTROPY,
    ),
    "L2Loss": Kernel(square_loss, scalar, per_element(0, 2), traits=Trait.SUMS, cost=REDUCTION),
}
