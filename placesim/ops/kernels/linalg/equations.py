"""Parsing of Einsum's equations.

Source: TensorFlow's `einsum_op_util.cc`.
"""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

from placesim.core.errors import InvalidArgumentError

ELLIPSIS = "..."
Labels = tuple[str, ...]
"""Labels of a tensor's axes; broadcast axes are labelled `...0`, `...1` and so on, counted from the last."""


class Equation(NamedTuple):
    """A parsed equation: the subscripts of each input and of the output."""

    inputs: tuple[str, ...]
    output: str


@lru_cache(maxsize=1024)
def parse_equation(equation: str) -> Equation:
    """Parse an equation such as `ij,jk->ik`. Raises InvalidArgumentError unless it has one arrow and one or two inputs."""
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
    """Replace the ellipsis by the labels of `broadcast_rank` broadcast axes."""
    axes = tuple(f"{ELLIPSIS}{axis}" for axis in reversed(range(broadcast_rank)))
    return tuple(name for label in labels for name in (axes if label == ELLIPSIS else (label,)))


def broadcast_rank(labels: Labels) -> int:
    """Number of broadcast axes among the labels."""
    return sum(label.startswith(ELLIPSIS) for label in labels)
