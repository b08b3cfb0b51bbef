"""Collectives: ops of one step on several devices that exchange tensors, NCCL's and TensorFlow's own.

Each op of a group waits until all members of the group have arrived; the executor runs it again after `KernelWait`. A group has
a number of members and a key. They are attrs in the first version of an op, inputs in the second, and come from a communicator
in the third. A communicator also gives the members ranks.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial, reduce
from typing import Any, NamedTuple

import numpy as np

from placesim.core.dtypes import INT32
from placesim.core.errors import AlreadyExistsError, InternalError, InvalidArgumentError, OpError, UnimplementedError
from placesim.ops.attributes import Attrs, TensorValue, format_tensor
from placesim.ops.kernels.abstract_tensor import Sketch, joined, stacked
from placesim.ops.kernels.cost_model import DISPATCH, CostModel
from placesim.ops.kernels.device_resources import ResourceHandle
from placesim.ops.kernels.integers import truncated_quotient
from placesim.ops.kernels.kernel import Kernel, KernelContext, KernelWait, Table, Trait
from placesim.ops.kernels.shapes import (
    Dims,
    ShapeContext,
    format_dims,
    infer_by,
    no_outputs,
    replace_dim,
    scalar,
    unchanged,
    with_rank_at_least,
)

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
    """Number of members of a group, a key that is unique among the groups of a step, and the member's rank, if it has one."""

    size: int
    key: tuple[Any, ...]
    rank: int = 0


class _Member(NamedTuple):
    """A member of a group. Members are in the order of their ranks, or of their devices' names."""

    rank: int
    device: str
    node: str


class _Group:
    """Tensors of the members that have arrived with their shapes, None if unknown; and members that have taken their result."""

    def __init__(self) -> None:
        self.arrived: dict[_Member, tuple[Any, Dims]] = {}
        self.taken: set[_Member] = set()


GROUP_ARGUMENTS = ("num_devices", "shared_name", "group_size", "group_key", "instance_key")
"""Attrs or inputs that define a group."""


@dataclass(slots=True)
class _Communicator:
    """The resource of a group whose ops have no keys: each member counts the ops in which it has taken part (`instances`)."""

    size: int
    group: int
    rank: int
    instances: int = 0


_COMMUNICATOR_TYPE = "N10tensorflow12_GLOBAL__N_123CollectiveGroupResourceE"

GroupKeyOf = Callable[[Sequence[Any], Attrs, KernelContext], GroupKey]
Combine = Callable[[Sequence[Any], Attrs, int], Any]
"""A function `(tensors of all members, attrs, number of the member's device) -> the member's result`."""


def nccl_key(inputs: Sequence[Any], attrs: Attrs, context: KernelContext) -> GroupKey:
    """Return the group of an op of NCCL."""
    return GroupKey(attrs["num_devices"], ("nccl", attrs["shared_name"]))


def attr_key(inputs: Sequence[Any], attrs: Attrs, context: KernelContext) -> GroupKey:
    """Return the group of TensorFlow's own op, which attrs define."""
    return GroupKey(attrs["group_size"], (attrs["group_key"], attrs["instance_key"]))


def input_key(inputs: Sequence[Any], attrs: Attrs, context: KernelContext, first: int = 1) -> GroupKey:
    """Return the group of an op of the second version, from its inputs group_size, group_key and instance_key."""
    size, group, instance = (int(value) for value in inputs[first : first + 3])
    return GroupKey(size, (group, instance))


def communicator_key(inputs: Sequence[Any], attrs: Attrs, context: KernelContext) -> GroupKey:
    """Return the group of an op of the third version. Raises UnimplementedError for a group assignment, as TensorFlow does."""
    found: _Communicator = context.resources.lookup(inputs[1], _COMMUNICATOR_TYPE)
    if np.size(inputs[2]):
        raise UnimplementedError("Group assignments are not supported yet.")
    return GroupKey(found.size, (found.group, found.instances), found.rank)


def _exchange(given: Any, dims: Dims, group_key: GroupKey, context: KernelContext) -> tuple[list[Any], int]:
    """Return the tensors of all members, in order, and the number of this member's device. The member expects the shape `dims`.

    Raises KernelWait until all have arrived, and InvalidArgumentError if they expect different shapes.
    """
    name, member = f"collective {group_key.key}", _Member(group_key.rank, context.device, context.node)
    group = context.step_resources.setdefault(name, _Group())
    if member in group.taken:  # in a loop, others still take the result of the iteration before
        raise KernelWait
    group.arrived[member] = given, dims
    if len(group.arrived) < group_key.size:
        raise KernelWait
    members = sorted(group.arrived)
    _check_shapes([(found.device, group.arrived[found][1]) for found in members], group_key.key[1])
    group.taken.add(member)
    if len(group.taken) == group_key.size:
        del context.step_resources[name]
    by_device = sorted(members, key=lambda found: found[1:])  # TensorFlow divides a tensor by devices, not by ranks
    return [group.arrived[found][0] for found in members], by_device.index(member)


