"""Graphs that fit together: recorded ops wired to each other, on devices, and in functions that others call."""

from __future__ import annotations

from random import Random
from typing import Any

from placesim.ops.registry import load_registry
from tests.fuzz.corpus import op_case
from tests.fuzz.surfaces.typed_values import element

_DEVICES = ("/cpu:0", "/gpu:0", "/device:GPU:1", "/gpu:*")
Tensor = tuple[str, str]
"""A tensor's type and name."""


def composition(rng: Random) -> dict[str, Any]:
    """A raw graph in which nearly every type and name is right."""
    nodes: list[dict[str, Any]] = []
    tensors: list[Tensor] = []
    functions = []
    for index in range(rng.randrange(1, 4)):
        if rng.random() < 0.4:
            name = f"F{index}"
            functions.append(_function(rng, name))
            _add_call(rng, nodes, tensors, functions[-1], f"call{index}")
        else:
            _add_op(rng, nodes, tensors, f"n{index}")
    for node in nodes:
        if rng.random() < 0.2:
            node["device"] = rng.choice(_DEVICES)
    if len(nodes) > 2 and rng.random() < 0.3:
        nodes[-1]["inputs"] = [*nodes[-1].get("inputs", ()), f"^{nodes[0]['name']}"]
    graph: dict[str, Any] = {"raw": True, "nodes": nodes, "functions": functions}
    if rng.random() < 0.7:
        graph["devices"] = {"cpu": rng.choice((1, 2)), "gpu": rng.choice((0, 1, 2))}
    if rng.random() < 0.5:
        graph["config"] = {"allow_soft_placement": True}
    fetches = rng.sample([name for _, name in tensors], min(2, len(tensors))) or [nodes[-1]["name"]]
    graph["run"] = [{"fetch": fetches}] * rng.choice((1, 1, 2))
    return graph


def _case(rng: Random) -> dict[str, Any]:
    """A recorded op that needs no variable."""
    while True:
        case = op_case(rng)
        if case.get("outputs") and not any(tensor.get("var") for tensor in case["inputs"]):
            return case


def _constant(tensor: dict[str, Any], name: str) -> dict[str, Any]:
    return {"op": "Const", "name": name, **{key: tensor.get(key) for key in ("dtype", "shape", "value")}}


def _add_op(rng: Random, nodes: list[dict[str, Any]], tensors: list[Tensor], name: str) -> None:
    """An op of a recorded case; some of its inputs are tensors of the same type that others give."""
    case = _case(rng)
    inputs = []
    for index, tensor in enumerate(case["inputs"]):
        alike = [other for dtype, other in tensors if dtype == tensor["dtype"]]
        if alike and rng.random() < 0.5:
            inputs.append(rng.choice(alike))
        else:
            nodes.append(_constant(tensor, f"{name}/i{index}"))
            inputs.append(f"{name}/i{index}")
            tensors.append((tensor["dtype"], f"{name}/i{index}:0"))
    nodes.append({"op": case["op"], "name": name, "inputs": inputs, "attrs": _attrs(case)})
    tensors += [(output["dtype"], f"{name}:{slot}") for slot, output in enumerate(case["outputs"])]


def _attrs(case: dict[str, Any]) -> dict[str, Any]:
    return {
        name: {"tensor": value} if isinstance(value, dict) and "dtype" in value else value
        for name, value in case["attrs"].items()
    }


def _function(rng: Random, name: str) -> dict[str, Any]:
    """A function of one recorded op: its first inputs are arguments, the rest constants of the body."""
    case = _case(rng)
    definition = load_registry().op(case["op"])
    assert definition is not None
    count = rng.randrange(len(case["inputs"]) + 1)
    args = [{"name": f"a{index}", "type": tensor["dtype"]} for index, tensor in enumerate(case["inputs"][:count])]
    consts = [_constant(tensor, f"c{index}") for index, tensor in enumerate(case["inputs"][count:])]
    names = [*(arg["name"] for arg in args), *(f"{const['name']}:output:0" for const in consts)]
    node = {"op": case["op"], "name": "x", "inputs": names, "attrs": _attrs(case)}
    sources = [f"x:{arg.name}:0" for arg in definition.outputs] if len(definition.outputs) == len(case["outputs"]) else []
    outputs = [
        {"name": f"o{index}", "type": output["dtype"], "value": source}
        for index, (output, source) in enumerate(zip(case["outputs"], sources, strict=False))
    ]
    if args and rng.random() < 0.3:
        outputs.append({"name": "same", "type": args[0]["type"], "value": "a0"})
    return {"name": name, "inputs": args, "outputs": outputs, "nodes": [*consts, node]}


def _add_call(rng: Random, nodes: list[dict[str, Any]], tensors: list[Tensor], function: dict[str, Any], name: str) -> None:
    """A call of a function, one way or another, which may say other types than the function has."""
    given = [arg["type"] for arg in function["inputs"]]
    taken = [arg["type"] for arg in function["outputs"]]
    inputs = []
    for index, dtype in enumerate(given):
        value = {"dtype": dtype, "shape": rng.choice(([], [2], [2, 2])), "value": element(rng, dtype)}
        nodes.append(_constant(value, f"{name}/i{index}"))
        inputs.append(f"{name}/i{index}")
    if rng.random() < 0.1:
        taken = rng.choice((taken[:-1], [*taken, "float"], ["int32"]))
    call: dict[str, Any] = {"func": function["name"]}
    types = {"Tin": given, "Tout": taken}
    op = rng.choice(
        ("PartitionedCall", "StatefulPartitionedCall", "If", "StatelessIf", "Case", "StatelessCase", "While", "RemoteCall")
    )
    attrs: dict[str, Any] = {"f": call, **types}
    if op.endswith(("If", "Case")):
        dtype = "bool" if op.endswith("If") else "int32"
        nodes.append(_constant({"dtype": dtype, "shape": [], "value": dtype == "bool"}, f"{name}/which"))
        inputs.insert(0, f"{name}/which")
        attrs = {"then_branch": call, "else_branch": call, "Tcond": dtype} if dtype == "bool" else {"branches": [call, call]}
        attrs |= {**types, "output_shapes": []}
    elif op == "While":
        taken = given
        attrs = {"cond": call, "body": call, "T": given, "output_shapes": [], "parallel_iterations": 10}
    elif op == "RemoteCall":
        nodes.append(_constant({"dtype": "string", "shape": [], "value": "/cpu:0"}, f"{name}/target"))
        inputs.insert(0, f"{name}/target")
    if op in ("If", "Case", "While", "StatelessIf") and rng.random() < 0.5:
        attrs["_lower_using_switch_merge"] = True
    nodes.append({"op": op, "name": name, "inputs": inputs, "attrs": attrs})
    tensors += [(dtype, f"{name}:{slot}") for slot, dtype in enumerate(taken)]
