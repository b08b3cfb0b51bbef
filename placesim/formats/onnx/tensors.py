"""Conversion of TensorProtos to constants. Large arrays are views of the model or of other files."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from placesim.core.dtypes import DataType
from placesim.core.errors import GraphBuildError, InvalidArgumentError
from placesim.core.files.containment import resolve_inside
from placesim.core.files.reader import file_size, read_part
from placesim.formats.onnx.folding import MOST_KNOWN
from placesim.formats.onnx.onnx_node import dtype_of
from placesim.formats.onnx.weights import LIFTED
from placesim.formats.problems import spell
from placesim.graph.constants import check_size
from placesim.ops.attributes import TensorValue

_PACKED = {"uint4": 4, "int4": 4, "float4_e2m1fn": 4, "uint2": 2, "int2": 2}
"""Types with several elements per byte, and their bits; the first element is in the lowest bits."""
Message = Any


class MissingFileError(GraphBuildError):
    """An external data file that does not exist."""

    def __init__(self, message: str, file: str) -> None:
        super().__init__(message)
        self.file = file


class TensorReader:
    """A reader of a model's tensors.

    `views` has the contents that `weights` took out of the model. Other files must lie in `directory`, the folder of the
    model's file; None if the model is not from a file.
    """

    def __init__(self, views: list[memoryview], directory: Path | None) -> None:
        self._views = views
        self._directory = directory
        self._parts: dict[tuple[str, int, int], bytes] = {}
        self._waiting: dict[_Part, np.ndarray[Any, Any]] = {}
        self.missing: dict[str, str] = {}
        """External data files that do not exist, with the problem of each."""

    @property
    def files(self) -> tuple[Path, ...]:
        """Return the external data files, read or missing."""
        read = [location for location, _, _ in self._parts]
        names = dict.fromkeys([*read, *(part.location for part in self._waiting), *self.missing])
        return () if self._directory is None else tuple(self._directory / name for name in names)

    def read(self, tensor: Message) -> TensorValue:
        """Read a tensor. Raises GraphBuildError for an invalid tensor, an unsupported type, or a missing file."""
        dtype, shape = dtype_of(tensor.data_type), tuple(tensor.dims)
        if any(dim < 0 for dim in shape):
            raise GraphBuildError(f"wrong shape of a tensor: got {list(shape)}, expected dimensions of 0 or more")
        if tensor.data_location == 1 or tensor.raw_data:
            size = _content_bytes(dtype, shape)
            content = tensor.raw_data if tensor.data_location != 1 else self._content(tensor, size)
            _check_bytes(len(content), size)
            return TensorValue(dtype, _array(dtype.numpy, dtype.name, shape, content))
        if dtype.name == "string":
            return TensorValue(dtype, _sized(np.array([*tensor.string_data, b""], object)[:-1], shape))
        from onnx import numpy_helper

        check_size(shape, dtype)
        if math.prod(shape) == 0:
            return TensorValue(dtype, _empty(shape, dtype))
        try:
            return TensorValue(dtype, np.asarray(numpy_helper.to_array(tensor)).astype(dtype.numpy, copy=False))
        except (ValueError, TypeError) as error:
            raise GraphBuildError(f"invalid tensor: {error}") from None

    def read_weights(self, tensor: Message) -> tuple[TensorValue, bool]:
        """Return a tensor, and whether its content is available. Raises the other errors of `read`.

        Large weights of other files are zeros until `read_waiting`: only runs and other formats need them. If the tensor's file
        does not exist, its elements are zeros, which share one zero in memory.
        """
        try:
            dtype, shape = dtype_of(tensor.data_type), tuple(tensor.dims)
            if tensor.data_location == 1 and dtype.is_floating and dtype.name not in _PACKED and math.prod(shape) > MOST_KNOWN:
                return TensorValue(dtype, self._zeros_for(tensor, dtype, shape)), False
            return self.read(tensor), True
        except MissingFileError as error:
            self.missing[error.file] = error.message
            dtype = dtype_of(tensor.data_type)
            return TensorValue(dtype, np.broadcast_to(np.zeros((), dtype.numpy), tuple(tensor.dims))), False

    def _zeros_for(self, tensor: Message, dtype: DataType, shape: tuple[int, ...]) -> np.ndarray[Any, Any]:
        """Return memory that `read_waiting` fills. It takes no room until then."""
        part = self._part(_entries(tensor), _content_bytes(dtype, shape))
        content = self._waiting.setdefault(part, np.zeros(part.end - part.start, np.uint8))
        array = content.view(dtype.numpy).reshape(shape)
        array.flags.writeable = False
        return array

    def read_waiting(self) -> None:
        """Read the large weights of other files. Raises GraphBuildError."""
        while self._waiting:
            part, content = self._waiting.popitem()
            self._parts[part[:3]] = b""  # the file counts as read
            content[:] = np.frombuffer(_read_part(part), np.uint8)

    def read_sparse(self, tensor: Message) -> TensorValue:
        """Read a SparseTensorProto as a dense constant. Raises the errors of `read`.

        The indices of its `n` values have shape `[n]`, into the flat tensor, or `[n, rank]`.
        """
        dims = tuple(tensor.dims)
        values, indices = self.read(tensor.values), self.read(tensor.indices).array
        check_size(dims, values.dtype)
        dense = np.zeros(dims, values.dtype.numpy)
        try:
            places = indices.astype(np.int64) if indices.ndim == 1 else np.ravel_multi_index(tuple(indices.T), dims)
            dense.reshape(-1)[places] = values.array.reshape(-1)
        except (IndexError, TypeError, ValueError) as error:
            raise GraphBuildError(f"invalid sparse tensor of shape {list(dims)}: {error}") from None
        return TensorValue(values.dtype, dense)

    def _content(self, tensor: Message, size: ContentSize) -> bytes | memoryview:
        entries = _entries(tensor)
        if LIFTED in entries:
            number = entries[LIFTED]
            if not number.isdecimal() or int(number) >= len(self._views):
                raise GraphBuildError(f"no content of a tensor: got {LIFTED} '{number}'")
            return self._views[int(number)]
        part = self._part(entries, size)
        if part[:3] not in self._parts:
            self._parts[part[:3]] = _read_part(part)
        return self._parts[part[:3]]

    def _part(self, entries: dict[str, str], expected: ContentSize) -> _Part:
        """Return the part of another file that has a tensor's content, of the expected size. Raises GraphBuildError."""
        location = entries.get("location", "")
        if self._directory is None:
            raise GraphBuildError(f"no weights file: got location '{location}' in a model not read from a file")
        wanted = "expected a file beside the model"
        if not location or Path(location).is_absolute():
            raise GraphBuildError(f"no weights file: got location {spell(location)}, {wanted}")
        try:
            path = resolve_inside(self._directory / location, self._directory)
        except InvalidArgumentError as error:
            raise GraphBuildError(f"no weights file: got location {spell(location)}, {wanted}: {error}") from None
        start, length = _number(entries, "offset", 0), _number(entries, "length", None)
        try:
            there = file_size(path)
        except (OSError, ValueError) as error:
            raise _unreadable(location, error) from None
        end = there if length is None else start + length
        if end > there or start > end:
            raise GraphBuildError(f"weights file '{location}' too short: got {there} bytes, expected {end}")
        _check_bytes(end - start, expected)
        return _Part(location, start, end, path)


