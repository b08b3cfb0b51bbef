"""The makers of the nodes that `gradients`, `train`, `cond` and `while` expand to.

TensorFlow's Python makes them, in a room above this one: the package hands its makers over when it is imported.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:  # each command imports this module, many of them nothing else of graphs
    from placesim.graph.builder import ScopedGraphBuilder
    from placesim.graph.graph import TensorRef

Writer = Callable[["FunctionMaker", Sequence[int]], Sequence[Any]]
"""Adds the nodes of a body for given arguments, and returns its results."""


class FunctionMaker(Protocol):
    """Makes conditionals and loops in the graph of `builder`.  Those methods raise GraphBuildError."""

    builder: ScopedGraphBuilder

    def cond(self, pred: Any, then: Writer, otherwise: Writer, name: str | None, position: int) -> list[TensorRef]:
        """A conditional's results."""

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
        """Final values of the loop variables."""

    def capture(self, outside: FunctionMaker, tensor: TensorRef, prefix: str) -> int:
        """The argument of this body that brings in a tensor of a graph around it."""

    def wait_for(self, outside: FunctionMaker, node: int) -> None:
        """Have every call of this body wait for a node of a graph around it."""

    def initialize(self, name: str, position: int) -> int:
        """The node of this body that waits for the initializers of all variables.  Raises GraphBuildError."""


_MAKERS: dict[str, Callable[[ScopedGraphBuilder], Any]] = {}


def hand_over_makers(functions: Callable[[ScopedGraphBuilder], Any], training: Callable[[ScopedGraphBuilder], Any]) -> None:
    """Take what makes the makers of one graph: of its conditionals and loops, and of its gradients and training."""
    _MAKERS.update(functions=functions, training=training)


def make_functions(builder: ScopedGraphBuilder) -> FunctionMaker:
    """Return the maker of conditionals and loops in the graph of a builder that is no body's."""
    found: FunctionMaker = _MAKERS["functions"](builder)
    return found


def make_training(builder: ScopedGraphBuilder) -> Any:
    """Return the `GradientMaker` of a builder's graph."""
    return _MAKERS["training"](builder)
