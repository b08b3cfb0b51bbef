"""`tf.parse_example` and the classes of its features."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from placesim.tf1.array.shaping import reshape
from placesim.tf1.graphs.default_graph_scopes import name_scope
from placesim.tf1.graphs.tensor_likes import TensorLike
from placesim.tf1.ops.conversion import constant, convert_to_tensor
from placesim.tf1.ops.generated_functions import gen
from placesim.tf1.sparse.values import SparseTensor
from placesim.tf1.types import dtypes
from placesim.tf1.types.shapes import TensorShape


class FixedLenFeature(NamedTuple):
    """A feature of a fixed shape; an example must have it if there is no default."""

    shape: Any
    dtype: Any
    default_value: Any = None


class FixedLenSequenceFeature(NamedTuple):
    """A feature with a variable first dimension, padded."""

    shape: Any
    dtype: Any
    allow_missing: bool = False
    default_value: Any = None


class VarLenFeature(NamedTuple):
    """A feature of any length: a SparseTensor."""

    dtype: Any


class SparseFeature(NamedTuple):
    """A SparseTensor made from two features: indices and values."""

    index_key: Any
    value_key: Any
    dtype: Any
    size: Any
    already_sorted: bool = False


def parse_example(
    serialized: TensorLike, features: Mapping[str, Any], name: str | None = None, example_names: TensorLike | None = None
) -> dict[str, Any]:
    """`tf.parse_example`: a tensor for each feature."""
    if not features:
        raise ValueError(f"Argument `features` cannot be None or falsy. Got {features}")
    with name_scope(name, "ParseExample", [serialized, example_names]):
        return _parse(serialized, example_names, features)


def parse_single_example(
    serialized: TensorLike, features: Mapping[str, Any], name: str | None = None, example_names: TensorLike | None = None
) -> dict[str, Any]:
    """`tf.parse_single_example`: a tensor for each feature."""
    if not features:
        raise ValueError("Invalid argument: features cannot be None.")
    with name_scope(name, "ParseSingleExample", [serialized, example_names]):
        serialized = convert_to_tensor(serialized, name="serialized")
        if serialized.shape.rank not in (None, 0):
            raise ValueError("Input serialized must be a scalar")
        return parse_example(serialized, features, "ParseExample", example_names)


def _parse(serialized: object, names: object, features: Mapping[str, Any]) -> dict[str, Any]:
    sparse = {key: features[key] for key in sorted(features) if isinstance(features[key], VarLenFeature)}
    dense = {
        key: features[key] for key in sorted(features) if isinstance(features[key], FixedLenFeature | FixedLenSequenceFeature)
    }
    other = [key for key in features if key not in sparse and key not in dense]
    if other and not isinstance(features[other[0]], SparseFeature):
        raise ValueError(f"Unsupported {type(features[other[0]]).__name__} {features[other[0]]} for key '{other[0]}'")
    if other:
        raise NotImplementedError(
            f"a feature like {other[0]!r} ({type(features[other[0]]).__name__}) is not there; parse it as VarLenFeature"
        )
    defaults = [_default(key, feature) for key, feature in dense.items()]
    found = gen("ParseExampleV2")(
        serialized=serialized,
        names=[] if names is None else names,
        sparse_keys=list(sparse),
        dense_keys=list(dense),
        ragged_keys=[],
        dense_defaults=defaults,
        num_sparse=len(sparse),
        sparse_types=[dtypes.as_dtype(feature.dtype) for feature in sparse.values()],
        ragged_value_types=[],
        ragged_split_types=[],
        dense_shapes=[_dense_shape(feature) for feature in dense.values()],
        name="ParseExampleV2",
    )
    parts = zip(found.sparse_indices, found.sparse_values, found.sparse_shapes, strict=True)
    tensors: dict[str, Any] = dict(zip(sparse, (SparseTensor(*part) for part in parts), strict=True))
    return tensors | dict(zip(dense, found.dense_values, strict=True))


def _dense_shape(feature: FixedLenFeature | FixedLenSequenceFeature) -> TensorShape:
    shape = TensorShape(feature.shape)
    return TensorShape([None]).concatenate(shape) if isinstance(feature, FixedLenSequenceFeature) else shape


def _default(key: str, feature: FixedLenFeature | FixedLenSequenceFeature) -> Any:
    """Default of a feature; an empty tensor if examples must have the feature."""
    kind = dtypes.as_dtype(feature.dtype)
    if isinstance(feature, FixedLenSequenceFeature):
        if not feature.allow_missing:
            raise ValueError("Unsupported: FixedLenSequenceFeature requires allow_missing to be True.")
        value = feature.default_value
        if value is None:
            value = "" if kind is dtypes.string else 0
        return constant(value, kind)
    if feature.default_value is None:
        return constant([], kind)
    name = "key_" + "".join(char if char.isalnum() or char == "_" else "_" for char in key)
    value = convert_to_tensor(feature.default_value, kind, name=name)
    shape = TensorShape(feature.shape)
    return reshape(value, shape) if shape.is_fully_defined() else value
