"""Kernels of the ops for control flow and for transfers, which the executor itself runs.

In a graph without branches or loops these ops can run as ordinary kernels; otherwise `dataflow.py` decides which outputs are
dead.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np

from placesim.core.errors import InternalError, InvalidArgumentError
from placesim.ops.attributes import Attrs
from placesim.ops.kernels.cost_model import DISPATCH
from placesim.ops.kernels.kernel import Kernel, Table, Trait
from placesim.ops.kernels.memory_rules import KernelMemory, UnknownValue, aliases
from placesim.ops.kernels.shapes import Dims, ShapeContext, infer_by, no_outputs, unchanged, unknown_shape, with_rank


def pass_on(inputs: Sequence[Any], attrs: Attrs) -> Sequence[Any]:
    """Return the input itself, of any shape."""
    return (inputs[0],)


def only_in_dataflow(inputs: Sequence[Any], attrs: Attrs) -> Sequence[Any]:
    """Raise InternalError: the outputs depend on the branch taken, so the node is never computed on its own."""
    raise InternalError("Control flow runs in the data-flow executor only")


def only_between_devices(inputs: Sequence[Any], attrs: Attrs) -> Sequence[Any]:
    """Raise InternalError: the executor runs these ops itself."""
    raise InternalError("Sends, receives, arguments and results are carried out by the executor")


def abort(inputs: Sequence[Any], attrs: Attrs) -> Sequence[Any]:
    """Raise InvalidArgumentError: TensorFlow ends its process here, after writing this message."""
    raise InvalidArgumentError(f"Abort_op intentional failure; {attrs['error_msg']}")


def merge_one(inputs: Sequence[Any], attrs: Attrs) -> Sequence[Any]:
    """Return the first input, of any shape, and its number, 0: here all inputs are live, and Merge takes the first."""
    return (inputs[0], np.array(0, np.int32))


def infer_switch(context: ShapeContext) -> Sequence[Dims]:
    """Return the data's shape for both outputs. Raises ShapeError unless the predicate is a scalar."""
    with_rank(context.shapes[1], 0)
    if context.handles and context.handles[0] is not None:
        context.output_handles |= {0: context.handles[0], 1: context.handles[0]}
    return (context.shapes[0], context.shapes[0])


def _infer_switch_n(context: ShapeContext) -> Sequence[Dims]:
    with_rank(context.shapes[1], 0)
    return (context.shapes[0],) * int(context.attrs["num_outs"])


def infer_merge(context: ShapeContext) -> Sequence[Dims]:
    """Return the common shape of all inputs, and a scalar.

    A dimension in which inputs differ is unknown. If ranks differ or one is unknown, the rank is unknown.
    """
    found = context.shapes[0]
    for dims in context.shapes[1:]:
        if found is None or dims is None or len(found) != len(dims):
            return (None, ())
        found = tuple(a if a == b else -1 for a, b in zip(found, dims, strict=True))
    return (found, ())


def switch_memory(memory: KernelMemory) -> None:
    """Give the input's memory to the live output only; if the predicate is unknown, to every output."""
    last = len(memory.outputs) - 1
    try:
        chosen = int(memory.value(1))
        live: int | None = chosen if 0 <= chosen <= last else last
    except UnknownValue:
        live = None
    for output in range(last + 1):
        if live is None or output == live:
            memory.alias(output, 0)
        else:
            memory.leave_out(output)


def merge_memory(memory: KernelMemory) -> None:
    """Pass on the live input's memory, and allocate the second output, the live input's number."""
    live = [index for index, tensor in enumerate(memory.inputs) if tensor.buffer is not None]
    memory.alias(0, live[0] if live else 0)
    memory.allocate(1)


_hand_on = partial(Kernel, traits=Trait.HANDS_ON, cost=DISPATCH)

TABLE: Table = {
    **dict.fromkeys(("Switch", "RefSwitch"), _hand_on(only_in_dataflow, infer_switch, memory=switch_memory)),
    "_SwitchN": _hand_on(only_in_dataflow, _infer_switch_n, memory=switch_memory),
    **dict.fromkeys(("Merge", "RefMerge"), _hand_on(merge_one, infer_merge, memory=merge_memory)),
    **dict.fromkeys(
        ("Enter", "RefEnter", "Exit", "RefExit", "NextIteration", "RefNextIteration"),
        _hand_on(pass_on, unchanged, memory=aliases()),
    ),
    "LoopCond": _hand_on(pass_on, infer_by("x:0 -> x"), memory=aliases()),
    "_Arg": _hand_on(only_between_devices, unknown_shape),
    "_Retval": _hand_on(only_between_devices, no_outputs),
    **dict.fromkeys(("_Send", "_HostSend"), _hand_on(only_between_devices, no_outputs)),
    **dict.fromkeys(("_Recv", "_HostRecv"), _hand_on(only_between_devices, unknown_shape)),
    "Abort": Kernel(abort, no_outputs),
}
