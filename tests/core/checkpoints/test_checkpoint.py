"""Checkpoints: what TensorFlow wrote is read, parts are joined, and what is broken is said."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from placesim.core.checkpoints.checkpoint import OBJECT_GRAPH_KEY, Checkpoint, index_path
from placesim.core.checkpoints.tensor_slices import FULL, Extent, Region
from placesim.core.dtypes import BFLOAT16, BOOL, FLOAT, INT64, STRING
from placesim.core.errors import DataLossError, InternalError, InvalidArgumentError, NotFoundError, PlacesimError
from placesim.formats.tensorflow.messages import parse
from tests.core.checkpoints.checkpoint_files import CheckpointFiles, table

FILES = Path(__file__).parent.parent.parent / "data" / "tensorflow-files"
WHOLE = Extent(0, FULL)


# --- what TensorFlow wrote -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("prefix", "names"),
    [
        ("checkpoint_ref/model.ckpt", ["l1/biases", "l1/weights", "l2/weights"]),
        ("tf1_model_resource/variables/variables", ["l1/biases", "l1/weights", "l2/weights"]),
        ("tf2_model/variables/variables", [OBJECT_GRAPH_KEY, "b/.ATTRIBUTES/VARIABLE_VALUE", "w/.ATTRIBUTES/VARIABLE_VALUE"]),
    ],
)
def test_checkpoints_of_tensorflow(prefix: str, names: list[str]) -> None:
    checkpoint = Checkpoint(FILES / prefix)
    assert list(checkpoint.names) == names
    for name in names:
        array = checkpoint.read(name)
        if checkpoint.entry(name).dtype is STRING:
            assert len(parse("TrackableObjectGraph", array.item()).nodes) == 7
        else:
            assert not array.flags.owndata
            assert np.isfinite(array).all()


# --- what was written here -------------------------------------------------------------------------------------------

ARRAYS: dict[str, tuple[Any, Any]] = {
    "matrix": (FLOAT, np.arange(60, dtype=np.float32).reshape(10, 6)),
    "scalar": (INT64, np.array(7)),
    "flags": (BOOL, np.array([True, False, True])),
    "brain": (BFLOAT16, np.arange(3).astype(BFLOAT16.numpy)),
    "nothing": (FLOAT, np.zeros((0, 3), np.float32)),
    "texts": (STRING, np.array([b"a" * 300, b"", b"\xff\0"], object)),
}


@pytest.fixture
def files(tmp_path: Path) -> CheckpointFiles:
    return CheckpointFiles(tmp_path / "model")


def test_all_types(files: CheckpointFiles) -> None:
    for name, (dtype, array) in ARRAYS.items():
        files.add(name, dtype, array)
    checkpoint = Checkpoint(files.write())
    for name, (dtype, array) in ARRAYS.items():
        found = checkpoint.read(name)
        assert checkpoint.entry(name).dtype is dtype
        assert (found.dtype, found.shape, found.tolist()) == (dtype.numpy, array.shape, array.tolist())


def test_the_other_byte_order(files: CheckpointFiles) -> None:
    files.header.endianness = 1
    files.add("x", FLOAT, np.array([1, 2], ">f4"))
    assert Checkpoint(files.write()).read("x").tolist() == [1, 2]


PARTS = ((Extent(0, 3), WHOLE), (Extent(3, 7), Extent(0, 2)), (Extent(3, 7), Extent(2, 4)))
WANTED: tuple[Region | None, ...] = (None, *PARTS, (Extent(2, 3), Extent(1, 4)), (WHOLE, Extent(5, 1)))


@pytest.mark.parametrize("wanted", WANTED, ids=range(len(WANTED)))
def test_parts_are_joined(files: CheckpointFiles, wanted: Region | None) -> None:
    whole = ARRAYS["matrix"][1]
    files.add_parts("w", FLOAT, whole, PARTS)
    files.add("v", FLOAT, whole)
    checkpoint = Checkpoint(files.write())
    assert checkpoint.names == ("v", "w")
    places = () if wanted is None else tuple(slice(e.start, None if e.length == FULL else e.start + e.length) for e in wanted)
    for name in ("w", "v"):
        assert checkpoint.read(name, wanted).tolist() == whole[places].tolist()


def test_parts_of_strings_are_read_one_by_one(files: CheckpointFiles) -> None:
    files.add_parts("t", STRING, ARRAYS["texts"][1], [(Extent(0, 1),), (Extent(1, 2),)])
    checkpoint = Checkpoint(files.write())
    assert checkpoint.read("t", (Extent(1, 2),)).tolist() == [b"", b"\xff\0"]
    with pytest.raises(InvalidArgumentError, match="Dtype string not supported"):
        checkpoint.read("t")


# --- what is broken --------------------------------------------------------------------------------------------------


def spoil(files: CheckpointFiles, **changes: int) -> None:
    entry = files.add("x", FLOAT, np.ones(4, np.float32))
    for name, value in changes.items():
        setattr(entry, name, value)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"crc32c": 5}, r"shard 0 \(16 bytes\): Checksum does not match: stored"),
        ({"size": 12}, "Invalid size in bundle entry: key x; stored size 12; expected size 16"),
        ({"offset": 1}, "Invalid size in bundle entry: key x; 16 bytes at 1 of a shard of 16 bytes"),
        ({"offset": 1 << 62}, "Invalid size in bundle entry"),
        ({"offset": -1}, "Invalid place of tensor: x lies at -1 of shard 0"),
        ({"shard_id": 1}, "Invalid place of tensor: x lies at 0 of shard 1"),
        ({"dtype": 99}, "Invalid type of tensor: x has number 99"),
    ],
)
def test_entries_that_lie(files: CheckpointFiles, changes: dict[str, int], message: str) -> None:
    spoil(files, **changes)
    with pytest.raises(DataLossError, match=message):
        Checkpoint(files.write()).read("x")


def test_shapes_that_lie(files: CheckpointFiles) -> None:
    files.add("x", FLOAT, np.ones(4, np.float32)).shape.dim[0].size = 1 << 62
    with pytest.raises(DataLossError, match="stored size 16; expected size"):
        Checkpoint(files.write()).read("x")
    files.entries[b"x"].shape.dim[0].size = -1
    with pytest.raises(DataLossError, match="Invalid tensor shape: x"):
        Checkpoint(files.write())


def test_no_array_has_so_large_a_shape(files: CheckpointFiles) -> None:
    files.add("x", FLOAT, np.ones((0, 2, 2), np.float32))
    files.add_parts("w", FLOAT, np.ones((0, 2, 2), np.float32), [(Extent(0, 0), Extent(0, 1), WHOLE)])
    for key in (b"x", b"w"):
        for dim in files.entries[key].shape.dim[1:]:
            dim.size = 1 << 62
    checkpoint = Checkpoint(files.write())
    for name in ("x", "w"):
        with pytest.raises(DataLossError, match=f"Invalid tensor shape: {name}"):
            checkpoint.read(name)


def test_strings_that_lie(files: CheckpointFiles) -> None:
    files.add("t", STRING, np.array([b"abc", b"d"], object))
    files.data[0] = 200
    with pytest.raises(DataLossError, match="String lengths longer than expected offset"):
        Checkpoint(files.write()).read("t")
    files.data[0] = 2
    files.data[1] = 2
    with pytest.raises(DataLossError, match="The length checksum does not match"):
        Checkpoint(files.write()).read("t")


def test_tensors_that_share_bytes(files: CheckpointFiles) -> None:
    files.add("a", FLOAT, np.ones(4, np.float32))
    files.add("b", FLOAT, np.ones(4, np.float32)).offset = 8
    with pytest.raises(DataLossError, match="two tensors share bytes at 8 of shard 0"):
        Checkpoint(files.write())


def test_parts_that_do_not_cover(files: CheckpointFiles) -> None:
    files.add_parts("w", FLOAT, np.ones((4, 2), np.float32), [(Extent(0, 3), WHOLE)])
    checkpoint = Checkpoint(files.write())
    with pytest.raises(InvalidArgumentError, match="Does not have sufficient slices for partitioned tensor w to restore"):
        checkpoint.read("w")
    assert checkpoint.read("w", (Extent(1, 2), WHOLE)).shape == (2, 2)
    with pytest.raises(InvalidArgumentError, match="does not lie in tensor w"):
        checkpoint.read("w", (Extent(3, 2), WHOLE))


def test_parts_that_overlap(files: CheckpointFiles) -> None:
    files.add_parts("w", FLOAT, np.ones(4, np.float32), [(Extent(0, 2),), (Extent(1, 2),)])
    with pytest.raises(DataLossError, match="Overlapping slices of partitioned tensor w"):
        Checkpoint(files.write()).read("w")


def test_headers_that_lie(files: CheckpointFiles) -> None:
    files.header.num_shards = 1 << 30
    with pytest.raises(DataLossError, match="1073741824 shards"):
        Checkpoint(files.write())
    files.header.num_shards = 1
    files.header.version.min_consumer = 9
    with pytest.raises(InvalidArgumentError, match="Checkpoint min consumer version 9 above current version 1"):
        Checkpoint(files.write())


def test_files_that_are_missing(files: CheckpointFiles) -> None:
    with pytest.raises(NotFoundError, match="Failed to find any matching files for"):
        Checkpoint(files.prefix)
    spoil(files)
    checkpoint = Checkpoint(files.write())
    files.prefix.with_name("model.data-00000-of-00001").unlink()
    with pytest.raises(NotFoundError, match="No such file or directory"):
        checkpoint.read("x")
    with pytest.raises(NotFoundError, match="Key y not found in checkpoint"):
        checkpoint.read("y")


def test_a_shard_outside_of_the_directory(files: CheckpointFiles, tmp_path: Path) -> None:
    spoil(files)
    prefix = files.write()
    inner = tmp_path / "inner"
    inner.mkdir()
    (inner / "model.index").write_bytes(prefix.with_name("model.index").read_bytes())
    (inner / "model.data-00000-of-00001").symlink_to(tmp_path / "model.data-00000-of-00001")
    with pytest.raises(InvalidArgumentError, match="is outside the model's directory"):
        Checkpoint(inner / "model").read("x")
    assert Checkpoint(inner / "model", tmp_path).read("x").tolist() == [1] * 4
    assert Checkpoint(inner / "model", locate=Path).read("x").tolist() == [1] * 4
    (inner / "model.index").unlink()
    (inner / "model.index").symlink_to(tmp_path / "model.index")
    with pytest.raises(InvalidArgumentError, match="is outside the model's directory"):
        Checkpoint(inner / "model")
    assert Checkpoint(inner / "model", locate=Path).names == ("x",)


def test_an_index_without_a_header(files: CheckpointFiles) -> None:
    index_path(files.prefix).write_bytes(table([(b"x", b"")]))
    with pytest.raises(
        InternalError, match=r"Unable to read file .*Perhaps the file is corrupt .*\(failed to seek to header entry\)"
    ):
        Checkpoint(files.prefix)


@pytest.mark.slow
@given(st.data())
def test_a_spoilt_index_is_never_more_than_an_error(tmp_path_factory: pytest.TempPathFactory, data: st.DataObject) -> None:
    prefix = tmp_path_factory.mktemp("spoilt") / "model"
    for name in ("model.ckpt.index", "model.ckpt.data-00000-of-00001"):
        content = bytearray((FILES / "checkpoint_ref" / name).read_bytes())
        for place in data.draw(st.lists(st.integers(0, len(content) - 1), max_size=3)):
            content[place] = data.draw(st.integers(0, 255))
        end = data.draw(st.one_of(st.just(len(content)), st.integers(0, len(content))))
        prefix.with_name(name.replace("model.ckpt", "model")).write_bytes(bytes(content[:end]))
    with suppress(PlacesimError):
        checkpoint = Checkpoint(prefix)
        for name in checkpoint.names:
            assert checkpoint.read(name).shape == checkpoint.entry(name).shape
