"""Fetches and feeds of composite tensors (SparseTensor, IndexedSlices, RaggedTensor), by their parts."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from placesim.tf1.graphs.tensor_likes import TensorLike
from placesim.tf1.sparse.values import IndexedSlicesValue, SparseTensorValue


class CompositeValue(NamedTuple):
    """Decomposition of one class: `parts` gives its tensors, `build` makes the value from their results."""

    parts: Callable[[Any], Sequence[Any]]
    build: Callable[[Sequence[Any]], Any]


def _sparse_parts(value: Any) -> list[Any]:
    return [value.indices, value.values, value.dense_shape]


def _slices_parts(value: Any) -> list[Any]:
    parts = [value.values, value.indices]
    return parts if value.dense_shape is None else [*parts, value.dense_shape]


def _build_slices(parts: Sequence[Any]) -> Any:
    return IndexedSlicesValue(parts[0], parts[1], parts[2] if len(parts) > 2 else None)


def _ragged_parts(value: Any) -> list[Any]:
    return [value.flat_values, *value.nested_row_splits]


def _build_ragged(parts: Sequence[Any]) -> Any:
    from placesim.tf1.ragged.ragged_tensor import value_of_parts  # few scripts have ragged tensors

    return value_of_parts(parts)


COMPOSITES: dict[str, CompositeValue] = {
    "SparseTensor": CompositeValue(_sparse_parts, lambda parts: SparseTensorValue(*parts)),
    "IndexedSlices": CompositeValue(_slices_parts, _build_slices),
    "RaggedTensor": CompositeValue(_ragged_parts, _build_ragged),
}
"""Composite classes by name, looked up in an object's classes, since scripts may subclass them."""
_registered: list[tuple[type, CompositeValue, Callable[[Any, Any], Sequence[tuple[Any, Any]]] | None]] = []


def composite_of(value: TensorLike) -> CompositeValue | None:
    """Decomposition of a value; None for a tensor, an operation or a name."""
    for kind, found, _ in _registered:
        if isinstance(value, kind):
            return found
    return next((COMPOSITES[kind.__name__] for kind in type(value).__mro__ if kind.__name__ in COMPOSITES), None)


def feed_parts(key: Any, value: Any) -> Sequence[tuple[Any, Any]]:
    """Pairs of tensor and fed value, for each tensor of a feed's key."""
    for kind, _, feed in _registered:
        if isinstance(key, kind) and feed is not None:
            return feed(key, value)
    found = composite_of(key)
    return [(key, value)] if found is None else list(zip(found.parts(key), value, strict=False))


def register_session_run_conversion_functions(
    tensor_type: type,
    fetch_function: Callable[[Any], tuple[Sequence[Any], Callable[[Sequence[Any]], Any]]],
    feed_function: Callable[[Any, Any], Sequence[tuple[Any, Any]]] | None = None,
    feed_function_for_partial_run: object = None,
) -> None:
    """Register functions by which sessions fetch and feed a class.  Raises ValueError if it is already registered."""
    if any(issubclass(tensor_type, kind) for kind, _, _ in _registered):
        raise ValueError(f"{tensor_type} has already been registered so ignore it.")
    made: dict[int, Callable[[Sequence[Any]], Any]] = {}

    def parts(value: Any) -> Sequence[Any]:
        found, made[0] = fetch_function(value)
        return found

    _registered.insert(0, (tensor_type, CompositeValue(parts, lambda found: made[0](found)), feed_function))
