"""Graph files from a grammar, and examples and recorded graphs with something changed, through every command."""

from __future__ import annotations

from collections.abc import Iterator
from random import Random
from typing import Any

from placesim.ops.definitions import ArgDef
from placesim.ops.registry import load_registry
from tests.fuzz.corpus import examples, recorded_graph
from tests.fuzz.inputs import Input
from tests.fuzz.mutation import dump, mutate_text, mutate_tree, odd_text, odd_value, parse
from tests.fuzz.surfaces.command_lines import command_line
from tests.fuzz.surfaces.compositions import composition

_KEYS_IN_ONE = (
    "name description devices config nodes run fetch feed functions raw versions rest op id inputs control_inputs device "
    "colocate_with attrs value dtype shape scope variable initializer kind trainable repeat cpu gpu xla_cpu xla_gpu job "
    "tasks count model memory type bytes type_attr outputs control_outputs func tensor file seed T N Tin Tout _class f body"
)
_COMMON_IN_ONE = (
    "Const Identity MatMul Add AddN Neg Mul Relu Placeholder NoOp Fill Range Tile Pack ConcatV2 Split Reshape Cast Switch "
    "Merge Enter Exit NextIteration LoopCond Less VariableV2 Assign VarHandleOp AssignVariableOp ReadVariableOp "
    "PartitionedCall StatefulPartitionedCall If While Case StatelessIf StatelessWhile IdentityN Print PrintV2 Assert Where "
    "Gather Einsum Conv2D RandomStandardNormal FIFOQueueV2 QueueEnqueueV2 QueueDequeueV2 Stage Unstage HashTableV2 "
    "LookupTableFindV2 TensorArrayV3 TensorListReserve RangeDataset IteratorV2 MakeIterator IteratorGetNext "
    "WholeFileReaderV2 ScatterNd Pad"
)
KEYS = tuple(_KEYS_IN_ONE.split())
"""Keys of a graph file at all its levels, and attrs."""

COMMON = tuple(_COMMON_IN_ONE.split())
"""Ops that stand more often than the rest of the registry."""

_NAMES = ("a", "b", "c", "x", "v", "p", "op")
_DEVICES = ("/cpu:0", "/gpu:0", "/device:GPU:1", "/job:ps/task:0", "/gpu:*", "", None, "/job:worker", "/replica:0")
_TYPES = (
    "float",
    "int32",
    "int64",
    "bool",
    "string",
    "double",
    "half",
    "complex64",
    "resource",
    "variant",
    "uint8",
    "bfloat16",
)


def inputs(rng: Random) -> Iterator[Input]:
    """YAML, JSON and lines of JSON."""
    while True:
        content = _content(rng)
        is_lines = rng.random() < 0.03
        name = "g.jsonl" if is_lines else rng.choice(("g.yaml", "g.yaml", "g.json"))
        line = command_line(rng, name, "place" if is_lines else "", is_sane=rng.random() < 0.9)
        yield Input(line, {name: content * 2 if is_lines else content})


def _content(rng: Random) -> bytes:
    kind = rng.randrange(10)
    if kind < 3:
        return dump(composition(rng))
    if kind == 3:
        return dump(mutate_tree(rng, composition(rng), KEYS))
    if kind < 6:
        return dump(_graph(rng))
    if kind < 8:
        return dump(mutate_tree(rng, recorded_graph(rng), KEYS))
    example = rng.choice(examples())
    if kind == 8:
        return dump(mutate_tree(rng, parse(example), KEYS))
    return mutate_text(rng, example.decode()).encode("utf-8", "surrogatepass")


# --- the grammar ------------------------------------------------------------------------------------------------------


def _graph(rng: Random) -> dict[str, Any]:
    is_raw = rng.random() < 0.3
    names: list[str] = []
    graph: dict[str, Any] = {"raw": True} if is_raw else {}
    if rng.random() < 0.4:
        graph["functions"] = [_function(rng, name) for name in rng.choice((("F",), ("F", "G"), ("F", "F")))]
    count = rng.randrange(1, 7)
    graph["nodes"] = [_node(rng, names, is_flat=True) if is_raw else _entry(rng, names, 0) for _ in range(count)]
    if rng.random() < 0.5:
        graph["devices"] = _devices(rng)
    if rng.random() < 0.3:
        graph["config"] = _config(rng)
    if rng.random() < 0.5:
        graph["run"] = [_step(rng, names) for _ in range(rng.randrange(1, 3))]
    elif rng.random() < 0.5:
        graph["fetch"] = [_tensor(rng, names)]
    return graph