class _Part(NamedTuple):
    """The bytes from `start` to `end` of a file."""

    location: str
    start: int
    end: int
    path: Path


def _entries(tensor: Message) -> dict[str, str]:
    return {entry.key: entry.value for entry in tensor.external_data}


def _read_part(part: _Part) -> bytes:
    try:
        return read_part(part.path, part.start, part.end - part.start)
    except (OSError, ValueError) as error:
        raise _unreadable(part.location, error) from None


def _unreadable(location: str, error: Exception) -> GraphBuildError:
    message = f"cannot read the weights file '{location}': {getattr(error, 'strerror', None) or error}"
    return MissingFileError(message, location) if isinstance(error, FileNotFoundError) else GraphBuildError(message)


def _array(numpy: np.dtype[Any], name: str, shape: tuple[int, ...], content: Any) -> np.ndarray[Any, Any]:
    """Return the array of a tensor's content."""
    count, bits = math.prod(shape), _PACKED.get(name)
    if bits is None:
        return np.frombuffer(content, numpy).reshape(shape)
    raw = np.frombuffer(content, np.uint8)
    parts = np.stack([raw >> shift & (1 << bits) - 1 for shift in range(0, 8, bits)], axis=-1).reshape(-1)[:count]
    if name.startswith("int"):
        signed = parts.astype(np.int8)
        return np.where(signed >= 1 << bits - 1, signed - (1 << bits), signed).astype(numpy).reshape(shape)
    return (parts.view(numpy) if name.startswith("float") else parts.astype(numpy)).reshape(shape)


class ContentSize(NamedTuple):
    """The number of bytes of a tensor's content, and a text with the type and shape that determine it."""

    num_bytes: int
    reason: str


def _content_bytes(dtype: DataType, shape: tuple[int, ...]) -> ContentSize:
    if dtype.name == "string":
        raise GraphBuildError("invalid tensor: got strings as raw data")
    count, bits = math.prod(shape), _PACKED.get(dtype.name)
    size = count * dtype.numpy.itemsize if bits is None else -(-count * bits // 8)
    return ContentSize(size, f"{dtype.name} of shape {list(shape)}")


def _check_bytes(got: int, expected: ContentSize) -> None:
    if got != expected.num_bytes:
        wanted = f"{expected.num_bytes} for {expected.reason}"
        raise GraphBuildError(f"wrong size of a tensor's content: got {got} bytes, expected {wanted}")


def _empty(shape: tuple[int, ...], dtype: DataType) -> np.ndarray[Any, Any]:
    try:
        return np.zeros(shape, dtype.numpy)
    except ValueError as error:
        raise GraphBuildError(f"wrong shape of a tensor: got {list(shape)}: {error}") from None


def _number(entries: dict[str, str], key: str, default: Any) -> Any:
    text = entries.get(key, "")
    if text and not (text.isdecimal() and len(text) < 20):
        raise GraphBuildError(f"wrong {key} of a tensor's content: got {spell(text)}, expected 0 or more, below 10**19")
    return int(text) if text else default


def _sized(array: np.ndarray[Any, Any], shape: tuple[int, ...]) -> np.ndarray[Any, Any]:
    if array.size != math.prod(shape):
        raise GraphBuildError(f"wrong number of strings: got {array.size}, expected {math.prod(shape)} of shape {list(shape)}")
    return array.reshape(shape)
