"""Contents of a queue, and the attempts of ops that enqueue or dequeue, which may wait for room or for elements.

As in TensorFlow, a queue has a line of enqueue attempts and a line of dequeue attempts, and only the first attempt of each line
acts. So ops act in order of arrival, and an op that needs many elements takes each element as soon as it is available. The
lines belong to a step. Source: TensorFlow's `queue_base.cc` and its four kinds of queue.
"""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, Protocol

import numpy as np

from placesim.core.dtypes import STRING, DataType
from placesim.core.errors import CancelledError, InvalidArgumentError, OpError, OutOfRangeError
from placesim.ops.kernels.abstract_tensor import Sketch, as_array
from placesim.ops.kernels.device_resources import value_dims
from placesim.ops.kernels.kernel import KernelContext, KernelWait
from placesim.ops.kernels.philox import WordStream, seeded_philox
from placesim.ops.kernels.shapes import Dims, format_dims

UNBOUNDED = (1 << 31) - 1
"""The capacity of an unbounded queue."""

Element = tuple[Any, ...]
"""One value for each component."""


class QueueOrder(Protocol):
    """The elements of a queue, in the order in which this kind of queue returns them."""

    def __len__(self) -> int: ...
    def put(self, element: Element) -> None:
        """Insert an element. Raises InvalidArgumentError if it cannot be ordered."""

    def take(self) -> Element:
        """Remove and return the next element; there must be one."""

    def give_back(self, elements: Sequence[Element]) -> None:
        """Put back the elements that were taken last, given in the order in which they were taken."""


class FifoOrder:
    """First in, first out."""

    def __init__(self) -> None:
        self._elements: deque[Element] = deque()

    def __len__(self) -> int:
        return len(self._elements)

    def put(self, element: Element) -> None:
        self._elements.append(element)

    def take(self) -> Element:
        return self._elements.popleft()

    def give_back(self, elements: Sequence[Element]) -> None:
        self._elements.extendleft(reversed(elements))


class ShuffleOrder:
    """A random element, each equally likely; the last element then moves to its position."""

    def __init__(self, seed: int, seed2: int) -> None:
        self._elements: list[Element] = []
        self._random = WordStream(seeded_philox(seed, seed2))

    def __len__(self) -> int:
        return len(self._elements)

    def put(self, element: Element) -> None:
        self._elements.append(element)

    def take(self) -> Element:
        index = self._random.word() % len(self._elements)
        element = self._elements[index]
        self._elements[index] = self._elements[-1]
        self._elements.pop()
        return element

    def give_back(self, elements: Sequence[Element]) -> None:
        self._elements.extend(reversed(elements))


class PriorityElement(tuple[Any, ...]):
    """An element that compares only by its first component, so that equal elements have the order of C++'s heap."""

    def __lt__(self, other: tuple[Any, ...]) -> bool:
        return bool(self[0] < other[0])


class PriorityOrder:
    """The element with the smallest first component."""

    def __init__(self) -> None:
        self._heap: list[PriorityElement] = []

    def __len__(self) -> int:
        return len(self._heap)

    def put(self, element: Element) -> None:
        if value_dims(element[0]):
            shape = format_dims(value_dims(element[0]))
            raise InvalidArgumentError(f"Expected the priority element to be a scalar, but received shape: {shape}")
        heapq.heappush(self._heap, PriorityElement(element))

    def take(self) -> Element:
        return tuple(heapq.heappop(self._heap))

    def give_back(self, elements: Sequence[Element]) -> None:
        for element in reversed(elements):
            self.put(element)


@dataclass(slots=True)
class Queue:
    """A queue; `kind` is its op, such as `FIFOQueue`, and `shapes` is empty if components may have any shape.

    `min_after_dequeue` elements stay inside until the queue is closed. An op that shares the queue must have the same `seeds`,
    or none.
    """

    kind: str
    name: str
    capacity: int
    dtypes: tuple[DataType, ...]
    shapes: tuple[Dims, ...]
    elements: QueueOrder
    min_after_dequeue: int = 0
    closed: bool = False
    seeds: tuple[int, int] = (0, 0)

    @property
    def base_kind(self) -> str:
        """Kind in errors of ops that a PaddingFIFOQueue inherits from FIFOQueue: all but those that dequeue a batch."""
        return self.kind.removeprefix("Padding")


# --- attempts -------------------------------------------------------------------------------------------------------


class AttemptProgress(Enum):
    """Progress of an attempt: none, some, or complete."""

    NONE = 0
    SOME = 1
    DONE = 2


class Attempt:
    """An op's attempt at a queue. `advance` stores an error in `error`, and the op raises it later."""

    def __init__(self) -> None:
        self.done = False
        self.error: OpError | None = None
        self.taken: list[Element] = []

    def advance(self, queue: Queue, lines: AttemptLines) -> AttemptProgress:
        """Enqueue, dequeue or close, as far as is possible now."""
        raise NotImplementedError


@dataclass(slots=True)
class AttemptLines:
    """The attempts of a step at one queue: both lines, and the attempts whose result is still unread (`known`)."""

    putting: deque[Attempt] = field(default_factory=deque)
    taking: deque[Attempt] = field(default_factory=deque)
    known: dict[tuple[Any, ...], tuple[Attempt, Any]] = field(default_factory=dict)


