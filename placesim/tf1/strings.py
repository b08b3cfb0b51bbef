"""Functions of strings, and parsers of bytes and CSV."""

from __future__ import annotations

from typing import Any

import numpy as np

from placesim.tf1.array.creation import range
from placesim.tf1.array.shaping import rank
from placesim.tf1.graphs.default_graph_scopes import name_scope
from placesim.tf1.graphs.tensor_likes import DTypeLike, TensorLike
from placesim.tf1.importing.missing_names import not_there
from placesim.tf1.ops.arguments import renamed
from placesim.tf1.ops.conversion import constant, convert_to_tensor
from placesim.tf1.ops.generated_functions import gen
from placesim.tf1.sparse.values import SparseTensor, SparseTensorLike
from placesim.tf1.types import dtypes


def string_split(
    source: TensorLike | None = None,
    sep: TensorLike | None = None,
    skip_empty: bool = True,
    delimiter: object = None,
    name: str | None = None,
    result_type: str = "SparseTensor",
    input: TensorLike | None = None,
) -> Any:
    """`tf.string_split`: split at each character of the separator."""
    source = renamed("input", input, "source", source)
    sep = renamed("sep", sep, "delimiter", delimiter)
    if sep is None:
        sep = " "
    with name_scope(name, "StringSplit", [source]):
        sep = convert_to_tensor(sep, dtypes.string)
        source = convert_to_tensor(source, dtypes.string)
        indices, values, shape = gen("StringSplit")(source, sep, skip_empty=skip_empty)
        indices.set_shape([None, 2])
        values.set_shape([None])
        shape.set_shape([2])
        return SparseTensor(indices, values, shape)


def reduce_join(
    inputs: TensorLike,
    axis: TensorLike | None = None,
    keep_dims: bool | None = None,
    separator: str = "",
    name: str | None = None,
    reduction_indices: object = None,
    keepdims: bool | None = None,
) -> Any:
    """`tf.reduce_join`."""
    keepdims = bool(renamed("keepdims", keepdims, "keep_dims", keep_dims))
    axis = renamed("axis", axis, "reduction_indices", reduction_indices)
    with name_scope(None, "ReduceJoin", [inputs, axis]):
        x = convert_to_tensor(inputs)
        if axis is None:
            known = x.shape.rank
            axis = constant(np.arange(known - 1, -1, -1, dtype=np.int32)) if known is not None else range(rank(x) - 1, -1, -1)
        return gen("ReduceJoin")(x, axis, keep_dims=keepdims, separator=separator, name=name)


def regex_replace(
    input: TensorLike, pattern: object, rewrite: object, replace_global: bool = True, name: str | None = None
) -> Any:
    """`tf.regex_replace`; a pattern that is a Python string becomes an attr."""
    if isinstance(pattern, str | bytes) and isinstance(rewrite, str | bytes):
        return gen("StaticRegexReplace")(input, pattern=pattern, rewrite=rewrite, replace_global=replace_global, name=name)
    return gen("RegexReplace")(input, pattern, rewrite, replace_global=replace_global, name=name)


def regex_full_match(input: TensorLike, pattern: object, name: str | None = None) -> Any:
    """`tf.strings.regex_full_match`."""
    if isinstance(pattern, str | bytes):
        return gen("StaticRegexFullMatch")(input, pattern=pattern, name=name)
    return gen("RegexFullMatch")(input, pattern, name=name)


def string_to_number(
    string_tensor: object = None, out_type: DTypeLike = dtypes.float32, name: str | None = None, input: TensorLike | None = None
) -> Any:
    """`tf.string_to_number`."""
    return gen("StringToNumber")(renamed("input", input, "string_tensor", string_tensor), out_type, name=name)


def string_to_hash_bucket(
    string_tensor: object = None, num_buckets: object = None, name: str | None = None, input: TensorLike | None = None
) -> Any:
    """`tf.string_to_hash_bucket`."""
    return gen("StringToHashBucket")(renamed("input", input, "string_tensor", string_tensor), num_buckets, name=name)


def string_length(input: TensorLike, name: str | None = None, unit: str = "BYTE") -> Any:
    """`tf.strings.length`."""
    return gen("StringLength")(input, unit=unit, name=name)


def substr(input: TensorLike, pos: object, len: object, name: str | None = None, unit: str = "BYTE") -> Any:
    """`tf.strings.substr`."""
    return gen("Substr")(input, pos, len, unit=unit, name=name)


def decode_raw(
    input_bytes: object = None,
    out_type: DTypeLike | None = None,
    little_endian: bool = True,
    name: str | None = None,
    bytes: object = None,
) -> Any:
    """`tf.decode_raw`."""
    input_bytes = renamed("input_bytes", input_bytes, "bytes", bytes)
    if out_type is None:
        raise ValueError("decode_raw_v1() missing 1 positional argument: 'out_type'")
    return gen("DecodeRaw")(input_bytes, out_type, little_endian=little_endian, name=name)


def decode_csv(
    records: object,
    record_defaults: object,
    field_delim: str = ",",
    use_quote_delim: bool = True,
    name: str | None = None,
    na_value: str = "",
    select_cols: Any = None,
) -> Any:
    """`tf.decode_csv`."""
    if select_cols is not None and any(select_cols[i] >= select_cols[i + 1] for i in np.arange(len(select_cols) - 1)):
        raise ValueError("select_cols is not strictly increasing.")
    return gen("DecodeCSV")(records, record_defaults, field_delim, use_quote_delim, na_value, select_cols, name=name)


def split(
    input: TensorLike | None = None,
    sep: TensorLike | None = None,
    maxsplit: int = -1,
    result_type: str = "SparseTensor",
    source: object = None,
    name: str | None = None,
) -> SparseTensor:
    """`tf.strings.split`: split at a separator, or at white space."""
    input = renamed("input", input, "source", source)
    with name_scope(name, "StringSplit", [input]):
        input = convert_to_tensor(input, dtypes.string, name="input")
        if result_type != "SparseTensor" or input.shape.rank not in (0, 1):
            raise not_there("strings.split", "texts in a vector, to a SparseTensor, are split")
        if input.shape.rank == 0:
            input = gen("ExpandDims")(input, 0)
        sep = convert_to_tensor("" if sep is None else sep, dtypes.string)
        return SparseTensor(*gen("StringSplitV2")(input, sep, maxsplit=maxsplit))


def edit_distance(
    hypothesis: SparseTensorLike, truth: SparseTensorLike, normalize: bool = True, name: str = "edit_distance"
) -> Any:
    """`tf.edit_distance`: Levenshtein distance of the rows of two sparse tensors.  Raises TypeError for other values."""
    for word, value in (("Hypothesis", hypothesis), ("Truth", truth)):
        if not isinstance(value, SparseTensor) and not hasattr(value, "dense_shape"):
            raise TypeError(f"{word} must be a SparseTensor.")
    one, two = SparseTensor.from_value(hypothesis), SparseTensor.from_value(truth)
    parts = (one.indices, one.values, one.dense_shape, two.indices, two.values, two.dense_shape)
    return gen("EditDistance")(*parts, normalize=normalize, name=name)
