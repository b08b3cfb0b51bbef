"""Recording of a step in dataflow order."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from placesim.ops.categories import CONTROL_FLOW
from placesim.ops.kernels.kernel import KernelWait, Trait
from placesim.runtime.accounting.dataflow_memory import AccountedRun
from placesim.runtime.accounting.ledger import Ledger
from placesim.runtime.accounting.node_sites import Site
from placesim.runtime.executors.dataflow import DataflowSetup
from placesim.runtime.executors.dataflow_nodes import RECEIVE, SEND, FlowNode
from placesim.runtime.executors.frames import FrameRun, Iteration, Visit
from placesim.runtime.recording.recorder import ExecutionRecorder, input_shapes, output_shapes


class RecordedRun(AccountedRun):
    """A run that records each executed node, with the executions that the node waited for."""

    def __init__(
        self,
        setup: DataflowSetup,
        feeds: Mapping[int, Any],
        progress: Callable[[int], None] | None,
        ledger: Ledger,
        sites: dict[FlowNode, Site],
        recorder: ExecutionRecorder,
    ) -> None:
        super().__init__(setup, feeds, progress, ledger, sites)
        self._recorder = recorder
        self._current: tuple[int, ...] = ()
        self._arrived: dict[tuple[Iteration, int], list[int]] = {}
        self._entered: dict[tuple[FrameRun, FlowNode], int] = {}
        self._sent_by: dict[Any, int] = {}
        self._waited: set[tuple[Iteration, int]] = set()

    def run(self) -> dict[int, Any]:
        first = self._recorder.begin_run()
        results = super().run()
        self._recorder.end_run(first)
        return results

    def _execute(self, visit: Visit) -> Sequence[Any]:
        site = self._site(visit.node)
        if not site.calls:
            return super()._execute(visit)
        inputs = input_shapes(self._ledger, visit.values, self._values(visit))
        self._recorder.begin_call(site, inputs, self._arrived.get((visit.iteration, visit.node.index), ()))
        try:
            return super()._execute(visit)
        except Exception:
            self._recorder.end_call()
            raise

    def _fail(self, visit: Visit, error: BaseException) -> None:
        if isinstance(error, KernelWait):
            self._waited.add((visit.iteration, visit.node.index))
        super()._fail(visit, error)

    def _send(self, visit: Visit) -> None:
        # the send is recorded first, because its receiver may run before the send ends
        self._sent_by[self._key(visit)] = self._record(visit, ())
        super()._send(visit)

    def _finish(self, visit: Visit, outputs: Sequence[Any]) -> None:
        is_send = visit.node.kind == SEND
        self._current = (self._sent_by[self._key(visit)] if is_send else self._record(visit, outputs),)
        super()._finish(visit, outputs)

    def _record(self, visit: Visit, made: Sequence[Any]) -> int:
        node, place = visit.node, (visit.iteration, visit.node.index)
        site, is_dead = self._site(node), bool(visit.dead)
        sources = self._arrived.pop(place, [])
        if site.calls and not is_dead:
            return self._recorder.end_call()
        if place in self._waited and Trait.MEETS_OTHERS not in node.instruction.kernel.traits:
            # the node that ran last made it possible, for instance by filling a queue
            sources.append(len(self._recorder.executions) - 1)
        if node.kind == RECEIVE and not (is_dead and sources):
            sources.append(self._sent_by[self._key(visit)])
        if node.is_merge and not is_dead:
            sources = [source for source in sources if not self._recorder.executions[source].is_dead]
        if is_dead or node.instruction.node.op in CONTROL_FLOW:
            return self._recorder.add(site, (), (), sources, is_dead=is_dead)
        inputs = input_shapes(self._ledger, visit.values, self._values(visit))
        return self._recorder.add(site, inputs, output_shapes(made), sources)

    def _leave(self, node: FlowNode, iteration: Iteration, outputs: Sequence[Any], is_dead: bool) -> None:
        if node.is_enter:
            (self._entered[self._child(iteration, node.frame_name), node],) = self._current
        super()._leave(node, iteration, outputs, is_dead)

    def _activate_readers(self, source: FlowNode, iteration: Iteration, outputs: Sequence[Any], is_dead: bool) -> None:
        current = self._current
        entered = self._entered.get((iteration.frame, source)) if source.is_enter else None
        if entered is not None and entered not in current:  # a later iteration reads a loop's constant
            current = (*current, entered)
        for node, *_ in source.readers:
            self._arrived.setdefault((iteration, node.index), []).extend(current)
        super()._activate_readers(source, iteration, outputs, is_dead)
