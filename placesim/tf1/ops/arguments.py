"""Arguments as scripts give them: under an old name or the new one, one value or several."""

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
    """The values of a list or tuple; of anything else a list of it alone."""
    return list(value) if isinstance(value, list | tuple) else [value]
