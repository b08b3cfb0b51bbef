"""Unicode: bytes to code points and back, and from one encoding to another.

Attr `errors` says whether invalid bytes are replaced, dropped or refused. Source: TensorFlow's unicode ops, which use ICU's
converters; Python's codecs know the same encodings, and end an invalid sequence at the same byte.
"""

from __future__ import annotations

import codecs
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

from placesim.core.errors import InvalidArgumentError
from placesim.ops.attributes import Attrs
from placesim.ops.kernels.kernel import Kernel, Table, Tensor
from placesim.ops.kernels.memory_rules import forwards
from placesim.ops.kernels.shapes import Dims, ShapeContext, add_dims, element_count, subtract_dims, unchanged, with_rank
from placesim.ops.kernels.string.unicode_scripts import LAST_CODE_POINT, scripts_of
from placesim.ops.kernels.string_tensors import flat_strings, map_strings, string_array

REPLACEMENT = 0xFFFD
LAST_CONTROL = 0x1F
SURROGATES = range(0xD800, 0xE000)
INVALID = "Invalid formatting on input string"


class Character(NamedTuple):
    """A character read from bytes, with the number of its bytes; an invalid sequence is a replacement character."""

    code_point: int
    size: int
    is_valid: bool = True


# --- reading --------------------------------------------------------------------------------------------------------


def codec_of(encoding: str) -> str:
    """Return Python's name of an encoding. Raises InvalidArgumentError for an unknown one."""
    try:
        found = codecs.lookup(encoding.strip())
        # Python's codecs include base64 and others that are no encodings
        if not getattr(found, "_is_text_encoding", True):
            raise LookupError(encoding)
    except (LookupError, ValueError):
        raise InvalidArgumentError(f"Could not create converter for input encoding: {encoding}") from None
    return found.name


def read_characters(text: bytes, codec: str) -> Iterator[Character]:
    """Yield the characters of some bytes; each invalid sequence is one replacement character."""
    start = 0
    while start < len(text):
        try:
            yield from _sized(text[start:].decode(codec), codec)
            return
        except UnicodeDecodeError as error:
            yield from _sized(text[start : start + error.start].decode(codec), codec)
            yield Character(REPLACEMENT, error.end - error.start, False)
            start += error.end


def _sized(text: str, codec: str) -> Iterator[Character]:
    if text.isascii() and codec in ("utf-8", "ascii", "iso8859-1"):
        yield from (Character(ord(character), 1) for character in text)
    else:
        yield from (Character(ord(character), len(character.encode(codec))) for character in text)


def _check_errors(attrs: Attrs) -> None:
    if attrs["errors"] not in ("strict", "replace", "ignore"):
        raise InvalidArgumentError("errors policy must be one of 'strict', 'replace', or 'ignore'")
    if not 0 <= attrs["replacement_char"] <= LAST_CODE_POINT:
        raise InvalidArgumentError("replacement_char out of unicode codepoint range")


def _cleaned(text: bytes, codec: str, attrs: Attrs) -> Iterator[tuple[int, int]]:
    """Yield code points with their byte positions; attrs say how to treat invalid and control characters."""
    at = 0
    for code_point, size, is_valid in read_characters(text, codec):
        if not is_valid and attrs["errors"] == "strict":
            raise InvalidArgumentError(INVALID)
        if is_valid and not (attrs["replace_control_characters"] and code_point <= LAST_CONTROL):
            yield code_point, at
        elif attrs["errors"] != "ignore":
            yield attrs["replacement_char"], at
        at += size


# --- the ops --------------------------------------------------------------------------------------------------------


def encode(code_points: Sequence[int], encoding: str) -> bytes:
    """Encode code points in UTF-8, UTF-16-BE or UTF-32-BE; a lone surrogate is replaced."""
    text = "".join(chr(REPLACEMENT if point in SURROGATES else point) for point in code_points)
    return text.encode(encoding.lower())


def transcode(inputs: Sequence[Any], attrs: Attrs) -> Sequence[Tensor]:
    """Convert strings of any shape from one encoding to another.

    Raises InvalidArgumentError for invalid attrs, and with policy `strict` for invalid bytes and control characters to replace.
    """
    _check_errors(attrs)
    codec = codec_of(attrs["input_encoding"])

    def one(text: bytes) -> bytes:
        found = list(read_characters(text, codec))
        controls = attrs["replace_control_characters"] and any(c.code_point <= LAST_CONTROL for c in found)
        # transcoding is strict with control characters too, decoding is not
        if attrs["errors"] == "strict" and controls:
            raise InvalidArgumentError(INVALID)
        return encode([point for point, _ in _cleaned(text, codec, attrs)], attrs["output_encoding"])

    return (map_strings(one, inputs[0]),)