def _entry(rng: Random, names: list[str], depth: int) -> dict[str, Any]:
    kind = rng.randrange(10)
    if kind == 0 and depth < 3:
        return _scope(rng, names, depth)
    if kind == 1:
        return _variable(rng, names)
    if kind == 2 and any(name.startswith("v") for name in names) and "init" not in names:
        names.append("init")
        return {"initializer": "init"}
    return _node(rng, names)


def _scope(rng: Random, names: list[str], depth: int) -> dict[str, Any]:
    scope: dict[str, Any] = {"nodes": [_entry(rng, names, depth + 1) for _ in range(rng.randrange(1, 4))]}
    if rng.random() < 0.5:
        scope["scope"] = rng.choice(("s", "s/", None, odd_text(rng)))
    if rng.random() < 0.6:
        scope["device"] = rng.choice((rng.choice(_DEVICES), [rng.choice(_DEVICES) for _ in range(3)]))
    if names and rng.random() < 0.3:
        scope[rng.choice(("control_inputs", "colocate_with"))] = [rng.choice(names)]
    return scope


def _variable(rng: Random, names: list[str]) -> dict[str, Any]:
    name = f"v{len(names)}"
    names.append(name)
    starts: tuple[Any, ...] = (
        "zeros",
        "ones",
        {"random_normal": {"mean": 0.0}},
        {"constant": 1.0},
        {"value": [1.0, 2.0]},
        _rarely(rng, "zeros"),
    )
    variable = {
        "variable": name,
        "shape": rng.choice(([2], [2], [], [2, 2], _rarely(rng, [1]))),
        "initializer": rng.choice(starts),
    }
    if rng.random() < 0.7:
        variable["kind"] = rng.choice(("ref", "resource"))
    if rng.random() < 0.4:
        variable["dtype"] = rng.choice(_TYPES)
    return variable


def _node(rng: Random, names: list[str], *, is_flat: bool = False) -> dict[str, Any]:
    op = rng.choice(COMMON) if rng.random() < 0.7 else rng.choice(load_registry().op_names)
    node: dict[str, Any] = {"op": op}
    definition = load_registry().op(op)
    assert definition is not None
    if rng.random() < 0.8:
        node["name"] = f"{rng.choice(_NAMES)}{len(names) or ''}" if rng.random() < 0.97 else odd_text(rng)
    if op == "Const":
        node |= _constant(rng)
    elif definition.inputs:
        count = len(definition.inputs) if rng.random() < 0.9 else rng.randrange(4)
        args = (*definition.inputs, *definition.inputs)[:count]
        node["inputs"] = [_input(rng, names, arg, is_flat=is_flat) for arg in args]
    attrs = {
        name: _attr(rng, attr.type)
        for name, attr in definition.attrs.items()
        if rng.random() < (0.3 if attr.has_default else 0.8)
    }
    if attrs and op != "Const":
        node["attrs"] = attrs
    if rng.random() < 0.2:
        node["device"] = rng.choice(_DEVICES)
    if names and rng.random() < 0.1:
        node[rng.choice(("control_inputs", "colocate_with"))] = [rng.choice(names)]
    names += [node["name"]] if "name" in node else []
    return node


def _constant(rng: Random) -> dict[str, Any]:
    values: tuple[Any, ...] = (1.0, 2, True, "s", [1, 2], [[1.0, 2.0]], [], [0], [-1], odd_value(rng))
    found: dict[str, Any] = {"value": rng.choice(values)}
    if rng.random() < 0.5:
        found["dtype"] = rng.choice(_TYPES)
    if rng.random() < 0.2:
        found["shape"] = rng.choice(([2], [], [2, 2], [0], odd_value(rng)))
    return found


def _input(rng: Random, names: list[str], arg: ArgDef, *, is_flat: bool) -> Any:
    """The name of a tensor, or a literal that fits the argument; raw files and functions have names alone."""
    if rng.random() < 0.03:
        return odd_value(rng)
    if names and (is_flat or rng.random() < 0.5):
        return _tensor(rng, names)
    kind = "float" if arg.dtype is None else arg.dtype.name
    literal: Any = {"string": "s", "bool": True}.get(kind, 1.0 if kind in ("float", "double", "half") else 1)
    literal = rng.choice((literal, [literal, literal], [[literal]]))
    return [literal, literal] if arg.number_attr or arg.type_list_attr else literal


def _rarely(rng: Random, value: Any) -> Any:
    return odd_value(rng) if rng.random() < 0.2 else value


def _tensor(rng: Random, names: list[str]) -> str:
    return (rng.choice(names) if names else "a") + rng.choice(("", "", "", "", "", "", ":0", ":0", ":1", ":7"))


