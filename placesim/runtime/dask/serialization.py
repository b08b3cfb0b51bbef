"""Serialization of values and graphs as frames, which Dask's protocol sends without copying them.

With pickle protocol 5, the memory of large arrays is not part of the pickle, and is sent without a copy. Op registries are the
same in all processes, and are sent by name.
"""

from __future__ import annotations

import copyreg
import io
import pickle
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from distributed.protocol import dask_deserialize, dask_serialize

from placesim.core.errors import UnimplementedError
from placesim.ops.definitions import OpDef
from placesim.ops.kernels.data.values import ElementSequence
from placesim.ops.registry import Registry, load_registry

SMALL_BYTES = 1 << 12
"""Maximum bytes of an array whose elements are copied into the pickle, which takes less time than a separate frame."""


class Parcel:
    """A packed value: the first frame is the pickle, and the others are the memory of the value's arrays."""

    __slots__ = ("frames",)

    def __init__(self, frames: Sequence[Any]) -> None:
        self.frames = frames

    @property
    def size(self) -> int:
        """Size in bytes."""
        return sum(memoryview(frame).nbytes for frame in self.frames)


class _Pickler(pickle.Pickler):
    dispatch_table = copyreg.dispatch_table.copy()


def _reduced_registry(registry: Registry) -> Any:
    for arguments in ((), (registry.rules.name,)):  # the default registry has no release's name
        if load_registry(*arguments) is registry:
            return (load_registry, arguments)
    return registry.__reduce_ex__(5)  # a test has made this registry


def _reduced_op(definition: OpDef) -> Any:
    is_known = load_registry().op(definition.name) is definition
    return (_known_op, (definition.name,)) if is_known else (OpDef, tuple(definition))


def _known_op(name: str) -> OpDef | None:
    return load_registry().op(name)


def _reduced_dataset(dataset: ElementSequence) -> Any:
    return (ElementSequence, (dataset.dtypes, dataset.shapes, _elsewhere, dataset.cardinality))


def _elsewhere() -> Any:
    found = UnimplementedError("a dataset must be iterated in the worker that created it: its functions cannot be sent")
    found.help = ("assign the devices of the dataset and of its iterator to one worker (`--worker`)",)
    raise found


def _reduced_array(array: np.ndarray[Any, Any]) -> Any:
    """Return a small array of numbers in few bytes, in a third of the time of numpy's own pickle."""
    dtype, flags = array.dtype, array.flags
    if not 0 < array.nbytes <= SMALL_BYTES or dtype.isbuiltin != 1 or dtype.kind not in "biufc" or not flags.c_contiguous:
        return array.__reduce_ex__(5)
    elements = array.tobytes()
    return (_small_array, (bytearray(elements) if flags.writeable else elements, dtype.str, array.shape))


def _small_array(elements: bytes | bytearray, dtype: str, shape: tuple[int, ...]) -> np.ndarray[Any, Any]:
    return np.frombuffer(elements, dtype).reshape(shape)


_Pickler.dispatch_table[np.ndarray] = _reduced_array
_Pickler.dispatch_table[Registry] = _reduced_registry
_Pickler.dispatch_table[OpDef] = _reduced_op
_Pickler.dispatch_table[ElementSequence] = _reduced_dataset


def pack(value: Any) -> Parcel:
    """Return a value as frames that another process can unpack."""
    text = io.BytesIO()
    memory: list[memoryview] = []

    def is_small(buffer: pickle.PickleBuffer) -> bool:
        view = buffer.raw()
        if view.nbytes <= SMALL_BYTES:
            return True
        memory.append(view)
        return False

    _Pickler(text, 5, buffer_callback=is_small).dump(value)
    return Parcel([text.getvalue(), *memory])


def unpack(parcel: Parcel) -> Any:
    """Return the value that was packed, with writable arrays."""
    text, *memory = parcel.frames
    return pickle.loads(text, buffers=memory)


def copy_compact(value: Any) -> Any:
    """Return a tensor that is contiguous in memory; if it was a view, its base is not sent with it."""
    if isinstance(value, np.ndarray) and not (value.flags.c_contiguous or value.flags.f_contiguous):
        return value.copy(order="K")
    return value


def align_array(value: Any) -> Any:
    """Return a received tensor in aligned memory; small tensors that share a message may be unaligned."""
    if isinstance(value, np.ndarray) and not value.flags.aligned:
        return value.copy(order="K")
    return value


def _serialize(parcel: Parcel) -> tuple[dict[str, Any], list[Any]]:
    return {}, list(parcel.frames)


def _deserialize(header: dict[str, Any], frames: list[Any]) -> Parcel:
    return Parcel(frames)


_register: Callable[..., Any] = dask_serialize.register
_register(Parcel)(_serialize)
_register = dask_deserialize.register
_register(Parcel)(_deserialize)
