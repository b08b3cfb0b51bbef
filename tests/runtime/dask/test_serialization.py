"""Values as messages have them: what every process has goes by its name, arrays arrive as they lay."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from placesim.core.errors import UnimplementedError
from placesim.ops.registry import load_registry

pytest.importorskip("distributed", reason="of the extra `dask`")

from placesim.core.dtypes import INT64
from placesim.ops.attributes import Shape
from placesim.ops.definitions import OpDef
from placesim.ops.kernels.data.values import ElementSequence
from placesim.runtime.dask.serialization import Parcel, align_array, copy_compact, pack, unpack
from tests.placement.toy import REGISTRY


def sent(value: Any) -> Any:
    """A value as another process has it."""
    parcel: Parcel = pack(value)
    return unpack(Parcel([bytes(frame) if number == 0 else bytearray(frame) for number, frame in enumerate(parcel.frames)]))


def test_registries_and_ops_are_the_process_s_own() -> None:
    known, old = load_registry(), load_registry("1.15")
    assert sent(known) is known
    assert sent(old) is old
    assert sent([known.op("MatMul")])[0] is known.op("MatMul")
    toy = REGISTRY.op("TestAdd")
    assert toy is not None
    found = sent(toy)
    assert isinstance(found, OpDef)
    assert (found.name, found.inputs) == (toy.name, toy.inputs)
    assert sent(REGISTRY).release == "toy"


def test_arrays_travel_beside_the_text() -> None:
    array = np.arange(1000, dtype=np.float64)
    parcel = pack({"a": array, "b": 3})
    assert len(parcel.frames) == 2
    assert parcel.size == len(parcel.frames[0]) + 8000
    found = sent({"a": array, "b": 3})
    assert (found["a"].tolist(), found["b"]) == (array.tolist(), 3)
    found["a"][0] = 5


def test_small_arrays_travel_in_the_text_with_a_type_that_all_systems_know() -> None:
    """A type's letter is not enough: `l` has 8 bytes here and 4 on Windows."""
    parcel = pack(np.arange(3, dtype=np.int64))
    assert len(parcel.frames) == 1
    assert np.dtype(np.int64).str.encode() in parcel.frames[0]


def test_a_dataset_stays_where_it_is() -> None:
    dataset = ElementSequence((INT64,), (Shape(()),), lambda: iter(()), 7)
    found = sent(dataset)
    assert (found.dtypes, found.shapes, found.cardinality) == ((INT64,), (Shape(()),), 7)
    with pytest.raises(UnimplementedError, match="must be iterated in the worker that created it"):
        found.start()


def test_only_what_is_apart_is_copied() -> None:
    array = np.arange(24.0).reshape(2, 3, 4)
    for value in (array, array.T, array[0], 3):
        assert copy_compact(value) is value
    part = array.transpose(1, 0, 2)[:, :, ::2]
    found = copy_compact(part)
    assert (found.tolist(), found.base, found.strides) == (part.tolist(), None, (16, 48, 8))
    odd = np.frombuffer(bytearray(33), np.float64, 4, 1)
    assert not odd.flags.aligned
    moved = align_array(odd)
    assert moved.flags.aligned
    assert moved.tolist() == [0.0] * 4
    assert align_array(array) is array
