"""Conversion of long-lived objects to JSON values and tensors, and back.

Numbers, texts, booleans and None stay as they are. Any other value becomes a list that begins with its kind, such as `["tuple",
1, 2]` or `["tensor", 0]`. Only objects of the classes below are accepted, so a file never determines which code runs.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import Field, fields, is_dataclass
from importlib import import_module
from typing import Any, NamedTuple

import numpy as np

from placesim.core.dtypes import DTYPES, STRING, DataType, parse_dtype
from placesim.core.errors import DataLossError
from placesim.ops import kernels
from placesim.ops.attributes import Shape
from placesim.ops.kernels.device_resources import ResourceHandle, VariableResource

Tensor = np.ndarray[Any, Any]

_KERNELS = kernels.__name__
_KNOWN: dict[str, type] = {"VariableResource": VariableResource, "ResourceHandle": ResourceHandle, "Shape": Shape}
_MODULES = {
    "philox": ("Philox", "WordStream"),
    "data.iterators": ("IteratorResource",),
    "resources.queue_attempts": ("Queue", "FifoOrder", "ShuffleOrder", "PriorityOrder", "PriorityElement"),
    "resources.table_storage": ("FixedTable", "ChangingTable", "DenseTable"),
    "resources.accumulators": ("Accumulator", "DenseGradients"),
    "resources.sparse_accumulators": ("SparseGradients",),
    "resources.barriers": ("Barrier", "IncompleteElement"),
    "resources.staging": ("StagingBuffer", "StagingMap"),
}
"""Modules of `kernels` that are imported on demand, with their classes whose objects are saved."""
_CLASSES = {name: module for module, names in _MODULES.items() for name in names}
_FILE_NAMES = {
    "VariableResource": "Variable",
    "FifoOrder": "FirstInFirstOut",
    "ShuffleOrder": "Shuffled",
    "PriorityOrder": "ByPriority",
    "PriorityElement": "Prioritized",
    "IncompleteElement": "Waiting",
    "StagingBuffer": "Buffer",
    "TensorArrayStore": "TensorArray",
}
"""Names of classes in checkpoints and messages, if they differ from the class names."""
_BY_FILE_NAME = {name: kind for kind, name in _FILE_NAMES.items()}
_PLAIN = (type(None), bool, int, float, str)
_BY_NUMPY = {dtype.numpy: dtype for dtype in reversed(DTYPES.values()) if dtype.size}
_UNREADABLE = (KeyError, IndexError, TypeError, ValueError, AttributeError, ImportError, OverflowError, RecursionError)


class UnsavableError(Exception):
    """Raised for an object that cannot be saved, because its class is not listed here."""


def file_name(value: Any) -> str:
    """Return the name of an object's class in checkpoints and messages."""
    name = type(value).__name__
    return _FILE_NAMES.get(name, name)


class NamedTensor(NamedTuple):
    """A tensor to which JSON values refer by its number; `name` is the name of its variable, or empty."""

    name: str
    dtype: DataType
    value: Tensor


class Packer:
    """Converts objects to JSON values, and collects their tensors in `tensors`."""

    def __init__(self) -> None:
        self.tensors: list[NamedTensor] = []

    def pack(self, value: Any) -> Any:
        """Convert a value to JSON values. Raises UnsavableError, without collecting any tensor of the value."""
        count = len(self.tensors)
        try:
            return self._packed(value)
        except UnsavableError:
            del self.tensors[count:]
            raise

    def _packed(self, value: Any) -> Any:
        if type(value) in _PLAIN:
            return value
        if isinstance(value, np.ndarray | np.generic):
            return self._tensor(value)
        if type(value) is bytes:
            return ["bytes", value.decode("latin-1")]
        if type(value) in (tuple, list, deque):
            return [type(value).__name__, *map(self._packed, value)]
        if type(value) is dict:
            return ["dict", *([self._packed(key), self._packed(found)] for key, found in value.items())]
        if isinstance(value, DataType):
            return ["type", value.name]
        return self._object(value)

    def _object(self, value: Any) -> Any:
        name = type(value).__name__
        if type(value) is not _KNOWN.get(name) and f"{_KERNELS}.{_CLASSES.get(name)}" != type(value).__module__:
            raise UnsavableError(name)
        name = file_name(value)
        if isinstance(value, tuple):
            return ["object", name, *map(self._packed, value)]
        state = _parts(value)
        if isinstance(value, VariableResource) and isinstance(value.value, np.ndarray | np.generic):
            return ["object", name, *([key, self._held(value, key, found)] for key, found in state.items())]
        return ["object", name, *([key, self._packed(found)] for key, found in state.items())]

    def _held(self, variable: VariableResource, key: str, found: Any) -> Any:
        return self._tensor(found, variable.name, variable.dtype) if key == "value" else self._packed(found)

    def _tensor(self, value: Tensor | np.generic, name: str = "", dtype: DataType | None = None) -> Any:
        """Collect a tensor, and return the entry that refers to it.

        If the tensor is not row-major, the entry has its memory layout too: the layout affects the order of additions, and
        the order affects the last bits of sums.
        """
        array = np.asarray(value)
        if array.dtype == object:
            if not all(type(element) is bytes for element in array.flat):
                return ["objects", list(array.shape), *map(self._packed, array.flat)]
            dtype = STRING
        elif dtype is None or dtype.numpy != array.dtype:
            dtype = _BY_NUMPY.get(array.dtype)
        if dtype is None:
            raise UnsavableError(str(array.dtype))
        self.tensors.append(NamedTensor(name, dtype, array))
        found: list[Any] = ["tensor", len(self.tensors) - 1]
        if isinstance(value, np.generic):
            return ["scalar", *found[1:]]
        if not array.flags.c_contiguous:
            found.append(sorted(range(array.ndim), key=lambda axis: -abs(array.strides[axis])))
        return found


