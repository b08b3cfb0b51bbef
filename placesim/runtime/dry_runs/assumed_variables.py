"""Values of variables that a dry run finds without a value."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from placesim.graph.graph import Graph, Node
from placesim.ops.categories import ASSIGNMENTS, INITIALIZATION_QUERIES
from placesim.ops.kernels.abstract_tensor import Sketch
from placesim.ops.kernels.device_resources import VARIABLE_OPS, ResourceHandle
from placesim.placement.function_bodies import called_functions
from placesim.runtime.dry_runs.assumptions import Assumptions
from placesim.runtime.executors.initial_values import declared_dims, set_value
from placesim.runtime.executors.program import DeviceState
from placesim.runtime.executors.variable_handles import variable_handle
from placesim.runtime.partitioning.pruning import ClientGraph

_ENDS = frozenset((*ASSIGNMENTS, *INITIALIZATION_QUERIES))
"""Ops beyond which no value depends on a variable's old value."""


def initialize_variables(client: ClientGraph, states: Mapping[str, DeviceState], guesses: Assumptions) -> None:
    """Give each variable without a value one of its declared shape, as if a checkpoint had been restored before the step.

    Left as they are: variables of unknown shape, and variables that the step itself initializes, asks for a value or hands to a
    function. `guesses` record the others.
    """
    graph = client.graph
    unset: dict[int, ResourceHandle] = {}
    for node in graph.nodes:
        if node.op in VARIABLE_OPS:
            handle = variable_handle(node, client.devices[node.id].name)
            found = states[handle.device].resources.find(handle)
            if found is None or found.value is None:
                unset[node.id] = handle
    own = _left_to_step(graph, unset) if unset else ()
    for number, handle in unset.items():
        node = graph.nodes[number]
        dims = declared_dims(node)
        if dims is not None and number not in own:
            set_value(handle, node, Sketch(dims, node.attrs["dtype"], node.name), states)
            guesses.initialized.append(node.name)


def _left_to_step(graph: Graph, variables: Collection[int]) -> set[int]:
    """Return the variables that a step initializes, asks for a value or hands to a function.

    An assignment whose value depends on a variable's old value is an update, not an initialization.
    """
    consumers = graph.consumers()
    dependent, stack = set(variables), list(variables)
    while stack:
        for number in consumers[stack.pop()]:
            if number not in dependent and graph.nodes[number].op not in _ENDS:
                dependent.add(number)
                stack.append(number)

    def leaves(node: Node) -> bool:
        if node.op in ASSIGNMENTS:
            return dependent.isdisjoint(node.input_nodes[1:])
        return node.op in INITIALIZATION_QUERIES or any(called_functions(node))

    return {number for number in variables if any(leaves(graph.nodes[reader]) for reader in consumers[number])}
