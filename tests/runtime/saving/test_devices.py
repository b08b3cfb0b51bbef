"""What a device keeps goes into a file and comes back: every kind of resource, generators, and how tensors lie in memory."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from placesim.core.errors import DataLossError, FailedPreconditionError, OutOfRangeError
from placesim.ops.kernels.device_resources import REF_VARIABLE_TYPE, ResourceHandle
from placesim.ops.kernels.kernel import KernelWait
from placesim.runtime.saving.device_state import record_state, restore_state
from placesim.runtime.saving.saved_values import _CLASSES, Packer, UnsavableError, file_name, unpack
from placesim.runtime.saving.session_checkpoints import SavedSession, read_session, write_session
from tests.ops.kernels.kernel_calls import Machine
from tests.ops.kernels.test_lookup_tables import FIND, TYPES, find, strings

FLOATS = {"component_types": ["float"]}
DEVICE = "/job:localhost/replica:0/task:0/device:CPU:0"


def again(machine: Machine, folder: Path) -> Machine:
    """A machine that goes on where this one is, with what a file has of it."""
    record = record_state(machine.state())
    assert not record.left
    write_session(str(folder / "model-1"), SavedSession(1, (record,), ()))
    other = Machine()
    restore_state(read_session(str(folder / "model-1")).records[0]).give(other.state())
    return other


def number(value: float) -> Any:
    return np.float32(value)


def fill_queues(machine: Machine) -> dict[str, Any]:
    queues = {}
    for kind, more in (("FIFOQueueV2", {}), ("RandomShuffleQueueV2", {"seed": 3}), ("PaddingFIFOQueueV2", {"shapes": [()]})):
        queues[kind] = machine.run(kind, node=kind, **FLOATS, **more)
        for i in range(6):
            machine.run("QueueEnqueueV2", queues[kind], number(i), Tcomponents=["float"])
    queues["PriorityQueueV2"] = machine.run("PriorityQueueV2", node="p", component_types=["float"], shapes=[()])
    for i in (3, 1, 2, 1):
        machine.run("QueueEnqueueV2", queues["PriorityQueueV2"], np.int64(i), number(i), Tcomponents=["int64", "float"])
    return queues


def take(machine: Machine, queues: dict[str, Any]) -> list[Any]:
    """What queues give until nothing is left."""
    found = []
    for kind, queue in queues.items():
        types = ["int64", "float"] if kind == "PriorityQueueV2" else ["float"]
        while True:
            machine.new_step()
            try:
                got = machine.run("QueueDequeueV2", queue, component_types=types)
            except (KernelWait, OutOfRangeError):
                break
            found.append(np.asarray(got).tolist())
    return found


def test_queues(tmp_path: Path) -> None:
    machine = Machine()
    queues = fill_queues(machine)
    machine.run("QueueDequeueV2", queues["RandomShuffleQueueV2"], **FLOATS)  # its generator has moved on
    machine.run("QueueCloseV2", queues["FIFOQueueV2"])
    other = again(machine, tmp_path)
    expected = take(machine, queues)
    assert len(expected) == 21
    assert take(other, queues) == expected


@pytest.mark.slow
def test_tables(tmp_path: Path) -> None:
    machine = Machine()
    fixed = machine.run("HashTableV2", node="fixed", **TYPES)
    machine.run("InitializeTableV2", fixed, strings("a", "b"), np.array([1, 2]), Tkey="string", Tval="int64")
    changing = machine.run("MutableHashTableV2", node="changing", **TYPES)
    keys = {"key_dtype": "int64", "value_dtype": "float"}
    dense = machine.run("MutableDenseHashTableV2", np.int64(-1), np.int64(-2), node="dense", value_shape=(2,), **keys)
    machine.run("LookupTableInsertV2", changing, strings("x", "y"), np.array([7, 8]), **FIND)
    pairs = np.arange(6, dtype=np.float32).reshape(3, 2)
    machine.run("LookupTableInsertV2", dense, np.array([5, 6, 7]), pairs, Tin="int64", Tout="float")
    other = again(machine, tmp_path)
    assert find(other, fixed, "b", "x", "a") == [2, -1, 1]
    with pytest.raises(FailedPreconditionError, match="already initialized"):
        other.run("InitializeTableV2", fixed, strings("c"), np.array([3]), Tkey="string", Tval="int64")
    other.run("LookupTableInsertV2", changing, strings("z"), np.array([9]), **FIND)
    assert find(other, changing, "z", "y") == [9, 8]
    got = other.run("LookupTableFindV2", dense, np.array([7, 1]), np.zeros(2, np.float32), Tin="int64", Tout="float")
    assert got.tolist() == [[4, 5], [0, 0]]


def test_accumulators_barriers_and_stages(tmp_path: Path) -> None:
    machine = Machine()
    dense = machine.run("ResourceConditionalAccumulator", node="dense", dtype="float", shape=(2,))
    machine.run("ResourceAccumulatorApplyGradient", dense, np.int64(0), np.array([1, 2], np.float32), dtype="float")
    sparse = machine.run("SparseConditionalAccumulator", node="sparse", dtype="float", shape=(4, 1))
    rows = (np.array([2]), np.array([[3]], np.float32), np.array([4, 1]))
    attrs = {"dtype": "float", "has_known_shape": True}
    machine.run("SparseAccumulatorApplyGradient", sparse, np.int64(0), *rows, **attrs)
    barrier = machine.run("Barrier", node="barrier", component_types=["float", "float"], shapes=[(), ()])
    for index, names in enumerate((("a", "b"), ("a",))):
        values = np.array([1, 2][: len(names)], np.float32)
        machine.run("BarrierInsertMany", barrier, strings(*names), values, T="float", component_index=index)
    machine.run("Stage", number(5), node="stage", shared_name="stage", dtypes=["float"])
    machine.run("MapStage", np.int64(1), np.array([0], np.int32), number(6), shared_name="map", **_STAGED)
    other = again(machine, tmp_path)
    other.run("ResourceAccumulatorApplyGradient", dense, np.int64(0), np.array([3, 4], np.float32), dtype="float")
    got = other.run("ResourceAccumulatorTakeGradient", dense, np.int32(2), dtype="float")
    assert got.tolist() == [2, 3]
    indices, values, _ = other.run("SparseAccumulatorTakeGradient", sparse, np.int32(1), dtype="float")
    assert (indices.tolist(), values.tolist()) == ([2], [[3]])
    assert other.run("BarrierReadySize", barrier) == 1
    assert other.run("BarrierIncompleteSize", barrier) == 1
    assert other.run("Unstage", node="stage", shared_name="stage", dtypes=["float"]) == 5
    got = other.run("MapUnstage", np.int64(1), np.array([0], np.int32), shared_name="map", dtypes=["float"])
    assert got == 6


_STAGED = {"dtypes": ["float"], "fake_dtypes": ["float"]}


def test_generators_and_weights(tmp_path: Path) -> None:
    machine = Machine()

    def draw(where: Machine) -> list[Any]:
        normal = where.run("RandomStandardNormal", np.array([3], np.int32), node="normal", dtype="float", T="int32")
        attrs = {"num_true": 1, "num_sampled": 2, "unique": False, "range_max": 9, "seed": 5}
        sampled = where.run("LearnedUnigramCandidateSampler", np.array([[4]]), node="sampler", **attrs)[0]
        return [normal.tolist(), sampled.tolist()]

    first = draw(machine)
    other = again(machine, tmp_path)
    expected = draw(machine)
    assert draw(other) == expected != first


def test_what_is_saved_is_named_here() -> None:
    """Each class of the table exists where the table says, so that what was written can be read."""
    from importlib import import_module

    for name, module in _CLASSES.items():
        module = f"placesim.ops.kernels.{module}"
        assert getattr(import_module(module), name).__module__ == module


@pytest.mark.parametrize(
    ("name", "in_files"),
    [
        ("VariableResource", "Variable"),
        ("FifoOrder", "FirstInFirstOut"),
        ("ShuffleOrder", "Shuffled"),
        ("PriorityOrder", "ByPriority"),
        ("PriorityElement", "Prioritized"),
        ("IncompleteElement", "Waiting"),
        ("StagingBuffer", "Buffer"),
        ("TensorArrayStore", "TensorArray"),
        ("Queue", "Queue"),
    ],
)
def test_names_of_classes_in_files_stay(name: str, in_files: str) -> None:
    """Checkpoints that were written before have them."""
    assert file_name(type(name, (), {})()) == in_files


@pytest.mark.parametrize("order", [(0, 1, 2), (2, 1, 0), (1, 0, 2)])
def test_a_tensor_lies_as_it_lay(order: tuple[int, ...]) -> None:
    value = np.arange(24, dtype=np.float32).reshape(2, 3, 4).transpose(order)
    packer = Packer()
    packed = packer.pack(value)
    found = unpack(packed, [tensor.value for tensor in packer.tensors])
    assert found.tolist() == value.tolist()
    assert found.strides == value.strides
    found[0, 0, 0] = 7  # its own memory
    assert value[0, 0, 0] == 0


def test_plain_values_keep_their_types() -> None:
    value = {
        (1, b"\xff"): [True, None, 1.5, float("inf"), 1 << 100],
        "text\ud800": np.float32(2),
        0: np.array([b"a", b""], object),
        1: np.array([[b"a", None], [(1, 2), 1.5]], object),
    }
    packer = Packer()
    found = unpack(packer.pack(value), [tensor.value for tensor in packer.tensors])
    assert found.keys() == value.keys()
    assert found[1, b"\xff"] == value[1, b"\xff"]
    assert type(found["text\ud800"]) is np.float32
    assert found[0].tolist() == [b"a", b""]
    assert found[1].tolist() == [[b"a", None], [(1, 2), 1.5]]


def test_what_no_file_can_have() -> None:
    packer = Packer()
    with pytest.raises(UnsavableError):
        packer.pack([np.zeros(2), iter(())])
    with pytest.raises(UnsavableError, match="datetime64"):
        packer.pack(np.zeros(2, "datetime64[s]"))
    assert not packer.tensors


@pytest.mark.parametrize(
    "packed",
    [["object", "Popen"], ["object", "Queue"], ["tensor", 0], ["nothing"], [], ["objects", [2], 1]],
)
def test_what_was_never_packed_is_refused(packed: Any) -> None:
    with pytest.raises(DataLossError, match="not valid in this release"):
        unpack(packed, [])


def test_two_variables_of_one_name(tmp_path: Path) -> None:
    """Only one of them can have the name in the file; each comes back."""
    machine = Machine()
    for container in ("", "other"):
        variable = machine.run("VariableV2", node="w", shape=(2,), dtype="float", container=container)
        machine.run("Assign", variable, np.full(2, len(container), np.float32), T="float")
    other = again(machine, tmp_path)
    for container in ("localhost", "other"):
        found = other.state().resources.find(ResourceHandle(DEVICE, container, "w", REF_VARIABLE_TYPE))
        assert found.value.tolist() == ([0, 0] if container == "localhost" else [5, 5])
