"""Queues that make batches: `tf.train.batch` and `shuffle_batch`, and `batch_join` for several producers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial, reduce
from inspect import Signature, signature
from typing import Any, NamedTuple

import placesim.tf1 as tf
from placesim.tf1.graphs.tensor import Tensor
from placesim.tf1.graphs.tensor_likes import ShapeLike, TensorLike
from placesim.tf1.importing.missing_names import not_there
from placesim.tf1.layers.layer import smart_cond
from placesim.tf1.queues.queue_runners import QueueRunner, add_queue_runner
from placesim.tf1.queues.queues import FIFOQueue, PaddingFIFOQueue, QueueBase, RandomShuffleQueue
from placesim.tf1.sparse.values import SparseTensor
from placesim.tf1.types.shapes import TensorShape

MakeQueue = Callable[[Sequence[Any], Sequence[Any]], Any]
"""`(types, shapes) -> queue`."""


class _Inputs(NamedTuple):
    """Sets of tensors, each enqueued by its own threads; only the elements for which `keep_input` is true."""

    sets: Sequence[Any]
    keep_input: object
    threads: int
    enqueue_many: bool
    shapes: object


def _listed(tensors: Any) -> tuple[list[Any], Callable[[list[Any]], Any]]:
    """Tensors in order, and a function that rebuilds their structure."""
    if isinstance(tensors, dict):
        keys = sorted(tensors)
        return [tensors[key] for key in keys], lambda found: dict(zip(keys, found, strict=True))
    given = [tensors] if isinstance(tensors, Tensor | SparseTensor) else list(tensors)
    return given, lambda found: found[0] if len(found) == 1 else found


def _converted(tensors: Sequence[Any], function: str) -> list[Tensor]:
    if any(isinstance(tensor, SparseTensor) for tensor in tensors):
        raise not_there(f"train.{function} of sparse tensors", "that of the dense tensors of them is")
    return [tf.convert_to_tensor(tensor) for tensor in tensors]


def _shapes(tensor_lists: Sequence[Sequence[Tensor]], given: Any, enqueue_many: bool) -> list[Any]:
    """Static shapes of a queue's components, merged over all producers.  Raises ValueError for an unknown rank."""
    if given is not None:
        return list(given)
    found = []
    for parts in zip(*tensor_lists, strict=True):
        for part in parts:
            if part.shape.rank is None:
                raise ValueError(f"Cannot infer Tensor's rank: {part}")
        given = [part.shape.with_rank_at_least(1)[1:] if enqueue_many else part.shape for part in parts]
        shape: TensorShape = reduce(TensorShape.merge_with, given)
        found.append(shape)
    return found


def _enter(queue: QueueBase, tensors: Sequence[Tensor], enqueue_many: bool, keep: Tensor) -> Any:
    """Make the op that enqueues the tensors that `keep` selects."""
    enter = queue.enqueue_many if enqueue_many else queue.enqueue
    if keep.shape.rank == 1:
        chosen = tf.cast(keep, tf.int32)
        return enter([tf.dynamic_partition(tensor, chosen, num_partitions=2)[1] for tensor in tensors])
    return smart_cond(keep, lambda: enter(tensors), tf.no_op)


def _kept(keep_input: object, enqueue_many: bool) -> Any:
    """Tensor that selects the kept elements.  Raises ValueError for an invalid shape."""
    found = tf.convert_to_tensor(keep_input)
    if found.shape.rank is None:
        raise ValueError("`keep_input` dimensions must be known at graph construction.")
    if found.shape.rank == 1 and not enqueue_many:
        raise ValueError("`keep_input` cannot be a vector when `enqueue_many=False`.")
    if found.shape.rank > 1:
        raise ValueError("`keep_input` must be 0 or 1 dimensions.")
    return found


def _filled(inputs: _Inputs, make: MakeQueue, function: str) -> tuple[Any, Callable[[list[Any]], Any]]:
    """Queue filled by each set of tensors in its own threads, and a function that rebuilds a set's structure."""
    sets, keep_input, threads, enqueue_many, shapes = inputs
    listed, rebuild = zip(*map(_listed, sets), strict=True)
    if not listed[0]:
        raise ValueError(f"Expected at least one tensor in {function}().")
    found = [_converted(tensors, function) for tensors in listed]
    keep = _kept(keep_input, enqueue_many)
    _check_equal(found)
    sizes = _shapes(found, shapes, enqueue_many)
    queue = make([tensor.dtype.base_dtype for tensor in found[0]], sizes)
    entering = [_enter(queue, tensors, enqueue_many, keep) for tensors in found]
    add_queue_runner(QueueRunner(queue, [op for op in entering for _ in range(threads)]))
    return queue, rebuild[0]


def _check_equal(tensor_lists: Sequence[Sequence[Tensor]]) -> None:
    """Raise ValueError if producers have different numbers of tensors, TypeError for different types."""
    first = tensor_lists[0]
    types = [tensor.dtype.base_dtype.name for tensor in first]
    for tensors in tensor_lists[1:]:
        if len(tensors) != len(first):
            raise ValueError(f"Inconsistent SparseTensors list: {first} vs. {tensors}")
        others = [tensor.dtype.base_dtype.name for tensor in tensors]
        if others != types:
            raise TypeError(f"Expected types to be consistent: {', '.join(types)} vs. {', '.join(others)}.")


def _taken(queue: QueueBase, batch_size: TensorLike, scope: str, allow_smaller: bool) -> list[Any]:
    take = queue.dequeue_up_to if allow_smaller else queue.dequeue_many
    found = take(batch_size, name=scope)
    return found if isinstance(found, list) else [found]


