"""Zeros and sums of variants: tensor lists, and optionals whose components may be variants."""

from __future__ import annotations

from typing import Any

import numpy as np

from placesim.core.errors import InvalidArgumentError
from placesim.ops.kernels.data.iterators import Optional
from placesim.ops.kernels.lists.tensor_lists import TensorList, add_lists, list_of, zeros_like_list


def _held(value: Any) -> Any:
    return value.item() if isinstance(value, np.ndarray) and value.dtype == object and not value.ndim else value


def zeros_like_variant(value: Any) -> Any:
    """Return a variant with zeros for each tensor; an empty optional stays. Raises InvalidArgumentError for other contents."""
    value = _held(value)
    if not isinstance(value, Optional):
        return zeros_like_list(list_of(value))
    if value.element is None:
        return value
    return Optional(tuple(_zeros(component) for component in value.element))


def _zeros(component: Any) -> Any:
    component = _held(component)
    return zeros_like_variant(component) if isinstance(component, TensorList | Optional) else np.zeros_like(component)


def add_variants(one: Any, two: Any) -> Any:
    """Return the sum of two variants, tensor by tensor. Raises InvalidArgumentError if their structures differ."""
    one, two = _held(one), _held(two)
    if not isinstance(one, Optional) or not isinstance(two, Optional):
        return add_lists(list_of(one), list_of(two))
    if (one.element is None) != (two.element is None):
        raise InvalidArgumentError("Cannot add optionals because one has a value and the other doesn't.")
    if one.element is None or two.element is None:
        return one
    if len(one.element) != len(two.element):
        raise InvalidArgumentError(
            "Cannot add optionals because they have different numbers of components "
            f"({len(one.element)} vs. {len(two.element)})."
        )
    return Optional(tuple(_sum(a, b) for a, b in zip(one.element, two.element, strict=True)))


def _sum(one: Any, two: Any) -> Any:
    one, two = _held(one), _held(two)
    return add_variants(one, two) if isinstance(one, TensorList | Optional) else np.asarray(one + two)
