"""`tf.FIFOQueue` and the other queues: enqueue and dequeue ops with known shapes."""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from typing import Any

import placesim.tf1 as tf
from placesim.tf1.graphs.tensor import Tensor
from placesim.tf1.graphs.tensor_likes import DTypeLike, ShapeLike, TensorLike
from placesim.tf1.ops.arguments import as_list
from placesim.tf1.ops.generated_functions import gen
from placesim.tf1.random.seeds import get_seed
from placesim.tf1.types.dtypes import DType
from placesim.tf1.types.read_only import read_only
from placesim.tf1.types.shapes import TensorShape


class QueueBase:
    """A queue of tuples of tensors; with `names`, of dicts."""

    def __init__(self, dtypes: list[DType], shapes: list[TensorShape], names: list[str] | None, queue_ref: Tensor) -> None:
        if shapes and len(shapes) != len(dtypes):
            raise ValueError(
                "Queue shapes must have the same length as dtypes, "
                f"received len(shapes)={len(shapes)}, len(dtypes)={len(dtypes)}"
            )
        if names and len(names) != len(dtypes):
            # always so for a PriorityQueue with names: these do not count its priority
            raise ValueError(
                f"Queue names must have the same length as dtypes,received len(names)={len(names)},len {len(dtypes)}"
            )
        self._dtypes, self._shapes, self._names, self._queue_ref = dtypes, shapes, names, queue_ref
        self._name = queue_ref.op.name.rpartition("/")[2]

    @staticmethod
    def from_list(index: TensorLike, queues: Any) -> QueueBase:
        """Select a queue by its index.  Raises TypeError if the queues' elements differ, or `queues` is no list of queues."""
        if not queues or not isinstance(queues, list) or not all(isinstance(queue, QueueBase) for queue in queues):
            raise TypeError("A list of queues expected")
        first = queues[0]
        if any(queue.dtypes != first.dtypes for queue in queues):
            raise TypeError("Queues do not have matching component dtypes.")
        if any(queue.names != first.names for queue in queues):
            raise TypeError("Queues do not have matching component names.")
        shapes = [
            reduce(TensorShape.most_specific_compatible_shape, of) for of in zip(*(q.shapes for q in queues), strict=False)
        ]
        chosen = tf.gather(tf.stack([queue.queue_ref for queue in queues]), index)
        return QueueBase(first.dtypes, shapes, first.names, chosen)

    queue_ref: Tensor = read_only("_queue_ref")
    name: str = read_only("_queue_ref.op.name")

    @property
    def dtypes(self) -> list[Any]:
        return list(self._dtypes)

    @property
    def shapes(self) -> list[TensorShape]:
        return list(self._shapes)

    names = read_only("_names")

    # --- enqueueing

    def _listed(self, values: TensorLike) -> list[Any]:
        if isinstance(values, dict):
            if not self._names:
                raise ValueError("Queue must have names to enqueue a dictionary")
            if sorted(self._names, key=str) != sorted(values.keys(), key=str):
                raise ValueError(
                    f"Keys in dictionary to enqueue do not match names of Queue.  Dictionary: {sorted(values.keys())},"
                    f"Queue: {sorted(self._names)}"
                )
            return [values[name] for name in self._names]
        if self._names:
            raise ValueError("You must enqueue a dictionary in a Queue with names")
        return as_list(values)

    def _tensors(self, values: Any, batched: bool) -> list[Tensor]:
        # like TensorFlow, ignore values beyond the queue's components
        given = zip(self._listed(values), self._dtypes, strict=False)
        found = [tf.convert_to_tensor(value, dtype, name=f"component_{i}") for i, (value, dtype) in enumerate(given)]
        count = tf.Dimension(None)
        for tensor, shape in zip(found, self._shapes, strict=False):
            if batched:
                count = count.merge_with(tensor.shape.with_rank_at_least(1)[0])
            (tensor.shape[1:] if batched else tensor.shape).assert_is_compatible_with(shape)
        return found

    def _values_of(self, values: TensorLike) -> list[Any]:
        listed = list(values.values()) if isinstance(values, dict) else values
        return as_list(listed)

    def enqueue(self, vals: Any, name: str | None = None) -> Any:
        """Make an op that adds one element."""
        with tf.name_scope(name, f"{self._name}_enqueue", self._values_of(vals)) as scope:
            return gen("QueueEnqueueV2")(self._queue_ref, self._tensors(vals, False), name=scope)

    def enqueue_many(self, vals: Any, name: str | None = None) -> Any:
        """Make an op that adds the slices along the first dimension."""
        with tf.name_scope(name, f"{self._name}_EnqueueMany", self._values_of(vals)) as scope:
            return gen("QueueEnqueueManyV2")(self._queue_ref, self._tensors(vals, True), name=scope)

    # --- dequeueing

    def _given(self, made: Any, outer: list[Any] | None) -> Any:
        tensors = as_list(made)
        for tensor, shape in zip(tensors, self._shapes, strict=False):
            tensor.set_shape(shape if outer is None else TensorShape(outer).concatenate(shape))
        if self._names:
            return dict(zip(self._names, tensors, strict=True))
        return tensors[0] if len(tensors) == 1 else tensors

    def dequeue(self, name: str | None = None) -> Any:
        """Take one element."""
        return self._given(gen("QueueDequeueV2")(self._queue_ref, self._dtypes, name=name or f"{self._name}_Dequeue"), None)

    def dequeue_many(self, n: object, name: str | None = None) -> Any:
        """Take `n` elements, joined along a new first dimension."""
        made = gen("QueueDequeueManyV2")(self._queue_ref, n, self._dtypes, name=name or f"{self._name}_DequeueMany")
        first = made[0] if isinstance(made, list | tuple) else made
        size = tf.get_static_value(first.op.inputs[1])
        return self._given(made, [None if size is None else int(size)])

    def dequeue_up_to(self, n: object, name: str | None = None) -> Any:
        """Take `n` elements, or fewer if the queue is closed."""
        made = gen("QueueDequeueUpToV2")(self._queue_ref, n, self._dtypes, name=name or f"{self._name}_DequeueUpTo")
        return self._given(made, [None])

    # --- state

    def close(self, cancel_pending_enqueues: bool = False, name: str | None = None) -> Any:
        """Make an op that closes the queue for further elements."""
        return gen("QueueCloseV2")(self._queue_ref, cancel_pending_enqueues, name=name or f"{self._name}_Close")

    def is_closed(self, name: str | None = None) -> Tensor:
        """Whether the queue is closed."""
        return gen("QueueIsClosedV2")(self._queue_ref, name=name or f"{self._name}_Is_Closed")  # type: ignore[no-any-return]

    def size(self, name: str | None = None) -> Tensor:
        """Number of elements."""
        return gen("QueueSizeV2")(self._queue_ref, name=name or f"{self._name}_Size")  # type: ignore[no-any-return]


