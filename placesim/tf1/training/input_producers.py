"""Queues of inputs: `tf.train.string_input_producer`, `batch` and those like them."""

from __future__ import annotations

from typing import Any

import placesim.tf1 as tf
from placesim.tf1.tensor import Tensor
from placesim.tf1.training.queue_runners import QueueRunner, add_queue_runner
from placesim.tf1.training.queues import FIFOQueue, PaddingFIFOQueue, RandomShuffleQueue

_EMPTY = "string_input_producer requires a non-null input tensor"


def limit_epochs(tensor: Any, num_epochs: int | None = None, name: str | None = None) -> Any:
    """The tensor, so many times; then OutOfRangeError."""
    if num_epochs is None:
        return tensor
    if num_epochs <= 0:
        raise ValueError(f"num_epochs must be > 0 not {num_epochs}.")
    with tf.name_scope(name, "limit_epochs", [tensor]) as scope:
        start = tf.constant(0, tf.int64)
        epochs = tf.Variable(start, name="epochs", trainable=False, collections=["local_variables"])
        with tf.control_dependencies([epochs.count_up_to(num_epochs)]):
            return tf.identity(tensor, name=scope)


def input_producer(
    input_tensor: Any,
    element_shape: Any = None,
    num_epochs: int | None = None,
    shuffle: bool = True,
    seed: Any = None,
    capacity: int = 32,
    shared_name: Any = None,
    summary_name: str | None = None,
    name: str | None = None,
    cancel_op: Any = None,
) -> FIFOQueue:
    """A queue of the rows of a tensor."""
    with tf.name_scope(name, "input_producer", [input_tensor]) as scope:
        rows = tf.convert_to_tensor(input_tensor, name="input_tensor")
        element = rows.shape[1:].merge_with(element_shape)
        if not element.is_fully_defined():
            raise ValueError("Either `input_tensor` must have a fully defined shape or `element_shape` must be specified")
        if shuffle:
            rows = tf.random_shuffle(rows, seed=seed)
        rows = limit_epochs(rows, num_epochs)
        queue = FIFOQueue(capacity, [rows.dtype.base_dtype], [element], shared_name=shared_name, name=scope)
        add_queue_runner(QueueRunner(queue, [queue.enqueue_many([rows])], cancel_op=cancel_op))
        if summary_name is not None:
            tf.summary.scalar(summary_name, tf.cast(queue.size(), tf.float32) * (1.0 / capacity))
        return queue


def string_input_producer(
    string_tensor: Any,
    num_epochs: int | None = None,
    shuffle: bool = True,
    seed: Any = None,
    capacity: int = 32,
    shared_name: Any = None,
    name: str | None = None,
    cancel_op: Any = None,
) -> FIFOQueue:
    """A queue of texts.  Raises ValueError where there are none."""
    if not isinstance(string_tensor, Tensor) and not string_tensor:
        raise ValueError(_EMPTY)
    with tf.name_scope(name, "input_producer", [string_tensor]) as scope:
        texts = tf.convert_to_tensor(string_tensor, dtype=tf.string)
        with tf.control_dependencies([tf.Assert(tf.greater(tf.size(texts), 0), [_EMPTY])]):
            texts = tf.identity(texts)
        return input_producer(
            texts, [], num_epochs, shuffle, seed, capacity, shared_name, f"fraction_of_{capacity}_full", scope, cancel_op
        )


def range_input_producer(
    limit: Any,
    num_epochs: int | None = None,
    shuffle: bool = True,
    seed: Any = None,
    capacity: int = 32,
    shared_name: Any = None,
    name: str | None = None,
) -> FIFOQueue:
    """A queue of the numbers from 0 up to a limit."""
    with tf.name_scope(name, "input_producer", [limit]) as scope:
        numbers = tf.range(limit)
        return input_producer(
            numbers, [], num_epochs, shuffle, seed, capacity, shared_name, f"fraction_of_{capacity}_full", scope
        )


def slice_input_producer(
    tensor_list: Any,
    num_epochs: int | None = None,
    shuffle: bool = True,
    seed: Any = None,
    capacity: int = 32,
    shared_name: Any = None,
    name: str | None = None,
) -> list[Tensor]:
    """A row of each tensor, the same for all.  Raises ValueError where there are none."""
    with tf.name_scope(name, "input_producer", tensor_list):
        tensors = [tf.convert_to_tensor(tensor) for tensor in tensor_list]
        if not tensors:
            raise ValueError("Expected at least one tensor in slice_input_producer().")
        rows = tf.shape(tensors[0])[0]
        index = range_input_producer(rows, num_epochs, shuffle, seed, capacity, shared_name).dequeue()
        return [tf.gather(tensor, index) for tensor in tensors]


