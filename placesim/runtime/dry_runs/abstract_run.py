"""A dry run as executors meet it: kernels on abstract values, and decisions that are assumed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from placesim.graph.graph import Graph, Node
from placesim.ops.kernels.abstract_tensor import SketchedValueError
from placesim.ops.kernels.kernel import Kernel
from placesim.runtime.dry_runs.abstract_values import sketch_kernel, unknown_choice
from placesim.runtime.dry_runs.assumptions import Assumptions


class DryRunKernels:
    """Abstract kernels and decisions of one dry run, by its assumptions."""

    def __init__(self, assumptions: Assumptions) -> None:
        self._assumptions = assumptions
        self.tells = assumptions.tells
        self.goes_on = assumptions.goes_on
        self.branch = assumptions.branch

    @property
    def is_free(self) -> bool:
        """Whether assumptions other than the given ones are allowed."""
        return self._assumptions.is_free

    def sketch(self, kernel: Kernel, graph: Graph, node: Node) -> Kernel:
        """Abstract kernel, which only computes output shapes."""
        return sketch_kernel(kernel, graph, node, self._assumptions)

    def unknown_choice(self, graph: Graph, node: Node, values: Sequence[Any]) -> SketchedValueError:
        """Error for a node whose control decision depends on unknown values."""
        return unknown_choice(graph, node, values)
