"""Strings decoded as packed numbers, and as comma-separated values."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from placesim.core.dtypes import BOOL, STRING, DataType
from placesim.core.errors import InvalidArgumentError
from placesim.ops.attributes import Attrs
from placesim.ops.kernels.kernel import Kernel, Table, Tensor
from placesim.ops.kernels.shape_operands import shape_text
from placesim.ops.kernels.shapes import Dims, ShapeContext, ShapeError, concatenate, divide_dim, scalar_dim, with_rank_at_most
from placesim.ops.kernels.string.conversion import parse_number
from placesim.ops.kernels.string_tensors import flat_strings, raw, string_array

# --- packed numbers -------------------------------------------------------------------------------------------------


def _numbers(data: bytes, dtype: DataType, little_endian: bool) -> Tensor:
    """Return bytes as numbers; the two parts of a complex number are byte-swapped separately."""
    if dtype is BOOL:
        return np.asarray(np.frombuffer(data, np.uint8) != 0)
    if little_endian or dtype.size == 1:
        return np.frombuffer(data, dtype.numpy).copy()
    size = dtype.size // 2 if dtype.is_complex else dtype.size
    return np.frombuffer(data, f"u{size}").byteswap().view(dtype.numpy)


def decode_raw(inputs: Sequence[Any], attrs: Attrs) -> Sequence[Tensor]:
    """Decode strings of equal length, in any shape, to numbers `[..., length / size]`.

    Raises InvalidArgumentError for unequal lengths, and for a length that is no multiple of the number's size.
    """
    texts, dtype = flat_strings(inputs[0]), attrs["out_type"]
    shape, size = np.shape(inputs[0]), len(texts[0]) if texts else 0
    for index, text in enumerate(texts):
        if len(text) != size:
            raise InvalidArgumentError(
                f"DecodeRaw requires input strings to all be the same size, but element {index} has size {size} != {len(text)}"
            )
    if not size:
        return (np.empty((*shape, 0), dtype.numpy),)
    if size % dtype.size:
        raise InvalidArgumentError(
            f"Input to DecodeRaw has length {size} that is not a multiple of {dtype.size}, the size of {dtype}"
        )
    return (_numbers(b"".join(texts), dtype, attrs["little_endian"]).reshape(*shape, size // dtype.size),)


def decode_padded_raw(inputs: Sequence[Any], attrs: Attrs) -> Sequence[Tensor]:
    """Cut or pad strings, in any shape, to one length, and decode them to numbers `[..., length / size]`.

    Raises InvalidArgumentError for a length that is not a scalar, not positive, or no multiple of the number's size.
    """
    if np.ndim(inputs[1]):
        raise InvalidArgumentError(f"k must be scalar, got shape {shape_text(inputs[1])}")
    length, dtype = int(inputs[1]), attrs["out_type"]
    if length % dtype.size:
        raise InvalidArgumentError(f"fixed_length ({length}) must be a multiple of the size of out_type ({dtype.size})")
    if length <= 0:
        raise InvalidArgumentError(f"fixed_length ({length}) must be greater than zero.")
    # NUL bytes are zeros in every type
    data = b"".join(text[:length].ljust(length, b"\0") for text in flat_strings(inputs[0]))
    return (_numbers(data, dtype, attrs["little_endian"]).reshape(*np.shape(inputs[0]), length // dtype.size),)


# --- comma-separated values -----------------------------------------------------------------------------------------


def _check_csv(inputs: Sequence[Any], attrs: Attrs) -> None:
    """Raise InvalidArgumentError for an invalid delimiter, columns that do not ascend, or two defaults for one field."""
    if len(raw(attrs["field_delim"])) != 1:
        raise InvalidArgumentError("field_delim should be only 1 char")
    columns = attrs["select_cols"]
    if columns and len(columns) != len(attrs["OUT_TYPE"]):
        raise InvalidArgumentError("select_cols should match output size")
    for last, column in zip((None, *columns), columns, strict=False):
        if last is not None and column <= last:
            raise InvalidArgumentError("select_cols should be strictly increasing indices")
        if column < 0:
            raise InvalidArgumentError("select_cols should be non-negative indices")
    for index, default in enumerate(inputs[1:]):
        if np.ndim(default) > 1:
            raise InvalidArgumentError("Each record default should be at most rank 1")
        if np.size(default) > 1:
            raise InvalidArgumentError(f"There should only be 1 default per field but field {index} has {np.size(default)}")


def _unquoted_field(text: bytes, at: int, delimiter: int, quotes: bool) -> tuple[bytes, int]:
    """Return the field that starts at `at`, and the start of the next field."""
    end = text.find(bytes([delimiter]), at)
    end = len(text) if end < 0 else end
    field = text[at:end]
    if (quotes and b'"' in field) or b"\n" in field or b"\r" in field:
        raise InvalidArgumentError("Unquoted fields cannot have quotes/CRLFs inside")
    return field, end + 1


def _quoted_field(text: bytes, at: int, delimiter: int) -> tuple[bytes, int]:
    """Return the field that starts after a quote, and the start of the next field. A doubled quote means one quote."""
    field = bytearray()
    while at < len(text) - 1 and (text[at] != 0x22 or text[at + 1] != delimiter):
        if text[at] != 0x22:
            field.append(text[at])
            at += 1
            continue
        if text[at + 1] != 0x22:
            raise InvalidArgumentError("Quote inside a string has to be escaped by another quote")
        field.append(0x22)
        at += 2
    if at >= len(text) or text[at] != 0x22 or (at < len(text) - 1 and text[at + 1] != delimiter):
        raise InvalidArgumentError("Quoted field has to end with quote followed by delim or end")
    return bytes(field), at + 2


def csv_fields(text: bytes, attrs: Attrs) -> list[bytes]:
    """Return the fields of one record; with `select_cols`, only those columns, and the record is not read beyond the last.

    Raises InvalidArgumentError for misplaced quotes and line ends.
    """
    delimiter, quotes, columns = raw(attrs["field_delim"])[0], attrs["use_quote_delim"], attrs["select_cols"]
    found: list[bytes] = []
    at, number = 0, 0
    while at < len(text):
        # line ends before a field, and at a record's end, are skipped
        if text[at] in b"\n\r":
            at += 1
            continue
        if quotes and text[at] == 0x22:
            field, at = _quoted_field(text, at + 1, delimiter)
        else:
            field, at = _unquoted_field(text, at, delimiter, quotes)
        if not columns or columns[len(found)] == number:
            found.append(field)
        number += 1
        if columns and len(found) == len(columns):
            return found
    # after a delimiter at the end is an empty field
    if text and text[-1] == delimiter and (not columns or columns[len(found)] == number):
        found.append(b"")
    return found


def _csv_value(field: bytes, place: tuple[int, int], dtype: DataType, default: Any, na_value: bytes) -> Any:
    """Return a field's value. Raises InvalidArgumentError if it is not a number, or missing without a default."""
    record, number = place
    if not field or field == na_value:
        if not np.size(default):
            raise InvalidArgumentError(f"Field {number} is required but missing in record {record}!")
        return np.reshape(default, -1)[0]
    value = field if dtype is STRING else parse_number(field, dtype)
    if value is None:
        shown = field.decode(errors="replace")
        raise InvalidArgumentError(f"Field {number} in record {record} is not a valid {dtype}: {shown}")
    return value