def _as_types(dtypes: object) -> list[Any]:
    return [tf.as_dtype(dtype) for dtype in (dtypes if isinstance(dtypes, list | tuple) else [dtypes])]


def _as_shapes(shapes: Any) -> list[TensorShape]:
    """The shapes of a queue's components.  Raises ValueError for a partial shape, TypeError for other values."""
    if shapes is None:
        return []
    if not isinstance(shapes, list | tuple | TensorShape):
        raise TypeError(f"Shapes must be a TensorShape or a list or tuple of TensorShapes, got {type(shapes)} instead.")
    listed = [shapes] if isinstance(shapes, TensorShape) else shapes
    if all(size is None or isinstance(size, int) for size in listed):
        listed = [listed]
    found = [TensorShape(shape) for shape in listed]
    if not all(shape.is_fully_defined() for shape in found):
        raise ValueError(f"All shapes must be fully defined: {found}")
    return found


def _as_partial_shapes(shapes: Any, types: list[Any]) -> list[TensorShape]:
    """The shapes of a queue that pads.  Raises ValueError for one that is missing, or whose rank is unknown."""
    if not isinstance(shapes, list | tuple) or not shapes or any(size is None or isinstance(size, int) for size in shapes):
        raise ValueError("When providing partial shapes, a list of shapes must be provided.")
    found = [TensorShape(shape) for shape in shapes]
    if any(shape.rank is None for shape in found):
        raise ValueError(f"All shapes must have a defined rank: {found}")
    if len(found) != len(types):
        raise ValueError(
            f"Shapes must be provided for all components, but received {len(types)} dtypes and {len(found)} shapes."
        )
    return found


