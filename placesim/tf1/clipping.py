"""`tf.clip_by_value` and related functions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from placesim.tf1.graphs.default_graph_scopes import name_scope
from placesim.tf1.graphs.tensor import Tensor
from placesim.tf1.graphs.tensor_likes import TensorLike
from placesim.tf1.ops.conversion import constant, convert_to_tensor
from placesim.tf1.ops.generated_functions import gen
from placesim.tf1.sparse.values import IndexedSlices
from placesim.tf1.types import dtypes


def clip_by_value(t: TensorLike, clip_value_min: TensorLike, clip_value_max: TensorLike, name: str | None = None) -> Any:
    """`tf.clip_by_value`."""
    with name_scope(name, "clip_by_value", [t, clip_value_min, clip_value_max]) as scope:
        values = convert_to_tensor(t.values if isinstance(t, IndexedSlices) else t, name="t")
        low = gen("Minimum")(values, clip_value_max)
        values.shape.assert_is_compatible_with(low.shape)
        found: Tensor = gen("Maximum")(low, clip_value_min, name=scope)
        values.shape.assert_is_compatible_with(found.shape)
        return IndexedSlices(found, t.indices, t.dense_shape) if isinstance(t, IndexedSlices) else found


def clip_by_norm(t: TensorLike, clip_norm: TensorLike, axes: TensorLike | None = None, name: str | None = None) -> Any:
    """`tf.clip_by_norm`."""
    from placesim.tf1.array.creation import ones_like
    from placesim.tf1.array.parts import where
    from placesim.tf1.math.reductions import reduce_sum

    with name_scope(name, "clip_by_norm", [t, clip_norm]) as scope:
        values = convert_to_tensor(t.values if isinstance(t, IndexedSlices) else t, name="t")
        squares = reduce_sum(values * values, axes, keepdims=True)
        positive = squares > 0
        safe = where(positive, squares, ones_like(squares))
        norm = where(positive, gen("Sqrt")(safe), squares)
        scaled = values * clip_norm
        values.shape.merge_with(scaled.shape)
        found = gen("Identity")(scaled / gen("Maximum")(norm, clip_norm), name=scope)
        return IndexedSlices(found, t.indices, t.dense_shape) if isinstance(t, IndexedSlices) else found


def clip_by_average_norm(t: TensorLike, clip_norm: TensorLike, name: str | None = None) -> Any:
    """`tf.clip_by_average_norm`."""
    from placesim.tf1.array.creation import range
    from placesim.tf1.array.shaping import rank, size
    from placesim.tf1.math.casting import cast
    from placesim.tf1.math.reductions import reduce_sum

    with name_scope(name, "clip_by_average_norm", [t, clip_norm]) as scope:
        t = convert_to_tensor(t, name="t")
        count = cast(size(t), dtypes.float32)
        inverse = gen("Rsqrt")(reduce_sum(t * t, range(rank(t))))
        scaled = t * clip_norm
        bound = gen("Minimum")(inverse * count, constant(1.0) / clip_norm)
        return gen("Identity")(scaled * bound, name=scope)


def global_norm(t_list: Sequence[TensorLike | IndexedSlices | None], name: str | None = None) -> Any:
    """`tf.global_norm`, without the entries that are None."""
    from placesim.tf1.array.shaping import stack
    from placesim.tf1.graphs.graph import get_default_graph
    from placesim.tf1.math.reductions import reduce_sum

    if not isinstance(t_list, list | tuple):
        raise TypeError(f"`t_list` should be a sequence of tensors. Received {type(t_list)}.")
    with name_scope(name, "global_norm", list(t_list)):
        halves = []
        for value in _values(t_list):
            if value is not None:
                with get_default_graph().colocate_with(value):
                    halves.append(gen("L2Loss")(value))
        half = reduce_sum(stack(halves))
        return gen("Sqrt")(half * constant(2.0, half.dtype), name="global_norm")


def _values(t_list: Sequence[TensorLike | IndexedSlices | None]) -> list[Tensor | None]:
    """The tensors of a list; IndexedSlices are replaced by their values."""
    return [
        convert_to_tensor(t.values if isinstance(t, IndexedSlices) else t, name=f"t_{i}") if t is not None else None
        for i, t in enumerate(t_list)
    ]


def clip_by_global_norm(
    t_list: Sequence[TensorLike | IndexedSlices | None], clip_norm: Any, use_norm: Any = None, name: str | None = None
) -> Any:
    """`tf.clip_by_global_norm`: returns the clipped tensors and the norm."""
    from placesim.tf1.graphs.graph import get_default_graph

    if not isinstance(t_list, list | tuple):
        raise TypeError(f"`t_list` should be a sequence of tensors. Received {type(t_list)}.")
    norm = global_norm(t_list, name) if use_norm is None else use_norm
    with name_scope(name, "clip_by_global_norm", [*t_list, clip_norm]) as scope:
        scale = clip_norm * gen("Minimum")(1.0 / norm, constant(1.0, norm.dtype) / clip_norm)
        scale = scale + (norm - norm)  # NaN if the norm is infinite
        clipped: list[Any] = []
        for i, value in enumerate(_values(t_list)):
            if value is None:
                clipped.append(None)
                continue
            with get_default_graph().colocate_with(value):
                clipped.append(gen("Identity")(value * scale, name=f"{scope}_{i}"))
        return [
            IndexedSlices(c, t.indices, t.dense_shape) if isinstance(t, IndexedSlices) else c
            for c, t in zip(clipped, t_list, strict=True)
        ], norm
