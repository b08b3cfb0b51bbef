"""Queues: creation, enqueuing, dequeuing and closing.

An op raises `KernelWait` if it must wait for room or for elements; the executor then tries it again.  Source: TensorFlow's
`queue_op.cc`, `queue_base.cc` and its four kinds of queue.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np

from placesim.core.dtypes import INT32, INT64, DataType
from placesim.core.errors import InvalidArgumentError
from placesim.ops.attributes import Attrs
from placesim.ops.kernels.device_resources import ResourceHandle, value_dims
from placesim.ops.kernels.kernel import Kernel, KernelContext, Table, Trait
from placesim.ops.kernels.memory_rules import KernelMemory
from placesim.ops.kernels.named_resources import (
    build_finder,
    check_signature,
    infer_scalar_of_two_strings,
    infer_takes_two_strings,
    infer_two_strings,
    infer_unknown_outputs,
    makers,
    name_resource,
    shapes_text,
    slices,
    stack_values,
    strings_of,
    types_text,
    users,
)
from placesim.ops.kernels.partial_shapes import is_compatible
from placesim.ops.kernels.resources.queue_attempts import (
    UNBOUNDED,
    CloseAttempt,
    DequeueAttempt,
    Element,
    EnqueueAttempt,
    FifoOrder,
    PriorityOrder,
    Queue,
    QueueOrder,
    ShuffleOrder,
    attempt,
    cancel_puts,
    lines_of,
    pad_stack,
)
from placesim.ops.kernels.shapes import Dims, ShapeContext, ShapeError, format_dims, no_outputs, scalar, unchanged

RESOURCE_TYPE = "N10tensorflow14QueueInterfaceE"
PADDING = "PaddingFIFOQueue"

find_queue: Callable[[Any, KernelContext], Queue] = build_finder(RESOURCE_TYPE)


# --- making ---------------------------------------------------------------------------------------------------------


def _capacity(attrs: Attrs) -> int:
    return attrs["capacity"] if attrs["capacity"] >= 0 else UNBOUNDED


def _signature(kind: str, attrs: Attrs) -> tuple[tuple[DataType, ...], tuple[Dims, ...]]:
    """The types and shapes of a queue's components; the first component of a priority queue is the priority."""
    dtypes, shapes = attrs["component_types"], tuple(shape.dims for shape in attrs["shapes"])
    if kind == "PriorityQueue":
        dtypes, shapes = (INT64, *dtypes), ((), *shapes) if shapes else ()
    return dtypes, shapes


def _order(kind: str, attrs: Attrs) -> QueueOrder:
    if kind == "PriorityQueue":
        return PriorityOrder()
    if kind != "RandomShuffleQueue":
        return FifoOrder()
    seed, seed2 = attrs["seed"], attrs["seed2"]
    if not seed and not seed2:
        seed, seed2 = secrets.randbits(64), secrets.randbits(64)
    return ShuffleOrder(seed, seed2)


def _new_queue(kind: str, name: str, attrs: Attrs) -> Queue:
    dtypes, shapes = _signature(kind, attrs)
    if shapes and len(shapes) != len(dtypes):
        raise InvalidArgumentError(
            f"Different number of component types.  Types: {types_text(dtypes)}, Shapes: {shapes_text(shapes)}"
        )
    if kind == PADDING and not shapes:
        count = len(dtypes)
        raise InvalidArgumentError(f"Shapes must be provided for all components, but received {count} dtypes and 0 shapes.")
    seeds = (attrs.get("seed", 0), attrs.get("seed2", 0))
    least = attrs.get("min_after_dequeue", 0)
    return Queue(kind, name, _capacity(attrs), dtypes, shapes, _order(kind, attrs), least, seeds=seeds)


def _check_attrs(kind: str, attrs: Attrs) -> None:
    """Raises InvalidArgumentError for attrs that TensorFlow rejects when it creates the kernel."""
    for shape in attrs["shapes"]:
        if kind == PADDING and shape.dims is None:
            raise InvalidArgumentError("shape <unknown> must have known rank.")
        if kind != PADDING and -1 in (shape.dims or ()):
            raise InvalidArgumentError(f"Shape {shape} is not fully defined")
    if kind == "RandomShuffleQueue":
        least, capacity = attrs["min_after_dequeue"], _capacity(attrs)
        if least < 0:
            raise InvalidArgumentError(f"min_after_dequeue {least} must be >= 0")
        if least >= capacity:
            raise InvalidArgumentError(f"min_after_dequeue {least} must be < capacity {capacity}")


