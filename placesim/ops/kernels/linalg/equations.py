"""Equations of Einsum, taken apart.

Source: TensorFlow's `einsum_op_util.cc`.
"""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

from placesim.core.errors import InvalidArgumentError

ELLIPSIS = "..."
Labels = tuple[str, ...]
"""Labels of a tensor's axes; a broadcast axis, counted from the last one, is labelled `...0`, `...1` and so on."""


class Equation(NamedTuple):
    """A parsed equation: labels of each input and of the output."""

    inputs: tuple[str, ...]
    output: str


@lru_cache(maxsize=1024)
def parse_equation(equation: str) -> Equation:
    """`ij,jk->ik`; InvalidArgumentError in TensorFlow's words where it has no arrow, or not one or two inputs."""
    sides = equation.split("->")
    if len(sides) != 2:
        raise InvalidArgumentError(f"Expecting exactly one '->' in einsum equation: {equation}")
    inputs = tuple(sides[0].split(","))
    if len(inputs) > 2:
        raise InvalidArgumentError(f"Expecting 1 or 2 input subscripts in equation '{equation}' but got: {len(inputs)}")
    return Equation(inputs, sides[1])


def split_labels(subscript: str) -> Labels:
    """The labels of one subscript: `a...b` -> `a`, `...`, `b`."""
    labels: list[str] = []
    position = 0
    while position < len(subscript):
        size = 3 if subscript[position] == "." else 1
        labels.append(ELLIPSIS if size == 3 else subscript[position])
        position += size
    return tuple(labels)


def expand(labels: Labels, broadcast_rank: int) -> Labels:
    """Labels with as many axes as there are in place of the ellipsis."""
    axes = tuple(f"{ELLIPSIS}{axis}" for axis in reversed(range(broadcast_rank)))
    return tuple(name for label in labels for name in (axes if label == ELLIPSIS else (label,)))


def broadcast_rank(labels: Labels) -> int:
    """Number of broadcast axes among the labels."""
    return sum(label.startswith(ELLIPSIS) for label in labels)