class EnqueueAttempt(Attempt):
    """Enqueue elements, one after another, while there is room."""

    def __init__(self, elements: Sequence[Element]) -> None:
        super().__init__()
        self._waiting = deque(elements)

    def advance(self, queue: Queue, lines: AttemptLines) -> AttemptProgress:
        if queue.closed:
            self.error = CancelledError(f"{queue.base_kind} '{queue.name}' is closed.")
            return AttemptProgress.DONE
        progress = AttemptProgress.NONE
        while len(queue.elements) < queue.capacity:
            try:
                queue.elements.put(self._waiting.popleft())
            except InvalidArgumentError as error:
                self.error = error
                return AttemptProgress.DONE
            if not self._waiting:
                return AttemptProgress.DONE
            progress = AttemptProgress.SOME
        return progress


class DequeueAttempt(Attempt):
    """Dequeue `count` elements, one after another, as a batch or a single element.

    With `allow_fewer` a closed queue may return fewer.
    """

    def __init__(self, count: int, allow_fewer: bool = False, *, is_batch: bool = True) -> None:
        super().__init__()
        self._remaining = count
        self._allow_fewer = allow_fewer
        self._is_batch = is_batch

    def advance(self, queue: Queue, lines: AttemptLines) -> AttemptProgress:
        available = len(queue.elements)
        if queue.closed and available < self._remaining:
            error = OutOfRangeError(
                f"{queue.kind if self._is_batch else queue.base_kind} '{queue.name}' is closed and has insufficient elements "
                f"(requested {self._remaining}, current size {available})"
            )
            # the elements taken so far go back, for ops that need fewer
            queue.elements.give_back(self.taken)
            self.taken = []
            available = len(queue.elements)
            if not self._allow_fewer or not available:
                # as in TensorFlow, waiting enqueue attempts go first
                if self._allow_fewer and lines.putting:
                    return AttemptProgress.SOME
                self.error = error
                return AttemptProgress.DONE
            self._remaining = available
        if not queue.closed:
            available -= queue.min_after_dequeue
        return self._take(queue, available)

    def _take(self, queue: Queue, available: int) -> AttemptProgress:
        for _ in range(min(available, self._remaining)):
            self.taken.append(queue.elements.take())
            self._remaining -= 1
        if not self._remaining:
            return AttemptProgress.DONE
        return AttemptProgress.SOME if available > 0 else AttemptProgress.NONE


class CloseAttempt(Attempt):
    """Close the queue after earlier enqueue attempts."""

    def advance(self, queue: Queue, lines: AttemptLines) -> AttemptProgress:
        if queue.closed:
            self.error = CancelledError(f"Queue '{queue.name}' is already closed.")
        queue.closed = True
        return AttemptProgress.DONE


def lines_of(queue: Queue, context: KernelContext) -> AttemptLines:
    """The lines of attempts at a queue in this step."""
    found: AttemptLines = context.step_resources.setdefault(f"attempts at {queue.name} {id(queue)}", AttemptLines())
    return found


def _advance_first(queue: Queue, lines: AttemptLines, line: deque[Attempt]) -> bool:
    """Advance the first attempts of a line until one must wait; return whether anything changed."""
    progressed = False
    while line:
        if line[0].done:
            line.popleft()
            continue
        progress = line[0].advance(queue, lines)
        progressed |= progress is not AttemptProgress.NONE
        if progress is not AttemptProgress.DONE:
            break
        line.popleft().done = True
    return progressed


def advance_all(queue: Queue, lines: AttemptLines) -> None:
    """Advance the attempts at a queue until none makes progress."""
    changed = True
    while changed:
        changed = _advance_first(queue, lines, lines.putting)
        changed = _advance_first(queue, lines, lines.taking) or changed


def attempt(queue: Queue, context: KernelContext, inputs: Sequence[Any], make: Callable[[], Attempt]) -> list[Element]:
    """Complete this op's attempt at a queue and return its elements. Raises KernelWait if it must wait.

    The op's first call creates the attempt with `make`; later calls find it by node and inputs.
    """
    lines = lines_of(queue, context)
    key = (context.node, *map(id, inputs))
    if key not in lines.known:
        made = make()
        lines.known[key] = (made, tuple(inputs))  # a reference to the inputs keeps their ids from being reused
        (lines.taking if isinstance(made, DequeueAttempt) else lines.putting).append(made)
    advance_all(queue, lines)
    mine = lines.known[key][0]
    if not mine.done:
        raise KernelWait
    del lines.known[key]
    if mine.error is not None:
        raise mine.error
    return mine.taken


def cancel_puts(queue: Queue, lines: AttemptLines) -> None:
    """Close a queue immediately, and cancel waiting enqueue attempts."""
    queue.closed = True
    for waiting in lines.putting:
        waiting.done = True
        waiting.error = CancelledError("Enqueue operation was cancelled")
    advance_all(queue, lines)


def pad_stack(values: Sequence[Any], dtype: DataType, dims: tuple[int, ...]) -> Any:
    """Stack values of equal rank along a new first axis; unknown `dims` get the largest size, and are padded with zeros."""
    arrays = [as_array(value, dtype) for value in values]
    shape = [max(array.shape[axis] for array in arrays) if dim < 0 else dim for axis, dim in enumerate(dims)]
    sketch = next((array for array in arrays if isinstance(array, Sketch)), None)
    if sketch is not None:
        return sketch.with_shape((len(arrays), *shape))
    found = np.full((len(arrays), *shape), b"" if dtype is STRING else 0, dtype.numpy)
    for row, array in zip(found, arrays, strict=True):
        row[tuple(map(slice, array.shape))] = array
    return found