def _check_shared(queue: Queue, kind: str, attrs: Attrs) -> None:
    """Raises InvalidArgumentError unless an existing shared queue has the attrs of this node."""
    dtypes, shapes = _signature(kind, attrs)
    has = f"Shared queue '{queue.name}' has"
    if queue.kind != kind:
        raise InvalidArgumentError(f"Expected {queue.kind}, found {kind}V2")
    if queue.capacity != _capacity(attrs):
        raise InvalidArgumentError(f"{has} capacity {queue.capacity} but requested capacity was {_capacity(attrs)}")
    if kind == "RandomShuffleQueue":
        _check_shared_shuffle(queue, attrs, has)
    if queue.dtypes != dtypes:
        raise InvalidArgumentError(
            f"{has} component types {types_text(queue.dtypes)} but requested component types were {types_text(dtypes)}"
        )
    if queue.shapes != shapes:
        raise InvalidArgumentError(
            f"{has} component shapes {shapes_text(queue.shapes)} but requested component shapes were {shapes_text(shapes)}"
        )


def _check_shared_shuffle(queue: Queue, attrs: Attrs, has: str) -> None:
    if queue.min_after_dequeue != attrs["min_after_dequeue"]:
        raise InvalidArgumentError(
            f"{has} min_after_dequeue {queue.min_after_dequeue} but requested min_after_dequeue was "
            f"{attrs['min_after_dequeue']}."
        )
    # two zeros accept any seeds
    seeds = (attrs["seed"], attrs["seed2"])
    if seeds not in ((0, 0), queue.seeds):
        raise InvalidArgumentError(f"{has} random seeds {queue.seeds} but requested seeds are {seeds}.")


def build_queue(kind: str) -> Callable[..., ResourceHandle]:
    """Build a function `(inputs, attrs, context) -> handle` that finds the shared queue or creates it.

    It raises InvalidArgumentError for attrs that do not fit, and for a shared queue with other attrs.
    """

    def make(inputs: Sequence[Any], attrs: Attrs, context: KernelContext) -> ResourceHandle:
        _check_attrs(kind, attrs)
        handle = name_resource(attrs, context, RESOURCE_TYPE)
        queue = context.resources.lookup_or_create(handle, lambda: _new_queue(kind, handle.name, attrs))
        _check_shared(queue, kind, attrs)
        return handle

    return make


def fake_queue(inputs: Sequence[Any], attrs: Attrs, context: KernelContext) -> Sequence[Any]:
    """FakeQueue: a queue's handle in its older form, strings `[2]`."""
    return (strings_of(inputs[0]),)


# --- checks ---------------------------------------------------------------------------------------------------------


def check_timeout(attrs: Attrs) -> None:
    """Raises InvalidArgumentError for a timeout, which TensorFlow does not support."""
    if attrs["timeout_ms"] != -1:
        raise InvalidArgumentError("Timeout not supported yet.")


def check_element(queue: Queue, element: Element, prefix: tuple[int, ...] = ()) -> None:
    """Raises InvalidArgumentError unless the values' shapes are `prefix` plus the shapes of the queue's components."""
    for index, (dims, value) in enumerate(zip(queue.shapes, element, strict=False)):
        expected = None if dims is None else prefix + dims
        if not is_compatible(expected, value_dims(value)):
            raise InvalidArgumentError(
                f"Shape mismatch in tuple component {index}. Expected {format_dims(expected)}, "
                f"got {format_dims(value_dims(value))}"
            )


def _check_batch(queue: Queue, values: Sequence[Any]) -> int:
    """Return the number of elements in a batch. Raises InvalidArgumentError if the components do not fit."""
    for index, value in enumerate(values):
        if not value_dims(value):
            raise InvalidArgumentError(f"Shape mismatch in tuple component {index}. Expected at least one dimension, got []")
    count = value_dims(values[0])[0]
    if queue.shapes:
        check_element(queue, tuple(values), (count,))
    for index, value in enumerate(values):
        if value_dims(value)[0] != count:
            raise InvalidArgumentError(
                "All input tensors must have the same size in the 0th dimension. "
                f"Component {index} has {value_dims(value)[0]}, and should have {count}"
            )
    return count


# --- enqueuing and dequeuing ----------------------------------------------------------------------------------------


