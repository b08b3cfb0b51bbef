"""The ops of control flow, for tensors and for references to variables."""

from __future__ import annotations

from collections.abc import Callable

from placesim.tf1.graphs.graph import get_default_graph
from placesim.tf1.graphs.tensor import Operation, Tensor
from placesim.tf1.ops.generated_functions import gen

LOOP_EXITS = frozenset(("Exit", "RefExit"))
LOOP_ENTERS = frozenset(("Enter", "RefEnter"))
SWITCHES = frozenset(("Switch", "RefSwitch"))
MERGES = frozenset(("Merge", "RefMerge"))


def _of(op: str, tensor: Tensor) -> Callable[..., Tensor]:
    return gen("Ref" + op if tensor._is_ref else op)


def switch_colocated(tensor: Tensor, pred: Tensor) -> tuple[Tensor, Tensor]:
    """Make a Switch colocated with its input.  Returns its outputs for false and for true."""
    # a Switch only forwards, so it stays with its data (8.10)
    with get_default_graph().colocate_with(tensor, ignore_existing=True):
        when_false, when_true = _of("Switch", tensor)(tensor, pred, name="Switch")
    return when_false, when_true


def merge(tensors: list[Tensor]) -> Tensor:
    """Make a Merge, whose output is the first available input."""
    # a mix of references and values gives a value
    op = "RefMerge" if all(tensor._is_ref for tensor in tensors) else "Merge"
    found: Tensor = gen(op)(tensors, name="Merge")[0]
    return found


def enter(tensor: Tensor, frame_name: str, is_constant: bool, parallel_iterations: int, keeps_shape: bool = True) -> Tensor:
    """Pass a tensor into a loop.  Without `keeps_shape` its static shape is unknown there."""
    found = _of("Enter", tensor)(tensor, frame_name, is_constant, parallel_iterations)
    found.graph.shapes.settle(found.op.node.id, tensor.sizes if keeps_shape else None)
    return found


def leave(tensor: Tensor) -> Tensor:
    """Pass a loop's tensor out of the loop."""
    return _of("Exit", tensor)(tensor)


def next_iteration(tensor: Tensor) -> Tensor:
    """Pass a tensor to the next iteration."""
    return _of("NextIteration", tensor)(tensor)


def pass_on(tensor: Tensor) -> Tensor:
    """An Identity, or a RefIdentity of a reference."""
    return _of("Identity", tensor)(tensor)


def is_loop_constant(op: Operation) -> bool:
    """Whether an op is an Enter of a loop constant."""
    return op.type in LOOP_ENTERS and bool(op.get_attr("is_constant"))