def _attr(rng: Random, kind: str) -> Any:
    """A value for an attr of a type as TensorFlow writes it; now and then one of another type."""
    if rng.random() < 0.04:
        return odd_value(rng)
    if kind.startswith("list("):
        return [_attr(rng, kind[5:-1]) for _ in range(rng.choice((0, 1, 1, 2, 4, 5)))]
    if kind == "type":
        return rng.choice(_TYPES)
    if kind == "func":
        return {"func": rng.choice(("F", "F", "G"))}
    if kind == "shape":
        return rng.choice(([], [2], [2, 2], [-1], "unknown", [None, 2], [2**31, 2**31]))
    if kind == "tensor":
        return {"tensor": {"dtype": rng.choice(_TYPES), "shape": [2], "value": 1}}
    if kind == "string":
        return odd_text(rng)
    if kind == "bool":
        return rng.random() < 0.5
    return rng.choice((0, 1, 1, 2, 2, 3, -1, 5, 2**31, 2**62)) if kind == "int" else rng.choice((0.0, 1.0, -1.0, 1e30, 0.5))


def _function(rng: Random, name: str) -> dict[str, Any]:
    kind = rng.choice(_TYPES[:4])
    args = [{"name": arg, "type": kind} for arg in ("a", "b")[: rng.choice((0, 1, 1, 2))]]
    names = [arg["name"] for arg in args]
    nodes = []
    for _ in range(rng.randrange(1, 4)):
        node = _node(rng, names, is_flat=True)
        node["name"] = node.get("name", "x")
        node["inputs"] = [_tensor(rng, names) for _ in node.get("inputs", ())]
        nodes.append({key: value for key, value in node.items() if key not in ("control_inputs", "colocate_with")})
    sources = [*names, *(f"{node['name']}:{rng.choice(('output', 'y', 'z'))}:0" for node in nodes)]
    outputs = [{"name": f"o{i}", "type": kind, "value": rng.choice(sources)} for i in range(rng.choice((0, 1, 1, 1, 2)))]
    return {"name": name, "inputs": args, "outputs": outputs, "nodes": nodes}


def _devices(rng: Random) -> Any:
    count = rng.choice((0, 1, 2, 3))
    gpu = rng.choice(
        (count, {"count": count, "model": "Tesla K20m"}, {"memory": "1GiB", "model": {"name": "x"}}, odd_value(rng))
    )
    if rng.random() < 0.7:
        return {"cpu": rng.choice((1, 2, 0)), "gpu": gpu}
    return [{"job": rng.choice(("ps", "worker", "localhost")), "tasks": rng.choice((1, 2, 0)), "gpu": gpu} for _ in range(2)]


def _config(rng: Random) -> dict[str, Any]:
    fields: dict[str, tuple[Any, ...]] = {
        "allow_soft_placement": (True, False),
        "log_device_placement": (True,),
        "device_count": ({"GPU": 1}, {"CPU": 0}, {"GPU": -1}),
        "device_filters": (["/job:ps"], []),
        "intra_op_parallelism_threads": (0, 1, -1, 2**31 - 1),
        "inter_op_parallelism_threads": (0, 1, -1, 2**31 - 1),
        "session_inter_op_thread_pool": ([{"num_threads": 1}], [{"num_threads": -5}], [{}]),
        "operation_timeout_in_ms": (0, 1, -1, 2000),
        "gpu_options": (
            {"visible_device_list": "0"},
            {"per_process_gpu_memory_fraction": 9e9},
            {"allow_growth": True},
            {"experimental": {"virtual_devices": [{"memory_limit_mb": [1, 2.5], "device_ordinal": [1]}, {}]}},
            {"experimental": {"num_virtual_devices_per_gpu": 4096, "gpu_system_memory_size_in_mb": 1 << 30}},
        ),
        "graph_options": ({"place_pruned_graph": True}, {"optimizer_options": {"do_constant_folding": True}}),
        "master": ("/job:ps/task:0", "local", ""),
    }
    chosen = rng.sample(list(fields), rng.randrange(1, 4))
    return {name: odd_value(rng) if rng.random() < 0.2 else rng.choice(fields[name]) for name in chosen}


def _step(rng: Random, names: list[str]) -> dict[str, Any]:
    step: dict[str, Any] = {"fetch": [_tensor(rng, names) for _ in range(rng.randrange(3))]}
    if rng.random() < 0.4:
        values = (1.0, [1, 2], True, {"zeros": [2]}, {"random_normal": [2], "seed": 1}, {"file": "x.npy"}, odd_value(rng))
        step["feed"] = {_tensor(rng, names): rng.choice(values)}
    if rng.random() < 0.1:
        step["repeat"] = rng.choice((0, 2, 10))
    return step
