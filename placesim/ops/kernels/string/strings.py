"""Strings: joins, lengths, case, substrings. A string tensor is an object array of `bytes`, and most ops work on bytes."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from placesim.core.errors import InvalidArgumentError, OutOfRangeError, UnimplementedError
from placesim.ops.attributes import Attrs
from placesim.ops.kernels.kernel import Compute, Kernel, Table, Tensor
from placesim.ops.kernels.math.reductions import infer_reduction
from placesim.ops.kernels.math.segments import infer_unsorted_segments
from placesim.ops.kernels.memory_rules import KernelMemory
from placesim.ops.kernels.shape_operands import broadcast_dims, shape_text
from placesim.ops.kernels.shapes import (
    Dims,
    ShapeContext,
    ShapeError,
    broadcast,
    format_dims,
    infer_by,
    merge,
    rank_of,
    unchanged,
)
from placesim.ops.kernels.string_tensors import flat_strings, map_strings, raw, string_array
from placesim.ops.process.memory_limit import check_text, check_text_of

# --- joins ----------------------------------------------------------------------------------------------------------


def join(inputs: Sequence[Any], attrs: Attrs) -> Sequence[Tensor]:
    """Join strings of one shape, or scalars, element by element. Raises InvalidArgumentError for shapes that differ."""
    shape: tuple[int, ...] = ()
    for part in inputs:
        if shape and np.ndim(part) and np.shape(part) != shape:
            raise InvalidArgumentError(f"Input shapes do not match: {format_dims(shape)} vs. {shape_text(part)}")
        shape = shape or np.shape(part)
    if not inputs:
        return (string_array([b""], ()),)
    rows = [flat_strings(np.broadcast_to(np.asarray(part, object), shape)) for part in inputs]
    check_text(sum(sum(map(len, row)) for row in rows) + len(raw(attrs["separator"])) * sum(map(len, rows)))
    return (string_array(list(map(raw(attrs["separator"]).join, zip(*rows, strict=True))), shape),)


def _reduced_axes(axes: Tensor, rank: int) -> list[int]:
    found: list[int] = []
    for axis in np.reshape(axes, -1).tolist():
        if not -rank <= axis < rank:
            raise OutOfRangeError(f"Invalid reduction dimension {axis} for input with {rank} dimension(s)")
        if axis % rank in found:
            raise InvalidArgumentError(f"Duplicate reduction dimension {axis}")
        found.append(axis % rank)
    return found


def reduce_join(inputs: Sequence[Any], attrs: Attrs) -> Sequence[Tensor]:
    """Join strings of any shape along axes; the first named axis varies fastest. Remove these axes, or keep them with size 1.

    Raises OutOfRangeError for an axis out of range, InvalidArgumentError for one named twice.
    """
    value = np.asarray(inputs[0], object)
    reduced = _reduced_axes(inputs[1], value.ndim)[::-1]
    kept = [axis for axis in range(value.ndim) if axis not in reduced]
    count = math.prod(value.shape[axis] for axis in reduced)
    shape = [value.shape[axis] for axis in kept]
    rows = value.transpose(kept + reduced).reshape(math.prod(shape), count).tolist()
    check_text_of(flat_strings(value))
    check_text(len(raw(attrs["separator"])) * value.size)
    joined = list(map(raw(attrs["separator"]).join, rows))
    if attrs["keep_dims"]:
        shape = [1 if axis in reduced else dim for axis, dim in enumerate(value.shape)]
    return (string_array(joined, shape),)


def segment_join(inputs: Sequence[Any], attrs: Attrs) -> Sequence[Tensor]:
    """Join strings `[*ids, inner...]` with the same segment id, to `[segments, inner...]`.

    No separator follows an empty string. Raises InvalidArgumentError for shapes that do not fit, an invalid number of segments,
    and ids out of range; OutOfRangeError for ids of higher rank than the strings.
    """
    value, ids, segments = np.asarray(inputs[0], object), np.asarray(inputs[1]), inputs[2]
    if not np.size(segments):
        raise InvalidArgumentError("Number of segments cannot be empty.")
    if np.ndim(segments):
        raise InvalidArgumentError("Number of segments must be a scalar")
    count = int(segments)
    if count < 0:
        raise InvalidArgumentError(f"Number of segments must be non-negative but got {count}")
    _check_segments(value, ids, count)
    shape = (count, *value.shape[ids.ndim :])
    width = math.prod(shape[1:])
    separator = raw(attrs["separator"])
    check_text_of(flat_strings(value))
    check_text(len(separator) * value.size)
    result = [[b""] * width for _ in range(count)]
    for segment, row in zip(ids.reshape(-1).tolist(), value.reshape(ids.size, width).tolist(), strict=True):
        result[segment] = [old + separator + new if old else new for old, new in zip(result[segment], row, strict=True)]
    return (string_array([text for row in result for text in row], shape),)


def _check_segments(value: Tensor, ids: Tensor, count: int) -> None:
    if not ids.ndim:
        raise InvalidArgumentError("Segment_id cannot have rank 0")
    if ids.ndim > value.ndim:
        raise OutOfRangeError(f"Invalid segment_id rank {ids.ndim} for input with {value.ndim} dimension(s)")
    for axis, dim in enumerate(ids.shape):
        if dim != value.shape[axis]:
            raise InvalidArgumentError(f"Segment dimension is {dim} while input dimension is {value.ndim} in rank {axis}")
    if ((ids < 0) | (ids >= count)).any():
        raise InvalidArgumentError("segment_ids are not allowed to exceed num_segments or to have negative values.")


# --- elementwise ----------------------------------------------------------------------------------------------------


def length(inputs: Sequence[Any], attrs: Attrs) -> Sequence[Tensor]:
    """Return lengths as int32, in any shape: in bytes, or in UTF-8 characters, counted by their first bytes."""
    measure: Callable[[bytes], int] = len if attrs["unit"] == "BYTE" else lambda text: len(char_starts(text))
    return (np.array(list(map(measure, flat_strings(inputs[0]))), np.int32).reshape(np.shape(inputs[0])),)


def char_starts(text: bytes) -> list[int]:
    """Return the positions of UTF-8 characters: of every byte that does not continue one, even in invalid text."""
    return [index for index, byte in enumerate(text) if byte & 0xC0 != 0x80]


def change_case(of_bytes: Callable[[bytes], bytes], of_text: Callable[[str], str]) -> Compute:
    """Return a kernel that changes ASCII letters, or all with `utf-8`. It raises InvalidArgumentError for another encoding."""

    def compute(inputs: Sequence[Any], attrs: Attrs) -> Sequence[Tensor]:
        encoding = attrs["encoding"]
        if encoding not in ("", "utf-8"):
            raise InvalidArgumentError(f"only utf-8 or '' (no encoding) is supported, received {encoding}")
        if not encoding:
            return (map_strings(of_bytes, inputs[0]),)
        return (map_strings(lambda text: of_text(text.decode(errors="replace")).encode(), inputs[0]),)

    return compute


def strip(inputs: Sequence[Any], attrs: Attrs) -> Sequence[Tensor]:
    """Remove ASCII whitespace from both ends of strings of any shape."""
    return (map_strings(bytes.strip, inputs[0]),)


# --- substrings -----------------------------------------------------------------------------------------------------


def _byte_range(text: bytes, position: int, count: int) -> tuple[int, int] | None:
    """Return start and end of a substring of bytes; None if its start is outside the string."""
    start = position + len(text) if position < 0 else position
    if not 0 <= start <= len(text):
        return None
    return start, len(text) if count < 0 else min(start + count, len(text))


def _char_range(text: bytes, position: int, count: int) -> tuple[int, int] | None:
    """Return start and end of a substring of UTF-8 characters; None if its start is outside the string."""
    starts = char_starts(text)
    if text and (not starts or starts[0]):
        starts.insert(0, 0)  # TensorFlow treats the first byte as a start
    size = len(starts)
    ends = [*starts, len(text)]
    if position >= 0:
        return None if position > size else (ends[position], ends[min(position + max(count, 0), size)])
    first = size + position
    # a negative length means all other bytes, but no characters; with a negative position it is an error
    return None if first < 0 or count < 0 else (ends[first], ends[min(first + count, size)])


def substring(inputs: Sequence[Any], attrs: Attrs) -> Sequence[Tensor]:
    """Return substrings; positions and lengths have one shape, which broadcasts with the shape of the strings.

    Raises InvalidArgumentError for shapes and positions that do not fit, UnimplementedError for more than two dimensions.
    """
    value, position, count = inputs
    if np.shape(position) != np.shape(count):
        raise InvalidArgumentError(
            f"pos and len should have the same shape, got: {shape_text(position)} vs. {shape_text(count)}"
        )
    shape = _substring_shape(np.shape(value), np.shape(position))
    parts = (np.broadcast_to(np.asarray(part), shape).reshape(-1).tolist() for part in (position, count))
    texts = flat_strings(np.broadcast_to(np.asarray(value, object), shape))
    is_bytes = attrs["unit"] == "BYTE"
    # TensorFlow's message has both coordinates only if shapes broadcast
    in_pairs = len(shape) == 2 and np.shape(position) not in ((), np.shape(value))
    result = []
    for index, (text, start, size) in enumerate(zip(texts, *parts, strict=True)):
        found = _byte_range(text, start, size) if is_bytes else _char_range(text, start, size)
        if found is None:
            raise _outside(text, start, np.unravel_index(index, shape) if in_pairs else (index,), is_bytes)
        result.append(text[found[0] : found[1]])
    return (string_array(result, shape),)


def _substring_shape(value: tuple[int, ...], position: tuple[int, ...]) -> tuple[int, ...]:
    if position in ((), value):
        return value
    shape = broadcast_dims(value, position)
    if shape is None:
        raise InvalidArgumentError(f"Incompatible shapes: {format_dims(value)} vs. {format_dims(position)}")
    if len(shape) > 2:
        raise UnimplementedError(f"Substr broadcast not implemented for {len(shape)} dimensions")
    return shape


def _outside(text: bytes, position: int, index: Sequence[Any], is_bytes: bool) -> InvalidArgumentError:
    if not is_bytes:
        return InvalidArgumentError(f"pos {position} out of range for string at index {index[0]}")
    place = f"{index[0]}" if len(index) == 1 else f"({index[0]}, {index[1]})"
    shown = text.decode(errors="replace")
    return InvalidArgumentError(f"pos {position} out of range for string b'{shown}' at index {place}")


# --- file names -----------------------------------------------------------------------------------------------------


def _check_scalars(names: Sequence[str], inputs: Sequence[Any]) -> None:
    for name, part in zip(names, inputs, strict=True):
        if np.ndim(part):
            raise InvalidArgumentError(f"{name} must be a scalar, got shape {shape_text(part)}")


def sharded_filename(inputs: Sequence[Any], attrs: Attrs) -> Sequence[Tensor]:
    """Return the name of one shard's file, `name-00003-of-00010`. Raises InvalidArgumentError unless the inputs are scalars."""
    _check_scalars(("basename", "shard", "num_shards"), inputs)
    name, shard, count = (np.reshape(part, -1)[0] for part in inputs)
    return (string_array([name + b"-%05d-of-%05d" % (shard, count)], ()),)


