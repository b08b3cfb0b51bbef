"""The Levenshtein distance between sequences along the last dimension of two sparse tensors."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from placesim.core.errors import InternalError, InvalidArgumentError
from placesim.ops.attributes import Attrs
from placesim.ops.kernels.kernel import Kernel, Table, Tensor
from placesim.ops.kernels.shape_operands import shape_of_values
from placesim.ops.kernels.shapes import Dims, ShapeContext, ShapeError, format_dims
from placesim.ops.kernels.sparse.tensors import check_rank, make_sparse_tensor, merge_sparse_rank, pair_groups


def measure_distances(inputs: Sequence[Tensor], attrs: Attrs) -> Sequence[Tensor]:
    """Return float32 distances between sequences of hypothesis and truth; the output lacks the inputs' last dimension.

    With attr `normalize`, distances are divided by the truth's length. Raises InvalidArgumentError if the two sparse tensors do
    not fit; InternalError for a sequence outside the output.
    """
    _check_sequences(inputs)
    for dims in (inputs[2], inputs[5]):
        shape_of_values(dims)
    hypothesis, truth = make_sparse_tensor(*inputs[:3]), make_sparse_tensor(*inputs[3:])
    output = np.zeros(np.maximum(hypothesis.shape[:-1], truth.shape[:-1]), np.float32)
    for group, *pair in pair_groups(hypothesis, truth):
        _check_place(group, output)
        guess, wanted = ([] if entries is None else entries.values.tolist() for entries in pair)
        distance = count_edits(wanted, guess)
        output[group] = (distance / len(wanted) if wanted else np.inf) if attrs["normalize"] else distance
    return (output,)


def _check_place(group: Sequence[int], output: Tensor) -> None:
    # TensorFlow checks only the flat position
    place = sum(index * math.prod(output.shape[axis + 1 :]) for axis, index in enumerate(group))
    if not 0 <= place < output.size or any(index >= dim for index, dim in zip(group, output.shape, strict=True)):
        raise InternalError(
            f"Got an inner product {place} which would require writing to outside of the buffer "
            f"for the output tensor (max elements {output.size})"
        )


def count_edits(one: Sequence[Any], two: Sequence[Any]) -> int:
    """Return the minimum number of insertions, deletions and substitutions that turn one sequence into the other."""
    row = list(range(len(two) + 1))
    for i, wanted in enumerate(one, 1):
        diagonal, row[0] = row[0], i
        for j, found in enumerate(two, 1):
            diagonal, row[j] = row[j], min(row[j] + 1, row[j - 1] + 1, diagonal + (wanted != found))
    return row[-1]


def _check_sequences(inputs: Sequence[Tensor]) -> None:
    parts = (("indices", "matrix", 2), ("values", "vector", 1), ("shape", "vector", 1))
    for position, (noun, kind, rank) in enumerate(parts):
        for owner, tensor in (("hypothesis", inputs[position]), ("truth", inputs[position + 3])):
            check_rank(tensor, rank, f"{owner}_{noun} should be a {kind}, but got shape: ")
    hypothesis_shape, truth_shape = inputs[2], inputs[5]
    # TensorFlow checks only the truth's rank, and after the hypothesis's lengths
    _check_lengths("hypothesis", inputs[:3])
    if len(truth_shape) < 2:
        raise InvalidArgumentError(
            f"Input SparseTensors must have rank at least 2, but truth_shape rank is: {len(truth_shape)}"
        )
    _check_lengths("truth", inputs[3:])
    if len(truth_shape) != len(hypothesis_shape):
        raise InvalidArgumentError(
            "Expected truth and hypothesis to have matching ranks, but their shapes are: "
            f"{format_dims(truth_shape.shape)} and {format_dims(hypothesis_shape.shape)}"
        )


def _check_lengths(owner: str, parts: Sequence[Tensor]) -> None:
    indices, values, shape = parts
    for noun, tensor, side, length in (("values", values, "rows", len(indices)), ("shape", shape, "cols", indices.shape[1])):
        if len(tensor) != length:
            raise InvalidArgumentError(
                f"Expected {owner}_{noun}.NumElements == #{side}({owner}_indices), their shapes are: "
                f"{format_dims(tensor.shape)} and {format_dims(indices.shape)}"
            )


def _infer_distances(context: ShapeContext) -> Sequence[Dims]:
    merge_sparse_rank(*context.shapes[:3])
    merge_sparse_rank(*context.shapes[3:])
    hypothesis, truth = context.value(2), context.value(5)
    if hypothesis is None or truth is None:
        return (None,)
    if hypothesis.size != truth.size:
        raise ShapeError(f"Num elements of hypothesis_shape does not match truth_shape: {hypothesis.size} vs. {truth.size}")
    if hypothesis.size < 2:
        raise ShapeError(
            f"Input Hypothesis SparseTensors must have rank at least 2, but hypothesis_shape rank is: {hypothesis.size}"
        )
    return (tuple(np.maximum(hypothesis, truth)[:-1].tolist()),)


TABLE: Table = {"EditDistance": Kernel(measure_distances, _infer_distances)}
