"""Parsing of `tf.train.Example` messages to dense, sparse and ragged tensors, by the keys of their features.

An Example is a map from keys to lists of bytes, floats or int64. Source: `example.proto`; the rules and messages are those of
TensorFlow's `example_proto_fast_parsing.cc`.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from itertools import chain
from typing import Any, NamedTuple

import numpy as np

from placesim.core.dtypes import FLOAT, INT64, STRING, DataType
from placesim.core.errors import InvalidArgumentError
from placesim.core.protobuf_wire import WireError, field_values
from placesim.core.tensor_fields import packed_numbers
from placesim.ops.attributes import Attrs
from placesim.ops.kernels.kernel import Kernel, Table, Tensor
from placesim.ops.kernels.memory_rules import KernelMemory
from placesim.ops.kernels.shape_operands import shape_text
from placesim.ops.kernels.shapes import (
    Dims,
    ShapeContext,
    ShapeError,
    add_dims,
    concatenate,
    format_dims,
    with_rank,
    with_rank_at_most,
)
from placesim.ops.kernels.string_tensors import flat_strings, raw, string_array

FEATURES, ENTRY, KEY, VALUE = 1, 1, 1, 2
"""Fields of `Example`, `Features` and an entry of its map."""
LIST_TAGS = {0x0A: STRING, 0x12: FLOAT, 0x1A: INT64}
"""First byte of a `Feature`: the tag of its only field, a list with elements of one type."""
PACKED_TAG, FLOAT_TAG, INT64_TAG = 0x0A, 0x0D, 0x08
"""First byte in a list of numbers: the tag of one field with all numbers, or of the first number's field."""
LIST_NAMES = {STRING: "bytes", FLOAT: "float", INT64: "int64"}

Values = list[Any]
"""The values of one feature in one example."""


class DenseKey(NamedTuple):
    """A feature with a dense shape; -1 as first dimension means a variable length."""

    key: bytes
    dtype: DataType
    shape: tuple[int, ...]
    default: Tensor

    @property
    def is_variable(self) -> bool:
        return self.shape[:1] == (-1,)

    @property
    def stride(self) -> int:
        """Number of elements per step along a variable first dimension; of a fixed shape, the number of all elements."""
        return math.prod(self.shape[1:] if self.is_variable else self.shape)


class ListKey(NamedTuple):
    """A feature of any length: sparse, or ragged with splits of `split_dtype`."""

    key: bytes
    dtype: DataType
    split_dtype: DataType | None = None


class Keys(NamedTuple):
    """The features to read."""

    dense: tuple[DenseKey, ...] = ()
    sparse: tuple[ListKey, ...] = ()
    ragged: tuple[ListKey, ...] = ()

    def all(self) -> tuple[DenseKey | ListKey, ...]:
        return (*self.dense, *self.sparse, *self.ragged)


class ExamplePlace(NamedTuple):
    """An example's name and number in its batch, for errors; without a name, the example is not in a batch."""

    name: str | None = None
    row: int = 0

    def say(self, key: bytes, text: str) -> str:
        shown = key.decode(errors="replace")
        return f"Key: {shown}.  {text}" if self.name is None else f"Name: {self.name}, Key: {shown}, Index: {self.row}.  {text}"


# --- the messages -----------------------------------------------------------------------------------------------------


def read_example(serialized: bytes) -> dict[bytes, bytes]:
    """Return an Example's serialized features by key; of equal keys, the last. Raises InvalidArgumentError if it is invalid."""
    try:
        return dict(_entries(serialized))
    except WireError:
        shown = serialized.decode(errors="replace")
        raise InvalidArgumentError(f"Could not parse example input, value: '{shown}'") from None


def _entries(serialized: bytes) -> Iterator[tuple[bytes, bytes]]:
    for number, features in field_values(serialized):
        # an unknown field is skipped in an `Example`, but is an error in its `Features`
        if number == FEATURES:
            yield from (_entry(data) for data in _all_of(ENTRY, features))


def _all_of(number: int, message: int | bytes) -> Iterator[bytes]:
    for found, data in field_values(_bytes(message)):
        if found != number:
            raise WireError("a field that is not known")
        yield _bytes(data)


