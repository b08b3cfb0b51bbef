"""Queues of inputs: `tf.train.string_input_producer` and related functions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import placesim.tf1 as tf
from placesim.tf1.graphs.tensor import Tensor
from placesim.tf1.graphs.tensor_likes import ShapeLike, TensorLike
from placesim.tf1.queues.queue_runners import QueueRunner, add_queue_runner
from placesim.tf1.queues.queues import FIFOQueue

_EMPTY = "string_input_producer requires a non-null input tensor"


def limit_epochs(tensor: TensorLike, num_epochs: int | None = None, name: str | None = None) -> Any:
    """A copy of the tensor that can be computed `num_epochs` times, and then raises OutOfRangeError."""
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
    input_tensor: object,
    element_shape: ShapeLike | None = None,
    num_epochs: int | None = None,
    shuffle: bool = True,
    seed: int | None = None,
    capacity: int = 32,
    shared_name: str | None = None,
    summary_name: str | None = None,
    name: str | None = None,
    cancel_op: object = None,
) -> FIFOQueue:
    """A queue of the rows of a tensor."""
    with tf.name_scope(name, "input_producer", [input_tensor]):
        rows = tf.convert_to_tensor(input_tensor, name="input_tensor")
        element = rows.shape[1:].merge_with(element_shape)
        if not element.is_fully_defined():
            raise ValueError("Either `input_tensor` must have a fully defined shape or `element_shape` must be specified")
        if shuffle:
            rows = tf.random_shuffle(rows, seed=seed)
        rows = limit_epochs(rows, num_epochs)
        queue = FIFOQueue(capacity, [rows.dtype.base_dtype], [element], shared_name=shared_name, name=name)
        add_queue_runner(QueueRunner(queue, [queue.enqueue_many([rows])], cancel_op=cancel_op))
        if summary_name is not None:
            tf.summary.scalar(summary_name, tf.cast(queue.size(), tf.float32) * (1.0 / capacity))
        return queue


def string_input_producer(
    string_tensor: object,
    num_epochs: int | None = None,
    shuffle: bool = True,
    seed: int | None = None,
    capacity: int = 32,
    shared_name: str | None = None,
    name: str | None = None,
    cancel_op: object = None,
) -> FIFOQueue:
    """Queue of strings.  Raises ValueError for an empty list."""
    if not isinstance(string_tensor, Tensor) and not string_tensor:
        raise ValueError(_EMPTY)
    with tf.name_scope(name, "input_producer", [string_tensor]) as scope:
        texts = tf.convert_to_tensor(string_tensor, dtype=tf.string)
        with tf.control_dependencies([tf.Assert(tf.greater(tf.size(texts), 0), [_EMPTY])]):
            texts = tf.identity(texts)
        full = f"fraction_of_{capacity}_full"
        return input_producer(texts, [], num_epochs, shuffle, seed, capacity, shared_name, full, scope, cancel_op)


def range_input_producer(
    limit: TensorLike,
    num_epochs: int | None = None,
    shuffle: bool = True,
    seed: int | None = None,
    capacity: int = 32,
    shared_name: str | None = None,
    name: str | None = None,
) -> FIFOQueue:
    """A queue of the numbers from 0 up to a limit."""
    with tf.name_scope(name, "input_producer", [limit]) as scope:
        full = f"fraction_of_{capacity}_full"
        return input_producer(tf.range(limit), [], num_epochs, shuffle, seed, capacity, shared_name, full, scope)


def slice_input_producer(
    tensor_list: Sequence[TensorLike],
    num_epochs: int | None = None,
    shuffle: bool = True,
    seed: int | None = None,
    capacity: int = 32,
    shared_name: str | None = None,
    name: str | None = None,
) -> list[Tensor]:
    """A row of each tensor, with the same index for all.  Raises ValueError for an empty list."""
    with tf.name_scope(name, "input_producer", tensor_list):
        tensors = [tf.convert_to_tensor(tensor) for tensor in tensor_list]
        if not tensors:
            raise ValueError("Expected at least one tensor in slice_input_producer().")
        rows = tf.shape(tensors[0])[0]
        index = range_input_producer(rows, num_epochs, shuffle, seed, capacity, shared_name).dequeue()
        return [tf.gather(tensor, index) for tensor in tensors]


def match_filenames_once(pattern: object, name: str | None = None) -> Any:
    """Local variable with the names of matching files, found at its initialization."""
    with tf.name_scope(name, "matching_filenames", [pattern]) as scope:
        return tf.Variable(
            tf.io.matching_files(pattern),
            trainable=False,
            name=scope,
            validate_shape=False,
            collections=["local_variables"],
        )
