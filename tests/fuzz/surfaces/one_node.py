"""One op with its inputs as a raw graph file: constants, variables, and ops that make resources."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any


def graph_of(op: str, tensors: Sequence[dict[str, Any]], attrs: dict[str, Any], outputs: int) -> dict[str, Any]:
    """A raw graph: each tensor is a recorded one (`dtype`, `shape`, `value`; `var` for a variable), or `{node: ...}`."""
    nodes: list[dict[str, Any]] = []
    names, waits = [], []
    for index, tensor in enumerate(tensors):
        name = f"i{index}"
        names.append(name)
        if "node" in tensor:
            nodes.append({**tensor["node"], "name": name})
        elif tensor.get("var"):
            nodes += _variable(name, tensor)
            waits.append(f"^{name}/assign")
        else:
            nodes.append({"op": "Const", "name": name, **{key: tensor.get(key) for key in ("dtype", "shape", "value")}})
    has_values = any(node["name"].endswith("/assign") for node in nodes)
    nodes.append({"op": op, "name": "op", "inputs": [*names, *(waits if has_values else ())], "attrs": attrs})
    return {"raw": True, "nodes": nodes, "run": [{"fetch": [f"op:{slot}" for slot in range(outputs)] or ["op"]}]}


def _variable(name: str, tensor: dict[str, Any]) -> list[dict[str, Any]]:
    """A resource or reference variable, and what gives it its value."""
    dtype, shape = tensor.get("dtype"), tensor.get("shape")
    value = {"op": "Const", "name": f"{name}/value", "dtype": dtype, "shape": shape, "value": tensor.get("value")}
    if tensor["var"] == "resource":
        make = {"op": "VarHandleOp", "name": name, "attrs": {"dtype": dtype, "shape": shape, "shared_name": name}}
        assign = {"op": "AssignVariableOp", "attrs": {"dtype": dtype}}
    else:
        make = {"op": "VariableV2", "name": name, "attrs": {"dtype": dtype, "shape": shape}}
        assign = {"op": "Assign", "attrs": {"T": dtype}}
    return [make, value, {**assign, "name": f"{name}/assign", "inputs": [name, f"{name}/value"]}]
