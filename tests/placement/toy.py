"""The toy ops, kernels, functions and devices of TensorFlow's placer tests as the manual's page placer-scenarios lists them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence

from placesim.core.dtypes import FLOAT, RESOURCE, DataType, parse_dtype
from placesim.graph.graph import FunctionArg, Graph, LibraryFunction, NodeDef
from placesim.machine.device_names import ANY, parse_runtime_name
from placesim.machine.inventory import Device, DeviceSet
from placesim.ops.attributes import FunctionName
from placesim.ops.definitions import ArgDef, AttrDef, KernelDef, OpDef
from placesim.ops.registry import Registry

PRIORITIES = {"FakeGPU": 51, "FakeCPU": 50, "XLA_CPU": 50, "COMPOSITE": -1}
TASK = "/job:a/replica:0/task:0"
CPU, GPU, XLA = "FakeCPU", "FakeGPU", "XLA_CPU"
SHORT = {"CPU": "FakeCPU", "GPU": "FakeGPU"}

OPS = """
    TestVariable: -> ref | CPU GPU            VariableCPU: -> ref | CPU
    VariableGPU: -> ref | GPU                 VariableNoKernels: -> ref |
    TestAdd: float float -> float | CPU GPU
    TestRelu: float -> float | CPU GPU        ReluCPU: float -> float | CPU          ReluGPU: float -> float | GPU
    TestAssign: ref float -> | CPU GPU        AssignCPU: ref float -> | CPU          AssignGPU: ref float -> | GPU
    TestInput: -> float float | CPU           TestCPUGPUOutput: -> float | CPU GPU   TestGPUOutput: -> float | GPU
    TestDevice: -> float float | GPU          TestDeviceEnforce: ref -> float | CPU GPU
    TestDatasetOp: float -> float | CPU:2 GPU:1
    TestXlaOp: float -> float | XLA_CPU:2 CPU:1
    CreateDatasetCPU: -> resource | CPU       CreateDatasetGPU: -> resource | GPU    CreateDatasetNP: -> resource | CPU GPU
    CreateDatasetSP: -> resource | CPU:2 GPU:1                                       CreateDatasetRP: -> resource | CPU:1 GPU:2
    IteratorGPU: resource -> float | GPU      IteratorNP: resource -> float | CPU GPU
    IteratorSP: resource -> float | CPU:2 GPU:1                                      IteratorRP: resource -> float | CPU:1 GPU:2
    TestHandleVariable: -> resource | CPU GPU HandleVariableCPU: -> resource | CPU   HandleVariableGPU: -> resource | GPU
    TestHandleAssign: resource float -> | CPU GPU
    HandleAssignCPU: resource float -> | CPU  HandleAssignGPU: resource float -> | GPU
    TestTwoHandlesIn: resource resource -> | CPU GPU
    Shape: T -> int32 | CPU GPU               Identity: T -> T | CPU GPU             _Arg: -> T | CPU GPU
    _Retval: T -> | CPU GPU                   Const: -> T | CPU GPU
    Mul: T T -> T | CPU GPU                   Add: T T -> T | CPU GPU
    PartitionedCall: Tin* -> Tout* | CPU GPU
    Cast: T -> float | CPU                    ConvertToListOfCooTensorsV2: float -> float | CPU
