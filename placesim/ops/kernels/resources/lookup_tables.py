"""Lookup tables: creation, lookup, changes and export.

Source: TensorFlow's `lookup_table_op.cc` and `lookup_ops.cc`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np

from placesim.core.errors import InvalidArgumentError
from placesim.ops.attributes import Attrs
from placesim.ops.kernels.device_resources import ResourceHandle
from placesim.ops.kernels.kernel import Kernel, KernelContext, Tensor
from placesim.ops.kernels.kernel import Table as KernelTable
from placesim.ops.kernels.named_resources import (
    build_finder,
    check_signature,
    infer_scalar_of_two_strings,
    infer_takes_two_strings,
    make_anonymous,
    makers,
    name_resource,
    users,
)
from placesim.ops.kernels.resources.table_storage import ChangingTable, DenseTable, FixedTable, LookupTable
from placesim.ops.kernels.shapes import (
    Dims,
    HandleShape,
    ShapeContext,
    concatenate,
    format_dims,
    infer_by,
    merge_dim,
    scalar,
    with_rank,
    with_rank_at_least,
    with_rank_at_most,
)

RESOURCE_TYPE = "N10tensorflow6lookup15LookupInterfaceE"

find_table: Callable[[Any, KernelContext], LookupTable] = build_finder(RESOURCE_TYPE)

Maker = Callable[[Sequence[Any], Attrs], LookupTable]


# --- making ---------------------------------------------------------------------------------------------------------


def _fixed(inputs: Sequence[Any], attrs: Attrs) -> LookupTable:
    return FixedTable(attrs["key_dtype"], attrs["value_dtype"])


def _changing(inputs: Sequence[Any], attrs: Attrs) -> LookupTable:
    return ChangingTable(attrs["key_dtype"], attrs["value_dtype"])


def _changing_vectors(inputs: Sequence[Any], attrs: Attrs) -> LookupTable:
    shape = attrs["value_shape"].dims
    if shape is None or len(shape) != 1:
        raise InvalidArgumentError(f"Default value must be a vector, got shape {format_dims(shape)}")
    return ChangingTable(attrs["key_dtype"], attrs["value_dtype"], shape)


def _dense(inputs: Sequence[Any], attrs: Attrs) -> LookupTable:
    load, shape = attrs["max_load_factor"], attrs["value_shape"].dims
    if not 0 < load < 1:
        raise InvalidArgumentError(f"max_load_factor must be between 0 and 1, got: {load:g}")
    if shape is None or len(shape) > 1:
        raise InvalidArgumentError(f"Empty value must be a scalar or a vector, got shape {format_dims(shape)}")
    # the op's first version lacks this input, so it always fails
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


def build_table(make: Maker) -> Callable[..., ResourceHandle]:
    """Build a function `(inputs, attrs, context) -> handle` that finds the shared table or creates it.

    It raises InvalidArgumentError for attrs or keys that do not fit, and for a shared table with other types.
    """

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


def make_anonymous_table(inputs: Sequence[Any], attrs: Attrs, context: KernelContext, make: Maker) -> Sequence[Any]:
    """Create a new table, and return its handle."""
    return (make_anonymous(context, RESOURCE_TYPE, "AnonymousLookupTable", lambda: make(inputs, attrs)),)


# --- use ------------------------------------------------------------------------------------------------------------


def cast_pairs(table: LookupTable, keys: Any, values: Any) -> tuple[Tensor, Tensor]:
    """Keys and values as arrays of the table's types."""
    return np.asarray(keys, table.key_dtype.numpy), np.asarray(values, table.value_dtype.numpy)


def find(inputs: Sequence[Any], attrs: Attrs, context: KernelContext) -> Sequence[Any]:
    """(table, keys `[..., key]`, default) -> the keys' values `[..., value]`; the default is one value, or one for each key.

    Raises FailedPreconditionError if the table is not initialized, InvalidArgumentError for other types or shapes, and
    NotFoundError if there is no table.
    """
    table = find_table(inputs[0], context)
    expected = ((table.key_dtype, table.value_dtype), (table.value_dtype,))
    check_signature(inputs[0], ((attrs["Tin"], attrs["Tout"]), (attrs["Tout"],)), expected)
    keys, default = cast_pairs(table, inputs[1], inputs[2])
    table.check_default(keys, default)
    return (table.find(keys, default),)


def _pairs(inputs: Sequence[Any], attrs: Attrs, context: KernelContext) -> tuple[LookupTable, Tensor, Tensor]:
    table = find_table(inputs[0], context)
    check_signature(inputs[0], ((attrs["Tin"], attrs["Tout"]), ()), ((table.key_dtype, table.value_dtype), ()))
    return table, *cast_pairs(table, inputs[1], inputs[2])


def insert(inputs: Sequence[Any], attrs: Attrs, context: KernelContext) -> Sequence[Any]:
    """(table, keys, values) -> nothing: insert or replace the keys' values.

    Raises InvalidArgumentError for other types or shapes, and UnimplementedError for a table that can only be initialized.
    """
    table, keys, values = _pairs(inputs, attrs, context)
    table.check_values(keys, values)
    table.insert(keys, values)
    return ()


