"""The executor that runs programs in dataflow order."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Executor as Pool
from typing import Any

from placesim.ops.process.buffer_ownership import ops_side_by_side
from placesim.runtime.executors.constant_folding import constant_compute, fold
from placesim.runtime.executors.dataflow import DataflowRun, DataflowSetup
from placesim.runtime.executors.dataflow_nodes import COMPUTE
from placesim.runtime.executors.observers import Progress, StepObserver
from placesim.runtime.executors.program import Program


class DataflowExecutor(DataflowSetup):
    """Runs programs in dataflow order; an `observer` sees each run."""

    def __init__(
        self,
        programs: Sequence[Program],
        pool: Pool | None = None,
        observer: StepObserver | None = None,
        *,
        is_body: bool = False,
        let_others: Callable[[str], bool] | None = None,
    ) -> None:
        super().__init__(programs, pool, is_body=is_body, let_others=let_others)
        self._make_observed = None if observer is None else observer.observe_dataflow(self)
        self._is_folded = False

    def run(self, feeds: Mapping[int, Any], progress: Progress | None = None, *, is_accounted: bool = True) -> dict[int, Any]:
        """Run one step with values by `_Arg` index; return values by `_Retval` index.

        With `is_accounted=False`, the observer does not see this step. Raises OpError, with node and device, if a kernel fails.
        """
        self.fold()
        run = (
            self._make_observed(feeds, progress)
            if self._make_observed is not None and is_accounted
            else DataflowRun(self, feeds, progress)
        )
        if self.pool is None:
            return run.run()
        with ops_side_by_side():
            return run.run()

    def fold(self) -> None:
        """Compute the nodes that depend only on constants, before the first step."""
        if self._is_folded:
            return
        self._is_folded = True
        folded = fold(self.programs)
        if folded is None:
            return
        for number, index in folded.nodes:
            node = self.wiring[number].nodes[index]
            if node.kind == COMPUTE:
                node.compute, node.is_expensive = constant_compute(folded.outputs(number, node.instruction)), False
