"""Conversion of a step's executions to its nodes and the dependencies between them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
from scipy.sparse import csr_array
from scipy.sparse.csgraph import connected_components

from placesim.ops.categories import RECEIVES, SENDS
from placesim.runtime.partitioning.prepared_step import PreparedStep
from placesim.runtime.recording.recorder import Execution


@dataclass
class StepNode:
    """A node that runs in the step, with its executions.

    `is_own` is set if it belongs to the graph, and not to a function's body.
    """

    name: str
    op: str
    device: str
    is_own: bool
    executions: list[Execution] = field(default_factory=list)


class StepNodes(NamedTuple):
    """Nodes by number, with the nodes whose tensors each reads (`inputs`), and the nodes that it only waits for (`controls`).

    `of_execution` has the node that each execution runs; for a transfer, the nodes whose outputs it carries.
    """

    nodes: list[StepNode]
    inputs: list[set[int]]
    controls: list[set[int]]
    of_execution: list[tuple[int, ...]]

    def joined(self) -> list[int]:
        """Return the number of each node's cycle; nodes that wait for each other share a number."""
        pairs = [(node, source) for node, row in enumerate(self.inputs) for source in (*row, *self.controls[node])]
        if not pairs:
            return list(range(len(self.nodes)))
        rows, columns = ([pair[n] for pair in pairs] for n in (0, 1))
        graph = csr_array((np.ones(len(pairs), bool), (rows, columns)), (len(self.nodes), len(self.nodes)))
        _, labels = connected_components(graph, directed=True, connection="strong")
        return [int(label) for label in labels]


def find_nodes(prepared: PreparedStep, step: Sequence[Execution]) -> StepNodes:
    """Return the nodes that ran, in the order of their first runs; transfers are replaced by their sources."""
    client = prepared.client.graph
    own = {id(node) for part in prepared.partitions.parts for node in part.graph.nodes if node.name in client.ids}
    found = StepNodes([], [], [], [])
    numbers: dict[tuple[str, int], int] = {}
    data: list[set[str] | None] = []
    node_of: list[tuple[int, ...]] = []
    for execution in step:
        site = execution.site
        if site is None or execution.is_dead or site.instruction.node.op in SENDS or site.instruction.node.op in RECEIVES:
            node_of.append(())
            continue
        node = site.instruction.node
        is_own = id(node) in own
        number = numbers.setdefault((node.name, 0 if is_own else id(node)), len(numbers))
        if number == len(found.nodes):
            found.nodes.append(StepNode(node.name, node.op, site.program.state.device.name, is_own))
            found.inputs.append(set())
            found.controls.append(set())
            read = client.node(node.name).input_nodes if is_own else ()
            data.append({client.nodes[source].name for source in read} if is_own else None)
        found.nodes[number].executions.append(execution)
        node_of.append((number,))
    # only now, as a reader of a collective also waits for members that run after it
    for index, execution in enumerate(step):
        sources = {node for source in execution.sources for node in node_of[source]}
        if not node_of[index]:
            node_of[index] = tuple(sources)
            continue
        (number,) = node_of[index]
        read_names = data[number]
        for source in sources:
            other = found.nodes[source]
            is_control = read_names is not None and other.is_own and other.name not in read_names
            (found.controls if is_control else found.inputs)[number].add(source)
    for number, controls in enumerate(found.controls):
        controls -= found.inputs[number]
    found.of_execution.extend(node_of)
    return found


def merge_steps(steps: Sequence[StepNodes]) -> tuple[StepNodes, list[list[int]]]:
    """Merge the nodes of several steps.  Return the merged nodes, and for each step the new number of each of its nodes.

    `of_execution` of the result is empty.
    """
    merged = StepNodes([], [], [], [])
    numbers: dict[tuple[str, str], int] = {}
    placed: list[list[int]] = []
    for step in steps:
        own = []
        for node in step.nodes:
            number = numbers.setdefault((node.name, "" if node.is_own else node.device), len(numbers))
            if number == len(merged.nodes):
                merged.nodes.append(StepNode(node.name, node.op, node.device, node.is_own))
                merged.inputs.append(set())
                merged.controls.append(set())
            merged.nodes[number].executions.extend(node.executions)
            own.append(number)
        placed.append(own)
        for number, node_inputs, node_controls in zip(own, step.inputs, step.controls, strict=True):
            merged.inputs[number].update(own[source] for source in node_inputs)
            merged.controls[number].update(own[source] for source in node_controls)
    return merged, placed
