"""Dry run of an executor's nodes: kernels on abstract values, and assumed decisions."""

from __future__ import annotations

from placesim.graph.graph import Graph, Node
from placesim.ops.kernels.kernel import Kernel
from placesim.runtime.dry_runs.abstract_values import sketch_kernel, unknown_choice
from placesim.runtime.dry_runs.assumptions import Assumptions


class DryRunKernels:
    """Abstract kernels and assumed decisions of one dry run."""

    def __init__(self, assumptions: Assumptions) -> None:
        self._assumptions = assumptions
        self.tells = assumptions.tells
        self.goes_on = assumptions.goes_on
        self.branch = assumptions.branch
        self.unknown_choice = unknown_choice

    @property
    def is_free(self) -> bool:
        """Whether the run may make assumptions that the user did not give."""
        return self._assumptions.is_free

    def sketch(self, kernel: Kernel, graph: Graph, node: Node) -> Kernel:
        """Return an abstract kernel, which only computes output shapes."""
        return sketch_kernel(kernel, graph, node, self._assumptions)