def enqueue(inputs: Sequence[Any], attrs: Attrs, context: KernelContext) -> Sequence[Any]:
    """(queue, a value for each component) -> nothing: enqueue one element.

    Raises CancelledError if the queue is closed, and InvalidArgumentError for other types or shapes, and a timeout.
    """
    check_timeout(attrs)
    queue = find_queue(inputs[0], context)
    check_signature(inputs[0], (attrs["Tcomponents"], ()), (queue.dtypes, ()))
    check_element(queue, tuple(inputs[1:]))
    attempt(queue, context, inputs, lambda: EnqueueAttempt([tuple(inputs[1:])]))
    return ()


def enqueue_many(inputs: Sequence[Any], attrs: Attrs, context: KernelContext) -> Sequence[Any]:
    """(queue, values `[n, ...]`) -> nothing: enqueue each slice; slices already enqueued stay if a later one fails.

    Raises the errors of `enqueue`.
    """
    check_timeout(attrs)
    queue = find_queue(inputs[0], context)
    check_signature(inputs[0], (attrs["Tcomponents"], ()), (queue.dtypes, ()))
    # without elements there is no attempt, so even a closed queue accepts them
    if _check_batch(queue, inputs[1:]):
        attempt(queue, context, inputs, lambda: EnqueueAttempt(slice_batch(queue, inputs[1:])))
    return ()


def slice_batch(queue: Queue, values: Sequence[Any]) -> list[Element]:
    """Return the `n` elements of a batch, whose values are `[n, ...]`."""
    return list(zip(*map(slices, values, queue.dtypes), strict=True))


def dequeue(inputs: Sequence[Any], attrs: Attrs, context: KernelContext) -> Sequence[Any]:
    """queue -> the components of one element.

    Raises OutOfRangeError if the queue is closed and empty, and InvalidArgumentError for other types, and a timeout.
    """
    check_timeout(attrs)
    queue = find_queue(inputs[0], context)
    check_signature(inputs[0], ((), attrs["component_types"]), ((), queue.dtypes))
    return attempt(queue, context, inputs, lambda: DequeueAttempt(1, is_batch=False))[0]


def dequeue_batch(inputs: Sequence[Any], attrs: Attrs, context: KernelContext, op: str, allow_fewer: bool) -> Sequence[Any]:
    """(queue, n) -> n elements as a batch, `[n, ...]`; with `allow_fewer` a closed queue may return fewer.

    Raises InvalidArgumentError for a negative n, other types, and a timeout, and the errors of `take_batch`.
    """
    check_timeout(attrs)
    queue = find_queue(inputs[0], context)
    count = int(np.asarray(inputs[1]).reshape(-1)[0])
    if count < 0:
        raise InvalidArgumentError(f"{op} requested {count} < 0 elements")
    check_signature(inputs[0], ((INT32,), attrs["component_types"]), ((INT32,), queue.dtypes))
    return take_batch(queue, context, inputs, count, allow_fewer)


def take_batch(queue: Queue, context: KernelContext, inputs: Sequence[Any], count: int, allow_fewer: bool) -> Sequence[Any]:
    """Dequeue `count` elements, with each component stacked, `[count, ...]`; a padding queue pads components to the largest.

    Raises InvalidArgumentError for a queue without shapes, and OutOfRangeError if it is closed and has too few elements.
    """
    if not queue.shapes:
        ops = "DequeueMany requires" if queue.kind == "PriorityQueue" else "DequeueMany and DequeueUpTo require"
        raise InvalidArgumentError(f"{queue.kind}'s {ops} the components to have specified shapes.")
    taken = attempt(queue, context, inputs, lambda: DequeueAttempt(count, allow_fewer)) if count else []
    return [_batch(queue, index, [element[index] for element in taken]) for index in range(len(queue.dtypes))]


def _batch(queue: Queue, index: int, values: Sequence[Any]) -> Any:
    dtype, dims = queue.dtypes[index], queue.shapes[index] or ()
    if -1 in dims and values:
        return pad_stack(values, dtype, dims)
    # without elements, unknown dimensions are 0
    return stack_values(values, dtype, [max(dim, 0) for dim in dims])


# --- state ----------------------------------------------------------------------------------------------------------


