"""Files, readers and checkpoints: what is written can be read, damage is told, and TensorFlow's own files come out the same."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from placesim.core.errors import (
    InternalError,
    InvalidArgumentError,
    NotFoundError,
    OutOfRangeError,
    PlacesimError,
    UnimplementedError,
)
from placesim.ops.kernels.kernel import KernelWait
from placesim.ops.kernels.shapes import ShapeError
from placesim.ops.process.memory_limit import AllocationRefusal, ProcessMemory, serving_memory
from tests.ops.kernels.kernel_calls import Machine, shapes


def strings(*texts: str) -> Any:
    found = np.empty(len(texts), object)
    found[:] = [text.encode() for text in texts]
    return found


def scalar(text: object) -> Any:
    return np.array(str(text).encode(), object)


# --- checkpoints ------------------------------------------------------------------------------------------------------


def save(machine: Machine, prefix: object, **tensors: Any) -> None:
    names = strings(*tensors)
    dtypes = [value.dtype.name if value.dtype != object else "string" for value in tensors.values()]
    machine.run("SaveV2", scalar(prefix), names, strings(*[""] * len(tensors)), *tensors.values(), dtypes=dtypes)


def restore(machine: Machine, prefix: object, *names: str, specs: tuple[str, ...] = (), dtypes: Any = ("float",)) -> Any:
    wanted = strings(*(specs or ("",) * len(names)))
    return machine.run("RestoreV2", scalar(prefix), strings(*names), wanted, dtypes=list(dtypes))


def test_a_graph_saves_and_restores(tmp_path: Path) -> None:
    machine, prefix = Machine(), tmp_path / "ckpt" / "m"
    save(machine, prefix, w=np.arange(6, dtype=np.float32).reshape(3, 2), s=strings("a", "b"))
    text, number = restore(machine, prefix, "s", "w", dtypes=("string", "float"))
    assert (text.tolist(), number.tolist()) == ([b"a", b"b"], [[0, 1], [2, 3], [4, 5]])
    assert restore(machine, prefix, "w", specs=("3 2 1,2:-",)).tolist() == [[2, 3], [4, 5]]


@pytest.mark.parametrize(
    ("run", "message"),
    [
        (lambda m, p: restore(m, p, "x"), "NotFoundError: Key x not found in checkpoint"),
        (
            lambda m, p: restore(m, p, "w", dtypes=("int32",)),
            "InvalidArgumentError: tensor_name = w; expected dtype int32 does not equal original dtype float",
        ),
        (
            lambda m, p: restore(m, p, "w", specs=("4 2 -:-",)),
            "InvalidArgumentError: tensor_name = w; shape in shape_and_slice spec [4,2] does not match the shape stored in "
            "checkpoint: [3,2]",
        ),
        (
            lambda m, p: restore(m, p, "w", specs=("3 2 0,4:-",)),
            "InternalError: Extent in dimension 0 out of bounds: shape = [3,2], slice = 0,4:-",
        ),
        (
            lambda m, p: restore(m, "/nowhere/m", "w"),
            "NotFoundError: Unsuccessful TensorSliceReader constructor: Failed to find any matching files for /nowhere/m",
        ),
        (
            lambda m, p: restore(m, p, "w", "s"),
            "InvalidArgumentError: Got 2 tensor names, but 1 expected dtypes.",
        ),
        (
            lambda m, p: m.run("SaveV2", scalar(p), strings("a"), strings("4 1,2"), np.zeros(3, np.float32), dtypes=["float"]),
            "InvalidArgumentError: Slice in shape_and_slice specification does not match the shape of the tensor to  save: "
            "4 1,2, tensor: [3]",
        ),
        (
            lambda m, p: m.run(
                "SaveV2", scalar(p), strings("a", "a"), strings("", ""), *[np.zeros(3, np.float32)] * 2, dtypes=["float"] * 2
            ),
            "InvalidArgumentError: Adding duplicate key: a",
        ),
    ],
)
def test_restoring_is_checked_in_tensorflows_words(tmp_path: Path, run: Any, message: str) -> None:
    machine, prefix = Machine(), tmp_path / "m"
    save(machine, prefix, w=np.zeros((3, 2), np.float32), s=strings("a"))
    with pytest.raises(PlacesimError) as caught:
        run(machine, prefix)
    assert f"{caught.value.type_name}: {caught.value.message}" == message


def test_shards_are_merged(tmp_path: Path) -> None:
    machine, parts = Machine(), tmp_path / "m_temp"
    save(machine, parts / "part-0", w=np.ones(2, np.float32))
    save(machine, parts / "part-1", v=np.zeros(3, np.float32))
    prefixes = strings(str(parts / "part-0"), str(parts / "part-1"))
    machine.run("MergeV2Checkpoints", prefixes, scalar(tmp_path / "m"))
    assert [found.tolist() for found in restore(machine, tmp_path / "m", "v", "w", dtypes=("float", "float"))] == [
        [0] * 3,
        [1] * 2,
    ]
    assert sorted(os.listdir(tmp_path)) == ["m.data-00000-of-00002", "m.data-00001-of-00002", "m.index"]
    with pytest.raises(InvalidArgumentError, match=r"allow_missing_files was set to false and .*part-0 did not exist."):
        machine.run("MergeV2Checkpoints", prefixes, scalar(tmp_path / "n"))
    with pytest.raises(InvalidArgumentError, match=r"At least one prefix checkpoint file must exist, but none existed."):
        machine.run("MergeV2Checkpoints", prefixes, scalar(tmp_path / "n"), allow_missing_files=True)


def test_static_shapes_of_restored_tensors() -> None:
    specs = strings("4 3 0,2:-", "")
    found = shapes("RestoreV2", (), (2,), (2,), values=(None, None, specs), dtypes=["float", "float"])
    assert found == [(2, 3), None]
    with pytest.raises(ShapeError, match="Dimension must be 1 but is 2"):
        shapes("SaveV2", (), (2,), (2,), (), dtypes=["float"])


# --- files and readers ------------------------------------------------------------------------------------------------


def test_files_are_written_read_and_found(tmp_path: Path) -> None:
    machine, path = Machine(), tmp_path / "new" / "a.txt"
    machine.run("WriteFile", scalar(path), np.array(b"\0bytes\xff", object))
    assert machine.run("ReadFile", scalar(path)).item() == b"\0bytes\xff"
    machine.run("WriteFile", scalar(path.with_name("b.txt")), np.array(b"", object))
    found = machine.run("MatchingFiles", strings(str(tmp_path / "*" / "b*"), str(tmp_path / "new" / "[a]*")))
    assert found.tolist() == [str(path).encode(), str(path.with_name("b.txt")).encode()]
    with pytest.raises(NotFoundError) as caught:
        machine.run("ReadFile", scalar("/nowhere/a"))
    assert caught.value.message == "/nowhere/a; No such file or directory"
    with pytest.raises(InvalidArgumentError, match=r"Input filename tensor must be scalar, but had shape: \[1\]"):
        machine.run("ReadFile", strings("a"))


def test_a_pattern_leads_down_alone(tmp_path: Path) -> None:
    (tmp_path / "a" / "b").mkdir(parents=True)
    machine = Machine()
    assert machine.run("MatchingFiles", scalar(tmp_path / "a" / ".." / "*")).tolist() == [f"{tmp_path}/a/../a".encode()]
    assert machine.run("MatchingFiles", scalar(tmp_path / "*" / ".." / "*")).tolist() == []


def test_paths_through_links_to_a_folder_above_stay_within_memory(tmp_path: Path) -> None:
    for name in ("a", "b"):
        (tmp_path / name).symlink_to(tmp_path)
    pattern = scalar("/".join([str(tmp_path), *"*" * 15]))
    with serving_memory(ProcessMemory(1 << 20)), pytest.raises(AllocationRefusal):
        Machine().run("MatchingFiles", pattern)


def queue_of(machine: Machine, *names: object) -> Any:
    queue = machine.run("FIFOQueueV2", node="names", component_types=["string"], shapes=[()])
    machine.run("QueueEnqueueManyV2", queue, strings(*map(str, names)), Tcomponents=["string"])
    return queue


def test_a_reader_goes_from_file_to_file(tmp_path: Path) -> None:
    one, two = tmp_path / "one", tmp_path / "two"
    one.write_bytes(b"h\na\nb\n")
    two.write_bytes(b"h\nc")
    machine = Machine()
    queue = queue_of(machine, one, two)
    reader = machine.run("TextLineReaderV2", node="r", skip_header_lines=1)
    found = [machine.run("ReaderReadV2", reader, queue) for _ in range(3)]
    assert [(key.item().decode(), value.item()) for key, value in found] == [
        (f"{one}:2", b"a"),
        (f"{one}:3", b"b"),
        (f"{two}:2", b"c"),
    ]
    assert machine.run("ReaderNumRecordsProducedV2", reader) == 3
    assert machine.run("ReaderNumWorkUnitsCompletedV2", reader) == 1
    with pytest.raises(KernelWait):
        machine.run("ReaderReadV2", reader, queue)
    machine.run("QueueCloseV2", queue)
    with pytest.raises(OutOfRangeError, match="is closed and has insufficient elements"):
        machine.run("ReaderReadV2", reader, queue)
    assert machine.run("ReaderNumWorkUnitsCompletedV2", reader) == 2
    machine.run("ReaderResetV2", reader)
    assert machine.run("ReaderNumRecordsProducedV2", reader) == 0
    with pytest.raises(UnimplementedError, match="Reader SerializeState"):
        machine.run("ReaderSerializeStateV2", reader)


def test_several_records_are_of_one_file(tmp_path: Path) -> None:
    paths = [tmp_path / name for name in "ab"]
    for path in paths:
        path.write_bytes(b"HH112233F")
    machine = Machine()
    queue = queue_of(machine, *paths)
    reader = machine.run("FixedLengthRecordReaderV2", header_bytes=2, record_bytes=2, footer_bytes=1)
    sizes = []
    for _ in range(4):
        keys, values = machine.run("ReaderReadUpToV2", reader, queue, np.int64(2))
        sizes.append(len(values))
    assert sizes == [2, 1, 2, 1]
    assert keys.tolist() == [f"{paths[1]}:2".encode()]
    assert values.tolist() == [b"33"]


def test_whole_files_and_names_are_records_whose_reader_can_be_saved(tmp_path: Path) -> None:
    path = tmp_path / "f"
    path.write_bytes(b"all of it\n")
    machine = Machine()
    handle = machine.run("WholeFileReader", node="w")
    names = machine.run("FIFOQueue", node="n", component_types=["string"])
    machine.run("QueueEnqueue", names, scalar(path), Tcomponents=["string"])
    key, value = machine.run("ReaderRead", handle, names)
    assert (key.item(), value.item()) == (str(path).encode(), b"all of it\n")
    state = machine.run("ReaderSerializeState", handle)
    assert state.item() == b"\x08\x01\x10\x01\x18\x01\x22" + bytes([len(str(path))]) + str(path).encode()
    machine.run("ReaderReset", handle)
    machine.run("ReaderRestoreState", handle, state)
    assert machine.run("ReaderNumRecordsProduced", handle) == 1
    with pytest.raises(InvalidArgumentError, match=r"Could not parse state for WholeFileReader 'w': \\377"):
        machine.run("ReaderRestoreState", handle, np.array(b"\xff", object))
    identity = machine.run("IdentityReaderV2", node="i")
    machine.run("QueueEnqueue", names, scalar("x"), Tcomponents=["string"])
    assert [part.item() for part in machine.run("ReaderRead", identity, names)] == [b"x", b"x"]


def test_bad_sizes_are_refused() -> None:
    with pytest.raises(InvalidArgumentError, match="header_bytes must be >= 0 not -1"):
        Machine().run("FixedLengthRecordReaderV2", header_bytes=-1, record_bytes=2)
    with pytest.raises(InternalError, match=r"Mismatching ranks: shape = \[4\], slice = 0,2:-"):
        Machine().run("SaveV2", scalar("p"), strings("a"), strings("4 0,2:-"), np.zeros((2, 1), np.float32), dtypes=["float"])
