"""Barriers: each element gets its components from different ops, and can be taken when it is complete.

Complete elements are in a priority queue, ordered by the first insertion of their keys.  Source: TensorFlow's `barrier_ops.cc`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from placesim.core.dtypes import INT32, INT64, STRING, DataType
from placesim.core.errors import CancelledError, InvalidArgumentError, OutOfRangeError
from placesim.ops.attributes import Attrs
from placesim.ops.kernels.device_resources import value_dims
from placesim.ops.kernels.kernel import Kernel, KernelContext, Table
from placesim.ops.kernels.named_resources import (
    build_finder,
    check_signature,
    check_two_strings,
    infer_scalar_of_two_strings,
    infer_takes_two_strings,
    infer_two_strings,
    name_resource,
    shapes_text,
    slices,
    strings_of,
    types_text,
)
from placesim.ops.kernels.resources.queue_attempts import UNBOUNDED, PriorityOrder, Queue, advance_all, cancel_puts, lines_of
from placesim.ops.kernels.resources.queues import check_element, check_timeout, take_batch
from placesim.ops.kernels.shapes import Dims, ShapeContext, format_dims, merge_dim, with_rank, with_rank_at_least
from placesim.ops.kernels.string_tensors import flat_strings, string_array

RESOURCE_TYPE = "N10tensorflow7barrier7BarrierE"
FIRST_INDEX = -(1 << 63)
"""The priority of the first elements."""


@dataclass(slots=True)
class IncompleteElement:
    """An incomplete element: its priority (`index`), and the value of each component, None if missing."""

    index: int
    values: list[Any]


@dataclass(slots=True)
class Barrier:
    """A barrier; `ready` holds priority, key and values of each complete element."""

    name: str
    dtypes: tuple[DataType, ...]
    shapes: tuple[Dims, ...]
    ready: Queue
    incomplete: dict[bytes, IncompleteElement] = field(default_factory=dict)
    next_index: int = FIRST_INDEX
    closed: bool = False
    cancelled: bool = False


find_barrier: Callable[[Any, KernelContext], Barrier] = build_finder(RESOURCE_TYPE)


# --- making ---------------------------------------------------------------------------------------------------------


def make_barrier(inputs: Sequence[Any], attrs: Attrs, context: KernelContext) -> Sequence[Any]:
    """Barrier: find or create this node's barrier; returns its handle as strings `[2]`.

    Raises InvalidArgumentError for another number of shapes than components, for a limited capacity, and for a shared barrier
    with another signature.
    """
    dtypes, shapes = attrs["component_types"], tuple(shape.dims for shape in attrs["shapes"])
    if len(shapes) != len(dtypes):
        raise InvalidArgumentError("All of the component shapes must be specified")
    if attrs["capacity"] != -1:
        raise InvalidArgumentError(
            "Barrier only accepts capacity=-1.  Feed the inputs to your Barrier through a queue to enforce a limited capacity."
        )
    handle = name_resource(attrs, context, RESOURCE_TYPE)
    barrier = context.resources.lookup_or_create(handle, lambda: _new_barrier(handle.name, dtypes, shapes))
    for what, has, wants in (
        ("types", types_text(barrier.dtypes), types_text(dtypes)),
        ("shapes", shapes_text(barrier.shapes), shapes_text(shapes)),
    ):
        if has != wants:
            raise InvalidArgumentError(
                f"Shared barrier '{handle.name}' has component {what} {has} but requested component {what} were {wants}"
            )
    return (strings_of(handle),)


def _new_barrier(name: str, dtypes: tuple[DataType, ...], shapes: tuple[Dims, ...]) -> Barrier:
    types, dims = (INT64, STRING, *dtypes), ((), (), *shapes)
    return Barrier(name, dtypes, shapes, Queue("PriorityQueue", name + "_queue", UNBOUNDED, types, dims, PriorityOrder()))


# --- elements -------------------------------------------------------------------------------------------------------


def insert(inputs: Sequence[Any], attrs: Attrs, context: KernelContext) -> Sequence[Any]:
    """(handle, keys `[n]`, values `[n, ...]`) -> nothing: set a component of the elements with these keys.

    Raises InvalidArgumentError for a component that does not exist or that a key already has, another type, and values without
    elements. Raises CancelledError if the barrier is closed and does not accept the key.
    """
    barrier, component = find_barrier(inputs[0], context), attrs["component_index"]
    if component >= len(barrier.dtypes):
        raise InvalidArgumentError(f"The component ID is out of range {component} > num_components (= {len(barrier.dtypes)})")
    dtype = barrier.dtypes[component]
    check_signature(inputs[0], ((STRING, attrs["T"]), ()), ((STRING, dtype), ()))
    keys = flat_strings(inputs[1])
    if keys and not np.size(inputs[2]):
        shape = format_dims(value_dims(inputs[2]))
        raise InvalidArgumentError(f"Tensors with no elements are not supported {barrier.name}: received shape {shape}")
    _check_open(barrier, len(keys))
    had_new = False
    for position, (key, value) in enumerate(zip(keys, slices(inputs[2], dtype), strict=True)):
        had_new |= _insert_one(barrier, component, key, value, position)
    # all new keys of one call have the same priority
    barrier.next_index += had_new
    _close_when_complete(barrier)
    advance_all(barrier.ready, lines_of(barrier.ready, context))
    return ()


def _closing_text(barrier: Barrier) -> str:
    return f"Pending enqueues cancelled: {int(barrier.cancelled)}"


def _check_open(barrier: Barrier, count: int) -> None:
    if barrier.closed and (barrier.cancelled or (count and not barrier.incomplete)):
        raise CancelledError(
            f"Barrier {barrier.name} is closed.  {_closing_text(barrier)}.  Number of new insertions: {count}.  "
            f"Number of incomplete keys: {len(barrier.incomplete)}."
        )


def _insert_one(barrier: Barrier, component: int, key: bytes, value: Any, position: int) -> bool:
    """Set one component of one element; return whether its key is new. Raises the same errors as `insert`."""
    shown = key.decode(errors="replace")
    is_new = key not in barrier.incomplete
    if is_new and barrier.closed:
        raise CancelledError(
            f"Barrier {barrier.name} is closed, but attempted to insert a brand new key: {shown}.  "
            f"{_closing_text(barrier)}.  Insertion index: {position}.  Number of incomplete keys: {len(barrier.incomplete)}."
        )
    element = barrier.incomplete.setdefault(key, IncompleteElement(barrier.next_index, [None] * len(barrier.dtypes)))
    if element.values[component] is not None:
        raise InvalidArgumentError(f"Key {shown} already has a value for component {component} in barrier {barrier.name}")
    element.values[component] = value
    if all(found is not None for found in element.values):
        del barrier.incomplete[key]
        whole = (np.int64(element.index), string_array([key], ()), *element.values)
        check_element(barrier.ready, whole)
        barrier.ready.elements.put(whole)
    return is_new


def _close_when_complete(barrier: Barrier) -> None:
    if barrier.closed and not barrier.incomplete:
        barrier.ready.closed = True


def take(inputs: Sequence[Any], attrs: Attrs, context: KernelContext) -> Sequence[Any]:
    """(handle, a scalar n) -> priorities `[n]`, keys `[n]` and the components of n complete elements.

    A closed barrier may return fewer elements if attr `allow_small_batch` is true. Raises InvalidArgumentError for a timeout,
    an n that is not a scalar, and other types, and OutOfRangeError if the barrier is closed and has too few elements.
    """
    check_timeout(attrs)
    barrier = find_barrier(inputs[0], context)
    if np.ndim(inputs[1]):
        raise InvalidArgumentError("num_elements must be a scalar.")
    outputs = (INT64, STRING)
    check_signature(inputs[0], ((INT32,), (*outputs, *attrs["component_types"])), ((INT32,), (*outputs, *barrier.dtypes)))
    count, allows_fewer = int(inputs[1]), attrs["allow_small_batch"]
    if barrier.closed:
        available = len(barrier.ready.elements)
        count = min(count, available) if allows_fewer else count
        # elements that may still be completed count as well, unless fewer elements are allowed
        available += 0 if allows_fewer else len(barrier.incomplete)
        if available < max(count, 1):
            raise OutOfRangeError(
                f"Barrier '{barrier.name}' is closed and has insufficient elements (requested {count}, total size {available})"
            )
    return take_batch(barrier.ready, context, inputs, count, allows_fewer)


# --- state ----------------------------------------------------------------------------------------------------------


def close(inputs: Sequence[Any], attrs: Attrs, context: KernelContext) -> Sequence[Any]:
    """BarrierClose: accept no new keys. Incomplete elements may be completed, unless attr `cancel_pending_enqueues` drops them.

    Raises CancelledError if the barrier is already closed.
    """
    barrier = find_barrier(inputs[0], context)
    if barrier.closed:
        raise CancelledError(f"Barrier '{barrier.name}' is already closed.")
    # complete elements can still be taken
    barrier.closed, barrier.cancelled = True, attrs["cancel_pending_enqueues"]
    if barrier.cancelled:
        barrier.incomplete.clear()
        cancel_puts(barrier.ready, lines_of(barrier.ready, context))
    _close_when_complete(barrier)
    advance_all(barrier.ready, lines_of(barrier.ready, context))
    return ()


def tell_ready(inputs: Sequence[Any], attrs: Attrs, context: KernelContext) -> Sequence[Any]:
    """The number of complete elements, a scalar."""
    return (np.int32(len(find_barrier(inputs[0], context).ready.elements)),)


def tell_incomplete(inputs: Sequence[Any], attrs: Attrs, context: KernelContext) -> Sequence[Any]:
    """The number of incomplete elements, a scalar."""
    return (np.int32(len(find_barrier(inputs[0], context).incomplete)),)


# --- shape functions ------------------------------------------------------------------------------------------------


def _infer_insert(context: ShapeContext) -> Sequence[Dims]:
    check_two_strings(context)
    keys, values = with_rank(context.shapes[1], 1), with_rank_at_least(context.shapes[2], 1)
    if values is not None:
        merge_dim(keys[0], values[0])
    return ()


def _infer_take(context: ShapeContext) -> Sequence[Dims]:
    return (None,) * (2 + len(context.attrs["component_types"]))


TABLE: Table = {
    "Barrier": Kernel(make_barrier, infer_two_strings, needs_context=True),
    "BarrierInsertMany": Kernel(insert, _infer_insert, needs_context=True),
    "BarrierTakeMany": Kernel(take, _infer_take, needs_context=True, may_wait=True),
    "BarrierClose": Kernel(close, infer_takes_two_strings, needs_context=True),
    "BarrierReadySize": Kernel(tell_ready, infer_scalar_of_two_strings, needs_context=True),
    "BarrierIncompleteSize": Kernel(tell_incomplete, infer_scalar_of_two_strings, needs_context=True),
}
