"""Datasets as values from which any number of iterations can be started; and the common part of the ops that make them.

An iteration is a Python iterator of elements that lives on after an error, as TensorFlow's do: the next call goes on with what
follows.  So they are built of classes and of Python's own iterators, never of generators, which an error ends.
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
from placesim.ops.kernels.kernel import Kernel, KernelContext
from placesim.ops.kernels.named_resources import shape_of
from placesim.ops.kernels.partial_shapes import is_compatible, show_partial
from placesim.ops.kernels.shapes import Dims, ShapeContext, ShapeFunction, scalar, with_rank, with_rank_at_most
from placesim.ops.process.memory_limit import current_memory

MAX_PASSED_OVER = 10_000_000
"""Elements that may be skipped, filtered out or empty before one is given; of a dataset without end there would be no end."""
INFINITE, UNKNOWN = -1, -2
"""Special cardinalities."""

Element = tuple[Any, ...]
"""One value for each component."""

Start = Callable[[], Iterator[Element]]
"""Begins an iteration."""


@dataclass(frozen=True, slots=True, eq=False)
class ElementSequence:
    """A sequence of elements, with the `dtypes` and `shapes` of their components and its `cardinality`, if known."""

    dtypes: tuple[DataType, ...]
    shapes: tuple[Shape, ...]
    start: Start
    cardinality: int = UNKNOWN


Maker = Callable[[Sequence[Any], Attrs, KernelContext], ElementSequence]
"""`(inputs, attrs, context) -> dataset`."""


def as_dataset(value: Any) -> ElementSequence:
    """The dataset of a variant; InvalidArgumentError for any other value."""
    # a scalar variant may come boxed in an array
    found = value.item() if isinstance(value, np.ndarray) and not value.ndim else value
    if not isinstance(found, ElementSequence):
        raise InvalidArgumentError("Tensor must be a Dataset object.")
    return found


def signature(attrs: Attrs) -> tuple[tuple[DataType, ...], tuple[Shape, ...]]:
    """Types and shapes of the components, from attrs."""
    return attrs["output_types"] if "output_types" in attrs else attrs["Toutput_types"], attrs["output_shapes"]


def scalar_argument(value: Any, name: str) -> Any:
    """A scalar input as a Python value; raises InvalidArgumentError for another shape."""
    if np.ndim(value):
        raise InvalidArgumentError(f"{name} must be a scalar")
    return np.asarray(value).item()


def function_caller(
    context: KernelContext, function: FunctionName, captured: Sequence[Any]
) -> Callable[[Element], Sequence[Any]]:
    """Function of an element, called with the values captured when the dataset was made.

    Raises InternalError outside of a session, which has the functions.
    """
    call, device = context.call_function, context.device
    if call is None:
        raise InternalError(f"Function {function.name} cannot be called outside a session")
    # what was captured stands behind the element, as it was when the dataset was made
    behind = tuple(captured)
    return lambda element: call(function, (*element, *behind), device)


# --- checks ---------------------------------------------------------------------------------------------------------


def check_types(expected: Sequence[DataType], found: Sequence[DataType]) -> None:
    """InvalidArgumentError unless components have the types that are expected of them."""
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
    """The shape of each component."""
    return [shape_of(value) for value in element]


class _WatchedIterator(Iterator[Element]):
    """Iterator that counts its elements and can be interrupted."""

    __slots__ = ("_memory", "_next")

    def __init__(self, source: Iterator[Element]) -> None:
        self._next = source.__next__
        self._memory = current_memory()

    def __next__(self) -> Element:
        self._memory.worked(1)
        return self._next()


def tries() -> Iterator[None]:
    """For an iteration that passes over elements: ResourceExhaustedError if it does so for far too long."""
    yield from repeat(None, MAX_PASSED_OVER)
    raise ResourceExhaustedError(f"{MAX_PASSED_OVER} elements of a dataset were passed over, and none was given")


# --- shape functions ------------------------------------------------------------------------------------------------


def build_infer_dataset(*scalars: int) -> ShapeFunction:
    """One scalar output, where the inputs at these places are scalars (-1 is the last)."""

    def infer(context: ShapeContext) -> Sequence[Dims]:
        for index in scalars:
            with_rank(context.shapes[index], 0)
        return ((),)

    return infer


def build_infer_records(scalars: int) -> ShapeFunction:
    """One scalar output, where the first input is at most a vector and the next ones are scalars."""

    def infer(context: ShapeContext) -> Sequence[Dims]:
        with_rank_at_most(context.shapes[0], 1)
        for dims in context.shapes[1 : scalars + 1]:
            with_rank(dims, 0)
        return ((),)

    return infer


# --- rows -----------------------------------------------------------------------------------------------------------


def build_dataset(make: Maker, infer: ShapeFunction = scalar) -> Kernel:
    """The row of an op that gives one dataset."""

    def compute(inputs: Sequence[Any], attrs: Attrs, context: KernelContext) -> Sequence[Any]:
        made = make(inputs, attrs, context)
        is_given = any(made is value for value in inputs)
        return (made if is_given else replace(made, start=lambda: _WatchedIterator(made.start())),)

    return Kernel(compute, infer, needs_context=True)
