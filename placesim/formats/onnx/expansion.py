"""Number of nodes that a model's function calls expand to, counted before any call is expanded."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any

from placesim.formats.onnx.graph_reading import MOST_NESTED, plain_domain

MOST_EXPANDED = 100_000
"""Maximum number of nodes. Without it, a small file whose functions each call the next one twice makes a huge graph."""
FunctionKey = tuple[str, str, str]


def expansion_problem(nodes: Iterable[Any], functions: Mapping[FunctionKey, Any]) -> str:
    """Return an error text if inlining the called functions would make too many nodes, else an empty text."""
    if not functions:
        return ""
    called = {key: _calls(function.node, functions) for key, function in functions.items()}
    sizes = dict.fromkeys(functions, 0)
    for _ in range(MOST_NESTED):  # the reader refuses deeper calls
        before = sizes
        sizes = {key: sum(count * (1 + before.get(of, 0)) for of, count in calls.items()) for key, calls in called.items()}
        if sizes == before:
            break
    total = sum(count * sizes.get(of, 0) for of, count in _calls(nodes, functions).items())
    if total <= MOST_EXPANDED:
        return ""
    return f"functions expand too far: their calls come to {total} nodes, expected at most {MOST_EXPANDED}"


def _calls(nodes: Iterable[Any], functions: Mapping[FunctionKey, Any]) -> Counter[FunctionKey]:
    """Return how often nodes, and the bodies in their attributes, use each function; other ops are counted together."""
    found: Counter[FunctionKey] = Counter()
    waiting = [nodes]
    while waiting:
        for node in waiting.pop():
            key = (plain_domain(node.domain), node.op_type, node.overload)
            found[key if key in functions else ("", "", "")] += 1
            for attr in node.attribute:
                waiting += [body.node for body in (attr.g, *attr.graphs) if body.node]
    return found