def _entry(data: bytes) -> tuple[bytes, bytes]:
    fields = {number: _bytes(value) for number, value in field_values(data)}
    if fields.keys() != {KEY, VALUE}:
        raise WireError("no entry of a map")
    return fields[KEY], fields[VALUE]


def _bytes(value: int | bytes) -> bytes:
    if isinstance(value, int):
        raise WireError("a number where a message is")
    return value


def feature_type(feature: bytes) -> DataType | None:
    """Return the type of a feature's list, None if it has none. Raises InvalidArgumentError for an unknown field."""
    if not feature:
        return None
    if feature[0] not in LIST_TAGS:
        raise InvalidArgumentError("Unsupported datatype.")
    return LIST_TAGS[feature[0]]


def read_list(feature: bytes, dtype: DataType) -> Values:
    """Return the elements of a feature's first list. Raises WireError for a list of another type."""
    content = _bytes(next(field_values(feature))[1])
    if dtype is STRING:
        return list(_all_of(1, content))
    if not content:
        return []
    if content[0] == PACKED_TAG:
        return _unpack(_bytes(next(field_values(content))[1]), dtype)
    if content[0] != (FLOAT_TAG if dtype is FLOAT else INT64_TAG):
        raise WireError("a list of another type")
    if dtype is FLOAT and any(tag != FLOAT_TAG for tag in content[::5]):
        raise WireError("a field of another type")
    fields = list(field_values(content))
    if dtype is FLOAT:
        return [value for _, data in fields for value in _unpack(_bytes(data), dtype)]
    if any(number != 1 or not isinstance(value, int) for number, value in fields):
        raise WireError("a field of another type")
    return [value for _, value in fields]


