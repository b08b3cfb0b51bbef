"""The observer of steps that keeps a ledger's accounts, and informs its recorder if there is one."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from placesim.runtime.accounting.ledger import Ledger, make_constants
from placesim.runtime.accounting.node_sites import Site
from placesim.runtime.accounting.ordered_memory import ScheduledAccounts
from placesim.runtime.executors.observers import Progress
from placesim.runtime.executors.schedule import Schedule
from placesim.runtime.recording.recorder import ExecutionRecorder

if TYPE_CHECKING:  # steps of a fixed order do without it
    from placesim.runtime.executors.dataflow import DataflowRun, DataflowSetup
    from placesim.runtime.executors.dataflow_nodes import FlowNode


class LedgerObserver:
    """Accounts for the memory of each node that runs."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger

    def _recorder(self) -> ExecutionRecorder | None:
        found = self._ledger.recorder
        assert found is None or isinstance(found, ExecutionRecorder)
        return found

    def observe_schedule(self, schedule: Schedule, stores: Sequence[list[Any]]) -> ScheduledAccounts:
        """Return the account of an executor with a fixed order."""
        recorder = self._recorder()
        if recorder is None:
            return ScheduledAccounts(schedule, stores, self._ledger)
        from placesim.runtime.recording.recorded_schedule import RecordedSchedule

        return ScheduledAccounts(schedule, stores, self._ledger, RecordedSchedule(schedule, self._ledger, recorder))

    def observe_dataflow(self, setup: DataflowSetup) -> Callable[[Mapping[int, Any], Progress | None], DataflowRun]:
        """Return a function that creates accounted runs in dataflow order."""
        from placesim.runtime.accounting.dataflow_memory import AccountedRun

        ledger, recorder = self._ledger, self._recorder()
        sites: dict[FlowNode, Site] = {}
        for (number, index), buffer in make_constants(ledger, setup.programs).items():
            setup.wiring[number].nodes[index].constant = buffer
        if recorder is None:
            return lambda feeds, progress: AccountedRun(setup, feeds, progress, ledger, sites)
        from placesim.runtime.recording.recorded_dataflow import RecordedRun

        return lambda feeds, progress: RecordedRun(setup, feeds, progress, ledger, sites, recorder)
