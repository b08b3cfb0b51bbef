"""Memory accounting for a step in dataflow order."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from operator import attrgetter
from typing import Any

from placesim.core.errors import OpError
from placesim.ops.kernels.memory_rules import TensorMemory
from placesim.runtime.accounting.ledger import Ledger
from placesim.runtime.accounting.node_sites import Site
from placesim.runtime.accounting.step_account import StepAccount
from placesim.runtime.executors.dataflow import DataflowRun, DataflowSetup, read_wanted, route_to_branch
from placesim.runtime.executors.dataflow_nodes import COMPUTE, RECEIVE, FlowNode
from placesim.runtime.executors.frames import DEAD, Visit

_VALUE = attrgetter("value")


class AccountedRun(DataflowRun):
    """A run with memory accounting; it passes TensorMemory objects, which also hold the values, between nodes."""

    def __init__(
        self,
        setup: DataflowSetup,
        feeds: Mapping[int, Any],
        progress: Callable[[int], None] | None,
        ledger: Ledger,
        sites: dict[FlowNode, Site],
    ) -> None:
        super().__init__(setup, feeds, progress)
        self._ledger = ledger
        self._clock = ledger.clock
        self._account = StepAccount(ledger, setup)
        self._sites = sites

    def run(self) -> dict[int, Any]:
        try:
            results = super().run()
        except OpError:
            if self._ledger.failure is not None:
                self._finish_started()
            raise
        self._account.close()
        return results

    def _finish_started(self) -> None:
        """Run the kernels that TensorFlow had started before another kernel ran out of memory; their errors are only logged."""
        for visit in self.ready:
            if visit.node.kind == COMPUTE and not visit.dead:
                with suppress(Exception):  # the first error is the step's
                    self._execute(visit)

    def _site(self, node: FlowNode) -> Site:
        site = self._sites.get(node)
        if site is None:
            site = self._sites[node] = self._ledger.site(node.program, node.instruction, map(bool, node.reader_counts))
        return site

    def _values(self, visit: Visit) -> Sequence[Any]:
        return list(map(_VALUE, visit.values))

    def _execute(self, visit: Visit) -> Sequence[Any]:
        node = visit.node
        if node.constant_memory is not None:
            node.constant_memory.hold()
            return (node.constant_memory,)
        values = list(map(_VALUE, visit.values))
        site = self._site(node)
        if site.plain is not None:
            return (self._account.executed_plain(site, site.plain, visit.values, node.compute(values)[0]),)
        if not site.calls:
            return self._account_for(visit, self._compute(node, values))
        self._account.begin(visit.values, values)
        try:
            outputs = self._compute(node, values)
        except Exception as error:  # also KernelWait, after which the node begins again
            self._account.give_up()
            raise (self._account.passed_on(error, site) if isinstance(error, OpError) else error) from None
        return self._account_for(visit, outputs)

    def _account_for(self, visit: Visit, outputs: Sequence[Any]) -> Sequence[Any]:
        node = visit.node
        site = self._site(node)
        if site.plain is not None:
            return (self._account.executed_plain(site, site.plain, visit.values, outputs[0]),)
        key = self._key(visit) if node.kind == RECEIVE else None
        made = self._account.executed(site, visit.values, self._values(visit), outputs, key, node.constant)
        if node.instruction.node.op == "Const":
            node.constant_memory = made[0]
        return made

    def _switched(self, visit: Visit) -> Sequence[Any]:
        node = visit.node
        self._clock.node = node.name
        data, selector = visit.values
        reads_data, reads_selector = node.instruction.reads_ref
        chosen = read_wanted(selector.value, reads_selector)
        outputs = route_to_branch(node, chosen, self._dereferenced(data) if reads_data else data)
        selector.release()
        return outputs

    def _passed(self, visit: Visit) -> Sequence[Any]:
        node = visit.node
        self._clock.node = node.name
        if node.uses_scratch:
            self._account.make_scratch(self._site(node))
        if node.guesses is not None:
            return self._decided(visit, node.guesses)
        return [self._dereferenced(visit.values[0]), *visit.values[1:]] if node.reads_ref else visit.values

    def _with_value(self, given: TensorMemory, value: Any) -> TensorMemory:
        return TensorMemory(given.dims, given.dtype, given.buffer, value, given.is_ref, given.on_host)

    def _dereferenced(self, memory: TensorMemory) -> TensorMemory:
        return self._ledger.dereferenced(memory, memory.value)

    def _position(self, node: FlowNode, position: int) -> TensorMemory:
        return node.positions[position]

    def _drop(self, *values: Any) -> None:
        for value in values:
            if type(value) is TensorMemory:
                value.release()

    def _send(self, visit: Visit) -> None:
        if not visit.dead:
            self._account.executed(self._site(visit.node), visit.values, self._values(visit), (), self._key(visit))
        super()._send(visit)

    def _hold(self, source: FlowNode, outputs: Sequence[Any]) -> None:
        for slot, more in source.more_holders:
            output = outputs[slot]
            if output is not DEAD and output.buffer is not None and not output.is_ref:
                if more > 0:
                    output.buffer.holders += more
                else:
                    output.buffer.release()
