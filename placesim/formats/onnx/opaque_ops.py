"""Placement of unknown ops: each becomes an op of the registry, with kernels for some device types.

Such an op can be placed, explained and shown. It can't be run or simulated, as it has no numpy kernel.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from placesim.core.dtypes import DataType
from placesim.formats.onnx.element_types import BY_ONNX_NUMBER
from placesim.formats.onnx.names import scope_name
from placesim.formats.onnx.onnx_node import OnnxNode, Tensor, UnsupportedNodeError
from placesim.ops.definitions import ArgDef, AttrDef, KernelDef, OpDef
from placesim.ops.registry import Registry

_NOT_ALLOWED = re.compile(r"[^A-Za-z0-9]+")


class OpaqueOps:
    """Ops added to a registry on demand, all with kernels for `device_types`."""

    def __init__(self, registry: Registry, device_types: Sequence[str]) -> None:
        self._ops: dict[str, OpDef] = {}
        self._kernels: dict[str, tuple[KernelDef, ...]] = {}
        self._device_types = tuple(device_types)
        self.registry = registry.with_ops(self._ops, self._kernels) if device_types else registry

    def __bool__(self) -> bool:
        return bool(self._device_types)

    def add(self, node: OnnxNode, domain: str) -> tuple[Tensor, ...]:
        """Add a node as one op with all its inputs. Raises UnsupportedNodeError for an unknown output type."""
        op = op_name(domain, node.op)
        if op not in self._ops:
            lists = {name: AttrDef(name, "list(type)", minimum=0) for name in ("Tin", "Tout")}
            self._ops[op] = OpDef(
                op, (ArgDef("inputs", type_list_attr="Tin"),), (ArgDef("outputs", type_list_attr="Tout"),), lists
            )
            self._kernels[op] = tuple(KernelDef(op, device_type, {}, (), 0, "") for device_type in self._device_types)
        inputs = [tensor for tensor in node.inputs if tensor is not None]
        given = tuple(map(node.dtype, inputs))
        types = tuple(self._output_type(node, index) for index in range(node.outputs))
        return node.emit_all(op, inputs, name=scope_name(node.op, "Op"), Tin=given, Tout=types)

    def _output_type(self, node: OnnxNode, index: int) -> DataType:
        name = node.proto.output[index]
        said = node.reading.declared.get(name)
        number = 0 if said is None else said.tensor_type.elem_type
        found = node.output_dtype(index) or BY_ONNX_NUMBER.get(number)
        if found is None:
            raise UnsupportedNodeError(f"unknown type of output '{name}': expected it in the model's 'value_info'")
        return found


def op_name(domain: str, op: str) -> str:
    """Return an op's name in TensorFlow: `ComMicrosoft>MoE` for domain `com.microsoft`, `Onnx>X` for ONNX's own."""
    words = [word[0].upper() + word[1:] for word in _NOT_ALLOWED.split(domain or "onnx") if word]
    return f"{''.join(words) or 'Other'}>{_NOT_ALLOWED.sub('_', op)}"