def close(inputs: Sequence[Any], attrs: Attrs, context: KernelContext) -> Sequence[Any]:
    """queue -> nothing: accept no more elements, and cancel waiting enqueues if attr `cancel_pending_enqueues` is true.

    Raises CancelledError if the queue is already closed and this attr is false.
    """
    queue = find_queue(inputs[0], context)
    # cancelling does not wait in line, and may be repeated
    if attrs["cancel_pending_enqueues"]:
        cancel_puts(queue, lines_of(queue, context))
    else:
        attempt(queue, context, inputs, CloseAttempt)
    return ()


def tell_closed(inputs: Sequence[Any], attrs: Attrs, context: KernelContext) -> Sequence[Any]:
    """queue -> whether it is closed, a scalar."""
    return (np.bool_(find_queue(inputs[0], context).closed),)


def tell_size(inputs: Sequence[Any], attrs: Attrs, context: KernelContext) -> Sequence[Any]:
    """queue -> the number of its elements, a scalar."""
    return (np.int32(len(find_queue(inputs[0], context).elements)),)


# --- shape functions and memory -------------------------------------------------------------------------------------


def _infer_many(context: ShapeContext) -> Sequence[Dims]:
    count = context.value(1)
    if count is not None and int(count.reshape(-1)[0]) < 0:
        raise ShapeError(f"Input 'n' must be >= 0, but is {int(count.reshape(-1)[0])}")
    return infer_unknown_outputs(context)


def enqueue_memory(memory: KernelMemory) -> None:
    """The queue holds the tensors' buffers until they are dequeued."""
    memory.keep(0, range(1, len(memory.inputs)))


def enqueue_many_memory(memory: KernelMemory) -> None:
    """The queue holds a copy of each element."""
    components = memory.inputs[1:]
    store = memory.store(0)
    for _ in range(components[0].dims[0]):
        elements = [(tensor.size // tensor.dims[0], (tensor.dims[1:], tensor.dtype)) for tensor in components]
        store.put([memory.new_buffer(size, kind=kind) for size, kind in elements])


def dequeue_memory(memory: KernelMemory) -> None:
    """The outputs are the buffers of the oldest element, even if the queue returns another element."""
    memory.take(0, memory.store(0).oldest())


def dequeue_batch_memory(memory: KernelMemory) -> None:
    """The outputs are new buffers; the queue releases the dequeued number of elements, the oldest ones."""
    for output in range(len(memory.outputs)):
        memory.allocate(output)
    store = memory.store(0)
    for _ in range(memory.outputs[0].dims[0] if memory.outputs else 0):
        store.drop(store.oldest())


_waiting = partial(users, may_wait=True)
_giving = partial(_waiting, traits=Trait.GIVES_ELEMENTS)

TABLE: Table = {
    "FakeQueue": Kernel(fake_queue, infer_two_strings, needs_context=True),
    **makers("FIFOQueue", "FIFOQueueV2", build_queue("FIFOQueue")),
    **makers("RandomShuffleQueue", "RandomShuffleQueueV2", build_queue("RandomShuffleQueue")),
    **makers("PaddingFIFOQueue", "PaddingFIFOQueueV2", build_queue("PaddingFIFOQueue")),
    **makers("PriorityQueue", "PriorityQueueV2", build_queue("PriorityQueue")),
    **_waiting("QueueEnqueue", "QueueEnqueueV2", enqueue, no_outputs, no_outputs, memory=enqueue_memory),
    **_waiting("QueueEnqueueMany", "QueueEnqueueManyV2", enqueue_many, no_outputs, no_outputs, memory=enqueue_many_memory),
    **_giving("QueueDequeue", "QueueDequeueV2", dequeue, infer_unknown_outputs, infer_unknown_outputs, memory=dequeue_memory),
    **_giving(
        *("QueueDequeueMany", "QueueDequeueManyV2"),
        partial(dequeue_batch, op="DequeueManyOp", allow_fewer=False),
        *(infer_unknown_outputs, _infer_many),
        memory=dequeue_batch_memory,
    ),
    **_giving(
        *("QueueDequeueUpTo", "QueueDequeueUpToV2"),
        partial(dequeue_batch, op="DequeueUpToOp", allow_fewer=True),
        *(infer_unknown_outputs, infer_unknown_outputs),
        memory=dequeue_batch_memory,
    ),
    **_waiting("QueueClose", "QueueCloseV2", close, infer_takes_two_strings, no_outputs),
    **users("QueueIsClosed", "QueueIsClosedV2", tell_closed, scalar, scalar),
    **users("QueueSize", "QueueSizeV2", tell_size, infer_scalar_of_two_strings, unchanged),
}
