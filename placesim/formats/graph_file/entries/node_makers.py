"""Makers of the nodes that `gradients`, `train`, `cond` and `while` expand to.

The package `tf1` creates these nodes, but this package may not import `tf1`. `placesim/__init__.py` therefore passes the makers
to `hand_over_makers`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:  # every command imports this module, and many commands use no graphs
    from placesim.graph.builder import ScopedGraphBuilder
    from placesim.graph.graph import TensorRef

Writer = Callable[["FunctionMaker", Sequence[int]], Sequence[Any]]
"""Function that adds the nodes of a body for given arguments, and returns its results."""


class FunctionMaker(Protocol):
    """Protocol of a maker of conditionals and loops in the graph of `builder`. Its methods raise GraphBuildError."""

    builder: ScopedGraphBuilder

    def cond(self, pred: Any, then: Writer, otherwise: Writer, name: str | None, position: int) -> list[TensorRef]:
        """Add a conditional, and return its results."""

    def while_loop(
        self,
        cond: Writer,
        body: Writer,
        loop_vars: Sequence[Any],
        shapes: Mapping[int, tuple[int, ...] | None],
        options: Mapping[str, Any],
        name: str | None,
        position: int,
    ) -> list[TensorRef]:
        """Add a loop, and return the final values of the loop variables."""

    def capture(self, outside: FunctionMaker, tensor: TensorRef, prefix: str) -> int:
        """Return the argument of this body that passes in a tensor of an enclosing graph."""

    def wait_for(self, outside: FunctionMaker, node: int) -> None:
        """Make every call of this body wait for a node of an enclosing graph."""

    def initialize(self, name: str, position: int) -> int:
        """Return the node of this body that waits for the initializers of all variables. Raises GraphBuildError."""


_MAKERS: dict[str, Callable[[ScopedGraphBuilder], Any]] = {}


def hand_over_makers(functions: Callable[[ScopedGraphBuilder], Any], training: Callable[[ScopedGraphBuilder], Any]) -> None:
    """Set the functions that create a graph's makers: one for conditionals and loops, one for gradients and training."""
    _MAKERS.update(functions=functions, training=training)


def make_functions(builder: ScopedGraphBuilder) -> FunctionMaker:
    """Return a maker of conditionals and loops in a builder's graph, which must not be the graph of a body."""
    found: FunctionMaker = _MAKERS["functions"](builder)
    return found


def make_training(builder: ScopedGraphBuilder) -> Any:
    """Return a `GradientMaker` for a builder's graph."""
    return _MAKERS["training"](builder)
