"""Iterators, which keep the position in a dataset from step to step; and optionals, which have an element or none.

Source: TensorFlow's `iterator_ops.cc`, `optional_ops.cc`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import Any

import numpy as np

from placesim.core.dtypes import DataType
from placesim.core.errors import FailedPreconditionError, InvalidArgumentError, OpError, OutOfRangeError
from placesim.core.protobuf_wire import WireError, field_values
from placesim.ops.attributes import Attrs, Shape
from placesim.ops.kernels.data.functions import infer_components
from placesim.ops.kernels.data.shuffles import Deleter, delete_resource, infer_handle_and_deleter
from placesim.ops.kernels.data.values import (
    Element,
    ElementSequence,
    as_dataset,
    check_shapes,
    check_types,
    element_shapes,
    function_caller,
)
from placesim.ops.kernels.device_resources import ResourceHandle
from placesim.ops.kernels.functional import other_types
from placesim.ops.kernels.kernel import Compute, Kernel, KernelContext, Table, Trait
from placesim.ops.kernels.named_resources import build_finder, make_anonymous, name_resource, serialise_handle
from placesim.ops.kernels.partial_shapes import is_compatible
from placesim.ops.kernels.shapes import format_dims, no_outputs, scalar
from placesim.ops.kernels.string_tensors import flat_strings, string_array

RESOURCE_TYPE = "N10tensorflow4data16IteratorResourceE"


# --- iterators ------------------------------------------------------------------------------------------------------


@dataclass(slots=True)
class IteratorResource:
    """An iterator with its current iteration, and the types and shapes that its elements must have (empty: any).

    A checkpoint saves `given`, the number of elements taken, and `maker`, the node that began the iteration.
    """

    dtypes: tuple[DataType, ...]
    shapes: tuple[Shape, ...]
    iteration: Iterator[Element] | None = field(default=None, metadata={"saved": False})
    given: int = 0
    maker: str = ""

    def begin(self, dataset: ElementSequence, maker: str) -> None:
        """Begin an iteration of a dataset; if a checkpoint was restored, skip the elements that were already taken.

        Raises InvalidArgumentError if the dataset's types or shapes do not fit.
        """
        if self.dtypes:
            check_types(self.dtypes, dataset.dtypes)
        if self.shapes:
            check_shapes(self.shapes, [shape.dims for shape in dataset.shapes])
        given = self.given if self.iteration is None else 0
        self.iteration = dataset.start()
        self.maker = maker
        self.given = sum(1 for _ in islice(self.iteration, given))

    def next_element(self) -> Element | None:
        """Return the next element, or None after the last. Raises FailedPreconditionError if no iteration has begun."""
        if self.iteration is None:
            raise FailedPreconditionError(
                "GetNext() failed because the iterator has not been initialized. Ensure that you have run the initializer "
                "operation for this iterator before getting the next element."
            )
        element = next(self.iteration, None)
        self.given += element is not None
        return element


find_iterator: Callable[[Any, KernelContext], IteratorResource] = build_finder(RESOURCE_TYPE)


def _new_iterator(attrs: Attrs) -> IteratorResource:
    return IteratorResource(attrs["output_types"], attrs["output_shapes"])


def make_handle(inputs: Sequence[Any], attrs: Attrs, context: KernelContext) -> Sequence[Any]:
    """Return the handle of the node's iterator, which nodes may share. Raises InvalidArgumentError for invalid names."""
    handle = name_resource(attrs, context, RESOURCE_TYPE)
    context.resources.lookup_or_create(handle, lambda: _new_iterator(attrs))
    return (handle,)


def build_anonymous(has_deleter: bool = False) -> Compute:
    """Return a kernel that creates an iterator at every run, and returns its handle, and its deleter if `has_deleter`."""

    def make(inputs: Sequence[Any], attrs: Attrs, context: KernelContext) -> Sequence[Any]:
        handle = make_anonymous(context, RESOURCE_TYPE, "AnonymousIterator", lambda: _new_iterator(attrs))
        return (handle, Deleter(handle)) if has_deleter else (handle,)

    return make


def begin(inputs: Sequence[Any], attrs: Attrs, context: KernelContext) -> Sequence[Any]:
    """Begin an iteration of a dataset (input 0) with an iterator (input 1).

    Raises InvalidArgumentError for no dataset, or for one whose types or shapes do not fit; NotFoundError for no iterator.
    """
    find_iterator(inputs[1], context).begin(as_dataset(inputs[0]), context.node)
    return ()