def _parts(value: Any) -> dict[str, Any]:
    """Return an object's attributes by name."""
    if is_dataclass(value):
        return {field.name: getattr(value, field.name) for field in fields(value) if _is_saved(field)}
    state = value.__getstate__()  # for a class with slots, a pair whose second part has their values
    return state[1] if isinstance(state, tuple) else dict(state)


def _is_saved(field: Field[Any]) -> bool:
    """Whether a field is saved; other fields get their default values when the object is restored."""
    return bool(field.metadata.get("saved", True))


def unpack(packed: Any, tensors: Sequence[Tensor]) -> Any:
    """Return the value that was packed, with copies of its tensors. Raises DataLossError if `packed` is not valid."""
    try:
        return _unpacked(packed, tensors)
    except _UNREADABLE as error:
        raise DataLossError(
            f"the session's state is not valid in this release of placesim: {type(error).__name__}: {error}"
        ) from None


def _unpacked(packed: Any, tensors: Sequence[Tensor]) -> Any:
    if not isinstance(packed, list):
        return packed
    kind, *rest = packed
    return _READERS[kind](rest, tensors)


def _read_items(rest: Sequence[Any], tensors: Sequence[Tensor]) -> list[Any]:
    return [_unpacked(item, tensors) for item in rest]


def _read_dict(rest: Sequence[Any], tensors: Sequence[Tensor]) -> dict[Any, Any]:
    return {_unpacked(key, tensors): _unpacked(value, tensors) for key, value in rest}


def _read_tensor(rest: Sequence[Any], tensors: Sequence[Tensor]) -> Tensor:
    value = tensors[rest[0]]
    # a copy, because an array that was read from a file may be unaligned and read-only
    if len(rest) == 1:
        return np.array(value, order="C")
    return np.array(value.transpose(rest[1]), order="C").transpose(np.argsort(rest[1]))


def _read_objects(rest: Sequence[Any], tensors: Sequence[Tensor]) -> Tensor:
    shape, *items = rest
    if math.prod(shape) != len(items):
        raise ValueError(f"{len(items)} elements of shape {shape}")
    found = np.empty(len(items), object)
    for index, item in enumerate(items):
        found[index] = _unpacked(item, tensors)
    return found.reshape(shape)


def _read_object(rest: Sequence[Any], tensors: Sequence[Tensor]) -> Any:
    name, *parts = rest
    kind = _BY_FILE_NAME.get(name, name)
    made = _KNOWN.get(kind) or getattr(import_module(f"{_KERNELS}.{_CLASSES[kind]}"), kind)
    if issubclass(made, tuple):
        return tuple.__new__(made, _read_items(parts, tensors))
    state = {key: _unpacked(value, tensors) for key, value in parts}
    if is_dataclass(made):
        if {field.name for field in fields(made) if _is_saved(field)} != state.keys():
            raise ValueError(f"{name} has different parts")
        state |= {field.name: field.default for field in fields(made) if not _is_saved(field)}
    found = object.__new__(made)
    for key, value in state.items():
        object.__setattr__(found, key, value)  # also works for a frozen dataclass
    return found


_READERS: dict[str, Callable[[Sequence[Any], Sequence[Tensor]], Any]] = {
    "tuple": lambda rest, tensors: tuple(_read_items(rest, tensors)),
    "list": _read_items,
    "deque": lambda rest, tensors: deque(_read_items(rest, tensors)),
    "dict": _read_dict,
    "bytes": lambda rest, tensors: rest[0].encode("latin-1"),
    "type": lambda rest, tensors: parse_dtype(rest[0]),
    "tensor": _read_tensor,
    "scalar": lambda rest, tensors: tensors[rest[0]][()],
    "objects": _read_objects,
    "object": _read_object,
}
