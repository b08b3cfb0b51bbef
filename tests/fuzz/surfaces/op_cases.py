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

_SHAPES: tuple[list[int], ...] = ([], [0], [1], [2], [2, 3], [0, 2], [1, 1, 1], [3, 0, 2], [1, 2, 2, 1], [1] * 9, [2, 0, 0])


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
        graph = graph_of(case["op"], _changed(rng, tensors), _attrs(rng, case["attrs"]), outputs)
        form = rng.choice(((), (), ("--format", "json")))
        yield Input(("run", "g.yaml", "--timeout", STEP_SECONDS, *form), {"g.yaml": dump(graph)})


def _tensor(facts: dict[str, Any], is_resource: bool) -> dict[str, Any]:
    return {**facts, "var": "resource" if is_resource else "ref"} if facts.get("var") else facts


def _changed(rng: Random, tensors: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Some tensors with another value, shape or type; or one less, or one more."""
    tensors = [dict(tensor) for tensor in tensors]
    for _ in range(rng.choice((0, 1, 1, 2))):
        if not tensors:
            break
        tensor = rng.choice(tensors)
        kind = rng.randrange(8)
        if kind < 3:
            tensor |= {"shape": rng.choice(_SHAPES), "value": _first(tensor.get("value"))}
        elif kind < 5:
            tensor["value"] = mutate_tree(rng, [tensor.get("value")])
            tensor["value"] = tensor["value"][0] if isinstance(tensor["value"], list) and tensor["value"] else odd_value(rng)
        elif kind == 5:
            tensor |= {"shape": [], "value": odd_value(rng)}
        elif kind == 6:
            tensors.remove(tensor)
        else:
            tensors.append(tensor)
    return tensors


def _first(value: Any) -> Any:
    """One element, which fills a tensor of any shape."""
    while isinstance(value, list) and value:
        value = value[0]
    return 0 if value == [] else value


def _attrs(rng: Random, recorded: dict[str, Any]) -> dict[str, Any]:
    attrs = {
        name: {"tensor": value} if isinstance(value, dict) and "dtype" in value else value for name, value in recorded.items()
    }
    return mutate_tree(rng, attrs) if attrs and rng.random() < 0.4 else attrs
