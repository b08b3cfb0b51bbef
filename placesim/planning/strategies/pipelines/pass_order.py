"""The order of the passes of a pipeline in the graph: the first and last nodes of a pass, and the previous pass."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from placesim.ops.categories import CONSTANTS
from placesim.planning.strategies.pipelines.schedules import Pass, Schedule
from placesim.planning.strategies.training_graph import TrainingGraph, find_conditional_nodes


class PassOrder:
    """The nodes of each pass, and the order of a schedule. `stage_of` has the stage of each copied node, by id.

    A node that depends on gradients, such as a recomputed node, belongs to the backward pass. A pass without nodes that
    always run is left out.
    """

    def __init__(self, training: TrainingGraph, stage_of: Mapping[int, int], schedule: Schedule) -> None:
        self.stage_of = stage_of
        self._schedule = schedule
        self._begins: dict[int, tuple[int, bool]] = {}
        self._ends: dict[tuple[int, bool], list[int]] = {}
        self._find_nodes(training)
        self._before: dict[Pass, Pass] = {}
        self._orders: list[Sequence[Pass]] = []
        for device in range(schedule.devices):
            order = [own for own in schedule.order(device) if own[1:] in self._ends]
            self._orders.append(order)
            self._before |= dict(zip(order[1:], order, strict=False))

    def _find_nodes(self, training: TrainingGraph) -> None:
        graph, copied = training.graph, {*training.forward, *training.backward}
        backward = set(training.backward)
        kind: dict[int, tuple[int, bool]] = {}
        conditional, readers = find_conditional_nodes(graph), graph.consumers()
        for number in graph.runtime_order():
            node = graph.nodes[number]
            sources = (*node.input_nodes, *node.control_inputs)
            if number not in copied or (node.op in CONSTANTS and not sources):
                continue
            if not backward.isdisjoint(sources):
                backward.add(number)
            own = kind[number] = self.stage_of[number], number in backward
            if all(kind.get(source) != own for source in sources):
                self._begins[number] = own
        self._forward_stages = {stage for stage, is_backward in kind.values() if not is_backward}
        always = {number: own for number, own in kind.items() if number not in conditional}
        for number, own in always.items():  # a branch that is not taken never ends
            if all(always.get(reader) != own for reader in readers[number]):
                self._ends.setdefault(own, []).append(number)

    def passes(self) -> Iterator[Pass]:
        """Yield the passes of each device in the order of the schedule."""
        for order in self._orders:
            yield from order

    def before(self, number: int, micro_batch: int) -> Pass | None:
        """Return the pass for which a node waits; None if the node does not begin a pass, or if its pass is the first one."""
        own = self._begins.get(number)
        return None if own is None else self._before.get(Pass(micro_batch, *own))

    def release(self, number: int, micro_batch: int) -> Pass | None:
        """Return the pass after which a node's stage gets its part of the batch, so that this arrives during the next pass.

        None if the micro-batch is among the first two passes of the device.
        """
        stage = self.stage_of[number]
        own = Pass(micro_batch, stage, is_backward=stage not in self._forward_stages)
        before = self._before.get(own)
        return None if before is None else self._before.get(before)

    def ends(self, own: Pass) -> Sequence[int]:
        """Return the nodes of a pass that always run, and that no other such node of the pass reads or waits for."""
        return self._ends[own.stage, own.is_backward]

    def device(self, own: Pass) -> int:
        """Return the number of the device of a pass."""
        return own.stage % self._schedule.devices
