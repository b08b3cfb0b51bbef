"""Automatic control dependencies: stateful ops of a function's body run in the order of their creation."""

from __future__ import annotations

from collections.abc import Iterable

from placesim.tf1.functions.calls import reads_only
from placesim.tf1.functions.function_graph import FunctionGraph
from placesim.tf1.graphs.tensor import Operation, Tensor
from placesim.tf1.ops.generated_functions import gen

_RANDOM = (
    "RandomUniform RandomUniformInt RandomStandardNormal ParameterizedTruncatedNormal TruncatedNormal RandomShuffle "
    "Multinomial RandomGamma RandomGammaGrad RandomPoisson RandomPoissonV2 VarHandleOp"
)
_FREE = frozenset(_RANDOM.split())
"""Stateful ops that need not run, and that may run in any order."""


def order_effects(body: FunctionGraph, first: int, returned: Iterable[Tensor]) -> None:
    """Order the stateful ops from node `first` on by control inputs; returned tensors wait for all of them.

    A writer of a resource waits for the readers since the last writer, else for the last writer; a reader waits for the last
    writer.  A stateful op without resources waits for the previous one.
    """
    must_run: list[Operation] = []
    writers: dict[Tensor | None, Operation] = {}
    readers: dict[Tensor, list[Operation]] = {}
    for op in body._operations[first:]:
        if not op._is_stateful or op.type in _FREE:
            continue
        must_run.append(op)
        waits: dict[Operation, None] = {}
        resources = list(dict.fromkeys(tensor for tensor in op.inputs if tensor.dtype.name == "resource"))
        for resource in resources:
            _order_access(op, resource, waits, writers, readers)
        if not resources:
            if None in writers:
                waits[writers[None]] = None
            writers[None] = op
        if waits:
            op._add_control_inputs(list(waits))
    if not must_run:
        return
    must_run.sort(key=lambda op: op.name)
    body.control_outputs.extend(must_run)
    last = list(returned)
    if last:
        with body.name_scope(None), body.control_dependencies(None):
            done = gen("NoOp")()
            done._add_control_inputs(must_run)
        for tensor in last:
            tensor.op._add_control_input(done)


def _order_access(
    op: Operation,
    resource: Tensor,
    waits: dict[Operation, None],
    writers: dict[Tensor | None, Operation],
    readers: dict[Tensor, list[Operation]],
) -> None:
    writer = writers.get(resource)
    if reads_only(op, resource):
        if writer is not None:
            waits[writer] = None
        readers.setdefault(resource, []).append(op)
        return
    since = readers.pop(resource, [])
    waits |= dict.fromkeys(since)
    if writer is not None and not since:
        waits[writer] = None
    writers[resource] = op
