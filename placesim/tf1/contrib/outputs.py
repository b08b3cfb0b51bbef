"""Collections to which a layer of `tf.contrib.layers` adds its variables and its output."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Sequence
from typing import Any

import placesim.tf1 as tf
from placesim.tf1.graphs.tensor_likes import DTypeLike, ShapeLike, TensorLike, TypedTensor
from placesim.tf1.layers.layer import smart_cond as layer_cond
from placesim.tf1.layers.layer import smart_constant
from placesim.tf1.variables.partitioned import PartitionedVariable

_ALIASES = "aliases"


def get_variable_collections(variables_collections: object, name: str) -> Any:
    """Collections of a layer's variable: the same for all variables, or from a dictionary by the variable's name."""
    if isinstance(variables_collections, dict):
        return variables_collections.get(name)
    return variables_collections


def collect_variable(variable: object, variables_collections: object, name: str) -> None:
    """Add a layer's variable to its collections."""
    parts = list(variable) if isinstance(variable, PartitionedVariable) else [variable]
    for collection in get_variable_collections(variables_collections, name) or ():
        for part in parts:
            if not any(part is other for other in tf.get_collection(collection)):
                tf.add_to_collection(collection, part)


def append_tensor_alias(tensor: TensorLike, alias: str) -> Any:
    """Add an alias to a tensor."""
    tensor.__dict__.setdefault(_ALIASES, []).append(alias.removesuffix("/"))
    return tensor


def get_tensor_aliases(tensor: Any) -> list[str]:
    """Aliases of a tensor; without any, its op's name."""
    found: list[str] | None = tensor.__dict__.get(_ALIASES)
    return list(found) if found else [tensor.op.name]


def gather_tensors_aliases(tensors: Sequence[TypedTensor]) -> list[str]:
    """Aliases of several tensors."""
    return [alias for tensor in tensors for alias in get_tensor_aliases(tensor)]


def collect_named_outputs(collections: object, alias: str, outputs: Any) -> Any:
    """Add a layer's output, with its scope as alias, to collections."""
    if collections:
        append_tensor_alias(outputs, alias)
        tf.add_to_collections([collections] if isinstance(collections, str) else collections, outputs)
    return outputs


def convert_collection_to_dict(collection: str, clear_collection: bool = False) -> OrderedDict[str, Any]:
    """Outputs in a collection by their aliases: the `end_points` of a network."""
    found = OrderedDict((alias, output) for output in tf.get_collection(collection) for alias in get_tensor_aliases(output))
    if clear_collection:
        tf.get_default_graph().clear_collection(collection)
    return found


def constant_value(value_or_tensor_or_var: Any, dtype: DTypeLike | None = None) -> Any:
    """Static value of a tensor or variable; None if unknown."""
    if value_or_tensor_or_var is None:
        raise ValueError("value_or_tensor_or_var cannot be None")
    value = value_or_tensor_or_var
    if dtype is not None and getattr(value, "dtype", None) not in (None, dtype):
        raise ValueError(f"It has the wrong type {value.dtype} instead of {dtype}")
    return tf.get_static_value(value) if hasattr(value, "op") else value


def static_cond(pred: TensorLike, fn1: object, fn2: object) -> Any:
    """Result of one of two functions, chosen by a Python value.  Raises TypeError."""
    if not callable(fn1):
        raise TypeError("fn1 must be callable.")
    if not callable(fn2):
        raise TypeError("fn2 must be callable.")
    return fn1() if pred else fn2()


def smart_cond(pred: TensorLike, fn1: Callable[[], Any], fn2: Callable[[], Any], name: str | None = None) -> Any:
    """Result of one of two functions; a named `cond` if the condition is not static."""
    known = smart_constant(pred)
    return tf.cond(pred, fn1, fn2, name=name) if known is None else layer_cond(known, fn1, fn2)


def two_element_tuple(int_or_tuple: object) -> tuple[Any, Any]:
    """One integer twice, or the two given integers.  Raises ValueError."""
    if isinstance(int_or_tuple, (list, tuple)):
        if len(int_or_tuple) != 2:
            raise ValueError(f"Must be a list with 2 elements: {int_or_tuple}")
        return int(int_or_tuple[0]), int(int_or_tuple[1])
    if isinstance(int_or_tuple, int):
        return int_or_tuple, int_or_tuple
    if isinstance(int_or_tuple, tf.TensorShape) and len(int_or_tuple) == 2:
        return int_or_tuple[0], int_or_tuple[1]
    raise ValueError("Must be an int, a list with 2 elements or a TensorShape of length 2")


def n_positive_integers(n: int, value: Any) -> tuple[int, ...]:
    """One positive integer n times, or the n given integers.  Raises ValueError."""
    if n < 1:
        raise ValueError("n must be a positive integer")
    found = (value,) * n if isinstance(value, int) else tuple(int(size) for size in value)
    if len(found) != n:
        raise ValueError(f"Expected sequence of {n} positive integers, but received {value}")
    for size in found:
        if size < 1:
            raise ValueError(f"expected positive integer, but received {size}")
    return found


def _size(shape: ShapeLike, at: int, min_rank: int) -> int:
    dims = tf.TensorShape(shape)
    if dims.ndims is None:
        raise ValueError("dims of shape must be known but is None")
    if dims.ndims < min_rank:
        raise ValueError(f"rank of shape must be at least {min_rank} not: {dims.ndims}")
    found = dims.as_list()[at]
    if found is None:
        raise ValueError(f"dimension {at} of shape must be known but is None: {dims}")
    return int(found)


def last_dimension(shape: ShapeLike, min_rank: int = 1) -> int:
    """Size of the last dimension.  Raises ValueError if it is unknown."""
    return _size(shape, -1, min_rank)


def channel_dimension(shape: ShapeLike, data_format: str, min_rank: int = 1) -> int:
    """Size of the channel dimension.  Raises ValueError if it is unknown."""
    return _size(shape, 1 if data_format == "NCHW" else -1, min_rank)
