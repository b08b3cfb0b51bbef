"""Arguments with an old and a new name, and arguments that are one value or a list."""

from __future__ import annotations

from typing import Any

from placesim.tf1.graphs.tensor_likes import TensorLike


def renamed(new_name: str, new_value: object, old_name: str, old_value: object) -> Any:
    """Value of an argument with an old and a new name.  Raises ValueError if both are given."""
    if old_value is None:
        return new_value
    if new_value is not None:
        raise ValueError(f"Cannot specify both '{old_name}' and '{new_name}'.")
    return old_value


def as_list(value: TensorLike) -> list[Any]:
    """Return a list or tuple as a list, and any other value as a list of one."""
    return list(value) if isinstance(value, list | tuple) else [value]
