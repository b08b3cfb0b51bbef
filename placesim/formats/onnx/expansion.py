"""Number of nodes that a model's function calls expand to, counted before any call is expanded."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any

from placesim.formats.onnx.graph_reading import DEFAULT_DOMAINS, MOST_NESTED

MOST_EXPANDED = 100_000
"""Maximum number of nodes. A small file whose functions each call the next one twice would otherwise make a huge graph."""
FunctionKey = tuple[str, str, str]


def expansion_problem(nodes: Iterable[Any], functions: Mapping[FunctionKey, Any]) -> str:
    """Return the reason not to read these nodes with the functions that they call; empty if there is none."""
    if not functions:
        return ""
    called = {key: _calls(function.node, functions) for key, function in functions.items()}
    sizes = dict.fromkeys(functions, 0)
    for _ in range(MOST_NESTED):  # calls in calls are refused beyond
        before = sizes
        sizes = {key: sum(count * (1 + before.get(of, 0)) for of, count in calls.items()) for key, calls in called.items()}
        if sizes == before:
            break
    total = sum(count * sizes.get(of, 0) for of, count in _calls(nodes, functions).items())
    if total <= MOST_EXPANDED:
        return ""
    return f"functions expand too far: their calls come to {total} nodes, expected at most {MOST_EXPANDED}"


def _calls(nodes: Iterable[Any], functions: Mapping[FunctionKey, Any]) -> Counter[FunctionKey]:
    """Return the number of each op among nodes and in the bodies in their attributes.

    All ops that are not functions are counted as one.
    """
    found: Counter[FunctionKey] = Counter()
    waiting = [nodes]
    while waiting:
        for node in waiting.pop():
            key = ("" if node.domain in DEFAULT_DOMAINS else node.domain, node.op_type, node.overload)
            found[key if key in functions else ("", "", "")] += 1
            for attr in node.attribute:
                waiting += [body.node for body in (attr.g, *attr.graphs) if body.node]
    return found
