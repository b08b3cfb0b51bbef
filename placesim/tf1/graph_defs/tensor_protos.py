"""Convert values to TensorProto messages and back: `tf.make_tensor_proto`, `tf.make_ndarray`."""

from __future__ import annotations

from typing import Any

import numpy as np

from placesim.tf1.graphs.tensor_likes import DTypeLike, ShapeLike, TensorLike


def make_tensor_proto(
    values: TensorLike,
    dtype: DTypeLike | None = None,
    shape: ShapeLike | None = None,
    verify_shape: bool = False,
    allow_broadcast: bool = False,
) -> Any:
    """A TensorProto of a value.  Raises TypeError or ValueError in TensorFlow's words."""
    from placesim.formats.tensorflow.messages import message_class
    from placesim.formats.tensorflow.tensor_proto import write_own_tensor
    from placesim.tf1.graphs.tensor import Tensor
    from placesim.tf1.ops.constant_literals import make_tensor

    if isinstance(values, message_class("TensorProto")):
        return values
    if isinstance(values, Tensor):
        raise TypeError("Expected any non-tensor type, but got a tensor instead.")
    tensor = make_tensor(values, dtype, shape, verify_shape)
    given = make_tensor(values, dtype)
    is_repeated = np.size(given.array) < np.size(tensor.array)  # the message omits copies of the last element
    message = write_own_tensor(given if is_repeated else tensor)
    if is_repeated:
        message.ClearField("tensor_shape")
        for size in np.shape(tensor.array):
            message.tensor_shape.dim.add(size=size)
    return message


def make_ndarray(tensor: TensorLike) -> np.ndarray[Any, Any]:
    """A writable array of a TensorProto's value."""
    from placesim.formats.tensorflow.tensor_proto import read_tensor

    return np.array(read_tensor(tensor).array)