def sharded_filespec(inputs: Sequence[Any], attrs: Attrs) -> Sequence[Tensor]:
    """Return the pattern of all shards' files, `name-?????-of-00010`. Raises InvalidArgumentError for other shapes."""
    _check_scalars(("basename", "num_shards"), inputs)
    name, count = (np.reshape(part, -1)[0] for part in inputs)
    return (string_array([name + b"-?????-of-%05d" % count], ()),)


# --- shape functions ------------------------------------------------------------------------------------------------


def infer_join(context: ShapeContext) -> Sequence[Dims]:
    """Return the common shape of the inputs that are not scalars; a scalar if all are. Raises ShapeError if shapes differ."""
    if all(dims == () for dims in context.shapes):
        return ((),)
    found: Dims = None
    for dims in context.shapes:
        found = merge(found, dims) if dims else found
    return (found,)


def infer_substring(context: ShapeContext) -> Sequence[Dims]:
    """Return the broadcast shape of strings and positions. Raises ShapeError unless positions and lengths have one shape."""
    value, position, count = context.shapes
    if position is not None and rank_of(position) != rank_of(count):
        rank = -1 if count is None else len(count)
        raise ShapeError(f"Shape must be rank {rank} but is rank {len(position)}")
    if position is not None and position != count:
        raise ShapeError(f"pos and len shapes must match: {format_dims(position)} vs. {format_dims(count)}")
    return (broadcast(value, position),)


# --- memory ---------------------------------------------------------------------------------------------------------


def substring_memory(memory: KernelMemory) -> None:
    """Temporaries have the broadcast positions and lengths, unless these are scalars or have the strings' shape."""
    memory.allocate()
    texts, positions = memory.inputs[:2]
    if positions.dims and positions.dims != texts.dims:
        for _ in range(2):
            memory.temporary_like(memory.outputs[0], positions.dtype)


TABLE: Table = {
    "StringJoin": Kernel(join, infer_join),
    "ReduceJoin": Kernel(reduce_join, infer_reduction),
    "UnsortedSegmentJoin": Kernel(segment_join, infer_unsorted_segments),
    "StringLength": Kernel(length, unchanged),
    "StringLower": Kernel(change_case(bytes.lower, str.lower), unchanged),
    "StringUpper": Kernel(change_case(bytes.upper, str.upper), unchanged),
    "StringStrip": Kernel(strip, unchanged),
    "Substr": Kernel(substring, infer_substring, memory=substring_memory),
    "ShardedFilename": Kernel(sharded_filename, infer_by("[], [], [] -> []")),
    "ShardedFilespec": Kernel(sharded_filespec, infer_by("[], [] -> []")),
}
