"""Find the tensors and operations of a graph by name."""

from __future__ import annotations

from typing import Any, cast

from placesim.graph.builder import ScopedGraphBuilder
from placesim.tf1.graphs.tensor import Operation, OwningGraph, Tensor

_TENSOR_NAMES = 'Tensor names must be of the form "<op_name>:<output_index>".'


class Elements:
    """The methods of a Graph that find its operations and tensors."""

    builder: ScopedGraphBuilder
    _operations: list[Operation]

    def get_operations(self) -> list[Operation]:
        """All operations, in the order they were made."""
        return list(self._operations)

    def get_operation_by_name(self, name: str) -> Operation:
        """Return an operation.  Raises KeyError for an unknown name, ValueError for a tensor's name, TypeError for another
        type.
        """
        if not isinstance(name, str):
            raise TypeError(f"Operation names are strings (or similar), not {type(name).__name__}.")
        return self.as_graph_element(name, allow_tensor=False, allow_operation=True)  # type: ignore[no-any-return]

    def get_tensor_by_name(self, name: str) -> Tensor:
        """Return a tensor.  Raises KeyError for an unknown name, ValueError for an operation's name, TypeError for another
        type.
        """
        if not isinstance(name, str):
            raise TypeError(f"Tensor names are strings (or similar), not {type(name).__name__}.")
        return self.as_graph_element(name, allow_tensor=True, allow_operation=False)  # type: ignore[no-any-return]

    def as_graph_element(self, obj: object, allow_tensor: bool = True, allow_operation: bool = True) -> Any:
        """The tensor or operation of a name, or the object itself.  Raises KeyError, ValueError or TypeError."""
        return find_element(cast("OwningGraph", self), obj, allow_tensor, allow_operation)

    _as_graph_element_locked = as_graph_element

    def _get_operation_by_name(self, name: str) -> Operation:
        return self._operations[self.builder.graph.ids[name]]

    _get_operation_by_name_unsafe = _get_operation_by_name


def find_element(graph: OwningGraph, obj: object, allow_tensor: bool, allow_operation: bool) -> Any:
    """The tensor or operation that a name or object means.  Raises KeyError, ValueError or TypeError."""
    kinds = [kind for kind, allowed in ((Tensor, allow_tensor), (Operation, allow_operation)) if allowed]
    if not kinds:
        raise ValueError("allow_tensor and allow_operation can't both be False.")
    convert = getattr(obj, "_as_graph_element", None)
    if convert is not None:
        obj = convert()
    if isinstance(obj, bytes):
        obj = obj.decode()
    if isinstance(obj, str):
        return _find_name(graph, obj, allow_tensor, allow_operation)
    for kind in kinds:
        if isinstance(obj, kind):
            if obj.graph is not graph:
                raise ValueError(f"{kind.__name__} {obj} is not an element of this graph.")
            return obj
    raise TypeError(f"Can not convert a {type(obj).__name__} into a {' or '.join(kind.__name__ for kind in kinds)}.")


def _find_name(graph: OwningGraph, name: str, allow_tensor: bool, allow_operation: bool) -> Any:
    ids = graph.builder.graph.ids
    if ":" in name and allow_tensor:
        return _find_tensor(graph, name)
    if ":" not in name and allow_operation:
        if name not in ids:
            raise KeyError(f"The name {name!r} refers to an Operation not in the graph.")
        return graph._operations[ids[name]]
    if ":" not in name:
        found = "refers to an Operation" if name in ids else "looks like an (invalid) Operation name"
        raise ValueError(f"The name {name!r} {found}, not a Tensor. {_TENSOR_NAMES}")
    raise ValueError(f"Name {name!r} appears to refer to a Tensor, not a Operation.")


def _find_tensor(graph: OwningGraph, name: str) -> Tensor:
    ids = graph.builder.graph.ids
    op_name, _, index = name.partition(":")
    try:
        slot = int(index)
    except ValueError:
        raise ValueError(f"The name {name!r} looks a like a Tensor name, but is not a valid one. {_TENSOR_NAMES}") from None
    if op_name not in ids:
        raise KeyError(
            f"The name {name!r} refers to a Tensor which does not exist. The operation, {op_name!r}, does not exist in the "
            "graph."
        )
    operation = graph._operations[ids[op_name]]
    if not -len(operation.outputs) <= slot < len(operation.outputs):
        raise KeyError(
            f"The name {name!r} refers to a Tensor which does not exist. The operation, {op_name!r}, exists but only has "
            f"{len(operation.outputs)} outputs."
        )
    return operation.outputs[slot]
