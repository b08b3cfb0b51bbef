"""What is saved can be read, damage to it is told, and TensorFlow's own files come out the same."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from placesim.core.checkpoints.checkpoint import Checkpoint, data_path, index_path
from placesim.core.checkpoints.tensor_slices import Extent
from placesim.core.checkpoints.writer import SavedTensor, encode_index, write_bundle
from placesim.core.dtypes import BFLOAT16, BOOL, COMPLEX64, FLOAT, INT64, STRING
from placesim.core.errors import DataLossError, InvalidArgumentError, NotFoundError


def strings(*texts: str) -> Any:
    found = np.empty(len(texts), object)
    found[:] = [text.encode() for text in texts]
    return found


TENSORS = (
    SavedTensor("a/w", FLOAT, np.arange(6, dtype=np.float32).reshape(2, 3)),
    SavedTensor("b", BFLOAT16, np.array([1.5, -2], BFLOAT16.numpy)),
    SavedTensor("c", STRING, strings("", "x" * 200, "zwei")),
    SavedTensor("d", COMPLEX64, np.array(1 + 2j, np.complex64)),
    SavedTensor("empty", INT64, np.empty((0, 4), np.int64)),
    SavedTensor("flag", BOOL, np.array(True)),
)


def saved(tmp_path: Path) -> Checkpoint:
    write_bundle(str(tmp_path / "sub" / "model.ckpt"), TENSORS)
    return Checkpoint(str(tmp_path / "sub" / "model.ckpt"))


def test_what_was_saved_is_read(tmp_path: Path) -> None:
    checkpoint = saved(tmp_path)
    assert checkpoint.names == tuple(tensor.name for tensor in TENSORS)
    for tensor in TENSORS:
        found = checkpoint.read(tensor.name)
        assert (found.dtype, found.shape) == (tensor.value.dtype, tensor.value.shape)
        assert found.tolist() == tensor.value.tolist()
    assert sorted(os.listdir(tmp_path / "sub")) == ["model.ckpt.data-00000-of-00001", "model.ckpt.index"]


RECORDED = sorted(str(path.with_suffix("")) for path in (Path(__file__).parents[2] / "data" / "checkpoints").rglob("*.index"))


@pytest.mark.parametrize("prefix", RECORDED, ids=[Path(prefix).parent.name for prefix in RECORDED])
def test_recorded_checkpoints_are_read_and_written_again(prefix: str, tmp_path: Path) -> None:
    """Files that TensorFlow 2.21 wrote, of both generations of variables, in one piece and in two."""
    checkpoint = Checkpoint(prefix)
    assert encode_index(checkpoint.header, checkpoint.entries) == index_path(prefix).read_bytes()
    values = {name: checkpoint.read(name) for name in checkpoint.names}
    assert all(value.dtype == object or np.isfinite(value).all() for value in values.values())
    if checkpoint.header.shards == 1:
        rows = sorted(checkpoint.entries.items(), key=lambda row: (row[1].offset, row[0]))
        copy = str(tmp_path / "copy")
        write_bundle(copy, [SavedTensor(key.decode(), entry.dtype, values[key.decode()]) for key, entry in rows])
        assert index_path(copy).read_bytes() == index_path(prefix).read_bytes()
        assert data_path(copy, 0, 1).read_bytes() == data_path(prefix, 0, 1).read_bytes()


def test_damage_is_told(tmp_path: Path) -> None:
    checkpoint = saved(tmp_path)
    path = data_path(checkpoint.prefix, 0, 1)
    data = bytearray(path.read_bytes())
    data[2] ^= 1
    path.write_bytes(data)
    with pytest.raises(DataLossError, match=r"shard 0 \(24 bytes\): Checksum does not match: stored \d+ vs. calculated on the"):
        Checkpoint(checkpoint.prefix).read("a/w")
    assert Checkpoint(checkpoint.prefix).read("b").tolist() == [1.5, -2]
    path.unlink()
    with pytest.raises(NotFoundError, match="data-00000-of-00001; No such file or directory"):
        Checkpoint(checkpoint.prefix).read("b")


def test_slices_make_up_a_whole(tmp_path: Path) -> None:
    whole = np.arange(12, dtype=np.float32).reshape(4, 3)
    prefix = str(tmp_path / "p")
    top, bottom = (Extent(0, 1), Extent()), (Extent(1, 3), Extent())
    parts = [SavedTensor("v", FLOAT, whole[:1], top, (4, 3)), SavedTensor("v", FLOAT, whole[1:], bottom, (4, 3))]
    write_bundle(prefix, parts)
    checkpoint = Checkpoint(prefix)
    assert checkpoint.names == ("v",)
    assert checkpoint.read("v").tolist() == whole.tolist()
    assert checkpoint.read("v", (Extent(0, 2), Extent(1, 2))).tolist() == whole[:2, 1:].tolist()
    write_bundle(prefix, parts[:1])
    with pytest.raises(InvalidArgumentError) as caught:
        Checkpoint(prefix).read("v")
    assert caught.value.message == ("Does not have sufficient slices for partitioned tensor v to restore in slice_spec: -:-")
