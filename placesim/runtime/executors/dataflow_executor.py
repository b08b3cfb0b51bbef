"""Runs programs whose order follows from their data: what it builds once, and which kind of run a step is."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Executor as Pool
from typing import TYPE_CHECKING, Any

from placesim.ops.process.buffer_ownership import ops_side_by_side
from placesim.runtime.executors.constant_folding import constant_compute, fold
from placesim.runtime.executors.dataflow import DataflowRun
from placesim.runtime.executors.dataflow_nodes import COMPUTE, Wiring
from placesim.runtime.executors.program import Program

if TYPE_CHECKING:
    from placesim.runtime.accounting.ledger import Ledger

Progress = Callable[[int], None]


class DataflowExecutor:
    """Runs programs node by node as their inputs arrive.

    With a `pool` kernels that deserve it run there; with a `ledger` the memory of each node is accounted for.  `is_body` tells
    a function's.  Where nothing can run, `let_others` lets other steps, and says whether to try again.
    """

    def __init__(
        self,
        programs: Sequence[Program],
        pool: Pool | None = None,
        ledger: Ledger | None = None,
        *,
        is_body: bool = False,
        let_others: Callable[[str], bool] | None = None,
    ) -> None:
        self.programs = programs
        self.is_body = is_body
        self.let_others = let_others
        self.pool = pool
        self.wiring = [Wiring(program) for program in programs]
        self._accounted = None if ledger is None else self._open_accounts(ledger)
        self._is_folded = False

    def run(
        self,
        feeds: Mapping[int, Any],
        progress: Progress | None = None,
        *,
        is_accounted: bool = True,
    ) -> dict[int, Any]:
        """One step: values by `_Arg` index -> values by `_Retval` index; raises OpError, with node and device.

        `is_accounted=False` leaves the memory of this step out of the ledger, where there is one.
        """
        self.fold()
        run = (
            self._accounted(feeds, progress)
            if self._accounted is not None and is_accounted
            else DataflowRun(self, feeds, progress)
        )
        if self.pool is None:
            return run.run()
        with ops_side_by_side():
            return run.run()

    def fold(self) -> None:
        """Before the first step, within what serves it: what depends on constants alone needs computing no more."""
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

    def _open_accounts(self, ledger: Ledger) -> Callable[[Mapping[int, Any], Progress | None], DataflowRun]:
        """What makes a run that accounts for memory, and tells the ledger's recorder where it has one."""
        from placesim.runtime.accounting.dataflow_memory import AccountedRun
        from placesim.runtime.accounting.ledger import make_constants

        for (number, index), buffer in make_constants(ledger, self.programs).items():
            self.wiring[number].nodes[index].constant = buffer
        recorder = ledger.recorder
        if recorder is None:
            return lambda feeds, progress: AccountedRun(self, feeds, progress, ledger)
        from placesim.runtime.recording.recorded_dataflow import RecordedRun

        return lambda feeds, progress: RecordedRun(self, feeds, progress, ledger, recorder)
