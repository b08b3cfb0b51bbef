"""Cases of a calibration: steps that run one op repeatedly, grouped by the figures that they determine (`cases.txt`)."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from math import prod
from pathlib import Path
from typing import Any, NamedTuple

from placesim.formats.graph_file.reader import graph_file_from_mapping
from placesim.graph.graph import Graph
from placesim.ops.kernels.state.optimizers import RULES

Dims = tuple[int, ...]
_SMALL = 60_000
_STRIDE = 7919
"""Distance of rows that are gathered one after the other: a prime, so that no two are near each other in memory."""


class Case(NamedTuple):
    """`copies` nodes of one op. An input is the shape of a tensor (a tuple) or the value of a constant (a list or a number)."""

    copies: int
    op: str
    inputs: tuple[Dims | list[Any] | int, ...]
    attrs: Mapping[str, Any] = {}

    @property
    def elements(self) -> int:
        """Return the number of elements of all input tensors."""
        return sum(prod(dims) for dims in self.inputs if isinstance(dims, tuple))

    @property
    def is_small(self) -> bool:
        """Whether a node takes at most about a millisecond."""
        return self.elements <= _SMALL


class CaseGroup(NamedTuple):
    """Cases from which `figures` are fitted, given the figures of earlier groups."""

    figures: tuple[str, ...]
    cases: tuple[Case, ...]

    def of_small_cases(self) -> CaseGroup:
        """Return the group without slow cases, but with at least one case."""
        small = tuple(case for case in self.cases if case.is_small)
        return self._replace(cases=small or (min(self.cases, key=lambda case: case.elements),))


def _read_groups() -> list[CaseGroup]:
    """Return the groups of the file; the last has no figures."""
    text = Path(__file__).with_name("cases.txt").read_text("utf-8")
    groups: list[CaseGroup] = []
    for line in text.splitlines():
        first, *words = line.split() or [""]
        if first in ("figures", "checked"):
            groups.append(CaseGroup(tuple(words), ()))
        elif first.isdecimal():
            groups[-1] = groups[-1]._replace(cases=(*groups[-1].cases, _read_case(int(first), *words)))
    return groups


def _read_case(copies: int, op: str, *words: str) -> Case:
    parts = [word.partition("=") for word in words]
    inputs = [_read_input(*part) for part in parts if not part[0] or not part[1]]
    return Case(copies, op, tuple(inputs), {name: json.loads(value) for name, equals, value in parts if name and equals})


def _read_input(shape: str, equals: str, value: str) -> Any:
    if equals:
        return json.loads(value)
    sizes = tuple(map(int, re.findall("[0-9]+", shape)))
    if "of" not in shape:
        return sizes
    count, rows = sizes
    return [number * _STRIDE % rows for number in range(count)]


*_GROUPS, (_, CHECKED) = _read_groups()
GROUPS = tuple(_GROUPS)
"""Groups of cases, in the order in which their figures are determined."""


def build_case_graph(case: Case) -> Graph:
    """Return a graph with the nodes of a case, named from `n0`, and the node `all`, which waits for them.

    Each node has its own tensors, because in a network, the inputs of a node are usually not in the cache.
    """
    numbers = range(case.copies)
    nodes = (_update_nodes if "Apply" in case.op else _repeated_nodes)(case, numbers)
    nodes.append({"op": "NoOp", "name": "all", "inputs": [f"^n{number}" for number in numbers]})
    return graph_file_from_mapping({"nodes": nodes}, "calibration").graph


def _repeated_nodes(case: Case, numbers: range) -> list[dict[str, Any]]:
    nodes: list[dict[str, Any]] = []
    for i, dims in enumerate(case.inputs):
        if isinstance(dims, tuple):
            nodes.append({"op": "Placeholder", "name": f"x{i}", "dtype": "float32", "shape": [len(numbers), *dims]})
            nodes.append({"op": "Unpack", "name": f"u{i}", "inputs": [f"x{i}"], "attrs": {"num": len(numbers), "axis": 0}})
        else:
            nodes.append({"op": "Const", "name": f"x{i}", "value": dims, "dtype": "int32"})
    for number in numbers:
        inputs = [f"u{i}:{number}" if isinstance(dims, tuple) else f"x{i}" for i, dims in enumerate(case.inputs)]
        nodes.append({"op": case.op, "name": f"n{number}", "inputs": inputs, "attrs": dict(case.attrs)})
    return nodes


def _update_nodes(case: Case, numbers: range) -> list[dict[str, Any]]:
    """Return an optimizer's updates of variables with the shape of the case's input, and the node `init`."""
    (dims,) = case.inputs
    assert isinstance(dims, tuple)
    rule, is_resource = RULES[case.op.rpartition("Apply")[2]], case.op.startswith("Resource")
    variable, assign = ("VarHandleOp", "AssignVariableOp") if is_resource else ("VariableV2", "Assign")
    nodes: list[dict[str, Any]] = [{"op": "Placeholder", "name": "x0", "dtype": "float32", "shape": list(dims)}]
    # an optimizer takes roots of averages of squares
    nodes.append({"op": "Square", "name": "start", "inputs": ["x0"]})
    attrs = {"dtype": "float32", "shape": list(dims)}
    others = ["x0" if name == rule.inputs[rule.gradient] else 0.5 for name in rule.inputs[rule.variables :]]
    made = []
    for number in numbers:
        names = [f"{name}{number}" for name in rule.inputs[: rule.variables]]
        nodes += [{"op": variable, "name": name, "attrs": {**attrs, "shared_name": name}} for name in names]
        nodes += [{"op": assign, "name": f"set_{name}", "inputs": [name, "start"]} for name in names]
        made += [f"set_{name}" for name in names]
        nodes.append({"op": case.op, "name": f"n{number}", "inputs": [*names, *others]})
    nodes.append({"op": "NoOp", "name": "init", "inputs": [f"^{name}" for name in made]})
    return nodes
