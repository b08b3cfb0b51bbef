"""Comparison of a predicted step with measured steps, node by node.

Nodes are matched by name, and copies by the name of their tensor. If the optimizer of the measured session (Grappler) replaced
a node by another op, such as a fused one, the measured node is compared with all nodes that it replaces: the node with its
name, and the preceding nodes that did not run.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from statistics import median
from typing import NamedTuple

from placesim.core.errors import UsageError
from placesim.machine.timelines.measured_steps import COPY, HOST, KERNEL, TRANSFER, MeasuredStep, Measurement
from placesim.ops.categories import CALLS, CONSTANTS, FUNCTION_ENDS, IDENTITIES, SINGLE_DEVICE_CALLS, VARIABLE_READS, VARIABLES
from placesim.prediction.measured_comparison import (
    ABSENT,
    ADDED,
    LAUNCHED,
    MEASURED,
    MOVED,
    NO_COPY,
    PREDICTED,
    STARTED,
    ComparedNode,
    MeasuredComparison,
    UnmatchedNodes,
)
from placesim.prediction.time_breakdown import NodeCost, TimeStudy, dearest_nodes
from placesim.runtime.recording.recorder import Execution

_CALLING = frozenset((*CALLS, *SINGLE_DEVICE_CALLS))
"""Ops whose recorded time includes the nodes of the functions that they call."""
_HOLDERS = frozenset((*CONSTANTS, *VARIABLES, *IDENTITIES, *FUNCTION_ENDS, *VARIABLE_READS))
"""Ops that are never fused. The profiler omits them since they take little time."""
_NAMES = 3
"""Maximum number of names that are kept for a group of unmatched nodes."""
_COPIED = "transfer"
_MOST_MATCHES = 0.5
"""Minimum number of matches of a step, as a share of the best step's matches.

