"""What `_input_hostmem` and `_output_hostmem` ask for (8.6)."""

from __future__ import annotations

from typing import Any

import pytest

from placesim.core.dtypes import FLOAT
from placesim.graph.graph import Graph, NodeDef
from placesim.ops.registry import load_registry
from placesim.runtime.partitioning.memory_types import memory_types


@pytest.mark.parametrize(
    ("asked", "inputs"),
    [
        ((1,), (False, True)),
        ((0, 1), (True, True)),
        ((2, -1), (False, False)),
        ((), (False, False)),
        (1, (False, False)),
        ("1", (False, False)),
        (("1",), (False, False)),
        ((True,), (False, False)),
    ],
)
def test_only_a_list_of_inputs_puts_them_in_host_memory(asked: Any, inputs: tuple[bool, bool]) -> None:
    graph = Graph(load_registry())
    x = NodeDef("x", "Placeholder", attrs={"dtype": FLOAT})
    graph.extend([x, NodeDef("sum", "Add", ("x", "x"), attrs={"T": FLOAT, "_input_hostmem": asked})])
    assert memory_types(graph.registry, graph.node("sum").signature, "GPU").inputs == inputs