def decode_with_offsets(inputs: Sequence[Any], attrs: Attrs) -> Sequence[Tensor]:
    """Decode strings of any shape to ragged rows: splits `[strings + 1]`, int32 code points, and their byte positions.

    Raises InvalidArgumentError for an unknown encoding or policy, and, with policy `strict`, for invalid bytes.
    """
    _check_errors(attrs)
    codec = codec_of(attrs["input_encoding"])
    rows = [list(_cleaned(text, codec, attrs)) for text in flat_strings(inputs[0])]
    splits = np.cumsum([0, *map(len, rows)])
    points = np.array([pair for row in rows for pair in row], np.int64).reshape(-1, 2)
    kind = attrs["Tsplits"].numpy
    return splits.astype(kind), points[:, 0].astype(np.int32), points[:, 1].astype(kind)


def decode(inputs: Sequence[Any], attrs: Attrs) -> Sequence[Tensor]:
    """Decode strings to ragged rows as `decode_with_offsets` does, but without byte positions."""
    return decode_with_offsets(inputs, attrs)[:2]


def _check_splits(splits: Tensor, size: int) -> None:
    if not splits.size:
        raise InvalidArgumentError("Input_splits should contain elements, but given input_values has 0 elements")
    if splits[0]:
        raise InvalidArgumentError("First value in input_splits must be zero.")
    if splits[-1] != size:
        raise InvalidArgumentError("Last value in input_splits must be equal to length of input_tensor.")
    for start, end in pairwise(splits.tolist()):
        if start > end:
            raise InvalidArgumentError("Values in input_splits must be equal or in ascending order.")
        if end > size:
            raise InvalidArgumentError("Values in input_splits must be less than or equal to input_tensor length.")


def _checked_points(points: Sequence[int], attrs: Attrs) -> list[int]:
    found = []
    for point in points:
        if 0 <= point <= LAST_CODE_POINT and point not in SURROGATES:
            found.append(point)
        elif attrs["errors"] == "strict":
            raise InvalidArgumentError("Code point is out of range for Unicode, or is a surrogate.")
        elif attrs["errors"] == "replace":
            found.append(attrs["replacement_char"])
    return found


def encode_rows(inputs: Sequence[Any], attrs: Attrs) -> Sequence[Tensor]:
    """Encode ragged rows of code points, `[points]` with splits `[rows + 1]`, to strings `[rows]`.

    Raises InvalidArgumentError for bad splits or attrs, and, with policy `strict`, for an invalid code point.
    """
    _check_errors(attrs)
    if np.ndim(inputs[0]) != 1 or np.ndim(inputs[1]) != 1:
        raise InvalidArgumentError("Both the input_tensor and input_splits should be of rank 1. ")
    points, splits = inputs[0].tolist(), inputs[1]
    _check_splits(splits, len(points))
    ends = splits.tolist()
    rows = [_checked_points(points[start:end], attrs) for start, end in pairwise(ends)]
    return (string_array([encode(row, attrs["output_encoding"]) for row in rows], (len(rows),)),)


def script(inputs: Sequence[Any], attrs: Attrs) -> Sequence[Tensor]:
    """Return ICU's number of each code point's script, in any shape."""
    return (scripts_of(np.asarray(inputs[0])),)


# --- shape functions ------------------------------------------------------------------------------------------------


def _infer_decode(context: ShapeContext) -> Sequence[Dims]:
    count = element_count(context.shapes[0])
    return (add_dims(-1 if count is None else count, 1),), (-1,)


def _infer_decode_with_offsets(context: ShapeContext) -> Sequence[Dims]:
    return *_infer_decode(context), (-1,)


def _infer_encode(context: ShapeContext) -> Sequence[Dims]:
    with_rank(context.shapes[0], 1)
    (splits,) = with_rank(context.shapes[1], 1)
    return ((subtract_dims(splits, 1),),)


TABLE: Table = {
    "UnicodeTranscode": Kernel(transcode, unchanged, memory=forwards(0)),
    "UnicodeDecode": Kernel(decode, _infer_decode),
    "UnicodeDecodeWithOffsets": Kernel(decode_with_offsets, _infer_decode_with_offsets),
    "UnicodeEncode": Kernel(encode_rows, _infer_encode),
    "UnicodeScript": Kernel(script, unchanged),
}