"""
"""`NAME: inputs -> outputs | device types with their kernels' priorities`; T is an attr, `ref` a reference to a float."""


def _arg(number: int, text: str) -> ArgDef:
    if text.endswith("*"):
        return ArgDef(f"arg{number}", type_list_attr=text[:-1])
    if text == "T":
        return ArgDef(f"arg{number}", type_attr="T")
    return ArgDef(f"arg{number}", FLOAT if text == "ref" else parse_dtype(text), is_ref=text == "ref")


def _op(name: str, inputs: Sequence[str], outputs: Sequence[str]) -> OpDef:
    attrs = {
        word.rstrip("*"): AttrDef(word.rstrip("*"), "list(type)" if word.endswith("*") else "type")
        for word in (*inputs, *outputs)
        if word == "T" or word.endswith("*")
    }
    taken, given = (tuple(_arg(i, word) for i, word in enumerate(words)) for words in (inputs, outputs))
    return OpDef(name, taken, given, attrs)


def _kernel(op: str, text: str) -> KernelDef:
    device_type, _, priority = text.partition(":")
    return KernelDef(op, SHORT.get(device_type, device_type), {}, (), int(priority or 0), "")


def _registry() -> Registry:
    ops: dict[str, OpDef] = {}
    kernels: dict[str, tuple[KernelDef, ...]] = {}
    for name, inputs, outputs, devices in re.findall(r"(\w+): ([^|>]*)->([^|]*)\|((?: \w+(?::\d)?(?![\w:]))*)", OPS):
        ops[name] = _op(name, inputs.split(), outputs.split())
        kernels[name] = tuple(_kernel(name, text) for text in devices.split())
    return Registry("toy", ops, kernels)


REGISTRY = _registry()


# --- devices --------------------------------------------------------------------------------------------------------


def device_set(names: Iterable[str]) -> DeviceSet:
    """Devices by full name, with the toy types' priorities; no task is the session's own."""
    specs = [(name, parse_runtime_name(name)) for name in names]
    return DeviceSet([Device(name, spec.type or "", 0) for name, spec in specs if spec], ANY, PRIORITIES)


def fixture_devices(count: int = 10) -> DeviceSet:
    """As the tests add them: CPU i and then GPU count - 1 - i."""
    pairs = [f"{TASK}/device:{kind}:{number}" for i in range(count) for kind, number in ((CPU, i), (GPU, count - 1 - i))]
    return device_set([*pairs, f"{TASK}/device:XLA_CPU:0", f"{TASK}/device:COMPOSITE:0"])


def full_name(short: str) -> str:
    """`CPU:1` -> the fixture's device; a name with a slash stays as it is."""
    kind, _, number = short.partition(":")
    return short if "/" in short else f"{TASK}/device:{SHORT.get(kind, kind)}:{number}"


def request(short: str) -> str:
    """`GPU:0` -> `/device:FakeGPU:0`; a name with a slash stays as it is."""
    kind, _, number = short.partition(":")
    return short if "/" in short or not short else f"/device:{SHORT.get(kind, kind)}:{number}"


# --- functions ------------------------------------------------------------------------------------------------------


def _function(
    name: str, inputs: Mapping[str, DataType], outputs: Mapping[str, tuple[DataType, str]], nodes: Sequence[NodeDef]
) -> LibraryFunction:
    return LibraryFunction(
        name,
        tuple(FunctionArg(arg, dtype) for arg, dtype in inputs.items()),
        tuple(FunctionArg(arg, dtype, None, value) for arg, (dtype, value) in outputs.items()),
        tuple(nodes),
    )


def _call(name: str, function: str, inputs: Sequence[str], taken: Sequence[DataType], given: Sequence[DataType]) -> NodeDef:
    attrs = {"Tin": tuple(taken), "Tout": tuple(given), "f": FunctionName(function)}
    return NodeDef(name, "PartitionedCall", tuple(inputs), "", attrs)


