"""Lookup tables: made, filled (also from text files), asked, changed and exported.

Source: TensorFlow's `lookup_table_op.cc`, `lookup_table_init_op.cc`, `lookup_util.cc` and `lookup_ops.cc`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from placesim.dtypes import DOUBLE, FLOAT, INT32, INT64, STRING, DType
from placesim.errors import FailedPreconditionError, InvalidArgumentError, OutOfRangeError
from placesim.ops.attributes import Attrs
from placesim.runtime.kernels.kernel import Kernel, KernelContext, Tensor
from placesim.runtime.kernels.kernel import Table as KernelTable
from placesim.runtime.kernels.named_resources import (
    DEFAULT_CONTAINER,
    check_signature,
    check_two_strings,
    finder,
    handle_of,
    makers,
    name_resource,
    users,
)
from placesim.runtime.kernels.resources.file_access import read_bytes, text_lines
from placesim.runtime.kernels.resources.table_storage import ChangingTable, DenseTable, FixedTable, Table
from placesim.runtime.kernels.string_tensors import flat_strings, raw
from placesim.runtime.memory import check_elements
from placesim.runtime.resources import ResourceHandle
from placesim.runtime.shapes import (
    Dims,
    HandleShape,
    ShapeContext,
    concatenate,
    format_dims,
    merge,
    merge_dim,
    with_rank,
    with_rank_at_least,
    with_rank_at_most,
)

RESOURCE_TYPE = "N10tensorflow6lookup15LookupInterfaceE"
LINE_NUMBER, WHOLE_LINE = -1, -2
"""Columns of a text file that are none."""

find_table: Callable[[Any, KernelContext], Table] = finder(RESOURCE_TYPE)

Maker = Callable[[Sequence[Any], Attrs], Table]


# --- making -----------------------------------------------------------------------------------------------------------


def _fixed(inputs: Sequence[Any], attrs: Attrs) -> Table:
    return FixedTable(attrs["key_dtype"], attrs["value_dtype"])


def _changing(inputs: Sequence[Any], attrs: Attrs) -> Table:
    return ChangingTable(attrs["key_dtype"], attrs["value_dtype"])


def _changing_vectors(inputs: Sequence[Any], attrs: Attrs) -> Table:
    shape = attrs["value_shape"].dims
    if shape is None or len(shape) != 1:
        raise InvalidArgumentError(f"Default value must be a vector, got shape {format_dims(shape)}")
    return ChangingTable(attrs["key_dtype"], attrs["value_dtype"], shape)


def _dense(inputs: Sequence[Any], attrs: Attrs) -> Table:
    load, shape = attrs["max_load_factor"], attrs["value_shape"].dims
    if not 0 < load < 1:
        raise InvalidArgumentError(f"max_load_factor must be between 0 and 1, got: {load:g}")
    if shape is None or len(shape) > 1:
        raise InvalidArgumentError(f"Empty value must be a scalar or a vector, got shape {format_dims(shape)}")
    if len(inputs) < 2:
        raise InvalidArgumentError("Unknown input name: deleted_key")
    empty, deleted = (np.asarray(key, attrs["key_dtype"].numpy) for key in inputs)
    if empty.ndim > 1:
        raise InvalidArgumentError(f"Empty key must be a scalar or a vector, got shape {format_dims(empty.shape)}")
    if empty.shape != deleted.shape:
        shapes = f"{format_dims(empty.shape)} and {format_dims(deleted.shape)}"
        raise InvalidArgumentError(f"Empty and deleted keys must have same shape, got shapes: {shapes}")
    if empty.tolist() == deleted.tolist():
        raise InvalidArgumentError("Empty and deleted keys cannot be equal")
    dtypes = (attrs["key_dtype"], attrs["value_dtype"])
    return DenseTable(dtypes, shape, empty, deleted, attrs["initial_num_buckets"], load)


def table_maker(make: Maker) -> Callable[..., ResourceHandle]:
    """What finds or makes a table of a kind, `(inputs, attrs, context) -> handle`."""

    def find_or_make(inputs: Sequence[Any], attrs: Attrs, context: KernelContext) -> ResourceHandle:
        handle = name_resource(attrs, context, RESOURCE_TYPE, attrs["use_node_name_sharing"])
        table = context.resources.lookup_or_create(handle, lambda: make(inputs, attrs))
        if (table.key_dtype, table.value_dtype) != (attrs["key_dtype"], attrs["value_dtype"]):
            raise InvalidArgumentError(
                f"Conflicting key/value dtypes {attrs['key_dtype']}->{attrs['value_dtype']} with "
                f"{table.key_dtype}-{table.value_dtype} for table {handle.name}"
            )
        return handle

    return find_or_make


def anonymous_maker(make: Maker) -> Callable[..., Sequence[Any]]:
    """What makes a new table at every run."""

    def make_new(inputs: Sequence[Any], attrs: Attrs, context: KernelContext) -> Sequence[Any]:
        name = context.resources.private_name("AnonymousLookupTable")
        handle = ResourceHandle(context.device, DEFAULT_CONTAINER, name, RESOURCE_TYPE)
        context.resources.lookup_or_create(handle, lambda: make(inputs, attrs))
        return (handle,)

    return make_new


# --- use --------------------------------------------------------------------------------------------------------------


def _arrays(table: Table, keys: Any, values: Any) -> tuple[Tensor, Tensor]:
    return np.asarray(keys, table.key_dtype.numpy), np.asarray(values, table.value_dtype.numpy)


def find(inputs: Sequence[Any], attrs: Attrs, context: KernelContext) -> Sequence[Any]:
    """The values of the keys, or the default; FailedPreconditionError while the table is not initialized."""
    table = find_table(inputs[0], context)
    expected = ((table.key_dtype, table.value_dtype), (table.value_dtype,))
    check_signature(inputs[0], ((attrs["Tin"], attrs["Tout"]), (attrs["Tout"],)), expected)
    keys, default = _arrays(table, inputs[1], inputs[2])
    table.check_default(keys, default)
    return (table.find(keys, default),)


def _pairs(inputs: Sequence[Any], attrs: Attrs, context: KernelContext) -> tuple[Table, Tensor, Tensor]:
    table = find_table(inputs[0], context)
    check_signature(inputs[0], ((attrs["Tin"], attrs["Tout"]), ()), ((table.key_dtype, table.value_dtype), ()))
    return table, *_arrays(table, inputs[1], inputs[2])


def insert(inputs: Sequence[Any], attrs: Attrs, context: KernelContext) -> Sequence[Any]:
    """Hold these values under these keys too."""
    table, keys, values = _pairs(inputs, attrs, context)
    table.check_values(keys, values)
    table.insert(keys, values)
    return ()


def import_pairs(inputs: Sequence[Any], attrs: Attrs, context: KernelContext) -> Sequence[Any]:
    """Hold these values under these keys and nothing else."""
    table, keys, values = _pairs(inputs, attrs, context)
    table.check_import(keys, values)
    table.fill(keys, values)
    return ()


def remove(inputs: Sequence[Any], attrs: Attrs, context: KernelContext) -> Sequence[Any]:
    """Forget keys; those that are not there do not matter."""
    table = find_table(inputs[0], context)
    check_signature(inputs[0], ((attrs["Tin"],), ()), ((table.key_dtype,), ()))
    keys = np.asarray(inputs[1], table.key_dtype.numpy)
    table.check_keys(keys)
    table.remove(keys)
    return ()


def tell_size(inputs: Sequence[Any], attrs: Attrs, context: KernelContext) -> Sequence[Any]:
    """A scalar: the number of keys."""
    return (np.int64(len(find_table(inputs[0], context))),)


def export(inputs: Sequence[Any], attrs: Attrs, context: KernelContext) -> Sequence[Any]:
    """All keys and values; of a dense table its buckets, of others in the order in which they came."""
    return find_table(inputs[0], context).export()


# --- initializing -----------------------------------------------------------------------------------------------------


def find_initializable(holder: Any, context: KernelContext) -> FixedTable:
    """A table that is filled once; InvalidArgumentError for one of another kind."""
    table = find_table(holder, context)
    if not isinstance(table, FixedTable):
        handle = handle_of(holder, RESOURCE_TYPE, context.device)
        raise InvalidArgumentError(f"Table {handle.container} {handle.name} is not initializable")
    return table


def initialize(inputs: Sequence[Any], attrs: Attrs, context: KernelContext) -> Sequence[Any]:
    """Fill a table with vectors of keys and values, once."""
    table = find_initializable(inputs[0], context)
    check_signature(inputs[0], ((attrs["Tkey"], attrs["Tval"]), ()), ((table.key_dtype, table.value_dtype), ()))
    keys, values = _arrays(table, inputs[1], inputs[2])
    for name, tensor in (("Keys", keys), ("Values", values)):
        if tensor.ndim != 1:
            raise InvalidArgumentError(f"{name} must be a vector, but received shape{format_dims(tensor.shape)}")
    if len(keys) != len(values):
        raise InvalidArgumentError(f"Keys and values must have the same size {len(keys)} vs {len(values)}")
    table.fill(keys, values)
    return ()


def initialize_from_file(inputs: Sequence[Any], attrs: Attrs, context: KernelContext) -> Sequence[Any]:
    """Fill a table with the lines of a text file, once; a table that is filled already stays as it is."""
    if len(raw(attrs["delimiter"])) != 1:
        raise InvalidArgumentError("delimiter should be only 1 char")
    table = find_initializable(inputs[0], context)
    if np.ndim(inputs[1]):
        raise InvalidArgumentError(f"filename should be a single string, but got {format_dims(np.shape(inputs[1]))}")
    name = flat_strings(inputs[1])[0].decode()
    if not name:
        raise InvalidArgumentError("filename cannot be empty.")
    _check_column(table.key_dtype, attrs["key_index"], "Key", "key", "string or integer table key")
    _check_column(table.value_dtype, attrs["value_index"], "Value", "value", "table value dtype of integer or string")
    lines = text_lines(read_bytes(name))
    if not lines:
        raise OutOfRangeError("EOF reached")
    size = attrs["vocab_size"]
    check_elements(max(0, size))
    try:
        table.initialize(lines if size < 0 else [b""] * size, lambda: _columns(table, name, lines, attrs))
    except FailedPreconditionError:
        if not table.is_initialized:
            raise
    return ()


def _check_column(dtype: DType, column: int, side: str, what: str, whole: str) -> None:
    if column == LINE_NUMBER and dtype is not INT64:
        raise InvalidArgumentError(f"{side} index for line number requires table {what} dtype of int64, got {dtype}")
    if column == WHOLE_LINE and not dtype.is_integer and dtype is not STRING:
        raise InvalidArgumentError(f"{side} index for whole line requires {whole}, got {dtype}")


def _columns(table: Table, name: str, lines: Sequence[bytes], attrs: Attrs) -> Iterator[tuple[Any, Any]]:
    columns, size = (attrs["key_index"], attrs["value_index"]), attrs["vocab_size"]
    position = 0
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
    fields = line.split(delimiter) if least > 0 else []
    if len(fields) < least:
        raise InvalidArgumentError(
            f"Invalid number of columns in {name} line {number} ({line.decode(errors='replace')}) : "
            f"expected at least {least} got {len(fields)}"
        )
    return fields


def _field(line: bytes, fields: Sequence[bytes], column: int, number: int, dtype: DType, offset: int) -> Any:
    if column == LINE_NUMBER:
        return number + offset
    token = line if column == WHOLE_LINE else fields[column]
    if dtype is STRING:
        return token
    if dtype not in (INT32, INT64, FLOAT, DOUBLE):
        raise InvalidArgumentError(f"Data type {dtype} not supported.")
    try:
        # an int32 field is moved by the offset too, as TensorFlow does it
        return (int(token) + (offset if dtype is INT32 else 0)) if dtype.is_integer else float(token)
    except ValueError:
        shown = token.decode(errors="replace")
        raise InvalidArgumentError(f"Field {shown} in line {number} is not a valid {dtype.name}.") from None


# --- shapes -----------------------------------------------------------------------------------------------------------


def _infer_handle(context: ShapeContext) -> Sequence[Dims]:
    return ((),)


def _infer_scalar_key_handle(context: ShapeContext) -> Sequence[Dims]:
    shape = context.attrs["value_shape"].dims if "value_shape" in context.attrs else ()
    context.output_handles[0] = HandleShape(context.attrs["value_dtype"], shape)
    return ((),)


def _infer_dense_handle(context: ShapeContext) -> Sequence[Dims]:
    with_rank_at_most(context.shapes[0], 1)
    return ((),)


def _check_scalar(context: ShapeContext) -> None:
    with_rank(context.shapes[0], 0)


def _infer_find_by_strings(context: ShapeContext) -> Sequence[Dims]:
    check_two_strings(context)
    with_rank_at_most(context.shapes[2], 1)
    return (None,)


def _infer_find(context: ShapeContext) -> Sequence[Dims]:
    _check_scalar(context)
    handle = context.handles[0]
    return (None if handle is None else concatenate(context.shapes[1], handle.shape),)


def _infer_export_by_strings(context: ShapeContext) -> Sequence[Dims]:
    check_two_strings(context)
    return (-1,), None


def _infer_export(context: ShapeContext) -> Sequence[Dims]:
    _check_scalar(context)
    return None, None


def _infer_size_by_strings(context: ShapeContext) -> Sequence[Dims]:
    check_two_strings(context)
    return ((),)


def _infer_size(context: ShapeContext) -> Sequence[Dims]:
    _check_scalar(context)
    return ((),)


def _infer_insert_by_strings(context: ShapeContext) -> Sequence[Dims]:
    check_two_strings(context)
    return ()


def _infer_insert(context: ShapeContext) -> Sequence[Dims]:
    _check_scalar(context)
    return ()


def _infer_remove(context: ShapeContext) -> Sequence[Dims]:
    _check_scalar(context)
    with_rank_at_least(context.shapes[1], 1)
    return ()


def _infer_import(context: ShapeContext) -> Sequence[Dims]:
    _check_scalar(context)
    keys = with_rank(context.shapes[1], 1)
    values = with_rank_at_least(context.shapes[2], 1)
    if values is not None:
        merge_dim(keys[0], values[0])
    return ()


def _build_infer_with_vectors(check: Callable[[ShapeContext], Any]) -> Callable[[ShapeContext], Sequence[Dims]]:
    def infer(context: ShapeContext) -> Sequence[Dims]:
        check(context)
        merge(with_rank(context.shapes[1], 1), context.shapes[2])
        return ()

    return infer


def _build_infer_with_filename(check: Callable[[ShapeContext], Any]) -> Callable[[ShapeContext], Sequence[Dims]]:
    def infer(context: ShapeContext) -> Sequence[Dims]:
        check(context)
        with_rank(context.shapes[1], 0)
        return ()

    return infer


TABLE: KernelTable = {
    **makers("HashTable", "HashTableV2", table_maker(_fixed), _infer_handle),
    **makers("MutableHashTable", "MutableHashTableV2", table_maker(_changing), _infer_scalar_key_handle),
    **makers(
        "MutableHashTableOfTensors", "MutableHashTableOfTensorsV2", table_maker(_changing_vectors), _infer_scalar_key_handle
    ),
    **makers("MutableDenseHashTable", "MutableDenseHashTableV2", table_maker(_dense), _infer_dense_handle),
    "AnonymousHashTable": Kernel(anonymous_maker(_fixed), _infer_handle, needs_context=True),
    "AnonymousMutableHashTable": Kernel(anonymous_maker(_changing), _infer_scalar_key_handle, needs_context=True),
    "AnonymousMutableHashTableOfTensors": Kernel(
        anonymous_maker(_changing_vectors), _infer_scalar_key_handle, needs_context=True
    ),
    "AnonymousMutableDenseHashTable": Kernel(anonymous_maker(_dense), _infer_dense_handle, needs_context=True),
    **users("LookupTableFind", "LookupTableFindV2", find, _infer_find_by_strings, _infer_find),
    **users("LookupTableInsert", "LookupTableInsertV2", insert, _infer_insert_by_strings, _infer_insert),
    "LookupTableRemoveV2": Kernel(remove, _infer_remove, needs_context=True),
    **users("LookupTableImport", "LookupTableImportV2", import_pairs, _infer_insert_by_strings, _infer_import),
    **users("LookupTableExport", "LookupTableExportV2", export, _infer_export_by_strings, _infer_export),
    **users("LookupTableSize", "LookupTableSizeV2", tell_size, _infer_size_by_strings, _infer_size),
    **users(
        "InitializeTable",
        "InitializeTableV2",
        initialize,
        _build_infer_with_vectors(check_two_strings),
        _build_infer_with_vectors(_check_scalar),
    ),
    **users(
        "InitializeTableFromTextFile",
        "InitializeTableFromTextFileV2",
        initialize_from_file,
        _build_infer_with_filename(check_two_strings),
        _build_infer_with_filename(_check_scalar),
    ),
}
