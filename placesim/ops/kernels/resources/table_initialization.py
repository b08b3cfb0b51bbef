"""Initialization of lookup tables, from vectors of keys and values or from the lines of a text file.

Source: TensorFlow's `lookup_table_init_op.cc` and `lookup_util.cc`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any

import numpy as np

from placesim.core.dtypes import DOUBLE, FLOAT, INT32, INT64, STRING, DataType
from placesim.core.errors import FailedPreconditionError, InvalidArgumentError, OutOfRangeError
from placesim.ops.attributes import Attrs
from placesim.ops.kernels.kernel import KernelContext
from placesim.ops.kernels.kernel import Table as KernelTable
from placesim.ops.kernels.named_resources import check_signature, check_two_strings, handle_of, users
from placesim.ops.kernels.resources.file_access import file_name, read_bytes, text_lines
from placesim.ops.kernels.resources.lookup_tables import RESOURCE_TYPE, cast_pairs, check_scalar_handle, find_table
from placesim.ops.kernels.resources.table_storage import FixedTable, LookupTable
from placesim.ops.kernels.shapes import Dims, ShapeContext, format_dims, merge, with_rank
from placesim.ops.kernels.string_tensors import flat_strings, raw
from placesim.ops.process.memory_limit import check_elements

LINE_NUMBER, WHOLE_LINE = -1, -2
"""Special column indices for the line number and the whole line."""


# --- kernels and shape functions ------------------------------------------------------------------------------------


def find_initializable(holder: Any, context: KernelContext) -> FixedTable:
    """Return the table of a handle. Raises InvalidArgumentError if it is not a `FixedTable`, NotFoundError if there is none."""
    table = find_table(holder, context)
    if not isinstance(table, FixedTable):
        handle = handle_of(holder, RESOURCE_TYPE, context.device)
        raise InvalidArgumentError(f"Table {handle.container} {handle.name} is not initializable")
    return table


def initialize(inputs: Sequence[Any], attrs: Attrs, context: KernelContext) -> Sequence[Any]:
    """(table, keys `[n]`, values `[n]`) -> nothing: initialize the table; an initialized table stays unchanged.

    Raises InvalidArgumentError for inputs that are not vectors of equal length, are empty or have other types, and for a table
    of another kind. Raises FailedPreconditionError for two values of one key, and for a table that was initialized with another
    number of keys.
    """
    table = find_initializable(inputs[0], context)
    check_signature(inputs[0], ((attrs["Tkey"], attrs["Tval"]), ()), ((table.key_dtype, table.value_dtype), ()))
    keys, values = cast_pairs(table, inputs[1], inputs[2])
    for name, tensor in (("Keys", keys), ("Values", values)):
        if tensor.ndim != 1:
            raise InvalidArgumentError(f"{name} must be a vector, but received shape{format_dims(tensor.shape)}")
    if len(keys) != len(values):
        raise InvalidArgumentError(f"Keys and values must have the same size {len(keys)} vs {len(values)}")
    table.fill(keys, values)
    return ()


def initialize_from_file(inputs: Sequence[Any], attrs: Attrs, context: KernelContext) -> Sequence[Any]:
    """(table, a scalar file name) -> nothing: initialize the table with the file's lines; an initialized table stays unchanged.

    Raises InvalidArgumentError for attrs that do not fit the table, a name that is not a scalar or empty, and a line without
    the required columns. Raises OutOfRangeError for a file without lines, NotFoundError or similar for a file that cannot be
    read, and FailedPreconditionError for two values of one key.
    """
    if len(raw(attrs["delimiter"])) != 1:
        raise InvalidArgumentError("delimiter should be only 1 char")
    table = find_initializable(inputs[0], context)
    if np.ndim(inputs[1]):
        raise InvalidArgumentError(f"filename should be a single string, but got {format_dims(np.shape(inputs[1]))}")
    name = file_name(flat_strings(inputs[1])[0])
    if not name:
        raise InvalidArgumentError("filename cannot be empty.")
    _check_column(table.key_dtype, attrs["key_index"], "Key", "key", "string or integer table key")
    _check_column(table.value_dtype, attrs["value_index"], "Value", "value", "table value dtype of integer or string")
    lines = text_lines(read_bytes(context.files, name))
    if not lines:
        raise OutOfRangeError("Read less bytes than requested")
    # attr `vocab_size` counts as the number of lines
    size = attrs["vocab_size"]
    check_elements(max(0, size))
    try:
        table.initialize(lines if size < 0 else [b""] * size, lambda: _columns(table, name, lines, attrs))
    # an initialized table stays unchanged, even if the number of lines differs
    except FailedPreconditionError:
        if not table.is_initialized:
            raise
    return ()


def _check_column(dtype: DataType, column: int, side: str, what: str, whole: str) -> None:
    if column == LINE_NUMBER and dtype is not INT64:
        raise InvalidArgumentError(f"{side} index for line number requires table {what} dtype of int64, got {dtype}")
    if column == WHOLE_LINE and not dtype.is_integer and dtype is not STRING:
        raise InvalidArgumentError(f"{side} index for whole line requires {whole}, got {dtype}")


def _columns(table: LookupTable, name: str, lines: Sequence[bytes], attrs: Attrs) -> Iterator[tuple[Any, Any]]:
    columns, size = (attrs["key_index"], attrs["value_index"]), attrs["vocab_size"]
    position = 0
    # TensorFlow's message names the position after the line's end
    for number, line in enumerate(lines):
        position += len(line) + 1
        if 0 <= size <= number:
            return
        if not line:
            raise InvalidArgumentError(f"Invalid content in {name}: empty line found at position {position}.")
        fields = _split(line, raw(attrs["delimiter"]), max(columns) + 1, name, number)
        key, value = (
            _field(line, fields, column, number, dtype, attrs["offset"])
            for column, dtype in zip(columns, (table.key_dtype, table.value_dtype), strict=True)
        )
        yield key, value
    if 0 <= size != len(lines):
        raise InvalidArgumentError(f"Invalid vocab_size in {name}: expected {size} but got {len(lines)}")


def _split(line: bytes, delimiter: bytes, least: int, name: str, number: int) -> list[bytes]:
    # a line is not split if only its number or the whole line is used
    fields = line.split(delimiter) if least > 0 else []
    if len(fields) < least:
        raise InvalidArgumentError(
            f"Invalid number of columns in {name} line {number} ({line.decode(errors='replace')}) : "
            f"expected at least {least} got {len(fields)}"
        )
    return fields


def _field(line: bytes, fields: Sequence[bytes], column: int, number: int, dtype: DataType, offset: int) -> Any:
    if column == LINE_NUMBER:
        return number + offset
    token = line if column == WHOLE_LINE else fields[column]
    if dtype is STRING:
        return token
    if dtype not in (INT32, INT64, FLOAT, DOUBLE):
        raise InvalidArgumentError(f"Data type {dtype} not supported.")
    try:
        # TensorFlow also adds the offset to int32 fields
        return (int(token) + (offset if dtype is INT32 else 0)) if dtype.is_integer else float(token)
    except ValueError:
        shown = token.decode(errors="replace")
        raise InvalidArgumentError(f"Field {shown} in line {number} is not a valid {dtype.name}.") from None


def _infer_initialize(
    context: ShapeContext, check_handle: Callable[[ShapeContext], Any], from_file: bool = False
) -> Sequence[Dims]:
    check_handle(context)
    if from_file:
        with_rank(context.shapes[1], 0)
    else:
        merge(with_rank(context.shapes[1], 1), context.shapes[2])
    return ()


TABLE: KernelTable = {
    **users(
        *("InitializeTable", "InitializeTableV2"),
        initialize,
        partial(_infer_initialize, check_handle=check_two_strings),
        partial(_infer_initialize, check_handle=check_scalar_handle),
    ),
    **users(
        *("InitializeTableFromTextFile", "InitializeTableFromTextFileV2"),
        initialize_from_file,
        partial(_infer_initialize, check_handle=check_two_strings, from_file=True),
        partial(_infer_initialize, check_handle=check_scalar_handle, from_file=True),
    ),
}