def decode_csv(inputs: Sequence[Any], attrs: Attrs) -> Sequence[Tensor]:
    """Decode records, in any shape, to a tensor of that shape for each field; an empty field has its default value.

    Raises InvalidArgumentError for invalid attrs, defaults and records, and fields that are not numbers of their type.
    """
    _check_csv(inputs, attrs)
    dtypes, shape, na_value = attrs["OUT_TYPE"], np.shape(inputs[0]), raw(attrs["na_value"])
    columns: list[list[Any]] = [[] for _ in dtypes]
    for record, text in enumerate(flat_strings(inputs[0])):
        fields = csv_fields(text, attrs)
        if len(fields) != len(dtypes):
            raise InvalidArgumentError(f"Expect {len(dtypes)} fields but have {len(fields)} in record {record}")
        for number, field in enumerate(fields):
            value = _csv_value(field, (record, number), dtypes[number], inputs[1 + number], na_value)
            columns[number].append(value)
    return [
        string_array(column, shape) if dtype is STRING else np.array(column).astype(dtype.numpy).reshape(shape)
        for dtype, column in zip(dtypes, columns, strict=True)
    ]


# --- shape functions ------------------------------------------------------------------------------------------------


def _infer_decode_raw(context: ShapeContext) -> Sequence[Dims]:
    return (concatenate(context.shapes[0], (-1,)),)


def _infer_decode_padded_raw(context: ShapeContext) -> Sequence[Dims]:
    width = divide_dim(scalar_dim(context, 1), context.attrs["out_type"].size)
    return (concatenate(context.shapes[0], (width,)),)


def _infer_decode_csv(context: ShapeContext) -> Sequence[Dims]:
    for dims in context.shapes[1:]:
        with_rank_at_most(dims, 1)
        if dims and dims[0] > 1:
            raise ShapeError("Shape of a default must be a length-0 or length-1 vector, or a scalar.")
    return (context.shapes[0],) * len(context.attrs["OUT_TYPE"])


TABLE: Table = {
    "DecodeRaw": Kernel(decode_raw, _infer_decode_raw),
    "DecodePaddedRaw": Kernel(decode_padded_raw, _infer_decode_padded_raw),
    "DecodeCSV": Kernel(decode_csv, _infer_decode_csv),
}
