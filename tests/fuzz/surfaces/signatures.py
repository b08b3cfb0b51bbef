"""Every op of the registry with inputs of types that fit it and of shapes that may not."""

from __future__ import annotations

from collections.abc import Iterator
from random import Random
from typing import Any

from placesim.ops.definitions import OpDef
from placesim.ops.registry import load_registry
from tests.fuzz.inputs import Input
from tests.fuzz.mutation import dump
from tests.fuzz.surfaces.command_lines import STEP_SECONDS
from tests.fuzz.surfaces.one_node import graph_of
from tests.fuzz.surfaces.typed_values import attr_value, odd_tensor, plain

_RESOURCES: tuple[dict[str, Any], ...] = (
    {"op": "VarHandleOp", "attrs": {"dtype": "float", "shape": [2]}},
    {"op": "WholeFileReaderV2"},
    {"op": "FIFOQueueV2", "attrs": {"component_types": ["float"], "shapes": [[]]}},
    {"op": "HashTableV2", "attrs": {"key_dtype": "string", "value_dtype": "int64"}},
    {"op": "MutableHashTableV2", "attrs": {"key_dtype": "string", "value_dtype": "int64"}},
    {"op": "IteratorV2", "attrs": {"shared_name": "", "container": "", "output_types": ["float"], "output_shapes": [[]]}},
    {
        "op": "MultiDeviceIterator",
        "attrs": {"devices": [], "shared_name": "", "container": "", "output_types": [], "output_shapes": []},
    },
    {"op": "MutexV2"},
    {"op": "SummaryWriter"},
)


def inputs(rng: Random) -> Iterator[Input]:
    """The ops in a random order, again and again."""
    registry = load_registry()
    while True:
        names = [*registry.op_names]
        rng.shuffle(names)
        for name in names:
            definition = registry.op(name)
            assert definition is not None
            yield Input(("run", "g.yaml", "--timeout", STEP_SECONDS), {"g.yaml": dump(_graph(rng, definition))})


def _graph(rng: Random, op: OpDef) -> dict[str, Any]:
    attrs = _attrs(rng, op)
    tensors = [_tensor(rng, dtype, is_ref=arg.is_ref) for arg in op.inputs for dtype in _dtypes(arg, attrs)]
    outputs = sum(len(_dtypes(arg, attrs)) for arg in op.outputs)
    return graph_of(op.name, tensors, attrs, outputs)


def _attrs(rng: Random, op: OpDef) -> dict[str, Any]:
    """Attrs that the definition and, for types, some kernel on a CPU allow."""
    attrs = {name: attr_value(rng, attr) for name, attr in op.attrs.items() if not attr.has_default or rng.random() < 0.4}
    kernels = [kernel for kernel in load_registry().kernels(op.name) if kernel.device_type == "CPU"]
    if kernels:
        for name, allowed in rng.choice(kernels).constraint.items():
            if name in op.attrs and op.attrs[name].type == "type":
                attrs[name] = rng.choice(allowed).name
    deciding = (name for arg in (*op.inputs, *op.outputs) for name in (arg.type_attr, arg.number_attr, arg.type_list_attr))
    for name in filter(None, deciding):
        if name not in attrs:
            attrs[name] = plain(op.attrs[name].default)
    return attrs


def _dtypes(arg: Any, attrs: dict[str, Any]) -> list[str]:
    if arg.type_list_attr:
        return list(attrs[arg.type_list_attr])
    dtype = attrs[arg.type_attr] if arg.dtype is None else arg.dtype.name
    return [dtype] * (min(attrs[arg.number_attr], 20) if arg.number_attr else 1)


def _tensor(rng: Random, dtype: str, *, is_ref: bool) -> dict[str, Any]:
    if dtype == "resource":
        if rng.random() < 0.6:
            return {**_tensor(rng, rng.choice(("float", "float", "int32", "string")), is_ref=False), "var": "resource"}
        return {"node": rng.choice(_RESOURCES)}
    if dtype == "variant":
        return {"node": {"op": "EmptyTensorMap"}}
    tensor = odd_tensor(rng, dtype)
    return {**tensor, "var": "ref"} if is_ref else tensor
