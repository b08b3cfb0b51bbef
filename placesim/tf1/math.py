"""Mathematics: what TensorFlow writes in Python around its arithmetic ops."""

from __future__ import annotations

from typing import Any

from placesim.tf1 import dtypes
from placesim.tf1.conversion import convert_to_tensor
from placesim.tf1.generated import gen
from placesim.tf1.graph import get_default_graph
from placesim.tf1.op_arguments import graph_of
from placesim.tf1.tensor import Tensor


def add(x: Any, y: Any, name: str | None = None) -> Tensor:
    """`tf.add`."""
    with get_default_graph().name_scope("Add" if name is None else name) as scope:
        x = convert_to_tensor(x, name="x")
        y = convert_to_tensor(y, dtype_hint=x.dtype.base_dtype, name="y")
        return gen("Add" if x.dtype is dtypes.string else "AddV2")(x, y, name=scope)


def _add_dispatch(x: Any, y: Any, name: str | None = None) -> Any:
    return gen("Add" if x.dtype is dtypes.string else "AddV2")(x, y, name=name)


def cast(x: Any, dtype: Any, name: str | None = None) -> Any:
    """`tf.cast`: the tensor itself where it has the type."""
    base = dtypes.as_dtype(dtype).base_dtype
    if isinstance(x, Tensor) and base is x.dtype:
        return x
    with get_default_graph().name_scope("Cast" if name is None else name) as scope:
        x = convert_to_tensor(x, name="x")
        return gen("Cast")(x, base, name=scope) if x.dtype is not base else x


__all__ = ["add", "cast", "graph_of"]
