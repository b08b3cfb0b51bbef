"""Steps of a graph that no session ran: one that initializes, and one that runs everything else."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from placesim.graph.session_steps import Fetch, GraphStep
from placesim.tf1.graphs.graph_keys import GraphKeys

if TYPE_CHECKING:
    from placesim.tf1.graphs.graph import Graph

INITIALISERS = frozenset(
    (
        *("Assign", "AssignVariableOp", "LookupTableImport", "LookupTableImportV2", "MakeIterator"),
        *("InitializeTable", "InitializeTableV2", "InitializeTableFromTextFile", "InitializeTableFromTextFileV2"),
    )
)
"""Ops that only set initial values."""
_WRITERS = frozenset(("SaveV2", "MergeV2Checkpoints", "Save", "SaveSlices", "ShardedFilename"))
"""Ops of a Saver, which the default steps do not run."""


def is_initialisation(elements: Any) -> bool:
    """Whether a step fetches only operations that initialize variables, tables and iterators."""
    waiting = list(elements)
    seen: set[int] = set()
    while waiting:
        operation = waiting.pop()
        if not hasattr(operation, "node"):
            return False
        if operation.node.id in seen:
            continue
        seen.add(operation.node.id)
        if operation.type == "NoOp":
            waiting += operation.control_inputs
        elif operation.type not in INITIALISERS:
            return False
    return True


def default_steps(graph: Graph) -> tuple[GraphStep, ...] | None:
    """The default steps; None for a graph without variables and tables, which needs one step only."""
    known = [
        variable for key in (GraphKeys.GLOBAL_VARIABLES, GraphKeys.LOCAL_VARIABLES) for variable in graph.get_collection(key)
    ]
    names = [variable.initializer.name for variable in known if getattr(variable, "initializer", None) is not None]
    names += [table.name for table in graph.get_collection(GraphKeys.TABLE_INITIALIZERS)]
    if not names:
        return None
    initial = GraphStep(tuple(Fetch(name) for name in dict.fromkeys(names)))
    rest = tuple(_ends(graph))
    return (initial, GraphStep(rest)) if rest else (initial,)


def _ends(graph: Graph) -> Iterator[Fetch]:
    """Fetches of the outputs and operations that no op uses, without initializers and Savers."""
    operations = graph.get_operations()
    used = {tensor.op.name for operation in operations for tensor in operation.inputs}
    used |= {other.name for operation in operations for other in operation.control_inputs}
    for operation in operations:
        if operation.name in used or is_initialisation([operation]) or _saves(operation):
            continue
        values = [
            tensor.name for tensor in operation.outputs if not (tensor.dtype._is_ref_dtype or tensor.dtype.name == "resource")
        ]
        yield from map(Fetch, values or [operation.name])


def _saves(operation: Any) -> bool:
    return any(other.type in _WRITERS for other in (operation, *operation.control_inputs, *(t.op for t in operation.inputs)))
