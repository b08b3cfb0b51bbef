"""Results of input functions: datasets, tensors, and numpy arrays that a thread feeds into a queue."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

import numpy as np

import placesim.tf1 as tf
from placesim.tf1.data.datasets import Dataset
from placesim.tf1.graphs.tensor import Operation, Tensor
from placesim.tf1.queues.queue_runners import Coordinator, QueueRunner, add_queue_runner
from placesim.tf1.queues.queues import QueueBase
from placesim.tf1.session.stacks import FeedDict, RunningSession
from placesim.tf1.training.run_hooks import SessionRunHook

_TARGET = "__target_key__"
"""Name of the labels among the arrays, with a suffix where a feature has it."""


class Inputs(NamedTuple):
    """A batch of an input function, and the hooks that its session needs."""

    features: Any
    labels: Any
    hooks: list[SessionRunHook]


class InitializerHook(SessionRunHook):
    """Initializes an iterator in each new session."""

    def __init__(self, iterator: Any) -> None:
        self._iterator = iterator

    def begin(self) -> None:
        """Take the initializer before the graph is finalized."""
        self._initializer = self._iterator.initializer

    def after_create_session(self, session: RunningSession, coord: Coordinator) -> None:
        """Run the initializer."""
        session.run(self._initializer)


def as_inputs(result: Any) -> Inputs:
    """The batch of an input function's result.  Raises ValueError for a tuple that is not (features, labels)."""
    hooks: list[SessionRunHook] = []
    if isinstance(result, Dataset):
        iterator = tf.data.make_initializable_iterator(result)
        hooks.append(InitializerHook(iterator))
        result = iterator.get_next()
    return Inputs(*features_and_labels(result), hooks)


def features_and_labels(element: Any) -> tuple[Any, Any]:
    """The two components of an element; labels are None for one that is not a tuple.  Raises ValueError for other lengths."""
    if not isinstance(element, list | tuple):
        return element, None
    if len(element) != 2:
        raise ValueError("input_fn should return (features, labels) as a len 2 tuple.")
    return element[0], element[1]


class FeedingQueueRunner(QueueRunner):
    """Queue runner whose threads feed their enqueue ops.  The end of the feeds closes the queue."""

    def __init__(self, queue: QueueBase, feeds: Mapping[Operation, Iterator[FeedDict]]) -> None:
        closing = (tf.errors.OutOfRangeError, tf.errors.CancelledError)
        super().__init__(queue, list(feeds), queue_closed_exception_types=closing)
        self._feeds_of = feeds

    def _feeds(self, enqueue_op: Any) -> FeedDict | None:
        found = next(self._feeds_of[enqueue_op], None)
        if found is None:
            raise tf.errors.OutOfRangeError(None, None, "All epochs were emitted.")
        return found


def numpy_input_fn(
    x: Any,
    y: Any = None,
    batch_size: int = 128,
    num_epochs: int | None = 1,
    shuffle: bool | None = None,
    queue_capacity: int = 1000,
    num_threads: int = 1,
) -> Callable[[], Any]:
    """Input function that dequeues batches of numpy arrays.

    `x` and `y` are arrays or dicts of arrays of one length.  Without `num_epochs` the data never ends.  Raises ValueError if
    `shuffle` is not given; the input function raises ValueError for arrays of several lengths, and TypeError for another `x`.
    """
    if not isinstance(shuffle, bool):
        raise ValueError(
            "shuffle must be provided and explicitly set as boolean (it is recommended to set it as True for training); "
            f"got {shuffle}"
        )

    def input_fn() -> Any:
        columns = _columns(x)
        features = list(columns)
        if isinstance(y, dict):
            if not y:
                raise ValueError("y cannot be empty dict, use None instead.")
            labels = dict(sorted(y.items()))
            if twice := set(columns) & set(labels):
                raise ValueError(f"{len(twice)} duplicate keys are found in both x and y: {twice}")
        else:
            target = _TARGET
            while target in columns:
                target += "_n"
            labels = {} if y is None else {target: y}
        columns |= labels
        if len({column.shape[0] for column in columns.values()}) != 1:
            shapes = {name: columns[name].shape for name in features}
            of_labels = {name: columns[name].shape for name in labels} if isinstance(y, dict) else getattr(y, "shape", None)
            raise ValueError(
                "Length of tensors in x and y is mismatched. All elements in x and y must have the same length.\n"
                f"Shapes in x: {shapes}\nShapes in y: {of_labels}\n"
            )
        queue = _filled_queue(columns, queue_capacity, shuffle, num_threads, batch_size, num_epochs)
        _, *batch = queue.dequeue_many(batch_size) if num_epochs is None else queue.dequeue_up_to(batch_size)
        found = dict(zip(features, batch, strict=False)) if isinstance(x, dict) else batch[0]
        if y is None:
            return found
        return found, dict(zip(labels, batch[len(features) :], strict=True)) if isinstance(y, dict) else batch[-1]

    return input_fn


def _columns(x: Any) -> dict[str, np.ndarray]:
    """The features' arrays by name."""
    if isinstance(x, dict):
        if not x:
            raise ValueError("x cannot be an empty dict")
        return dict(sorted(x.items()))
    if not isinstance(x, np.ndarray):
        raise TypeError(f"x must be a dict or array; got {type(x).__name__}")
    if x.size == 0:
        raise ValueError("x cannot be an empty array")
    return {"__direct_np_input__": x}


def _filled_queue(
    columns: Mapping[str, np.ndarray], capacity: int, shuffle: bool, threads: int, batch: int, epochs: int | None
) -> Any:
    """Queue of the arrays' rows, each after its number; threads feed `batch` rows at a time."""
    with tf.name_scope("enqueue_input"):
        dtypes = [tf.int64, *(tf.as_dtype(column.dtype) for column in columns.values())]
        shapes: list[tuple[int, ...]] = [(), *(column.shape[1:] for column in columns.values())]
        least = capacity // 4 if shuffle else 0
        if shuffle:
            queue: Any = tf.queue.RandomShuffleQueue(capacity, least, dtypes=dtypes, shapes=shapes)
        else:
            queue = tf.queue.FIFOQueue(capacity, dtypes=dtypes, shapes=shapes)
        feeds: dict[Operation, Iterator[FeedDict]] = {}
        for _ in range(threads):
            # without shapes they take any number of rows
            rows: list[Tensor] = [tf.placeholder(dtype) for dtype in dtypes]
            start = random.randrange(len(next(iter(columns.values())))) if shuffle else 0
            feeds[queue.enqueue_many(rows)] = _row_feeds(rows, columns, batch, epochs, start)
        add_queue_runner(FeedingQueueRunner(queue, feeds))
        full = tf.cast(tf.maximum(0, queue.size() - least), tf.float32) * (1.0 / (capacity - least))
        # the queue's name ends in "/"
        tf.summary.scalar(f"queue/{queue.name}fraction_over_{least}_of_{capacity - least}_full", full)
        return queue


def _row_feeds(
    placeholders: list[Tensor], columns: Mapping[str, np.ndarray], batch: int, epochs: int | None, start: int
) -> Iterator[FeedDict]:
    """Feeds of `batch` rows, from row `start` on and around; the last one ends with the last epoch."""
    length = len(next(iter(columns.values())))
    at, end = start, None if epochs is None else start + epochs * length
    while end is None or at < end:
        rows = np.arange(at, at + batch if end is None else min(at + batch, end)) % length
        yield dict(zip(placeholders, [rows, *(column[rows] for column in columns.values())], strict=True))
        at += batch