def _values(sets: Sequence[Any]) -> list[Any]:
    return [tensor for tensors in sets for tensor in _listed(tensors)[0]]


def _batches(
    function: str,
    name: str | None,
    inputs: _Inputs,
    make: MakeQueue,
    batch_size: TensorLike,
    allow_smaller: bool,
    capacity: int,
    least: int | None = None,
) -> Any:
    """Batches from a queue, and a summary of how full it is above `least` elements, which stay in it if it shuffles."""
    with tf.name_scope(name, function, [*_values(inputs.sets), inputs.keep_input]) as scope:
        if least is not None and capacity <= least:
            raise ValueError(f"capacity {capacity} must be bigger than min_after_dequeue {least}.")
        queue, rebuild = _filled(inputs, make, function)
        if least is None:
            tf.summary.scalar(f"fraction_of_{capacity}_full", tf.cast(queue.size(), tf.float32) * (1.0 / capacity))
        else:
            room = capacity - least
            full = tf.cast(tf.maximum(0, queue.size() - least), tf.float32) * (1.0 / room)
            tf.summary.scalar(f"fraction_over_{least}_of_{room}_full", full)
        return rebuild(_taken(queue, batch_size, scope, allow_smaller))


def _checked(tensors_list: Any) -> list[Any]:
    found = list(tensors_list)
    if not found:
        raise ValueError("Expected at least one set of tensors")
    return found


def maybe_batch(
    tensors: object,
    keep_input: TensorLike,
    batch_size: TensorLike,
    num_threads: int = 1,
    capacity: int = 32,
    enqueue_many: bool = False,
    shapes: object = None,
    dynamic_pad: bool = False,
    allow_smaller_final_batch: bool = False,
    shared_name: str | None = None,
    name: str | None = None,
) -> Any:
    """Like `batch`, with only the values for which `keep_input` is true."""
    inputs = _Inputs([tensors], keep_input, num_threads, enqueue_many, shapes)
    make = partial(PaddingFIFOQueue if dynamic_pad else FIFOQueue, capacity, shared_name=shared_name)
    return _batches("batch", name, inputs, make, batch_size, allow_smaller_final_batch, capacity)


def maybe_batch_join(
    tensors_list: object,
    keep_input: TensorLike,
    batch_size: TensorLike,
    capacity: int = 32,
    enqueue_many: bool = False,
    shapes: object = None,
    dynamic_pad: bool = False,
    allow_smaller_final_batch: bool = False,
    shared_name: str | None = None,
    name: str | None = None,
) -> Any:
    """Like `batch_join`, with only the values for which `keep_input` is true."""
    inputs = _Inputs(_checked(tensors_list), keep_input, 1, enqueue_many, shapes)
    make = partial(PaddingFIFOQueue if dynamic_pad else FIFOQueue, capacity, shared_name=shared_name)
    return _batches("batch_join", name, inputs, make, batch_size, allow_smaller_final_batch, capacity)


def maybe_shuffle_batch(
    tensors: Any,
    batch_size: TensorLike,
    capacity: int,
    min_after_dequeue: int,
    keep_input: TensorLike,
    num_threads: int = 1,
    seed: int | None = None,
    enqueue_many: bool = False,
    shapes: Sequence[ShapeLike] | None = None,
    allow_smaller_final_batch: bool = False,
    shared_name: str | None = None,
    name: str | None = None,
) -> Any:
    """Like `shuffle_batch`, with only the values for which `keep_input` is true."""
    inputs = _Inputs([tensors], keep_input, num_threads, enqueue_many, shapes)
    make = partial(RandomShuffleQueue, capacity, min_after_dequeue, seed=seed, shared_name=shared_name)
    return _batches("shuffle_batch", name, inputs, make, batch_size, allow_smaller_final_batch, capacity, min_after_dequeue)


def maybe_shuffle_batch_join(
    tensors_list: Any,
    batch_size: TensorLike,
    capacity: int,
    min_after_dequeue: int,
    keep_input: TensorLike,
    seed: int | None = None,
    enqueue_many: bool = False,
    shapes: Sequence[ShapeLike] | None = None,
    allow_smaller_final_batch: bool = False,
    shared_name: str | None = None,
    name: str | None = None,
) -> Any:
    """Like `shuffle_batch_join`, with only the values for which `keep_input` is true."""
    inputs = _Inputs(_checked(tensors_list), keep_input, 1, enqueue_many, shapes)
    make = partial(RandomShuffleQueue, capacity, min_after_dequeue, seed=seed, shared_name=shared_name)
    return _batches(
        "shuffle_batch_join", name, inputs, make, batch_size, allow_smaller_final_batch, capacity, min_after_dequeue
    )


def _keeping_all(maybe: Callable[..., Any], doc: str) -> Callable[..., Any]:
    """The function that batches all values, from the one that also takes `keep_input`."""
    parameters = signature(maybe).parameters.values()
    own = Signature([parameter for parameter in parameters if parameter.name != "keep_input"])

    def call(*args: object, **kwargs: object) -> Any:
        return maybe(**own.bind(*args, **kwargs).arguments, keep_input=True)

    call.__name__ = call.__qualname__ = maybe.__name__.removeprefix("maybe_")
    call.__doc__, call.__signature__ = doc, own  # type: ignore[attr-defined]
    return call


batch = _keeping_all(maybe_batch, "Batches of successive values of the tensors.")
batch_join = _keeping_all(maybe_batch_join, "Batches from several sets of tensors, each enqueued by its own thread.")
shuffle_batch = _keeping_all(maybe_shuffle_batch, "Batches of the tensors' values in random order.")
shuffle_batch_join = _keeping_all(maybe_shuffle_batch_join, "Batches of several sets of tensors in random order.")