def _as_names(names: Any, dtypes: list[Any]) -> Any:
    if names is None:
        return None
    found = list(names) if isinstance(names, list | tuple) else [names]
    if len(found) != len(dtypes):
        raise ValueError(
            "List of names must have the same length as the list of dtypes, "
            f"received len(names)={len(found)},len(dtypes)={len(dtypes)}"
        )
    return found


class FIFOQueue(QueueBase):
    """First in, first out."""

    def __init__(
        self,
        capacity: int,
        dtypes: DTypeLike | Sequence[DTypeLike],
        shapes: ShapeLike | Sequence[ShapeLike] | None = None,
        names: str | Sequence[str] | None = None,
        shared_name: str | None = None,
        name: str | None = "fifo_queue",
    ) -> None:
        types, sizes = _as_types(dtypes), _as_shapes(shapes)
        labels = _as_names(names, types)
        # the one queue that TensorFlow lifts out of functions and keeps on the CPU
        with tf.init_scope(), tf.device("CPU"):
            made = gen("FIFOQueueV2")(types, sizes, capacity, shared_name=shared_name or "", name=name)
        super().__init__(types, sizes, labels, made)


class RandomShuffleQueue(QueueBase):
    """Queue that returns elements in random order, and always keeps a minimum number of elements until it is closed."""

    def __init__(
        self,
        capacity: int,
        min_after_dequeue: int,
        dtypes: DTypeLike | Sequence[DTypeLike],
        shapes: ShapeLike | Sequence[ShapeLike] | None = None,
        names: str | Sequence[str] | None = None,
        seed: int | None = None,
        shared_name: str | None = None,
        name: str = "random_shuffle_queue",
    ) -> None:
        types, sizes = _as_types(dtypes), _as_shapes(shapes)
        labels = _as_names(names, types)
        first, second = get_seed(seed)
        if first is None and second is None:
            first, second = 0, 0  # the kernel draws a seed itself
        made = gen("RandomShuffleQueueV2")(
            types,
            sizes,
            capacity,
            min_after_dequeue=min_after_dequeue,
            seed=first or 0,
            seed2=second or 0,
            shared_name=shared_name or "",
            name=name,
        )
        super().__init__(types, sizes, labels, made)


class PaddingFIFOQueue(QueueBase):
    """First in, first out; elements taken together are padded to one shape."""

    def __init__(
        self,
        capacity: int,
        dtypes: DTypeLike | Sequence[DTypeLike],
        shapes: ShapeLike | Sequence[ShapeLike],
        names: str | Sequence[str] | None = None,
        shared_name: str | None = None,
        name: str = "padding_fifo_queue",
    ) -> None:
        types = _as_types(dtypes)
        labels = _as_names(names, types)
        sizes = _as_partial_shapes(shapes, types)
        made = gen("PaddingFIFOQueueV2")(types, sizes, capacity, shared_name=shared_name or "", name=name)
        super().__init__(types, sizes, labels, made)


class PriorityQueue(QueueBase):
    """Lowest priority first.  The priority is an int64, the first component of each element."""

    def __init__(
        self,
        capacity: int,
        types: DTypeLike | Sequence[DTypeLike],
        shapes: ShapeLike | Sequence[ShapeLike] | None = None,
        names: str | Sequence[str] | None = None,
        shared_name: str | None = None,
        name: str = "priority_queue",
    ) -> None:
        kinds, sizes = _as_types(types), _as_shapes(shapes)
        labels = _as_names(names, kinds)
        made = gen("PriorityQueueV2")(
            component_types=kinds, shapes=sizes, capacity=capacity, shared_name=shared_name or "", name=name
        )
        # the op's attrs omit the priority
        kinds = [tf.int64, *kinds]
        sizes = [TensorShape([]), *sizes] if sizes else sizes
        super().__init__(kinds, sizes, labels, made)
