"""Recorded ops with other shapes, values, attrs and inputs, each run as a graph of its own."""

from __future__ import annotations

from collections.abc import Iterator
from random import Random
from typing import Any

from placesim.ops.registry import load_registry
from tests.fuzz.corpus import op_case
from tests.fuzz.inputs import Input
from tests.fuzz.mutation import dump, mutate_tree, odd_value
from tests.fuzz.surfaces.command_lines import STEP_SECONDS
from tests.fuzz.surfaces.one_node import graph_of
from tests.fuzz.surfaces.typed_values import SHAPES, TYPES, attr_value, element, odd_tensor


def inputs(rng: Random) -> Iterator[Input]:
    """`run` of one node, which is what a kernel sees."""
    while True:
        case = op_case(rng)
        definition = load_registry().op(case["op"])
        is_resource = definition is not None and any(
            arg.dtype is not None and arg.dtype.name == "resource" for arg in definition.inputs
        )
        tensors = [_tensor(tensor, is_resource) for tensor in case["inputs"]]
        outputs = len(case.get("outputs") or ()) or (len(definition.outputs) if definition else 0)
        graph = graph_of(case["op"], _changed(rng, tensors), _attrs(rng, case["op"], case["attrs"]), outputs)
        form = rng.choice(((), (), ("--format", "json")))
        yield Input(("run", "g.yaml", "--timeout", STEP_SECONDS, *form), {"g.yaml": dump(graph)})


def _tensor(facts: dict[str, Any], is_resource: bool) -> dict[str, Any]:
    return {**facts, "var": "resource" if is_resource else "ref"} if facts.get("var") else facts


def _changed(rng: Random, tensors: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Some tensors with another value or shape; now and then one of another type, one less, or one more."""
    tensors = [dict(tensor) for tensor in tensors]
    for _ in range(rng.choice((0, 1, 1, 2))):
        if not tensors:
            break
        tensor = rng.choice(tensors)
        kind = rng.randrange(20)
        if kind < 9:
            tensor["shape"] = rng.choice(SHAPES)
            tensor["value"] = [] if 0 in tensor["shape"] else _first(tensor.get("value"), element(rng, tensor["dtype"]))
        elif kind < 16:
            tensor["value"] = _with_one_changed(rng, tensor.get("value"), element(rng, tensor["dtype"]))
        elif kind == 16:
            tensor |= odd_tensor(rng, rng.choice(TYPES))
        elif kind == 17:
            tensor["value"] = odd_value(rng)
        elif kind == 18:
            tensors.remove(tensor)
        else:
            tensors.append(tensor)
    return tensors


def _first(value: Any, default: Any) -> Any:
    """One element, which fills a tensor of any shape."""
    while isinstance(value, list) and value:
        value = value[0]
    return default if value == [] else value


def _with_one_changed(rng: Random, value: Any, put: Any) -> Any:
    """The same nested lists, with another element in one place."""
    if not isinstance(value, list):
        return put
    index = rng.randrange(len(value)) if value else 0
    return [_with_one_changed(rng, part, put) if i == index else part for i, part in enumerate(value)]


def _attrs(rng: Random, op: str, recorded: dict[str, Any]) -> dict[str, Any]:
    attrs = {
        name: {"tensor": value} if isinstance(value, dict) and "dtype" in value else value for name, value in recorded.items()
    }
    definition = load_registry().op(op)
    if definition is not None and attrs and rng.random() < 0.4:
        name = rng.choice(sorted(attrs))
        if name in definition.attrs and definition.attrs[name].type not in ("type", "list(type)"):
            attrs[name] = attr_value(rng, definition.attrs[name])
    return mutate_tree(rng, attrs) if attrs and rng.random() < 0.1 else attrs