# --- batches


def _listed(tensors: Any) -> tuple[list[Any], Any]:
    """The tensors in order, and what makes the same structure of others."""
    if isinstance(tensors, dict):
        keys = sorted(tensors)
        return [tensors[key] for key in keys], lambda found: dict(zip(keys, found, strict=True))
    given = [tensors] if isinstance(tensors, Tensor) else list(tensors)
    return given, lambda found: found[0] if len(found) == 1 else found


def _check_keep(keep_input: Any, function: str) -> None:
    if keep_input is not True:
        raise NotImplementedError(
            f"tf.train.{function} with keep_input is not there; tf.train.{function.removeprefix('maybe_')} of all inputs is."
        )


def _shapes(tensors: list[Tensor], given: Any, enqueue_many: bool, function: str) -> list[Any]:
    if given is not None:
        return list(given)
    return [tensor.shape[1:] if enqueue_many else tensor.shape for tensor in tensors]


def _start(
    tensors: Any, capacity: int, scope: str, make: Any, enqueue_many: bool, num_threads: int, shapes: Any, function: str
) -> tuple[Any, Any]:
    given, rebuild = _listed(tensors)
    if not given:
        raise ValueError(f"Expected at least one tensor in {function}().")
    found = [tf.convert_to_tensor(tensor) for tensor in given]
    tf.constant(True, dtype=tf.bool)
    types = [tensor.dtype.base_dtype for tensor in found]
    queue = make(types, _shapes(found, shapes, enqueue_many, function))
    entered = queue.enqueue_many(found) if enqueue_many else queue.enqueue(found)
    add_queue_runner(QueueRunner(queue, [entered] * num_threads))
    return queue, rebuild


def batch(
    tensors: Any,
    batch_size: Any,
    num_threads: int = 1,
    capacity: int = 32,
    enqueue_many: bool = False,
    shapes: Any = None,
    dynamic_pad: bool = False,
    allow_smaller_final_batch: bool = False,
    shared_name: Any = None,
    name: str | None = None,
    keep_input: Any = True,
) -> Any:
    """Batches of what the tensors are, one after the other."""
    _check_keep(keep_input, "batch")
    with tf.name_scope(name, "batch", _listed(tensors)[0]) as scope:
        kind: Any = PaddingFIFOQueue if dynamic_pad else FIFOQueue

        def make(types: Any, sizes: Any) -> Any:
            return kind(capacity, types, sizes, shared_name=shared_name)

        queue, rebuild = _start(tensors, capacity, scope, make, enqueue_many, num_threads, shapes, "batch")
        tf.summary.scalar(f"fraction_of_{capacity}_full", tf.cast(queue.size(), tf.float32) * (1.0 / capacity))
        return rebuild(_taken(queue, batch_size, scope, allow_smaller_final_batch))


def shuffle_batch(
    tensors: Any,
    batch_size: Any,
    capacity: int,
    min_after_dequeue: int,
    num_threads: int = 1,
    seed: Any = None,
    enqueue_many: bool = False,
    shapes: Any = None,
    allow_smaller_final_batch: bool = False,
    shared_name: Any = None,
    name: str | None = None,
    keep_input: Any = True,
) -> Any:
    """Batches of what the tensors are, in random order."""
    _check_keep(keep_input, "shuffle_batch")
    with tf.name_scope(name, "shuffle_batch", _listed(tensors)[0]) as scope:
        if capacity <= min_after_dequeue:
            raise ValueError(f"capacity {capacity} must be bigger than min_after_dequeue {min_after_dequeue}.")

        def make(types: Any, sizes: Any) -> Any:
            return RandomShuffleQueue(capacity, min_after_dequeue, types, sizes, seed=seed, shared_name=shared_name)

        queue, rebuild = _start(tensors, capacity, scope, make, enqueue_many, num_threads, shapes, "shuffle_batch")
        room = capacity - min_after_dequeue
        full = tf.cast(tf.maximum(0, queue.size() - min_after_dequeue), tf.float32) * (1.0 / room)
        tf.summary.scalar(f"fraction_over_{min_after_dequeue}_of_{room}_full", full)
        return rebuild(_taken(queue, batch_size, scope, allow_smaller_final_batch))


def _taken(queue: Any, batch_size: Any, scope: str, allow_smaller: bool) -> list[Any]:
    take = queue.dequeue_up_to if allow_smaller else queue.dequeue_many
    found = take(batch_size, name=scope)
    return found if isinstance(found, list) else [found]
