"""What TensorFlow says of lists that are no tensor."""

from __future__ import annotations

from typing import Any


def ragged_message(value: Any) -> str:
    """The words for nested lists of different lengths."""
    wanted: list[int] = []
    item = value
    while isinstance(item, list | tuple) and item:
        wanted.append(len(item))
        item = item[0]
    got = _shape_at(value, len(wanted), wanted)
    return f"Argument must be a dense tensor: {value!r} - got shape {got}, but wanted {wanted}."


def _shape_at(value: Any, depth: int, wanted: list[int]) -> list[int]:
    """The leading dimensions on which all the lists agree."""
    found: list[int] = []
    level = [value]
    for _ in range(depth):
        lengths = {len(item) if isinstance(item, list | tuple) else -1 for item in level}
        if len(lengths) > 1 or -1 in lengths:
            break
        found.append(lengths.pop())
        level = [part for item in level for part in item]
    return found