def _check_shapes(expected: Sequence[tuple[str, Dims]], instance: object) -> None:
    known = [(device, dims) for device, dims in expected if dims is not None]
    for device, dims in known[1:]:
        if dims != known[0][1]:
            raise _aborted(
                f"Shape mismatch in the collective instance {instance}. Op at device {device} "
                f"expected shape {format_dims(dims)} but another member in the group "
                f"expected shape {format_dims(known[0][1])}. This is likely due to different input shapes "
                "at different members of the collective op."
            )


def _aborted(reason: str, error: type[OpError] = InvalidArgumentError) -> OpError:
    return error(
        f"Collective ops is aborted by: {reason}\nThe error could be from a previous operation. Restart your program to reset."
    )


def _reduce(tensors: Sequence[Any], attrs: Attrs, position: int) -> Any:
    unknown = next((tensor for tensor in tensors if isinstance(tensor, Sketch)), None)
    if unknown is not None:
        return unknown
    name = next(attrs[name] for name in ("reduction", "merge_op") if name in attrs)
    total = reduce(_FUNCTIONS[name], tensors)
    if attrs.get("final_op") != "Div":
        return total
    count = np.asarray(len(tensors), total.dtype)
    return truncated_quotient(total, count) if np.issubdtype(total.dtype, np.integer) else total / count


def _reduce_scatter(tensors: Sequence[Any], attrs: Attrs, position: int) -> Any:
    """Return the member's rows of the reduced tensor. Raises InvalidArgumentError unless each member gets equally many."""
    size, count = tensors[0].shape[0], len(tensors)
    rows, rest = divmod(size, count)
    if rest:
        raise InvalidArgumentError(
            f"cannot scatter a tensor by its first dimension: got {size}, expected a multiple of {count}"
        )
    return _reduce(tensors, attrs, position)[position * rows : (position + 1) * rows]


def _gather(tensors: Sequence[Any], attrs: Attrs, position: int) -> Any:
    return joined(tensors)


def _all_to_all(tensors: Sequence[Any], attrs: Attrs, position: int) -> Any:
    """Return the rows that all members send to this member. Raises InvalidArgumentError unless there is one row per member."""
    size, count = tensors[0].shape[0], len(tensors)
    if size != count:
        raise _aborted(f"input to all-to-all first dimension size ({size}) must be the same as the group size ({count})")
    return stacked([tensor[position] for tensor in tensors])


def _broadcast(tensors: Sequence[Any], attrs: Attrs, position: int) -> Any:
    return next(tensor for tensor in tensors if tensor is not None)


_SPLIT = (_gather, _reduce_scatter, _all_to_all)
"""Combinations along the first dimension of the tensors."""


def _expected_shape(inputs: Sequence[Any], attrs: Attrs, gives: bool, combine: Combine, size: int) -> Dims:
    """Return the shape that TensorFlow compares: of the result of a gather or broadcast, else of the input."""
    if not gives and "shape" in attrs:
        declared: Dims = attrs["shape"].dims
        return declared
    if not gives:
        return None if isinstance(inputs[-1], Sketch) else tuple(int(dim) for dim in inputs[-1])
    dims = tuple(inputs[0].shape)
    if combine in _SPLIT and not dims:
        raise InvalidArgumentError("cannot split or join scalars: got a scalar, expected a tensor of rank 1 or more")
    return (dims[0] * size, *dims[1:]) if combine is _gather else dims


def _member(
    inputs: Sequence[Any],
    attrs: Attrs,
    context: KernelContext,
    *,
    combine: Combine,
    key: GroupKeyOf,
    gives: bool,
    has_result: bool,
) -> Sequence[Any]:
    """Take part in a collective, with the first input if the member `gives` a tensor.

    Raises KernelWait until all members have arrived, InvalidArgumentError for shapes that do not fit, InternalError for a
    reduce-scatter on a CPU, for which TensorFlow has no implementation, and UnimplementedError for a group assignment.
    """
    group_key = key(inputs, attrs, context)
    if combine is _reduce_scatter and ":CPU:" in context.device:
        raise _aborted("CollectiveRegistry::Lookup did not find collective implementation undef", InternalError)
    dims = _expected_shape(inputs, attrs, gives, combine, group_key.size)
    tensors, position = _exchange(inputs[0] if gives else None, dims, group_key, context)
    if key is communicator_key:
        context.resources.lookup(inputs[1], _COMMUNICATOR_TYPE).instances += 1
    result = combine(tensors, attrs, position)
    return (result,) if has_result else ()