def make_one_shot(inputs: Sequence[Any], attrs: Attrs, context: KernelContext) -> Sequence[Any]:
    """Return the handle of an iterator over the dataset that attr `dataset_factory`, a function, returns.

    It is called once; if the call fails, later runs raise the same error. Raises InvalidArgumentError for attr `shared_name`,
    and for a function that returns no dataset.
    """
    if attrs["shared_name"]:
        raise InvalidArgumentError("OneShotIteratorOp does not currently support the 'shared_name' attr.")
    failure: OpError | None = context.node_state.get("failure")
    if failure is not None:
        raise type(failure)(failure.message)
    handle = name_resource(attrs, context, RESOURCE_TYPE)
    try:
        found = context.resources.lookup_or_create(handle, lambda: _new_iterator(attrs))
        if found.iteration is None:
            found.begin(_made(attrs, context), context.node)
    except OpError as error:
        context.node_state["failure"] = error
        raise
    return (handle,)


def _made(attrs: Attrs, context: KernelContext) -> ElementSequence:
    made = function_caller(context, attrs["dataset_factory"], ())(())
    if len(made) != 1:
        raise InvalidArgumentError("The `dataset_factory` function must return a single scalar of dtype DT_VARIANT.")
    return as_dataset(made[0])


# --- elements -------------------------------------------------------------------------------------------------------


def get_next(inputs: Sequence[Any], attrs: Attrs, context: KernelContext) -> Sequence[Any]:
    """Return the components of the next element.

    Raises OutOfRangeError after the last element, FailedPreconditionError if no iteration has begun, InvalidArgumentError for
    types or shapes that do not fit the attrs, and NotFoundError for no iterator.
    """
    element = find_iterator(inputs[0], context).next_element()
    if element is None:
        raise OutOfRangeError("End of sequence")
    for index, got, want in other_types(element, attrs["output_types"]):
        raise InvalidArgumentError(f"Data type mismatch at component {index}: expected {want} but got {got}.")
    check_shapes(attrs["output_shapes"], element_shapes(element))
    return element


@dataclass(frozen=True, slots=True, eq=False)
class Optional:
    """An element, or None."""

    element: Element | None


def get_next_as_optional(inputs: Sequence[Any], attrs: Attrs, context: KernelContext) -> Sequence[Any]:
    """Return an optional with the next element, or an empty one after the last.

    Raises the other errors of `get_next`, and InvalidArgumentError for an element of another type.
    """
    element = find_iterator(inputs[0], context).next_element()
    if element is not None:
        _check_optional(element, attrs)
    return (Optional(element),)


def _check_optional(element: Element, attrs: Attrs) -> None:
    for index, got, want in other_types(element, attrs["output_types"]):
        raise InvalidArgumentError(
            f"The given optional does not match the expected type for component {index}. Expected: {want}. Actual: {got}."
        )
    for index, (found, shape) in enumerate(zip(element_shapes(element), attrs["output_shapes"], strict=True)):
        if not is_compatible(shape.dims, found):
            raise InvalidArgumentError(
                f"The given optional does not match the expected shape for component {index}. "
                f"Expected: {format_dims(shape.dims)}. Actual: {format_dims(found)}."
            )


def _as_optional(value: Any, op: str) -> Optional:
    if isinstance(value, np.ndarray) and value.ndim:
        raise InvalidArgumentError(f"Input to {op} must be a scalar tensor containing an OptionalVariant object.")
    found = value.item() if isinstance(value, np.ndarray) else value
    if not isinstance(found, Optional):
        raise InvalidArgumentError(f"Input to {op} must be an OptionalVariant object.")
    return found


def optional_from_value(inputs: Sequence[Any], attrs: Attrs) -> Sequence[Any]:
    """Return an optional that has the inputs."""
    return (Optional(tuple(inputs)),)


def empty_optional(inputs: Sequence[Any], attrs: Attrs) -> Sequence[Any]:
    """Return an optional without a value."""
    return (Optional(None),)


def has_value(inputs: Sequence[Any], attrs: Attrs) -> Sequence[Any]:
    """Return a scalar: whether an optional has a value. Raises InvalidArgumentError if the input is no optional."""
    return (np.bool_(_as_optional(inputs[0], "OptionalHasValue").element is not None),)


