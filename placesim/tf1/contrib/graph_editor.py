"""`tf.contrib.graph_editor`: walks over the ops of a graph."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from placesim.tf1.graphs.tensor import Operation, Tensor


def get_backward_walk_ops(
    seed_ops: Any,
    inclusive: bool = True,
    within_ops: Iterable[Operation] | None = None,
    within_ops_fn: Callable[[Operation], bool] | None = None,
    stop_at_ts: Sequence[Tensor] = (),
    control_inputs: bool = False,
) -> list[Operation]:
    """The given ops, or the ops of the given tensors, and all ops that they depend on; each wave before the next."""

    def neighbours(op: Operation) -> Iterable[Operation]:
        yield from (tensor.op for tensor in op.inputs if tensor not in stop_at_ts)
        if control_inputs:
            yield from op.control_inputs

    seeds = [one.op if isinstance(one, Tensor) else one for one in _listed(seed_ops)]
    return _walk(seeds, inclusive, within_ops, within_ops_fn, neighbours)


def get_forward_walk_ops(
    seed_ops: Any,
    inclusive: bool = True,
    within_ops: Iterable[Operation] | None = None,
    within_ops_fn: Callable[[Operation], bool] | None = None,
    stop_at_ts: Sequence[Tensor] = (),
    control_outputs: Any = None,
) -> list[Operation]:
    """The given ops, or the consumers of the given tensors, and all ops that depend on them; each wave before the next."""

    def neighbours(op: Operation) -> Iterable[Operation]:
        for tensor in op.outputs:
            if tensor not in stop_at_ts:
                yield from tensor.consumers()
        if control_outputs:
            yield from op._control_outputs

    seeds = [op for one in _listed(seed_ops) for op in (one.consumers() if isinstance(one, Tensor) else [one])]
    return _walk(seeds, inclusive, within_ops, within_ops_fn, neighbours)


def _listed(seed_ops: Any) -> Sequence[Any]:
    return seed_ops if isinstance(seed_ops, list | tuple) else [seed_ops]


def _walk(
    seeds: Sequence[Operation],
    inclusive: bool,
    within_ops: Iterable[Operation] | None,
    within_ops_fn: Callable[[Operation], bool] | None,
    neighbours: Callable[[Operation], Iterable[Operation]],
) -> list[Operation]:
    within = None if not within_ops else set(within_ops)
    wave = dict.fromkeys(op for op in seeds if within is None or op in within)
    found = dict(wave)
    started = set(wave)
    while wave:
        wave = dict.fromkeys(
            other
            for op in wave
            for other in neighbours(op)
            if other not in found and (within is None or other in within) and (within_ops_fn is None or within_ops_fn(other))
        )
        found |= wave
    return [op for op in found if inclusive or op not in started]