def initialize_communicator(inputs: Sequence[Any], attrs: Attrs, context: KernelContext) -> Sequence[Any]:
    """Create the communicator of a group's member from group_key, rank and group_size.

    Raises KernelWait until all members have arrived, InvalidArgumentError for ranks that do not fit, and AlreadyExistsError.
    """
    group, rank, size = (int(value) for value in inputs)
    if rank >= size:
        raise InvalidArgumentError(f"rank must be less than group size but got {rank} >= {size}")
    handle = ResourceHandle(context.device, "collective_op_group", f"{group}:r{rank:04}", _COMMUNICATOR_TYPE)
    if context.resources.find(handle) is not None:
        raise AlreadyExistsError(f"Resource {handle.container}/{handle.name}/{handle.type}")
    ranks, _ = _exchange(rank, None, GroupKey(size, ("communicator", group)), context)
    if len(set(ranks)) < size:
        given = ",".join(map(str, ranks))
        raise InvalidArgumentError(f"Duplicate ranks specified for group members. Received ranks: {given}")
    context.resources.put(handle, _Communicator(size, group, rank))
    return (handle,)


def assign_group(inputs: Sequence[Any], attrs: Attrs) -> Sequence[Any]:
    """Return the size and key of the group, a row of the assignment `[groups, size]`, that has the device's index.

    Raises InvalidArgumentError for an assignment that is no matrix, and for an index that it lacks.
    """
    assignment, index, base = inputs
    if np.ndim(assignment) != 2:
        dims = format_dims(np.shape(assignment))
        raise InvalidArgumentError(f"group_assignment must be a 2-d Tensor, but received tensor of shape: {dims}")
    rows = np.flatnonzero((assignment == index).any(axis=1))
    if not rows.size:
        text = format_tensor(TensorValue(INT32, assignment))
        raise InvalidArgumentError(f"device_index {int(index)} is not found in group_assignment {text}")
    return np.array(assignment.shape[1], np.int32), (base + rows[0]).astype(np.int32)


def _row(
    combine: Combine,
    key: GroupKeyOf,
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


def _infer_rows(context: ShapeContext) -> Sequence[Dims]:
    return (replace_dim(with_rank_at_least(context.shapes[0], 1), 0, -1),)


_ALL_REDUCE, _REDUCE, _BROADCAST = CostModel("all-reduce"), CostModel("reduce"), CostModel("broadcast")
_ALL_GATHER, _ALL_TO_ALL = CostModel("all-gather"), CostModel("all-to-all")
_receiver_key = partial(input_key, first=0)

TABLE: Table = {
    "NcclAllReduce": _row(_reduce, nccl_key, _ALL_REDUCE),
    "_NcclReduceSend": _row(_reduce, nccl_key, _REDUCE, no_outputs, has_result=False),
    "_NcclReduceRecv": _row(_reduce, nccl_key, _REDUCE),
    "_NcclBroadcastSend": _row(_broadcast, nccl_key, _BROADCAST, no_outputs, has_result=False),
    "_NcclBroadcastRecv": _row(_broadcast, nccl_key, _BROADCAST, _infer_value_shape, gives=False),
    "CollectiveReduce": _row(_reduce, attr_key, _ALL_REDUCE),
    "CollectiveReduceV2": _row(_reduce, input_key, _ALL_REDUCE),
    "CollectiveReduceV3": _row(_reduce, communicator_key, _ALL_REDUCE),
    "CollectiveReduceScatterV2": _row(_reduce_scatter, input_key, CostModel("reduce-scatter"), _infer_rows),
    "CollectiveGather": _row(_gather, attr_key, _ALL_GATHER, _infer_attr_shape),
    "CollectiveGatherV2": _row(_gather, input_key, _ALL_GATHER, _infer_rows),
    "CollectiveAllToAllV2": _row(_all_to_all, input_key, _ALL_TO_ALL),
    "CollectiveAllToAllV3": _row(_all_to_all, communicator_key, _ALL_TO_ALL),
    "CollectiveBcastSend": _row(_broadcast, attr_key, _BROADCAST),
    "CollectiveBcastRecv": _row(_broadcast, attr_key, _BROADCAST, _infer_attr_shape, gives=False),
    "CollectiveBcastSendV2": _row(_broadcast, input_key, _BROADCAST),
    "CollectiveBcastRecvV2": _row(_broadcast, _receiver_key, _BROADCAST, _infer_value_shape, gives=False),
    "CollectiveInitializeCommunicator": Kernel(
        initialize_communicator, scalar, needs_context=True, may_wait=True, traits=Trait.MEETS_OTHERS, cost=DISPATCH
    ),
    "CollectiveAssignGroupV2": Kernel(assign_group, infer_by("-> [], []"), cost=DISPATCH),
}
