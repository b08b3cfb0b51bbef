"""Queues, staging areas: order, capacity, closing, waiting, and TensorFlow's checks and words."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from placesim.core.errors import CancelledError, InvalidArgumentError, NotFoundError, OutOfRangeError, PlacesimError
from placesim.ops.kernels.device_resources import ResourceHandle
from placesim.ops.kernels.kernel import KernelWait
from placesim.ops.kernels.philox import WordStream, seeded_philox
from placesim.ops.kernels.shapes import ShapeError
from tests.ops.kernels.kernel_calls import Machine, shapes
from tests.runtime.sessions.graphs import fetch, make_session

FLOAT = {"Tcomponents": ["float"]}
TAKE = {"component_types": ["float"]}


def make_queue(machine: Machine, kind: str = "FIFOQueueV2", **attrs: Any) -> Any:
    return machine.run(kind, node="q", **{"component_types": ["float"], "shapes": [()], **attrs})


def fill(machine: Machine, queue: Any, *values: float) -> None:
    machine.run("QueueEnqueueManyV2", queue, np.array(values, np.float32), node="fill", **FLOAT)


def drain(machine: Machine, queue: Any, count: int) -> list[float]:
    found = machine.run("QueueDequeueManyV2", queue, np.int32(count), node="drain", **TAKE)
    assert found.dtype == np.float32
    return [float(value) for value in found]


def message_of(run: Any) -> str:
    with pytest.raises(PlacesimError) as caught:
        run()
    return f"{caught.value.type_name}: {caught.value.message}"


def test_elements_come_in_the_order_in_which_they_went_in() -> None:
    machine = Machine()
    queue = make_queue(machine)
    machine.run("QueueEnqueueV2", queue, np.float32(1), **FLOAT)
    fill(machine, queue, 2, 3, 4)
    assert machine.run("QueueSizeV2", queue) == 4
    assert machine.run("QueueDequeueV2", queue, **TAKE) == 1
    assert drain(machine, queue, 2) == [2, 3]
    assert drain(machine, queue, 0) == []
    assert machine.run("QueueSizeV2", queue) == 1


def test_the_older_ops_know_a_queue_by_two_strings() -> None:
    machine = Machine()
    handle = machine.run("FIFOQueue", node="q", component_types=["string", "int32"])
    assert handle.value.tolist() == [b"localhost", b"_0_q"]
    machine.run("QueueEnqueue", handle, np.array(b"a", object), np.int32(7), Tcomponents=["string", "int32"])
    assert machine.run("QueueSize", handle) == 1
    text, number = machine.run("QueueDequeue", handle, component_types=["string", "int32"])
    assert (text.item(), number) == (b"a", 7)
    machine.run("QueueClose", handle)
    assert machine.run("QueueIsClosed", handle)
    shared = machine.run("FakeQueue", machine.run("FIFOQueueV2", node="r", component_types=["int32"], shared_name="name"))
    assert shared.value.tolist() == [b"localhost", b"name"]


@pytest.mark.parametrize("kind", ["FIFOQueue", "RandomShuffleQueue", "PaddingFIFOQueue", "PriorityQueue"])
def test_a_closed_queue_gives_what_it_has_and_then_says_so(kind: str) -> None:
    machine = Machine()
    types = ["int64", "float"] if kind == "PriorityQueue" else ["float"]
    queue = make_queue(machine, kind + "V2")
    base = kind.removeprefix("Padding")
    one = (np.int64(1),) * (len(types) - 1)
    machine.run("QueueEnqueueV2", queue, *one, np.float32(5), Tcomponents=types)
    machine.run("QueueCloseV2", queue)
    assert machine.run("QueueIsClosedV2", queue)
    assert message_of(lambda: machine.run("QueueDequeueManyV2", queue, np.int32(3), component_types=types)) == (
        f"OutOfRangeError: {kind} '_0_q' is closed and has insufficient elements (requested 3, current size 1)"
    )
    assert message_of(lambda: machine.run("QueueEnqueueV2", queue, *one, np.float32(6), Tcomponents=types)) == (
        f"CancelledError: {base} '_0_q' is closed."
    )
    found = machine.run("QueueDequeueUpToV2", queue, np.int32(3), component_types=types)
    assert (found if len(types) == 1 else found[1]).tolist() == [5]
    assert message_of(lambda: machine.run("QueueDequeueV2", queue, component_types=types)) == (
        f"OutOfRangeError: {base} '_0_q' is closed and has insufficient elements (requested 1, current size 0)"
    )
    assert message_of(lambda: machine.run("QueueCloseV2", queue)) == "CancelledError: Queue '_0_q' is already closed."


def test_who_cannot_go_on_waits_and_takes_what_comes() -> None:
    machine = Machine()
    queue = make_queue(machine)
    count = np.int32(3)

    def take() -> Any:
        return machine.run("QueueDequeueManyV2", queue, count, node="take", **TAKE)

    with pytest.raises(KernelWait):
        take()
    fill(machine, queue, 1, 2)
    assert machine.run("QueueSizeV2", queue) == 0  # the one that waits has them
    with pytest.raises(KernelWait):
        machine.run("QueueDequeueV2", queue, node="later", **TAKE)
    fill(machine, queue, 3, 4)
    assert take().tolist() == [1, 2, 3]
    assert machine.run("QueueDequeueV2", queue, node="later", **TAKE) == 4


def test_an_attempt_that_fails_gives_back_what_it_took() -> None:
    machine = Machine()
    queue = make_queue(machine)
    count = np.int32(3)
    fill(machine, queue, 1, 2)
    with pytest.raises(KernelWait):
        machine.run("QueueDequeueManyV2", queue, count, node="take", **TAKE)
    machine.run("QueueCloseV2", queue)
    with pytest.raises(OutOfRangeError, match=r"requested 1, current size 0"):
        machine.run("QueueDequeueManyV2", queue, count, node="take", **TAKE)
    assert drain(machine, queue, 2) == [1, 2]


def test_a_full_queue_takes_elements_as_room_comes_and_closes_only_then() -> None:
    machine = Machine()
    queue = make_queue(machine, capacity=2)
    batch = np.array([1, 2, 3, 4], np.float32)

    def put() -> Any:
        return machine.run("QueueEnqueueManyV2", queue, batch, node="put", **FLOAT)

    with pytest.raises(KernelWait):
        put()
    assert machine.run("QueueSizeV2", queue) == 2
    with pytest.raises(KernelWait):
        machine.run("QueueCloseV2", queue, node="close")
    assert not machine.run("QueueIsClosedV2", queue)
    assert machine.run("QueueDequeueV2", queue, **TAKE) == 1
    assert drain(machine, queue, 3) == [2, 3, 4]
    assert put() == ()
    assert machine.run("QueueCloseV2", queue, node="close") == ()
    assert machine.run("QueueIsClosedV2", queue)


def test_closing_may_cancel_who_waits() -> None:
    machine = Machine()
    queue = make_queue(machine, capacity=1)
    batch = np.array([1, 2], np.float32)
    with pytest.raises(KernelWait):
        machine.run("QueueEnqueueManyV2", queue, batch, node="put", **FLOAT)
    machine.run("QueueCloseV2", queue, cancel_pending_enqueues=True)
    with pytest.raises(CancelledError, match="Enqueue operation was cancelled"):
        machine.run("QueueEnqueueManyV2", queue, batch, node="put", **FLOAT)
    assert drain(machine, queue, 1) == [1]


def test_what_waited_in_one_step_is_forgotten_in_the_next() -> None:
    machine = Machine()
    queue = make_queue(machine)
    with pytest.raises(KernelWait):
        machine.run("QueueDequeueV2", queue, **TAKE)
    machine.new_step()
    fill(machine, queue, 1)
    assert machine.run("QueueSizeV2", queue) == 1


def test_shuffling_draws_as_tensorflows_generator_does() -> None:
    machine = Machine()
    queue = make_queue(machine, "RandomShuffleQueueV2", seed=3, seed2=5, min_after_dequeue=2)
    fill(machine, queue, *range(8))
    words, left, expected = WordStream(seeded_philox(3, 5)), [float(value) for value in range(8)], []
    for _ in range(6):
        index = words.word() % len(left)
        expected.append(left[index])
        left[index] = left[-1]
        left.pop()
    assert drain(machine, queue, 6) == expected
    with pytest.raises(KernelWait):
        machine.run("QueueDequeueV2", queue, **TAKE)
    machine.run("QueueCloseV2", queue)
    assert len({*drain(machine, queue, 1)}) == 1


def test_a_padding_queue_fills_up_to_the_largest() -> None:
    machine = Machine()
    queue = make_queue(machine, "PaddingFIFOQueueV2", component_types=["int32", "string"], shapes=[(-1, 2), (-1,)])
    types = ["int32", "string"]
    for rows, words in ((1, [b"a", b"b"]), (3, [b"c"])):
        text = np.array(words, object)
        machine.run("QueueEnqueueV2", queue, np.full((rows, 2), rows, np.int32), text, Tcomponents=types)
    numbers, texts = machine.run("QueueDequeueManyV2", queue, np.int32(2), component_types=types)
    assert numbers.tolist() == [[[1, 1], [0, 0], [0, 0]], [[3, 3]] * 3]
    assert texts.tolist() == [[b"a", b"b"], [b"c", b""]]
    empty = machine.run("QueueDequeueManyV2", queue, np.int32(0), component_types=types)
    assert [part.shape for part in empty] == [(0, 0, 2), (0, 0)]


def test_a_priority_queue_gives_the_smallest_first() -> None:
    machine = Machine()
    queue = make_queue(machine, "PriorityQueueV2", component_types=["string"])
    types = ["int64", "string"]
    batch = np.array([b"c", b"a", b"b"], object)
    machine.run("QueueEnqueueManyV2", queue, np.array([3, -1, 2], np.int64), batch, Tcomponents=types)
    priorities, values = machine.run("QueueDequeueManyV2", queue, np.int32(3), component_types=types)
    assert (priorities.tolist(), values.tolist()) == ([-1, 2, 3], [b"a", b"b", b"c"])


@pytest.mark.parametrize(
    ("run", "message"),
    [
        (
            lambda m, q: m.run("QueueEnqueueV2", q, np.zeros(2, np.float32), **FLOAT),
            "InvalidArgumentError: Shape mismatch in tuple component 0. Expected [], got [2]",
        ),
        (
            lambda m, q: m.run("QueueEnqueueManyV2", q, np.zeros((2, 3), np.float32), **FLOAT),
            "InvalidArgumentError: Shape mismatch in tuple component 0. Expected [2], got [2,3]",
        ),
        (
            lambda m, q: m.run("QueueEnqueueV2", q, np.int32(1), Tcomponents=["int32"]),
            "InvalidArgumentError: Signature mismatch, have: resource, int32-> expected: resource, float->",
        ),
        (
            lambda m, q: m.run("QueueDequeueV2", q, component_types=["float", "int64"]),
            "InvalidArgumentError: Signature mismatch, have: resource->float, int64 expected: resource->float",
        ),
        (
            lambda m, q: m.run("QueueDequeueManyV2", q, np.int32(2), component_types=["half"]),
            "InvalidArgumentError: Signature mismatch, have: resource, int32->half expected: resource, int32->float",
        ),
        (
            lambda m, q: m.run("QueueDequeueManyV2", q, np.int32(-2), **TAKE),
            "InvalidArgumentError: DequeueManyOp requested -2 < 0 elements",
        ),
        (
            lambda m, q: m.run("QueueEnqueueV2", q, np.float32(1), timeout_ms=5, **FLOAT),
            "InvalidArgumentError: Timeout not supported yet.",
        ),
        (
            lambda m, q: m.run("QueueSizeV2", replace(q, name="other")),
            "NotFoundError: Resource localhost/other/N10tensorflow14QueueInterfaceE does not exist.",
        ),
    ],
)
def test_checks_are_in_tensorflows_words(run: Any, message: str) -> None:
    machine = Machine()
    queue = make_queue(machine)
    assert message_of(lambda: run(machine, queue)) == message


@pytest.mark.parametrize(
    ("kind", "attrs", "message"),
    [
        ("FIFOQueueV2", {"capacity": 3}, "Shared queue 's' has capacity 2 but requested capacity was 3"),
        (
            "FIFOQueueV2",
            {"shapes": [(1,)]},
            "Shared queue 's' has component shapes [[]] but requested component shapes were [[1]]",
        ),
        (
            "FIFOQueueV2",
            {"component_types": ["half"]},
            "Shared queue 's' has component types float but requested component types were half",
        ),
        ("PaddingFIFOQueueV2", {"shapes": []}, "Expected FIFOQueue, found PaddingFIFOQueueV2"),
        ("RandomShuffleQueueV2", {"min_after_dequeue": 2}, "min_after_dequeue 2 must be < capacity 2"),
        ("FIFOQueueV2", {"shared_name": "_s"}, "shared_name cannot start with '_':_s"),
        ("FIFOQueueV2", {"container": "a b"}, "container contains invalid characters: a b"),
    ],
)
def test_a_shared_queue_must_be_as_described(kind: str, attrs: dict[str, Any], message: str) -> None:
    machine = Machine()
    make_queue(machine, shared_name="s", capacity=2)
    with pytest.raises(InvalidArgumentError) as caught:
        make_queue(machine, kind, **{"shared_name": "s", "capacity": 2, **attrs})
    assert caught.value.message == message


def test_batches_need_known_shapes() -> None:
    machine = Machine()
    queue = make_queue(machine, shapes=[])
    with pytest.raises(InvalidArgumentError, match="FIFOQueue's DequeueMany and DequeueUpTo require the components to have"):
        drain(machine, queue, 1)


def test_static_shapes() -> None:
    assert shapes("FIFOQueue", component_types=["float"]) == [(2,)]
    assert shapes("FIFOQueueV2", component_types=["float"]) == [()]
    assert shapes("QueueDequeueV2", (), component_types=["float", "int32"]) == [None, None]
    assert shapes("QueueSize", (2,)) == [()]
    with pytest.raises(ShapeError, match="Input 'n' must be >= 0, but is -1"):
        shapes("QueueDequeueManyV2", (), (), values=(None, np.int32(-1)), component_types=["float"])
    with pytest.raises(ShapeError, match="Dimension must be 2 but is 3"):
        shapes("QueueClose", (3,))


def test_a_step_waits_for_what_another_node_puts_in() -> None:
    session = make_session(
        [
            {"op": "FIFOQueueV2", "name": "q", "attrs": {"component_types": ["float"], "shapes": [[]], "capacity": 2}},
            {"op": "Const", "name": "batch", "dtype": "float", "shape": [4], "value": [1.0, 2.0, 3.0, 4.0]},
            {"op": "Const", "name": "n", "dtype": "int32", "shape": [], "value": 3},
            {
                "op": "QueueDequeueManyV2",
                "name": "take",
                "inputs": ["q", "n"],
                "attrs": {"component_types": ["float"]},
            },
            {"op": "QueueEnqueueManyV2", "name": "put", "inputs": ["q", "batch"], "attrs": {"Tcomponents": ["float"]}},
            {"op": "QueueSizeV2", "name": "size", "inputs": ["q"]},
        ],
        raw=True,
    )
    taken = fetch(session, "take:0", "put")
    assert taken.tolist() == [1, 2, 3]
    assert fetch(session, "size:0") == 1


# --- staging ----------------------------------------------------------------------------------------------------------


def test_staging_areas_keep_tuples_in_order() -> None:
    machine = Machine()
    attrs = {"dtypes": ["float", "int32"], "shared_name": "s", "capacity": 2}
    with pytest.raises(KernelWait):
        machine.run("Unstage", **attrs)
    for value in (1, 2):
        machine.run("Stage", np.float32(value), np.int32(-value), **attrs)
    with pytest.raises(KernelWait):
        machine.run("Stage", np.float32(3), np.int32(-3), **attrs)
    assert machine.run("StagePeek", np.int32(1), **attrs) == (2, -2)
    assert machine.run("Unstage", **attrs) == (1, -1)
    assert machine.run("StageSize", **attrs) == 1
    machine.run("StageClear", **attrs)
    assert machine.run("StageSize", **attrs) == 0


@pytest.mark.parametrize("kind", ["Map", "OrderedMap"])
def test_staging_maps_keep_tuples_by_key(kind: str) -> None:
    machine = Machine()
    attrs = {"dtypes": ["float", "float"], "shared_name": "s"}
    both = np.array([0, 1], np.int32)

    def put(key: int, indices: Any, *values: float) -> None:
        parts = [np.float32(value) for value in values]
        machine.run(kind + "Stage", np.int64(key), indices, *parts, fake_dtypes=["float"] * len(parts), **attrs)

    put(9, both, 1, 2)
    put(4, np.array([1], np.int32), 4)
    assert machine.run(kind + "IncompleteSize", **attrs) == 1
    put(4, np.array([0], np.int32), 3)
    assert machine.run(kind + "Size", **attrs) == 2
    assert machine.run(kind + "Peek", np.int64(4), both, **attrs) == (3, 4)
    assert machine.run(kind + "Unstage", np.int64(4), both, **attrs) == (3, 4)
    with pytest.raises(KernelWait):
        machine.run(kind + "Unstage", np.int64(4), both, **attrs)
    assert machine.run(kind + "UnstageNoKey", both, **attrs) == (9, 1, 2)
    with pytest.raises(InvalidArgumentError, match="Indices are not strictly ordered"):
        put(1, np.array([1, 0], np.int32), 1, 2)


# --- barriers ---------------------------------------------------------------------------------------------------------


def keys(*names: str) -> Any:
    return np.array([name.encode() for name in names], object)


def test_a_barrier_gives_elements_that_are_complete() -> None:
    machine = Machine()
    types = {"component_types": ["float", "string"]}
    barrier = machine.run("Barrier", node="b", shapes=[(), ()], **types)

    def insert(component: int, names: Any, values: Any) -> None:
        kind = "float" if values.dtype == np.float32 else "string"
        machine.run("BarrierInsertMany", barrier, names, values, T=kind, component_index=component, node=f"i{component}")

    def take(count: int, **attrs: Any) -> Any:
        found = machine.run("BarrierTakeMany", barrier, np.int32(count), node="t", **types, **attrs)
        return [part.tolist() for part in found]

    insert(0, keys("x", "y"), np.array([1, 2], np.float32))
    insert(1, keys("z", "y"), keys("Z", "Y"))
    assert (machine.run("BarrierReadySize", barrier), machine.run("BarrierIncompleteSize", barrier)) == (1, 2)
    with pytest.raises(InvalidArgumentError, match="Key x already has a value for component 0 in barrier _0_b"):
        insert(0, keys("x"), np.array([1], np.float32))
    with pytest.raises(KernelWait):
        take(2)
    insert(1, keys("x"), keys("X"))
    first = -(1 << 63)
    machine.new_step()
    machine.run("BarrierClose", barrier)
    with pytest.raises(CancelledError, match=r"Barrier _0_b is closed, but attempted to insert a brand new key: new\."):
        insert(0, keys("new"), np.array([1], np.float32))
    insert(0, keys("z"), np.array([3], np.float32))
    assert take(9, allow_small_batch=True) == [[first + 1], [b"z"], [3.0], [b"Z"]]
    assert message_of(lambda: take(1)) == (
        "OutOfRangeError: Barrier '_0_b' is closed and has insufficient elements (requested 1, total size 0)"
    )
    assert message_of(lambda: machine.run("BarrierClose", barrier)) == "CancelledError: Barrier '_0_b' is already closed."


def test_a_handle_names_its_device() -> None:
    queue = make_queue(Machine())
    assert isinstance(queue, ResourceHandle)
    assert queue.device.endswith("CPU:0")
    with pytest.raises(NotFoundError):
        Machine().run("QueueSizeV2", queue)
