"""`tf.group` and `tf.tuple`: operations that wait for others."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import nullcontext
from typing import Any, overload

from placesim.tf1.graphs.graph import get_default_graph
from placesim.tf1.graphs.tensor import Operation, Tensor
from placesim.tf1.ops.generated_functions import gen
from placesim.tf1.ops.op_arguments import graph_of
from placesim.tf1.sparse.values import IndexedSlices


def group(*inputs: Any, **kwargs: Any) -> Operation:
    """`tf.group`: a NoOp that waits for all inputs.  If they are on several devices, it waits for one NoOp on each."""
    name = kwargs.pop("name", None)
    if kwargs:
        raise ValueError("Unknown keyword arguments: " + ", ".join(kwargs))
    graph = graph_of(_flat(inputs))
    with graph.as_default(), graph.name_scope("group_deps" if name is None else name) as scope:
        by_device: dict[str, list[Operation]] = {}
        if not inputs:
            return gen("NoOp")(name=scope)  # type: ignore[no-any-return]
        for item in _flat(inputs):
            if not hasattr(item, "device"):
                raise TypeError(
                    f"'inputs' should be zero or more (nested) Tensors. Received '{item}' with type '{type(item)}'."
                )
            element: Operation = item if isinstance(item, Operation) else item.op
            by_device.setdefault(item.device, []).append(element)
        if len(by_device) == 1:
            ((device, found),) = by_device.items()
            return _no_op(device, found, scope)
        # so each device sends one signal, not one for each input
        groups = [_no_op(device, by_device[device], None) for device in sorted(by_device)]
        with graph.control_dependencies(groups):
            return gen("NoOp")(name=scope)  # type: ignore[no-any-return]


def _flat(values: Any) -> Iterable[Any]:
    for value in values:
        if isinstance(value, dict):
            yield from _flat([value[key] for key in sorted(value)])
        elif isinstance(value, list | tuple):
            yield from _flat(value)
        elif value is not None:
            yield value


def _no_op(device: str, ops: list[Operation], name: str | None) -> Operation:
    graph = get_default_graph()
    with graph.control_dependencies(ops), graph.device(device) if device else nullcontext():
        return gen("NoOp")(name=name)  # type: ignore[no-any-return]


def gated(tensors: Any, name: str | None = None, control_inputs: Any = None) -> list[Any]:
    """`tf.tuple`: Identities of the tensors; each Identity waits until all tensors are computed."""
    graph = graph_of([item for item in tensors if item is not None])
    with graph.as_default(), graph.name_scope("tuple" if name is None else name):
        gates = [item.op if hasattr(item, "op") else item for item in tensors if item is not None]
        for item in control_inputs or ():
            if isinstance(item, Tensor):
                item = item.op
            elif not isinstance(item, Operation):
                raise TypeError(f"'control_inputs' must only contain Operation or Tensor. Received: {type(item)}")
            gates.append(item)
        if not gates:
            raise ValueError(f"'tensors' must have at least one Tensor. Received: {tensors}.")
        # in the order of their creation, whatever the order of the arguments
        gates = sorted(set(gates), key=lambda op: op._id)
        gate = group(*gates)
        found = []
        for item in tensors:
            if isinstance(item, Tensor | IndexedSlices) or hasattr(item, "_as_graph_element"):
                found.append(with_dependencies([gate], item))
            elif isinstance(item, Operation):
                with graph.control_dependencies([gate]):
                    found.append(gen("NoOp")(name="control_dependency"))
            else:
                found.append(None)
        return found


@overload
def with_dependencies(dependencies: object, output_tensor: Tensor, name: str | None = None) -> Tensor: ...
@overload
def with_dependencies(dependencies: object, output_tensor: object, name: str | None = None) -> Any: ...
def with_dependencies(dependencies: object, output_tensor: object, name: str | None = None) -> Any:
    """An Identity of a tensor, colocated with the tensor, that waits for `dependencies`."""
    graph = get_default_graph()
    with (
        graph.name_scope("control_dependency" if name is None else name) as scope,
        graph.colocate_with(output_tensor),
        graph.control_dependencies(dependencies),
    ):
        if isinstance(output_tensor, IndexedSlices):
            values = gen("Identity")(output_tensor.values, name=scope)
            return IndexedSlices(values, output_tensor.indices, output_tensor.dense_shape)
        return gen("Identity")(output_tensor, name=scope)