def _unpack(data: bytes, dtype: DataType) -> Values:
    if dtype is FLOAT:
        numbers: Values = np.frombuffer(data[: len(data) // 4 * 4], "<f4").tolist()
        return numbers
    return packed_numbers(data)


def _tensor(values: Values, dtype: DataType, shape: Sequence[int]) -> Tensor:
    if dtype is STRING:
        return string_array(values, shape)
    array = np.array(values, np.uint64).view(np.int64) if dtype is INT64 else np.array(values, np.float32)
    return array.reshape(tuple(shape))


# --- one example ------------------------------------------------------------------------------------------------------


def read_features(serialized: bytes, keys: Keys, place: ExamplePlace) -> list[Values]:
    """Return an example's values for each key, dense keys first.

    Raises InvalidArgumentError for an invalid Example, a feature that does not fit its key, and a missing required feature.
    """
    wanted = keys.all()
    features = _findable_features(serialized, [key.key for key in wanted])
    numbers = {key.key: number for number, key in enumerate(wanted)}
    found: dict[int, Values] = {}
    for key, feature in reversed(features.items()):
        number = numbers.get(key)
        values = None if number is None else _feature_values(feature, wanted[number], place)
        if number is not None and values is not None:
            found[number] = values
    return [found[number] if number in found else _missing_values(key, place) for number, key in enumerate(wanted)]


def _findable_features(serialized: bytes, keys: Sequence[bytes]) -> dict[bytes, bytes]:
    """Return the features of an Example, none if `keys` has equal keys: then TensorFlow's index of the keys is empty."""
    features = read_example(serialized)
    return features if len(set(keys)) == len(keys) else {}


def _feature_values(feature: bytes, key: DenseKey | ListKey, place: ExamplePlace) -> Values | None:
    dtype = feature_type(feature)
    if dtype is None:
        return None
    if dtype is not key.dtype:
        types = (
            f"Data type: {dtype} but expected type: {key.dtype}"
            if isinstance(key, DenseKey)
            else f"Expected type: {key.dtype}, Actual type: {dtype}"
        )
        raise InvalidArgumentError(place.say(key.key, f"Data types don't match. {types}"))
    try:
        values = read_list(feature, dtype)
    except WireError:
        raise InvalidArgumentError(_unreadable_text(key, place)) from None
    if isinstance(key, DenseKey):
        _check_count(len(values), key, place)
    return values


def _unreadable_text(key: DenseKey | ListKey, place: ExamplePlace) -> str:
    detail = f": Parsing {LIST_NAMES[key.dtype]}_list failed" if place.name is None else ""
    return place.say(key.key, f"Can't parse serialized Example{detail}.")


def _check_count(count: int, key: DenseKey, place: ExamplePlace) -> None:
    name = LIST_NAMES[key.dtype]
    if key.is_variable and count % max(key.stride, 1):
        raise InvalidArgumentError(
            f"Error while parsing feature with key {key.key.decode(errors='replace')}: "
            f"number of elements should be divisible by {key.stride}, found {count} instead"
            if place.name is None
            else place.say(
                key.key,
                f"Number of {name} values is not a multiple of stride length. Saw {count} values "
                f"but output shape is: {format_dims(key.shape)}",
            )
        )
    if key.is_variable or count == key.stride:
        return
    if key.dtype is STRING and count > key.stride:
        # TensorFlow's array has no room for another string
        raise InvalidArgumentError(_unreadable_text(key, place))
    raise InvalidArgumentError(
        place.say(
            key.key,
            f"Can't parse serialized Example: Some {name}_list slice was not parsed."
            if place.name is None
            else f"Number of {name} values != expected.  Values size: {count} but output shape: {format_dims(key.shape)}",
        )
    )


def _missing_values(key: DenseKey | ListKey, place: ExamplePlace) -> Values:
    if isinstance(key, ListKey) or key.is_variable:
        return []
    if not key.default.size:
        name = "" if place.name is None else f"Name: {place.name}, "
        raise InvalidArgumentError(
            f"{name}Feature: {key.key.decode(errors='replace')} (data type: {key.dtype}) is required but could not be found."
        )
    return _tensor_values(key.default, key.dtype)


def _tensor_values(tensor: Tensor, dtype: DataType) -> Values:
    """Return a tensor's elements as in a message, where integers are unsigned."""
    flat: Values = (tensor.view(np.uint64) if dtype is INT64 else tensor).reshape(-1).tolist()
    return flat


# --- batches ----------------------------------------------------------------------------------------------------------


def parse_batch(serialized: Sequence[bytes], names: Sequence[bytes], keys: Keys) -> Sequence[Tensor]:
    """Return the outputs for a vector of Examples: sparse indices, values, shapes; dense tensors; ragged values, splits."""
    shown = [name.decode(errors="replace") for name in names] or ["<unknown>"] * len(serialized)
    rows = [
        read_features(data, keys, ExamplePlace(name, index))
        for index, (data, name) in enumerate(zip(serialized, shown, strict=True))
    ]
    dense, sparse, ragged = _split_columns([[row[number] for row in rows] for number in range(len(keys.all()))], keys)
    return (
        *_by_part([_sparse_batch(key, column) for key, column in zip(keys.sparse, sparse, strict=True)], 3),
        *(_dense_batch(key, column) for key, column in zip(keys.dense, dense, strict=True)),
        *_by_part([_ragged_batch(key, column) for key, column in zip(keys.ragged, ragged, strict=True)], 2),
    )


def _split_columns(columns: list[Any], keys: Keys) -> tuple[list[Any], list[Any], list[Any]]:
    first, second = len(keys.dense), len(keys.dense) + len(keys.sparse)
    return columns[:first], columns[first:second], columns[second:]


def _by_part(tensors: Sequence[Sequence[Tensor]], parts: int) -> list[Tensor]:
    """Return the first tensor of each tuple, then the second ones, and so on."""
    return [found[part] for part in range(parts) for found in tensors]


def _flat(column: Sequence[Values]) -> Values:
    return list(chain.from_iterable(column))


def _sparse_batch(key: ListKey, column: Sequence[Values]) -> tuple[Tensor, Tensor, Tensor]:
    indices = [(row, place) for row, values in enumerate(column) for place in range(len(values))]
    shape = np.array([len(column), max(map(len, column), default=0)], np.int64)
    return np.array(indices, np.int64).reshape(-1, 2), _tensor(_flat(column), key.dtype, (-1,)), shape


def _dense_batch(key: DenseKey, column: Sequence[Values]) -> Tensor:
    if not key.is_variable:
        return _tensor(_flat(column), key.dtype, (len(column), *key.shape))
    longest = max(map(len, column), default=0)
    (padding,) = _tensor_values(key.default, key.dtype)
    padded = [values + [padding] * (longest - len(values)) for values in column]
    return _tensor(_flat(padded), key.dtype, (len(column), longest // max(key.stride, 1), *key.shape[1:]))


def _ragged_batch(key: ListKey, column: Sequence[Values]) -> tuple[Tensor, Tensor]:
    splits = np.cumsum([0, *map(len, column)])
    assert key.split_dtype is not None
    return _tensor(_flat(column), key.dtype, (-1,)), splits.astype(key.split_dtype.numpy)


def parse_one(serialized: bytes, keys: Keys) -> Sequence[Tensor]:
    """Return the outputs for an Example outside a batch, without the batch dimension; its ragged features have no splits."""
    dense, sparse, ragged = _split_columns(list(read_features(serialized, keys, ExamplePlace())), keys)
    return (
        *(np.arange(len(values), dtype=np.int64).reshape(-1, 1) for values in sparse),
        *(_tensor(values, key.dtype, (-1,)) for key, values in zip(keys.sparse, sparse, strict=True)),
        *(np.array([len(values)], np.int64) for values in sparse),
        *(_dense_one(key, values) for key, values in zip(keys.dense, dense, strict=True)),
        *(_tensor(values, key.dtype, (-1,)) for key, values in zip(keys.ragged, ragged, strict=True)),
        *(np.zeros(0, key.split_dtype.numpy) for key in keys.ragged if key.split_dtype is not None),
    )


def _dense_one(key: DenseKey, values: Values) -> Tensor:
    steps = (len(values) // max(key.stride, 1), *key.shape[1:]) if key.is_variable else key.shape
    return _tensor(values, key.dtype, steps)


# --- kernels ----------------------------------------------------------------------------------------------------------


def parse_examples(inputs: Sequence[Any], attrs: Attrs) -> Sequence[Tensor]:
    """Parse a vector of Examples to sparse and dense tensors.

    The inputs are `serialized [batch]`, names, a scalar for each sparse and dense key, and dense defaults. Raises
    InvalidArgumentError for attrs, shapes and defaults that do not fit, and the errors of `read_features`.
    """
    _check_attrs(attrs, attrs["Nsparse"], attrs["Ndense"], InvalidArgumentError)
    serialized, names, *rest = inputs
    if serialized.ndim != 1:
        raise InvalidArgumentError(f"Expected serialized to be a vector, got shape: {shape_text(serialized)}")
    _check_names(serialized, names)
    count = attrs["Nsparse"] + attrs["Ndense"]
    for key in rest[:count]:
        if key.size != 1:
            raise InvalidArgumentError(f"Expected a key to be a scalar, got shape: {shape_text(key)}")
    texts = [flat_strings(key)[0] for key in rest[:count]]
    keys = Keys(
        _dense_keys(texts[attrs["Nsparse"] :], rest[count:], attrs),
        _list_keys(texts[: attrs["Nsparse"]], attrs["sparse_types"]),
    )
    return parse_batch(flat_strings(serialized), flat_strings(names), keys)


def parse_examples_v2(inputs: Sequence[Any], attrs: Attrs) -> Sequence[Tensor]:
    """Parse one Example or a vector of them to sparse, dense and ragged tensors.

    The inputs are `serialized []` or `[batch]`, names, vectors of sparse, dense and ragged keys, and dense defaults. Raises
    InvalidArgumentError for attrs, shapes, numbers of keys and defaults that do not fit, and the errors of `read_features`.
    """
    _check_attrs(attrs, attrs["num_sparse"], len(attrs["Tdense"]), InvalidArgumentError)
    serialized, names, *key_tensors = inputs[:5]
    sparse, dense, ragged = map(flat_strings, key_tensors)
    if serialized.ndim > 1:
        raise InvalidArgumentError(f"Expected serialized to be a scalar or vector, got shape: {shape_text(serialized)}")
    _check_names(serialized, names)
    for found, name, count, counted in (
        (dense, "dense_keys", len(attrs["Tdense"]), "len(dense_types)"),
        (sparse, "sparse_keys", attrs["num_sparse"], "num_sparse"),
        (ragged, "ragged_keys", len(attrs["ragged_value_types"]), "len(ragged_value_types)"),
    ):
        if len(found) != count:
            raise InvalidArgumentError(f"Expected len({name}) == {counted} but got: {len(found)} vs. {count}")
    keys = Keys(
        _dense_keys(dense, inputs[5:], attrs),
        _list_keys(sparse, attrs["sparse_types"]),
        tuple(map(ListKey, ragged, attrs["ragged_value_types"], attrs["ragged_split_types"])),
    )
    if not serialized.ndim:
        return parse_one(flat_strings(serialized)[0], keys)
    return parse_batch(flat_strings(serialized), flat_strings(names), keys)


def parse_single_example(inputs: Sequence[Any], attrs: Attrs) -> Sequence[Tensor]:
    """Parse one Example to dense and sparse tensors; attrs have the keys, and the inputs are `serialized []` and defaults.

    Raises InvalidArgumentError for attrs, shapes and defaults that do not fit, and the errors of `read_features`.
    """
    _check_single_attrs(attrs, InvalidArgumentError)
    serialized = inputs[0]
    if serialized.ndim:
        raise InvalidArgumentError(f"Expected serialized to be a scalar, got shape: {shape_text(serialized)}")
    dense, sparse = ([raw(key) for key in attrs[name]] for name in ("dense_keys", "sparse_keys"))
    keys = Keys(_dense_keys(dense, inputs[1:], attrs), _list_keys(sparse, attrs["sparse_types"]))
    return parse_one(flat_strings(serialized)[0], keys)


def _check_names(serialized: Tensor, names: Tensor) -> None:
    if names.size and names.shape != serialized.shape:
        raise InvalidArgumentError(
            "Expected names have the same shape as serialized: "
            f"name.shape={shape_text(names)}, serialized.shape={shape_text(serialized)}"
        )


def _list_keys(keys: Sequence[bytes], types: Sequence[DataType]) -> tuple[ListKey, ...]:
    return tuple(map(ListKey, keys, types))


def _dense_keys(keys: Sequence[bytes], defaults: Sequence[Tensor], attrs: Attrs) -> tuple[DenseKey, ...]:
    found = []
    for number, (key, default) in enumerate(zip(keys, defaults, strict=True)):
        dense = DenseKey(key, attrs["Tdense"][number], attrs["dense_shapes"][number].dims, default)
        shown = format_dims(dense.shape)
        if dense.is_variable and default.size != 1:
            raise InvalidArgumentError(
                f"dense_shape[{number}] is a variable length shape: {shown}, therefore def_value[{number}] must contain a "
                f"single element (the padding element).  But its shape is: {shape_text(default)}"
            )
        if not dense.is_variable and default.size and default.shape != dense.shape:
            raise InvalidArgumentError(
                f"def_value[{number}].shape() == {shape_text(default)} is not compatible with "
                f"dense_shapes_[{number}] == {shown}"
            )
        found.append(dense)
    return tuple(found)


# --- attrs ------------------------------------------------------------------------------------------------------------


def _check_attrs(attrs: Attrs, sparse: int, dense: int, error: type[InvalidArgumentError]) -> None:
    for keys, other, count, values in (
        ("sparse_keys", "sparse_types", sparse, attrs["sparse_types"]),
        ("dense_keys", "dense_types", dense, attrs["Tdense"]),
        ("dense_keys", "dense_shapes", dense, attrs["dense_shapes"]),
    ):
        if len(values) != count:
            raise error(f"len({keys}) != len({other})")
    if "ragged_value_types" in attrs and len(attrs["ragged_value_types"]) != len(attrs["ragged_split_types"]):
        raise error("len(ragged_keys) != len(ragged_split_types)")
    _check_dense_shapes(attrs, error)


def _check_single_attrs(attrs: Attrs, error: type[InvalidArgumentError]) -> None:
    keys, types = len(attrs["sparse_keys"]), len(attrs["sparse_types"])
    if not attrs["num_sparse"] == keys == types:
        raise error(
            f"num_sparse ({attrs['num_sparse']}) must match the size of sparse_keys ({keys}) and sparse_types ({types})"
        )
    for name, values in (("dense_types", attrs["Tdense"]), ("dense_shapes", attrs["dense_shapes"])):
        if len(values) != len(attrs["dense_keys"]):
            raise error(f"len(dense_keys) != len({name})")
    _check_dense_shapes(attrs, error)


def _check_dense_shapes(attrs: Attrs, error: type[InvalidArgumentError]) -> None:
    for number, shape in enumerate(attrs["dense_shapes"]):
        if shape.dims is None or -1 in shape.dims[1:]:
            shown = "<unknown>" if shape.dims is None else format_dims(shape.dims)
            raise error(f"dense_shapes[{number}] has unknown rank or unknown inner dimensions: {shown}")


# --- shape functions --------------------------------------------------------------------------------------------------


def _infer_examples(context: ShapeContext) -> Sequence[Dims]:
    _check_attrs(context.attrs, context.attrs["Nsparse"], context.attrs["Ndense"], ShapeError)
    return _infer_tensors(context, with_rank(context.shapes[0], 1), context.attrs["Nsparse"])


def _infer_examples_v2(context: ShapeContext) -> Sequence[Dims]:
    attrs = context.attrs
    _check_attrs(attrs, attrs["num_sparse"], len(attrs["Tdense"]), ShapeError)
    serialized = with_rank_at_most(context.shapes[0], 1)
    ragged = len(attrs["ragged_value_types"])
    splits = add_dims(serialized[0], 1) if serialized else -1
    return (*_infer_tensors(context, serialized, attrs["num_sparse"]), *((-1,),) * ragged, *((splits,),) * ragged)


def _infer_single_example(context: ShapeContext) -> Sequence[Dims]:
    _check_single_attrs(context.attrs, ShapeError)
    return _infer_tensors(context, with_rank(context.shapes[0], 0), context.attrs["num_sparse"])


def _infer_tensors(context: ShapeContext, batch: Dims, sparse: int) -> tuple[Dims, ...]:
    rank = -1 if batch is None else len(batch) + 1
    dense = (concatenate(batch, shape.dims) for shape in context.attrs["dense_shapes"])
    return *((-1, rank),) * sparse, *((-1,),) * sparse, *((rank,),) * sparse, *dense


# --- memory ---------------------------------------------------------------------------------------------------------


def examples_memory(memory: KernelMemory) -> None:
    """The outputs are in host memory outside the allocator, on any device."""
    for output in range(len(memory.outputs)):
        memory.leave_untracked(output)


def examples_v2_memory(memory: KernelMemory) -> None:
    """As `examples_memory`; for a scalar Example as `single_example_memory`."""
    examples_memory(memory)
    sparse, dense, ragged = (tensor.value for tensor in memory.inputs[2:5])
    if memory.inputs[0].dims or sparse is None or dense is None or ragged is None:
        return
    _share_defaults(memory, flat_strings(dense), [*flat_strings(sparse), *flat_strings(ragged)], 5)


def single_example_memory(memory: KernelMemory) -> None:
    """As `examples_memory`, but the output of a dense feature that the Example lacks is its default's memory."""
    examples_memory(memory)
    dense, sparse = ([raw(key) for key in memory.attrs[name]] for name in ("dense_keys", "sparse_keys"))
    _share_defaults(memory, dense, sparse, 1)


def _share_defaults(memory: KernelMemory, dense: Sequence[bytes], others: Sequence[bytes], first_default: int) -> None:
    serialized = memory.inputs[0].value
    if serialized is None or not dense:
        return
    features = _findable_features(flat_strings(serialized)[0], [*dense, *others])
    first_output = 3 * memory.attrs["num_sparse"]
    for position, (key, shape) in enumerate(zip(dense, memory.attrs["dense_shapes"], strict=True)):
        if shape.dims[:1] != (-1,) and feature_type(features.get(key, b"")) is None:
            memory.alias(first_output + position, first_default + position)


TABLE: Table = {
    "ParseExample": Kernel(parse_examples, _infer_examples, memory=examples_memory),
    "ParseExampleV2": Kernel(parse_examples_v2, _infer_examples_v2, memory=examples_v2_memory),
    "ParseSingleExample": Kernel(parse_single_example, _infer_single_example, memory=single_example_memory),
}
