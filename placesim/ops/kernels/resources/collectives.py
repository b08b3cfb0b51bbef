"""Collectives: ops of one step on several devices that exchange tensors, NCCL's and TensorFlow's own.

Each op of a group waits until all of the group have arrived; the executor tries it again after `KernelWait`. A group has a
number of members and a key, from attrs or, in the second version of an op, from inputs. Members are in the order of their
devices' names.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial, reduce
from typing import Any, NamedTuple

import numpy as np

from placesim.core.errors import InvalidArgumentError
from placesim.ops.attributes import Attrs
from placesim.ops.kernels.abstract_tensor import Sketch, joined
from placesim.ops.kernels.cost_model import CostModel
from placesim.ops.kernels.integers import truncated_quotient
from placesim.ops.kernels.kernel import Kernel, KernelContext, KernelWait, Table, Trait
from placesim.ops.kernels.shapes import Dims, ShapeContext, no_outputs, unchanged

_FUNCTIONS: dict[str, Callable[[Any, Any], Any]] = {
    "sum": np.add,
    "prod": np.multiply,
    "min": np.minimum,
    "max": np.maximum,
    "Add": np.add,
    "Mul": np.multiply,
    "Min": np.minimum,
    "Max": np.maximum,
}


class GroupKey(NamedTuple):
    """Number of members of a group, and the key that tells it from other groups of a step."""

    size: int
    key: tuple[Any, ...]


class _Group:
    """Tensors of the members that have arrived, and the members that have taken their result."""

    def __init__(self) -> None:
        self.tensors: dict[tuple[str, str], Any] = {}
        self.taken: set[tuple[str, str]] = set()


GROUP_ARGUMENTS = ("num_devices", "shared_name", "group_size", "group_key", "instance_key")
"""Attrs or inputs that define a group, in the three functions below."""


def nccl_key(attrs: Attrs) -> GroupKey:
    """Return the group of an op of NCCL."""
    return GroupKey(attrs["num_devices"], ("nccl", attrs["shared_name"]))


def attr_key(attrs: Attrs) -> GroupKey:
    """Return the group of TensorFlow's own op, which attrs define."""
    return GroupKey(attrs["group_size"], (attrs["group_key"], attrs["instance_key"]))


def input_key(values: Sequence[Any]) -> GroupKey:
    """Return the group of an op of the second version, from the inputs group_size, group_key and instance_key."""
    size, group, instance = (int(value) for value in values[:3])
    return GroupKey(size, (group, instance))


def _exchange(given: Any, group_key: GroupKey, context: KernelContext) -> list[Any]:
    """Return the tensors of all members, in order. Raises KernelWait until all have arrived."""
    name, member = f"collective {group_key.key}", (context.device, context.node)
    group = context.step_resources.setdefault(name, _Group())
    if member in group.taken:  # in a loop, others still take the result of the iteration before
        raise KernelWait
    group.tensors[member] = given
    if len(group.tensors) < group_key.size:
        raise KernelWait
    group.taken.add(member)
    if len(group.taken) == group_key.size:
        del context.step_resources[name]
    return [group.tensors[member] for member in sorted(group.tensors)]


def _reduce(tensors: Sequence[Any], attrs: Attrs) -> Any:
    if len({tuple(tensor.shape) for tensor in tensors}) > 1:
        shapes = ", ".join(str(list(tensor.shape)) for tensor in tensors)
        raise InvalidArgumentError(f"members of a collective have different shapes: got {shapes}, expected equal shapes")
    unknown = next((tensor for tensor in tensors if isinstance(tensor, Sketch)), None)
    if unknown is not None:
        return unknown
    total = reduce(_FUNCTIONS[attrs["reduction" if "reduction" in attrs else "merge_op"]], tensors)
    if attrs.get("final_op") != "Div":
        return total
    count = np.asarray(len(tensors), total.dtype)
    return truncated_quotient(total, count) if np.issubdtype(total.dtype, np.integer) else total / count


def _gather(tensors: Sequence[Any], attrs: Attrs) -> Any:
    return joined(tensors)


def _broadcast(tensors: Sequence[Any], attrs: Attrs) -> Any:
    return next(tensor for tensor in tensors if tensor is not None)


def _member(
    inputs: Sequence[Any],
    attrs: Attrs,
    context: KernelContext,
    *,
    combine: Callable[[Sequence[Any], Attrs], Any],
    key: Callable[[Attrs], GroupKey] | None,
    gives: bool,
    has_result: bool = True,
) -> Sequence[Any]:
    """Take part in a collective, with the first input if the member `gives` a tensor.

    Raises KernelWait until all members have arrived, and InvalidArgumentError for a reduction of different shapes.
    """
    group_key = input_key(inputs[int(gives) :]) if key is None else key(attrs)
    result = combine(_exchange(inputs[0] if gives else None, group_key, context), attrs)
    return (result,) if has_result else ()


def _row(
    combine: Callable[[Sequence[Any], Attrs], Any],
    key: Callable[[Attrs], GroupKey] | None,
    kind: CostModel,
    shape: Callable[[ShapeContext], Sequence[Dims]] = unchanged,
    *,
    gives: bool = True,
    has_result: bool = True,
) -> Kernel:
    compute = partial(_member, combine=combine, key=key, gives=gives, has_result=has_result)
    return Kernel(compute, shape, needs_context=True, may_wait=True, traits=Trait.MEETS_OTHERS, cost=kind)


def _infer_attr_shape(context: ShapeContext) -> Sequence[Dims]:
    return (context.attrs["shape"].dims,)


def _infer_value_shape(context: ShapeContext) -> Sequence[Dims]:
    return (context.shape_value(len(context.shapes) - 1),)


_ALL_REDUCE, _REDUCE, _BROADCAST = CostModel("all-reduce"), CostModel("reduce"), CostModel("broadcast")

TABLE: Table = {
    "NcclAllReduce": _row(_reduce, nccl_key, _ALL_REDUCE),
    "_NcclReduceSend": _row(_reduce, nccl_key, _REDUCE, no_outputs, has_result=False),
    "_NcclReduceRecv": _row(_reduce, nccl_key, _REDUCE),
    "_NcclBroadcastSend": _row(_broadcast, nccl_key, _BROADCAST, no_outputs, has_result=False),
    "_NcclBroadcastRecv": _row(_broadcast, nccl_key, _BROADCAST, _infer_value_shape, gives=False),
    "CollectiveReduce": _row(_reduce, attr_key, _ALL_REDUCE),
    "CollectiveReduceV2": _row(_reduce, None, _ALL_REDUCE),
    "CollectiveGather": _row(_gather, attr_key, CostModel("all-gather"), _infer_attr_shape),
    "CollectiveBcastSend": _row(_broadcast, attr_key, _BROADCAST),
    "CollectiveBcastRecv": _row(_broadcast, attr_key, _BROADCAST, _infer_attr_shape, gives=False),
    "CollectiveBcastSendV2": _row(_broadcast, None, _BROADCAST),
    "CollectiveBcastRecvV2": _row(_broadcast, None, _BROADCAST, _infer_value_shape, gives=False),
}