Steps with fewer are other steps, such as initializers.
"""


def compare_step(study: TimeStudy, step: Sequence[Execution], measurement: Measurement) -> MeasuredComparison:
    """Compare the predicted last step of `study`, whose executions are `step`, with the measurement.

    Raises UsageError if the measurement has no node of the graph.
    """
    predicted = {cost.node: cost for cost in reversed(dearest_nodes(study, len(study.nodes)))}
    kept = _matching_steps(measurement.steps, predicted)
    nodes = _Nodes(study, predicted, _inputs(step), _medians(kept))
    return MeasuredComparison(
        measurement.format,
        len(kept),
        study.step.seconds,
        median(step.seconds for step in kept),
        nodes.measured_seconds,
        tuple(sorted(nodes.rows, key=lambda row: (-max(row.measured, row.predicted), row.node))),
        tuple(nodes.unmatched()),
    )


def _matching_steps(steps: Sequence[MeasuredStep], predicted: Mapping[str, NodeCost]) -> list[MeasuredStep]:
    own = {name for name, cost in predicted.items() if cost.op not in FUNCTION_ENDS}  # graphs with the same feeds share these
    matches = [len(own.intersection(run.name for run in step.runs)) for step in steps]
    if not any(matches):
        recorded = list(dict.fromkeys(run.name for step in steps for run in step.runs))
        raise UsageError(
            f"the measurement is of another graph: got nodes such as {', '.join(recorded[:_NAMES])}, expected nodes such as "
            f"{', '.join(list(predicted)[-_NAMES:])}"
        )
    return [step for step, count in zip(steps, matches, strict=True) if count >= _MOST_MATCHES * max(matches)]


class _MeasuredNode(NamedTuple):
    op: str
    seconds: float


def _medians(steps: Sequence[MeasuredStep]) -> dict[tuple[str, str], _MeasuredNode]:
    """Return by kind and name the median of the seconds in a step, over the steps that run the node."""
    ops: dict[tuple[str, str], str] = {}
    seconds: dict[tuple[str, str], list[float]] = {}
    for step in steps:
        own: dict[tuple[str, str], float] = {}
        for run in step.runs:
            key = run.kind, run.name
            ops[key] = run.op or ops.get(key, "")
            own[key] = own.get(key, 0.0) + run.seconds
        for key, total in own.items():
            seconds.setdefault(key, []).append(total)
    return {key: _MeasuredNode(ops[key], median(found)) for key, found in seconds.items()}


def _inputs(step: Sequence[Execution]) -> dict[str, list[str]]:
    """Return the names of the nodes that each node waits for."""
    names = ["" if execution.site is None else execution.site.name for execution in step]
    found: dict[str, list[str]] = {}
    for name, execution in zip(names, step, strict=True):
        found.setdefault(name, []).extend(names[source] for source in execution.sources)
    return found


class _Nodes:
    """Rows of matched nodes, and groups of unmatched nodes."""

    def __init__(
        self,
        study: TimeStudy,
        predicted: Mapping[str, NodeCost],
        inputs: Mapping[str, Sequence[str]],
        measured: Mapping[tuple[str, str], _MeasuredNode],
    ) -> None:
        self.rows: list[ComparedNode] = []
        self.measured_seconds = 0.0
        self._predicted = predicted
        self._inputs = inputs
        self._groups: dict[tuple[str, str], list[tuple[float, str]]] = {}
        self._done: set[str] = set()
        self._recorded = {name for kind, name in measured if kind in (HOST, KERNEL)}
        launched = {name for kind, name in measured if kind == KERNEL}  # on the host, these nodes only launch their kernels
        for (kind, name), node in measured.items():
            if node.op in _CALLING:
                self._done.add(name)
            elif kind == TRANSFER:
                self.measured_seconds += node.seconds
                self._leave(MEASURED, STARTED, name, node.seconds)
            elif kind == KERNEL or (kind == HOST and name not in launched):
                self._match(kind, name, node, is_recorded=bool(launched))
        self._match_copies(study, {name: node for (kind, name), node in measured.items() if kind == COPY})
        for name, cost in predicted.items():
            if name not in self._done:
                self._leave(PREDICTED, ABSENT, name, cost.seconds)

    def _match(self, kind: str, name: str, node: _MeasuredNode, *, is_recorded: bool) -> None:
        """Compare a node; `is_recorded` is set if the measurement has kernels of GPUs."""
        cost = self._predicted.get(name)
        if kind == HOST and cost is not None and not cost.stream.endswith("host"):
            if not is_recorded:
                self._done.add(name)
                self._leave(MEASURED, LAUNCHED, name, node.seconds)
            elif not cost.seconds:
                self._done.add(name)  # it computes nothing, so that it has no kernel
            return
        self.measured_seconds += node.seconds
        if cost is None:
            self._leave(MEASURED, ADDED, name, node.seconds)
            return
        costs = [cost, *(self._replaced(name) if node.op not in ("", cost.op) else ())]
        self._done.update(part.node for part in costs)
        seconds, low, high = (
            sum(column) for column in zip(*((part.seconds, part.low, part.high) for part in costs), strict=True)
        )
        self.rows.append(
            ComparedNode(
                name, node.op or cost.op, cost.device, seconds, low, high, node.seconds, tuple(part.node for part in costs[1:])
            )
        )

    def _replaced(self, name: str) -> list[NodeCost]:
        """Return the unrecorded nodes before `name`. The search ends at recorded nodes and at nodes that only hold a value."""
        found, waiting = [], list(self._inputs.get(name, ()))
        while waiting:
            source = waiting.pop()
            cost = self._predicted.get(source)
            if cost is None or cost.op in _HOLDERS or source in self._recorded or source in self._done:
                continue
            self._done.add(source)
            found.append(cost)
            waiting += self._inputs.get(source, ())
        return found

    def _match_copies(self, study: TimeStudy, copies: Mapping[str, _MeasuredNode]) -> None:
        moved: dict[str, float] = {}
        devices: dict[str, str] = {}
        for run in study.transfers:
            moved[run.tensor] = moved.get(run.tensor, 0.0) + run.end - run.start
            devices[run.tensor] = run.receiver
        for name, copy in copies.items():
            self.measured_seconds += copy.seconds
            if name in moved:
                own = moved.pop(name)
                self.rows.append(ComparedNode(name, copy.op or _COPIED, devices[name], own, own, own, copy.seconds))
            else:
                self._leave(MEASURED, MOVED, name, copy.seconds)
        for name, seconds in moved.items():
            self._leave(PREDICTED, NO_COPY, name, seconds)

    def _leave(self, side: str, reason: str, name: str, seconds: float) -> None:
        self._groups.setdefault((side, reason), []).append((seconds, name))

    def unmatched(self) -> Iterable[UnmatchedNodes]:
        for (side, reason), found in self._groups.items():
            ordered = sorted(found, key=lambda entry: (-entry[0], entry[1]))
            names = tuple(name for _, name in ordered[:_NAMES])
            yield UnmatchedNodes(side, reason, len(found), sum(seconds for seconds, _ in found), names)
