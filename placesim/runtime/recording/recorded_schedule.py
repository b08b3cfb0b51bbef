"""Recording of a step in a fixed order."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from placesim.ops.categories import RECEIVES, SENDS
from placesim.runtime.accounting.ledger import Ledger
from placesim.runtime.accounting.node_sites import Site
from placesim.runtime.accounting.ordered_memory import Note
from placesim.runtime.executors.schedule import Schedule
from placesim.runtime.recording.recorder import ExecutionRecorder, input_shapes, output_shapes


class RecordedSchedule:
    """Records each executed node of a fixed order, with the executions that the node waited for."""

    def __init__(self, schedule: Schedule, ledger: Ledger, recorder: ExecutionRecorder) -> None:
        self._ledger = ledger
        self._recorder = recorder
        self._programs = schedule.programs
        self._numbers = [[0] * len(program.instructions) for program in schedule.programs]
        self._sent: dict[Any, int] = {}
        self._first = 0

    def begin(self) -> None:
        """Called when a run begins."""
        self._first = self._recorder.begin_run()

    def end(self) -> None:
        """Called when a run has ended."""
        self._recorder.end_run(self._first)

    def note(self, number: int, index: int, site: Site) -> Note:
        """Return a function to call after each run of this node."""
        instruction, numbers, recorder, ledger = site.instruction, self._numbers[number], self._recorder, self._ledger
        op, key, sent, waits_for = instruction.node.op, instruction.key, self._sent, self._waits_for(number, index)

        def note(given: Sequence[Any], values: Sequence[Any], made: Sequence[Any]) -> None:
            if site.calls:
                numbers[index] = recorder.end_call()
                return
            sources = [numbers[source] for source in waits_for]
            if op in RECEIVES:
                sources.append(sent.pop(key))
            found = recorder.add(site, input_shapes(ledger, given, values), output_shapes(made), sources)
            numbers[index] = found
            if op in SENDS:
                sent[key] = found

        return note

    def call(self, number: int, index: int, site: Site) -> Note:
        """Return a function to call before each run of this node, which calls functions."""
        numbers, recorder, ledger = self._numbers[number], self._recorder, self._ledger
        waits_for = self._waits_for(number, index)

        def begin_call(given: Sequence[Any], values: Sequence[Any], _: Sequence[Any]) -> None:
            recorder.begin_call(site, input_shapes(ledger, given, values), [numbers[source] for source in waits_for])

        return begin_call

    def _waits_for(self, number: int, index: int) -> tuple[int, ...]:
        node = self._programs[number].instructions[index].node
        return (*node.input_nodes, *node.control_inputs)
