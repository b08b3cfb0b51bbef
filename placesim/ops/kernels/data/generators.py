"""Datasets without an input: results of functions, random numbers, and the rows of a sparse tensor.

Source: TensorFlow's `generator_dataset_op.cc`, `random_dataset_op.cc`, `sparse_tensor_slice_dataset_op.cc`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from placesim.core.dtypes import INT64
from placesim.core.errors import InvalidArgumentError, OutOfRangeError
from placesim.ops.attributes import Attrs, Shape
from placesim.ops.kernels.data.shuffles import SeedGenerator
from placesim.ops.kernels.data.values import (
    INFINITE,
    UNKNOWN,
    Element,
    ElementSequence,
    build_dataset,
    build_infer_dataset,
    function_caller,
    scalar_argument,
    signature,
)
from placesim.ops.kernels.kernel import KernelContext, Table, Tensor
from placesim.ops.kernels.philox import WordStream, seeded_philox
from placesim.ops.kernels.shapes import format_dims
from placesim.ops.kernels.sparse.tensors import check_rank

Call = Callable[[Element], Sequence[Any]]


class _GeneratorIterator(Iterator[Element]):
    """The results of `following` for the state that `begin` returns, until OutOfRangeError; then `end` is called."""

    def __init__(self, begin: Call, following: Call, end: Call, args: Element) -> None:
        self._begin, self._following, self._end = begin, following, end
        self._args = args
        self._state: Element | None = None
        self._has_ended = False

    def __next__(self) -> Element:
        if self._has_ended:
            raise StopIteration
        if self._state is None:
            self._state = tuple(self._begin(self._args))
        try:
            return tuple(self._following(self._state))
        except OutOfRangeError:
            self._has_ended = True
            self._end(self._state)
            raise StopIteration from None


def generate(inputs: Sequence[Any], attrs: Attrs, context: KernelContext) -> ElementSequence:
    """Return a dataset of the results of `next_func`."""
    first = len(attrs["Tinit_func_args"])
    second = first + len(attrs["Tnext_func_args"])
    begin = function_caller(context, attrs["init_func"], ())
    following = function_caller(context, attrs["next_func"], inputs[first:second])
    end = function_caller(context, attrs["finalize_func"], inputs[second:])
    args = tuple(inputs[:first])
    return ElementSequence(*signature(attrs), lambda: _GeneratorIterator(begin, following, end, args), UNKNOWN)


def draw_numbers(inputs: Sequence[Any], attrs: Attrs, context: KernelContext) -> ElementSequence:
    """Return a dataset of random 32-bit numbers as int64, the same in each iteration; two zero seeds mean random seeds.

    Raises InvalidArgumentError for seeds that are not scalars.
    """
    first, second = (scalar_argument(value, name) for value, name in zip(inputs, ("seed", "seed2"), strict=False))
    seeds = SeedGenerator(first, second, reshuffles=False)

    def start() -> Iterator[Element]:
        words = WordStream(seeded_philox(*seeds.next_seeds()))
        return iter(lambda: (np.int64(words.word()),), None)

    return ElementSequence(*signature(attrs), start, INFINITE)


def slice_sparse_tensor(inputs: Sequence[Any], attrs: Attrs, context: KernelContext) -> ElementSequence:
    """Return a dataset of a sparse tensor's rows; a row is indices `[n, rank - 1]`, values `[n]` and dense shape `[rank - 1]`.

    Raises InvalidArgumentError for inputs of other ranks or sizes, an empty shape, and rows that are out of order.
    """
    indices, values, dims = (np.asarray(value) for value in inputs)
    _check_sparse(indices, values, dims)
    rows = indices[:, 0] if len(indices) else np.zeros(0, np.int64)
    if np.any(np.diff(rows) < 0):
        raise InvalidArgumentError(
            "The SparseTensor must be ordered in the batch dimension; handling arbitrarily ordered input is not currently "
            "supported."
        )
    count = int(dims[0])

    def start() -> Iterator[Element]:
        return map(row, range(count))

    def row(number: int) -> Element:
        part = slice(*np.searchsorted(rows, (number, number + 1)))
        return indices[part, 1:], values[part], dims[1:]

    inner = dims.size - 1
    shapes = (Shape((-1, inner)), Shape((-1,)), Shape((inner,)))
    return ElementSequence((INT64, attrs["Tvalues"], INT64), shapes, start, count)


def _check_sparse(indices: Tensor, values: Tensor, dims: Tensor) -> None:
    check_rank(indices, 2, "Input indices must be a matrix. Got: ")
    check_rank(values, 1, "Input values must be a vector. Got: ")
    check_rank(dims, 1, "Input shape must be a vector. Got: ")
    if len(values) != len(indices):
        raise InvalidArgumentError(
            f"Number of values must match first dimension of indices. Got {len(values)} values, indices shape: "
            f"{format_dims(indices.shape)}"
        )
    if len(dims) != indices.shape[1]:
        raise InvalidArgumentError(
            f"Number of dimensions must match second dimension of indices. Got {len(dims)} dimensions, indices shape: "
            f"{format_dims(indices.shape)}"
        )
    if not dims.size:
        raise InvalidArgumentError("Dense shape must have a positive number of dimensions")


TABLE: Table = {
    "GeneratorDataset": build_dataset(generate),
    "RandomDataset": build_dataset(draw_numbers, build_infer_dataset(0, 1)),
    "SparseTensorSliceDataset": build_dataset(slice_sparse_tensor),
}
