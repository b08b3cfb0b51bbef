"""Every op of the registry with inputs of types that fit it and of shapes that may not."""

from __future__ import annotations

from collections.abc import Iterator
from random import Random
from typing import Any

from placesim.dtypes import DType
from placesim.ops.attributes import Shape, TensorValue
from placesim.ops.definitions import AttrDef, OpDef
from placesim.ops.registry import load_registry
from tests.fuzz.inputs import Input
from tests.fuzz.mutation import dump, odd_text
from tests.fuzz.surfaces.command_lines import STEP_SECONDS
from tests.fuzz.surfaces.one_node import graph_of

_SHAPES: tuple[list[int], ...] = (
    *([], [], [1], [2], [3], [4], [0], [2, 2], [2, 3], [1, 1], [0, 2], [2, 0], [1, 2, 2], [1, 2, 2, 1], [1, 4, 4, 2]),
    *([1, 2, 2, 2, 1], [2, 2, 2, 2, 2, 2]),
)
_INTS = (0, 1, 1, 1, 2, 2, 3, 5, -1, -2, 127)
_LARGE_INTS = (2**31 - 1, 2**62, -(2**31), 2**20)
_FLOATS = (0.0, 1.0, 0.5, -1.0, 2.5, 1e10, "nan", "inf", "-inf")
_TYPES = (
    "float",
    "int32",
    "int64",
    "bool",
    "string",
    "double",
    "half",
    "complex64",
    "uint8",
    "int8",
    "bfloat16",
    "uint64",
    "qint8",
)
_RESOURCES: tuple[dict[str, Any], ...] = (
    {"op": "VarHandleOp", "attrs": {"dtype": "float", "shape": [2]}},
    {"op": "WholeFileReaderV2"},
    {"op": "FIFOQueueV2", "attrs": {"component_types": ["float"], "shapes": [[]]}},
    {"op": "HashTableV2", "attrs": {"key_dtype": "string", "value_dtype": "int64"}},
    {"op": "MutableHashTableV2", "attrs": {"key_dtype": "string", "value_dtype": "int64"}},
    {"op": "IteratorV2", "attrs": {"shared_name": "", "container": "", "output_types": ["float"], "output_shapes": [[]]}},
    {"op": "StackV2", "inputs": ["i0"], "attrs": {"elem_type": "float"}},
    {"op": "BarrierV2", "attrs": {"component_types": ["float"]}},
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
    attrs = {name: _attr(rng, attr) for name, attr in op.attrs.items() if not attr.has_default or rng.random() < 0.4}
    kernels = [kernel for kernel in load_registry().kernels(op.name) if kernel.device_type == "CPU"]
    if kernels:
        for name, allowed in rng.choice(kernels).constraint.items():
            if name in op.attrs and op.attrs[name].type == "type":
                attrs[name] = rng.choice(allowed).name
    deciding = (name for arg in (*op.inputs, *op.outputs) for name in (arg.type_attr, arg.number_attr, arg.type_list_attr))
    for name in filter(None, deciding):
        if name not in attrs:
            attrs[name] = _plain(op.attrs[name].default)
    return attrs


def _attr(rng: Random, attr: AttrDef) -> Any:
    kind = attr.type
    if kind.startswith("list("):
        element = attr._replace(type=kind[5:-1], minimum=None)
        return [_attr(rng, element) for _ in range(max(attr.minimum or 0, rng.choice((0, 1, 1, 2, 4, 5))))]
    if attr.allowed is not None:
        return _plain(rng.choice(attr.allowed))
    if kind == "int":
        return max(attr.minimum if attr.minimum is not None else -1, rng.choice(_INTS if rng.random() < 0.97 else _LARGE_INTS))
    choices: dict[str, tuple[Any, ...]] = {
        "type": _TYPES,
        "shape": (*_SHAPES, [-1], "unknown", [-1, 2]),
        "float": _FLOATS[:6],
        "bool": (True, False),
        "string": ("", "a", "SAME", "ij,jk->ik", "NHWC", odd_text(rng)),
        "func": ({"func": "F"},),
        "tensor": ({"tensor": {"dtype": "float", "shape": [2], "value": 1}},),
    }
    return rng.choice(choices[kind])


def _plain(value: Any) -> Any:
    """An attr's value as a graph file has it."""
    if isinstance(value, DType):
        return value.name
    if isinstance(value, Shape):
        return "unknown" if value.dims is None else list(value.dims)
    if isinstance(value, TensorValue):
        return {"tensor": {"dtype": value.dtype.name, "shape": list(value.array.shape), "value": value.array.tolist()}}
    return [_plain(element) for element in value] if isinstance(value, tuple) else value


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
    tensor = {"dtype": dtype, "shape": rng.choice(_SHAPES), "value": _value(rng, dtype)}
    return {**tensor, "var": "ref"} if is_ref else tensor


def _value(rng: Random, dtype: str) -> Any:
    """One element, which fills the tensor."""
    if dtype == "string":
        return rng.choice(("", "a", "1", "a b", "1.5", "(", "日本"))
    if dtype == "bool":
        return rng.random() < 0.5
    if dtype.startswith("complex"):
        return 1.5
    if "int" in dtype:
        value = rng.choice(_INTS if rng.random() < 0.95 else _LARGE_INTS)
        return abs(value) % 4 if dtype.lstrip("qu").startswith(("int4", "int2", "int8")) or "uint" in dtype else value
    return rng.choice(_FLOATS)