_PASS_ON = {"x": RESOURCE}
_T = {"T": RESOURCE}
FUNCTIONS = {
    function.name: function
    for function in (
        _function(
            "ResourceOutput",
            {"x": FLOAT, "y": RESOURCE},
            {"y_out": (RESOURCE, "y"), "two_x": (FLOAT, "mul:arg0:0")},
            (NodeDef("two", "Const", (), "", {"T": FLOAT}), NodeDef("mul", "Mul", ("x", "two:arg0:0"), "", {"T": FLOAT})),
        ),
        _function(
            "Swap",
            {"i0": RESOURCE, "i1": RESOURCE},
            {"o0": (RESOURCE, "s0:arg0:0"), "o1": (RESOURCE, "s1:arg0:0")},
            (NodeDef("s0", "Identity", ("i1",), "", _T), NodeDef("s1", "Identity", ("i0",), "", _T)),
        ),
        _function("ResourceIdentity", _PASS_ON, {"y": (RESOURCE, "x")}, ()),
        _function(
            "CPUResourceOutput",
            {"x": FLOAT},
            {"ds": (RESOURCE, "made:arg0:0"), "x_out": (FLOAT, "x")},
            (NodeDef("made", "CreateDatasetCPU"),),
        ),
        _function(
            "NestedCPUResourceOutput",
            {"x": FLOAT},
            {"ds": (RESOURCE, "call:arg0:0"), "x_out": (FLOAT, "call:arg0:1")},
            (_call("call", "CPUResourceOutput", ("x",), (FLOAT,), (RESOURCE, FLOAT)),),
        ),
        _function(
            "NestedCallFunctionsBackToBack",
            {},
            {"out": (RESOURCE, "add:arg0:0")},
            (
                NodeDef("cpu_ds", "CreateDatasetCPU"),
                _call("y", "ResourceIdentity", ("cpu_ds:arg0:0",), (RESOURCE,), (RESOURCE,)),
                _call("w", "ResourceIdentity", ("y:arg0:0",), (RESOURCE,), (RESOURCE,)),
                NodeDef("gpu_ds", "CreateDatasetGPU"),
                _call("z", "ResourceIdentity", ("gpu_ds:arg0:0",), (RESOURCE,), (RESOURCE,)),
                NodeDef("add", "Add", ("w:arg0:0", "z:arg0:0"), "", _T),
            ),
        ),
        *(
            _function(
                name, _PASS_ON, {"y": (RESOURCE, "out:arg0:0")}, (_call("out", called, ("x",), (RESOURCE,), (RESOURCE,)),)
            )
            for name, called in (
                ("RecursiveResourceIdentity", "RecursiveResourceIdentity"),
                ("RecursiveF1", "RecursiveF2"),
                ("RecursiveF2", "RecursiveF1"),
            )
        ),
    )
}


# --- graphs ---------------------------------------------------------------------------------------------------------

_NODE = re.compile(
    r"(?P<name>\w+):(?P<op>\w+)(?:<(?P<type>\w+)>)?(?:\((?P<inputs>[^)]*)\))?"
    r"(?:@(?P<device>[^ {!]+))?(?:!(?P<assigned>[^ {]+))?(?:\{(?P<labels>[^}]*)\})?"
)


def toy_graph(text: str) -> tuple[Graph, dict[int, str]]:
    """`name:Op<type>(inputs)@request!assigned{labels}` words -> the graph, and the assigned devices by id.

    An op that is a function's name is a `PartitionedCall` of it; `<type>` is the attr T (float).
    """
    graph = Graph(REGISTRY, FUNCTIONS)
    assigned: dict[int, str] = {}
    defs: list[NodeDef] = []
    for found in map(_parse, text.split()):
        if found["assigned"]:
            assigned[len(defs)] = full_name(found["assigned"])
        defs.append(_node_def(found))
    graph.extend(defs)
    return graph, assigned


def _parse(word: str) -> Mapping[str, str]:
    found = _NODE.fullmatch(word)
    assert found is not None, word
    return {key: value or "" for key, value in found.groupdict().items()}


def _node_def(found: Mapping[str, str]) -> NodeDef:
    inputs = tuple(filter(None, found["inputs"].split(",")))
    if found["op"] in FUNCTIONS:
        function = FUNCTIONS[found["op"]]
        call = _call(
            found["name"],
            function.name,
            inputs,
            *([a.dtype or FLOAT for a in args] for args in (function.inputs, function.outputs)),
        )
        return call._replace(device=request(found["device"]))
    definition = REGISTRY.op(found["op"])
    assert definition is not None, found
    attrs = {"T": parse_dtype(found["type"] or "float")} if "T" in definition.attrs else {}
    labels = tuple(f"loc:@{label}" for label in filter(None, found["labels"].split(",")))
    return NodeDef(
        found["name"], found["op"], inputs, request(found["device"]), {**attrs, **({"_class": labels} if labels else {})}
    )
