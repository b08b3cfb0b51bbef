"""Tensors kept in a session between steps: `tf.get_session_handle` and related ops."""

from __future__ import annotations

from typing import Any

from placesim.tf1.graphs.default_graph_scopes import device
from placesim.tf1.graphs.graph import get_default_graph
from placesim.tf1.graphs.placeholders import placeholder
from placesim.tf1.graphs.tensor_likes import DTypeLike, TensorLike
from placesim.tf1.ops.conversion import convert_to_tensor
from placesim.tf1.ops.generated_functions import gen
from placesim.tf1.types import dtypes


def get_session_handle(data: TensorLike, name: str | None = None) -> Any:
    """`tf.get_session_handle`: op that keeps a tensor in the session and returns its handle."""
    data = convert_to_tensor(data)
    with get_default_graph().colocate_with(data):
        return gen("GetSessionHandle")(data, name=name)


def get_session_tensor(handle: object, dtype: DTypeLike, name: str | None = None) -> tuple[Any, Any]:
    """`tf.get_session_tensor`: placeholder for a handle, and the tensor of this handle, both on the device of the given one."""
    with device(_device_of(handle)):
        holder = placeholder(dtypes.string)
        return holder, gen("GetSessionTensor")(holder, dtype, name=name)


def delete_session_tensor(handle: object, name: str | None = None) -> tuple[Any, Any]:
    """`tf.delete_session_tensor`: placeholder for a handle, and op that deletes its tensor from the session."""
    with device(_device_of(handle)):
        holder = placeholder(dtypes.string)
        return holder, gen("DeleteSessionTensor")(holder, name=name)


def _device_of(handle: object) -> str:
    """Device in a handle: the last part of its text."""
    from placesim.tf1.types.device_spec import DeviceSpec

    text = handle.decode() if isinstance(handle, bytes) else str(handle)
    return DeviceSpec.from_string(text.rpartition(";")[2]).to_string()
