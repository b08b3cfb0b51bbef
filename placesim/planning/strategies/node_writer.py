"""A writer of new nodes by name, with the ops that strategies add: splits, sums, means and concatenations."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np

from placesim.core.dtypes import INT32, DataType
from placesim.graph.graph import Graph, Node, NodeDef
from placesim.ops.attributes import Attrs, TensorValue

CPU = "/device:CPU:0"
_LABEL = "loc:@"


def gpu(number: int) -> str:
    """Return the request of a GPU."""
    return f"/device:GPU:{number}"


def with_labels(graph: Graph, node: Node, name_of: Callable[[Node], str | None]) -> Attrs:
    """Return a node's attrs with new names in its colocation labels. A label is dropped if its new name is None."""
    labels = node.attrs.get("_class")
    if not isinstance(labels, tuple):
        return node.attrs
    kept = []
    for label in labels:
        holder = graph.ids.get(label.removeprefix(_LABEL))
        name = label.removeprefix(_LABEL) if holder is None else name_of(graph.nodes[holder])
        kept += [] if name is None else [f"{_LABEL}{name}"]
    others = {key: value for key, value in node.attrs.items() if key != "_class"}
    return others | {"_class": tuple(kept)} if kept else others


class NodeWriter:
    """Nodes in the order in which they are added. Methods return the name of the new node's output."""

    def __init__(self, reserved: Iterable[str] = ()) -> None:
        self.nodes: list[NodeDef] = []
        self._names = set(reserved)

    def unique(self, name: str) -> str:
        """Return the name, with a suffix `_1`, `_2`, ... if it is taken, and reserve it."""
        found, number = name, 0
        while found in self._names:
            number += 1
            found = f"{name}_{number}"
        self._names.add(found)
        return found

    def add(self, name: str, op: str, inputs: Sequence[str], device: str = "", attrs: Attrs | None = None) -> str:
        """Add a node; a name that is not new to the graph gets a suffix."""
        found = self.unique(name)
        self.nodes.append(NodeDef(found, op, tuple(inputs), device, attrs or {}))
        return found

    def constant(self, name: str, value: Any, dtype: DataType, device: str = "") -> str:
        array = np.array(value, dtype.numpy)
        return self.add(name, "Const", (), device, {"dtype": dtype, "value": TensorValue(dtype, array)})

    def split(self, name: str, tensor: str, axis: int, count: int, dtype: DataType, device: str = CPU) -> list[str]:
        """Split a tensor into equal parts, and return the parts."""
        dimension = self.constant(f"{name}/split_dim", axis, INT32, device)
        found = self.add(name, "Split", (dimension, tensor), device, {"num_split": count, "T": dtype})
        return [f"{found}:{i}" if i else found for i in range(count)]

    def total(self, name: str, tensors: Sequence[str], dtype: DataType, device: str = CPU, factor: float = 1.0) -> str:
        """Add tensors, and multiply the sum by a factor. Node names are those of an entry `train` with `apply`."""
        if factor == 1.0:
            return self._sum(name, tensors, dtype, device)
        total = self._sum(f"{name}/sum", tensors, dtype, device)
        return self.scaled(name, total, dtype, factor, device)

    def _sum(self, name: str, tensors: Sequence[str], dtype: DataType, device: str) -> str:
        return self.add(name, "AddN", tensors, device, {"N": len(tensors), "T": dtype})

    def scaled(self, name: str, tensor: str, dtype: DataType, factor: float, device: str = "") -> str:
        """Multiply a tensor by a factor. For the factor 1, add an identity."""
        if factor == 1.0:
            return self.identity(name, tensor, dtype, device)
        return self.product(name, tensor, self.constant(f"{name}/y", factor, dtype, device), dtype, device)

    def product(self, name: str, tensor: str, other: str, dtype: DataType, device: str = "") -> str:
        return self.add(name, "Mul", (tensor, other), device, {"T": dtype})

    def added(self, name: str, tensor: str, other: str, dtype: DataType, device: str = "") -> str:
        """Add two tensors of any shapes that broadcast."""
        return self.add(name, "AddV2", (tensor, other), device, {"T": dtype})

    def cast(self, name: str, tensor: str, source: DataType, target: DataType, device: str = "") -> str:
        return self.add(name, "Cast", (tensor,), device, {"SrcT": source, "DstT": target})

    def concatenation(self, name: str, tensors: Sequence[str], axis: int, dtype: DataType, device: str = CPU) -> str:
        dimension = self.constant(f"{name}/axis", axis, INT32, device)
        return self.add(name, "ConcatV2", (*tensors, dimension), device, {"N": len(tensors), "T": dtype})

    def identity(self, name: str, tensor: str, dtype: DataType, device: str = "", after: Iterable[str] = ()) -> str:
        """Pass a tensor on once the nodes `after` have run."""
        return self.add(name, "Identity", (tensor, *(f"^{node}" for node in after)), device, {"T": dtype})

    def group(self, name: str, nodes: Iterable[str], device: str = "") -> str:
        """Add a node that waits for others."""
        return self.add(name, "NoOp", [f"^{node}" for node in nodes], device)

    def later_read(self, name: str, variable: Node, dtype: DataType, after: Iterable[str]) -> str:
        """Read a reference variable on its own device once the nodes `after` have run."""
        attrs = {"T": dtype, "_class": (f"{_LABEL}{variable.name}",)}
        return self.add(name, "Identity", (variable.name, *(f"^{node}" for node in after)), variable.device, attrs)

    def reshape(self, name: str, tensor: str, shape: Sequence[int], dtype: DataType, device: str = "") -> str:
        dims = self.constant(f"{name}/shape", list(shape), INT32, device)
        return self.add(name, "Reshape", (tensor, dims), device, {"T": dtype})
