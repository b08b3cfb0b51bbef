"""`feed_dict` -> arrays by tensor, with TensorFlow's checks and messages."""

from __future__ import annotations

import collections.abc
from typing import TYPE_CHECKING, Any

import numpy as np

from placesim.tf1.graphs.tensor_likes import TensorLike
from placesim.tf1.ops.constant_literals import leaves
from placesim.tf1.session.values import feed_parts

if TYPE_CHECKING:
    from placesim.tf1.graphs.graph import Graph
    from placesim.tf1.graphs.tensor import Tensor

Array = np.ndarray[Any, Any]


def read_feeds(graph: Graph, feed_dict: object) -> dict[Tensor, Array]:
    """Fed arrays, which have the types of their tensors, and compatible shapes.

    Raises TypeError and ValueError with TensorFlow's messages.
    """
    found: dict[Tensor, Array] = {}
    for key, value in _flattened(feed_dict).items():
        for part, part_value in feed_parts(key, value):
            tensor = _fed_tensor(graph, part)
            found[tensor] = _as_fed(graph, tensor, part, part_value)
    return found


def _flattened(feed_dict: object) -> dict[Any, Any]:
    """Flatten keys that are tuples of tensors; the values of such keys have the same structure."""
    if not isinstance(feed_dict, collections.abc.Mapping):
        kind = type(feed_dict).__name__
        message = "FlattenDictItems: 'dict' must be a dictionary or collection.Mapping type object, instead of"
        raise TypeError(f"{message} '{kind}'.")
    found: dict[Any, Any] = {}
    for key, value in feed_dict.items():
        keys, values = (leaves(key), leaves(value)) if isinstance(key, tuple) else ([key], [value])
        if len(keys) != len(values):
            raise ValueError(
                f"Could not flatten dictionary. Key had {len(keys)} elements, but value had {len(values)} elements. "
                f"Key: {keys}, value: {values}."
            )
        for one, item in zip(keys, values, strict=True):
            if one in found:
                raise ValueError(f"Could not flatten dictionary: key {one} is not unique.")
            found[one] = item
    return found


def _fed_tensor(graph: Graph, key: object) -> Tensor:
    try:
        found: Tensor = graph.as_graph_element(key, allow_tensor=True, allow_operation=False)
    except Exception as error:
        said = error.args[0] if error.args else error
        raise TypeError(f"Cannot interpret feed_dict key as Tensor: {said}") from error
    return found


def _as_fed(graph: Graph, tensor: Tensor, key: object, value: TensorLike) -> Array:
    from placesim.tf1.graphs.tensor import Tensor as TensorClass

    if isinstance(value, TensorClass):
        raise TypeError(
            "The value of a feed cannot be a tf.Tensor object. Acceptable feed values include Python scalars, strings, lists, "
            "numpy ndarrays, or TensorHandles. For reference, the tensor object was "
            f"{value} which was passed to the argument `feed_dict` with key {key}."
        )
    wanted = tensor.dtype.base_dtype.as_numpy_dtype
    if isinstance(value, int) and wanted is not object and not _holds(wanted, value):
        raise TypeError(
            f"Type of feed value {value} with type {type(value)} is not compatible with Tensor type {wanted}. "
            "Try explicitly setting the type of the feed tensor to a larger type (e.g. int64)."
        )
    array = _array(value, wanted)
    shape = tensor.get_shape()
    if not shape.is_compatible_with(array.shape):
        raise ValueError(f"Cannot feed value of shape {array.shape!r} for Tensor {tensor.name}, which has shape {shape!s}")
    if not graph.is_feedable(tensor):
        raise ValueError(f"Tensor {tensor.name} may not be fed.")
    return array


def _array(value: Any, wanted: Any) -> Array:
    try:
        return np.asarray(value, dtype=wanted)
    except ValueError:
        # This fails with numpy's message for a text in an array.
        return np.asarray(np.asarray(value), dtype=wanted)


def _holds(wanted: Any, value: int) -> bool:
    """Whether a type can represent a number exactly."""
    try:
        return bool(wanted(value) == value)
    except (OverflowError, ValueError):
        return False


def as_runtime(array: Array) -> Array:
    """A fed array as kernels take it: strings are bytes."""
    if array.dtype != object:
        return array
    encoded = np.empty(array.shape, object)
    flat = encoded.reshape(-1)
    for index, item in enumerate(array.reshape(-1)):
        flat[index] = item if isinstance(item, bytes) else str(item).encode()
    return encoded