def value_of(inputs: Sequence[Any], attrs: Attrs) -> Sequence[Any]:
    """Return the value of an optional. Raises InvalidArgumentError if it has none, or other types or shapes than declared."""
    element = _as_optional(inputs[0], "OptionalGetValue").element
    if element is None:
        raise InvalidArgumentError("The given optional does not have a value.")
    if len(element) != len(attrs["output_types"]):
        raise InvalidArgumentError(f"The given optional has {len(element)} components, expected {len(attrs['output_types'])}")
    _check_optional(element, attrs)
    return element


# --- handles as strings ---------------------------------------------------------------------------------------------


def to_string(inputs: Sequence[Any], attrs: Attrs, context: KernelContext) -> Sequence[Any]:
    """Return the handle of an iterator as a `ResourceHandleProto`, a scalar string. Raises NotFoundError for no iterator."""
    find_iterator(inputs[0], context)
    return (string_array([serialise_handle(inputs[0])], ()),)


def from_string(inputs: Sequence[Any], attrs: Attrs, context: KernelContext) -> Sequence[Any]:
    """Return the handle that a scalar string serializes. Raises InvalidArgumentError for another device or other elements."""
    handle = read_handle(inputs[0], context, RESOURCE_TYPE)
    found = find_iterator(handle, context)
    if attrs["output_types"]:
        check_types(attrs["output_types"], found.dtypes)
    if attrs["output_shapes"]:
        check_shapes(attrs["output_shapes"], [shape.dims for shape in found.shapes])
    return (handle,)


def read_handle(value: Any, context: KernelContext, kind: str) -> ResourceHandle:
    """Return the handle that a scalar string serializes. Raises InvalidArgumentError for another device, and other values."""
    if np.ndim(value):
        raise InvalidArgumentError("string_handle must be a scalar")
    try:
        fields = dict(field_values(flat_strings(value)[0]))
        device, container, name = (bytes(fields.get(field, b"")).decode() for field in (1, 2, 3))
    except (WireError, ValueError, TypeError):
        raise InvalidArgumentError("Could not parse string_handle as a valid ResourceHandle") from None
    if device != context.device:
        raise InvalidArgumentError(
            f'Attempted create an iterator on device "{context.device}" from handle defined on device "{device}"'
        )
    return ResourceHandle(device, container, name, kind)


def tell_device(inputs: Sequence[Any], attrs: Attrs, context: KernelContext) -> Sequence[Any]:
    """Return the device of an iterator, a scalar string. Raises NotFoundError for no iterator."""
    find_iterator(inputs[0], context)
    return (string_array([context.device.encode()], ()),)


TABLE: Table = {
    **dict.fromkeys(("Iterator", "IteratorV2"), Kernel(make_handle, scalar, needs_context=True)),
    "OneShotIterator": Kernel(make_one_shot, scalar, needs_context=True),
    "AnonymousIterator": Kernel(build_anonymous(), scalar, needs_context=True),
    "AnonymousIteratorV2": Kernel(build_anonymous(has_deleter=True), infer_handle_and_deleter, needs_context=True),
    "AnonymousIteratorV3": Kernel(build_anonymous(), scalar, needs_context=True),
    "DeleteIterator": Kernel(delete_resource, no_outputs, needs_context=True),
    "MakeIterator": Kernel(begin, no_outputs, needs_context=True),
    **dict.fromkeys(
        ("IteratorGetNext", "IteratorGetNextSync"),
        Kernel(get_next, infer_components, needs_context=True, traits=Trait.GIVES_ELEMENTS),
    ),
    "IteratorGetNextAsOptional": Kernel(get_next_as_optional, scalar, needs_context=True, traits=Trait.GIVES_ELEMENTS),
    "IteratorToStringHandle": Kernel(to_string, scalar, needs_context=True),
    **dict.fromkeys(
        ("IteratorFromStringHandle", "IteratorFromStringHandleV2"), Kernel(from_string, scalar, needs_context=True)
    ),
    **dict.fromkeys(("IteratorGetDevice", "ExperimentalIteratorGetDevice"), Kernel(tell_device, scalar, needs_context=True)),
    "OptionalFromValue": Kernel(optional_from_value, scalar),
    "OptionalNone": Kernel(empty_optional, scalar),
    "OptionalHasValue": Kernel(has_value, scalar),
    "OptionalGetValue": Kernel(value_of, infer_components),
}