def import_pairs(inputs: Sequence[Any], attrs: Attrs, context: KernelContext) -> Sequence[Any]:
    """(table, keys, values) -> nothing: replace the table's whole content.

    Raises InvalidArgumentError for other types or shapes.
    """
    table, keys, values = _pairs(inputs, attrs, context)
    table.check_import(keys, values)
    table.fill(keys, values)
    return ()


def remove(inputs: Sequence[Any], attrs: Attrs, context: KernelContext) -> Sequence[Any]:
    """(table, keys) -> nothing: remove the keys that the table has.

    Raises InvalidArgumentError for other types or shapes, and UnimplementedError for a table that can only be initialized.
    """
    table = find_table(inputs[0], context)
    check_signature(inputs[0], ((attrs["Tin"],), ()), ((table.key_dtype,), ()))
    keys = np.asarray(inputs[1], table.key_dtype.numpy)
    table.check_keys(keys)
    table.remove(keys)
    return ()


def tell_size(inputs: Sequence[Any], attrs: Attrs, context: KernelContext) -> Sequence[Any]:
    """table -> the number of keys, a scalar. Raises NotFoundError if there is no table."""
    return (np.int64(len(find_table(inputs[0], context))),)


def export(inputs: Sequence[Any], attrs: Attrs, context: KernelContext) -> Sequence[Any]:
    """table -> all keys `[n, ...]` and values `[n, ...]`, in order of insertion; for a dense table all its buckets.

    Raises AbortedError if the table is not initialized, and NotFoundError if there is no table.
    """
    return find_table(inputs[0], context).export()


# --- shape functions ------------------------------------------------------------------------------------------------


def _infer_scalar_key_handle(context: ShapeContext) -> Sequence[Dims]:
    shape = context.attrs["value_shape"].dims if "value_shape" in context.attrs else ()
    context.output_handles[0] = HandleShape(context.attrs["value_dtype"], shape)
    return ((),)


def _infer_dense_handle(context: ShapeContext) -> Sequence[Dims]:
    with_rank_at_most(context.shapes[0], 1)
    # the shape of found values also depends on that of keys, which a handle does not have: only scalar keys are known
    return _infer_scalar_key_handle(context) if context.shapes[0] == () else ((),)


def check_scalar_handle(context: ShapeContext) -> None:
    """Raises ShapeError unless the first input is a scalar, the newer form of a handle."""
    with_rank(context.shapes[0], 0)


def _infer_find(context: ShapeContext) -> Sequence[Dims]:
    check_scalar_handle(context)
    handle = context.handles[0]
    return (None if handle is None else concatenate(context.shapes[1], handle.shape),)


def _infer_import(context: ShapeContext) -> Sequence[Dims]:
    check_scalar_handle(context)
    keys = with_rank(context.shapes[1], 1)
    values = with_rank_at_least(context.shapes[2], 1)
    if values is not None:
        merge_dim(keys[0], values[0])
    return ()


TABLE: KernelTable = {
    **makers("HashTable", "HashTableV2", build_table(_fixed), scalar),
    **makers("MutableHashTable", "MutableHashTableV2", build_table(_changing), _infer_scalar_key_handle),
    **makers(
        "MutableHashTableOfTensors", "MutableHashTableOfTensorsV2", build_table(_changing_vectors), _infer_scalar_key_handle
    ),
    **makers("MutableDenseHashTable", "MutableDenseHashTableV2", build_table(_dense), _infer_dense_handle),
    "AnonymousHashTable": Kernel(partial(make_anonymous_table, make=_fixed), scalar, needs_context=True),
    "AnonymousMutableHashTable": Kernel(
        partial(make_anonymous_table, make=_changing), _infer_scalar_key_handle, needs_context=True
    ),
    "AnonymousMutableHashTableOfTensors": Kernel(
        partial(make_anonymous_table, make=_changing_vectors), _infer_scalar_key_handle, needs_context=True
    ),
    "AnonymousMutableDenseHashTable": Kernel(
        partial(make_anonymous_table, make=_dense), _infer_dense_handle, needs_context=True
    ),
    **users("LookupTableFind", "LookupTableFindV2", find, infer_by("[2], *, x:1- -> *"), _infer_find),
    **users("LookupTableInsert", "LookupTableInsertV2", insert, infer_takes_two_strings, infer_by("[] ->")),
    "LookupTableRemoveV2": Kernel(remove, infer_by("[], x:1+ ->"), needs_context=True),
    **users("LookupTableImport", "LookupTableImportV2", import_pairs, infer_takes_two_strings, _infer_import),
    **users("LookupTableExport", "LookupTableExportV2", export, infer_by("[2] -> [?], *"), infer_by("[] -> *, *")),
    **users("LookupTableSize", "LookupTableSizeV2", tell_size, infer_scalar_of_two_strings, infer_by("[] -> []")),
}
