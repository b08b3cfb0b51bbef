"""Observer of steps that accounts for their memory in a ledger, and records them if the ledger has a recorder."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from placesim.runtime.accounting.ledger import Ledger, make_constants
from placesim.runtime.accounting.node_sites import Site
from placesim.runtime.accounting.ordered_memory import ScheduledAccounts
from placesim.runtime.executors.observers import Progress
from placesim.runtime.executors.schedule import Schedule
from placesim.runtime.recording.recorder import ExecutionRecorder

if TYPE_CHECKING:  # executors with a fixed order do not need these modules
    from placesim.runtime.executors.dataflow import DataflowRun, DataflowSetup
    from placesim.runtime.executors.dataflow_nodes import FlowNode


class LedgerObserver:
    """Accounts for the memory of all nodes in a ledger."""

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
        """Return a function that makes accounted runs in dataflow order, from feeds and progress."""
        from placesim.runtime.accounting.dataflow_memory import AccountedRun

        ledger, recorder = self._ledger, self._recorder()
        sites: dict[FlowNode, Site] = {}
        for (number, index), buffer in make_constants(ledger, setup.programs).items():
            setup.wiring[number].nodes[index].constant = buffer
        if recorder is None:
            return lambda feeds, progress: AccountedRun(setup, feeds, progress, ledger, sites)
        from placesim.runtime.recording.recorded_dataflow import RecordedRun

        return lambda feeds, progress: RecordedRun(setup, feeds, progress, ledger, sites, recorder)
