"""Datasets as values from which any number of iterations can be started, and helpers for the ops that make datasets.

An iteration is a Python iterator that can go on after an error, as in TensorFlow: the next call returns the next element.
Therefore iterators are classes or Python's own iterators. An error would end a generator.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import repeat
from typing import Any

import numpy as np

from placesim.core.dtypes import DataType
from placesim.core.errors import InternalError, InvalidArgumentError, ResourceExhaustedError
from placesim.ops.attributes import Attrs, FunctionName, Shape
from placesim.ops.kernels.device_resources import value_dims
from placesim.ops.kernels.kernel import Kernel, KernelContext
from placesim.ops.kernels.partial_shapes import is_compatible, show_partial
from placesim.ops.kernels.shapes import Dims, ShapeContext, ShapeFunction, scalar, with_rank, with_rank_at_most
from placesim.ops.process.memory_limit import current_memory

MAX_PASSED_OVER = 10_000_000
"""Maximum number of successive elements skipped, filtered out or empty: in an infinite dataset the search might never end."""
INFINITE, UNKNOWN = -1, -2
"""Special cardinalities."""

Element = tuple[Any, ...]
"""One value for each component."""

Start = Callable[[], Iterator[Element]]
"""A function that begins an iteration."""


@dataclass(frozen=True, slots=True, eq=False)
class ElementSequence:
    """A dataset: `start` begins an iteration; `dtypes` and `shapes` are of its components; `cardinality` may be unknown."""

    dtypes: tuple[DataType, ...]
    shapes: tuple[Shape, ...]
    start: Start
    cardinality: int = UNKNOWN
    batch_size: int = -1
    """Size of the batches that its elements are; -1 if it is not known."""


Maker = Callable[[Sequence[Any], Attrs, KernelContext], ElementSequence]
"""A function `(inputs, attrs, context) -> dataset`."""


def as_dataset(value: Any) -> ElementSequence:
    """Return the dataset in a variant. Raises InvalidArgumentError for another value."""
    found = value.item() if isinstance(value, np.ndarray) and not value.ndim else value
    if not isinstance(found, ElementSequence):
        raise InvalidArgumentError("Tensor must be a Dataset object.")
    return found


def signature(attrs: Attrs) -> tuple[tuple[DataType, ...], tuple[Shape, ...]]:
    """Return the types and shapes of the components, from attrs."""
    return attrs["output_types"] if "output_types" in attrs else attrs["Toutput_types"], attrs["output_shapes"]


def scalar_argument(value: Any, name: str) -> Any:
    """Return a scalar input as a Python value. Raises InvalidArgumentError for another shape."""
    if np.ndim(value):
        raise InvalidArgumentError(f"{name} must be a scalar")
    return np.asarray(value).item()


def function_caller(
    context: KernelContext, function: FunctionName, captured: Sequence[Any], device: str | None = None
) -> Callable[[Element], Sequence[Any]]:
    """Return a callable that passes an element and captured values to `function`, on a device, by default the node's.

    Raises InternalError outside a session.
    """
    call, device = context.call_function, device or context.device
    if call is None:
        raise InternalError(f"Function {function.name} cannot be called outside a session")
    captured = tuple(captured)
    return lambda element: call(function, (*element, *captured), device)


# --- checks ---------------------------------------------------------------------------------------------------------


def check_types(expected: Sequence[DataType], found: Sequence[DataType]) -> None:
    """Raise InvalidArgumentError unless components have the expected types."""
    if len(expected) != len(found):
        raise InvalidArgumentError(f"Number of components does not match: expected {len(expected)} types but got {len(found)}.")
    for index, (want, got) in enumerate(zip(expected, found, strict=True)):
        if want is not got:
            raise InvalidArgumentError(f"Data type mismatch at component {index}: expected {want} but got {got}.")


def check_shapes(expected: Sequence[Shape], found: Sequence[Dims]) -> None:
    """Raise InvalidArgumentError unless components have the expected, possibly partial shapes."""
    if len(expected) != len(found):
        raise InvalidArgumentError(
            f"Number of components does not match: expected {len(expected)} shapes but got {len(found)}."
        )
    for index, (want, got) in enumerate(zip(expected, found, strict=True)):
        if not is_compatible(want.dims, got):
            raise InvalidArgumentError(
                f"Incompatible shapes at component {index}: expected {show_partial(want.dims)} but got {show_partial(got)}."
            )


def element_shapes(element: Element) -> list[Dims]:
    """Return the shape of each component."""
    return [value_dims(value) for value in element]


class _WatchedIterator(Iterator[Element]):
    """Count the elements of an iteration for the memory limit, which can interrupt it."""

    __slots__ = ("_memory", "_next")

    def __init__(self, source: Iterator[Element]) -> None:
        self._next = source.__next__
        self._memory = current_memory()

    def __next__(self) -> Element:
        self._memory.worked(1)
        return self._next()


def tries() -> Iterator[None]:
    """Yield for each element that an iteration passes over. Raises ResourceExhaustedError if there are too many."""
    yield from repeat(None, MAX_PASSED_OVER)
    raise ResourceExhaustedError(f"{MAX_PASSED_OVER} elements of a dataset were passed over, and none was given")


# --- shape functions ------------------------------------------------------------------------------------------------


def build_infer_dataset(*scalars: int) -> ShapeFunction:
    """Return a shape function for one scalar output; the inputs at positions `scalars` (-1 is the last) must be scalars."""

    def infer(context: ShapeContext) -> Sequence[Dims]:
        for index in scalars:
            with_rank(context.shapes[index], 0)
        return ((),)

    return infer


def build_infer_records(scalars: int) -> ShapeFunction:
    """Return a shape function for one scalar; input 0 must be a scalar or vector, and the next `scalars` inputs scalars."""

    def infer(context: ShapeContext) -> Sequence[Dims]:
        with_rank_at_most(context.shapes[0], 1)
        for dims in context.shapes[1 : scalars + 1]:
            with_rank(dims, 0)
        return ((),)

    return infer


# --- rows -----------------------------------------------------------------------------------------------------------


def build_dataset(make: Maker, infer: ShapeFunction = scalar) -> Kernel:
    """Return the table row of an op that returns one dataset."""

    def compute(inputs: Sequence[Any], attrs: Attrs, context: KernelContext) -> Sequence[Any]:
        made = make(inputs, attrs, context)
        is_given = any(made is value for value in inputs)
        return (made if is_given else replace(made, start=lambda: _WatchedIterator(made.start())),)

    return Kernel(compute, infer, needs_context=True)
