"""Outputs of a run as they are told: their bytes, and whether the kernel made their buffers."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from placesim.core.dtypes import FLOAT, INT32, STRING
from placesim.graph.graph import Graph, Node, NodeDef
from placesim.ops.kernels.device_resources import VariableResource
from placesim.ops.registry import load_registry
from placesim.runtime.recording.output_descriptions import Allocation, describe


def node_of(op: str, *inputs: str, **attrs: Any) -> Node:
    graph = Graph(load_registry())
    graph.extend([NodeDef(name, "Placeholder", attrs={"dtype": FLOAT}) for name in dict.fromkeys(inputs)])
    graph.extend([NodeDef("node", op, inputs, attrs=attrs)])
    return graph.node("node")


def test_a_buffer_that_a_kernel_made_is_followed_until_it_is_freed() -> None:
    given = np.zeros(6, np.float32)
    made = np.ones(6, np.float32)
    (found,) = describe(node_of("Neg", "x", T=FLOAT), [given], [made.reshape(2, 3)], 77)
    assert found[:4] == (0, FLOAT, (2, 3), 24)
    assert found.address == made.__array_interface__["data"][0]
    assert found.allocation is not None
    assert (found.allocation.size, found.allocation.made, found.allocation.freed) == (24, 77, None)
    view = made[1:]
    del made
    assert found.allocation.freed is None
    del view
    assert found.allocation.freed is not None
    assert found.allocation.freed > 77


@pytest.mark.parametrize("who", ["handed on", "written over", "a part", "a variable", "empty"])
def test_a_buffer_that_was_there_is_not_followed(who: str) -> None:
    given = np.zeros(6, np.float32)
    node = node_of("Identity" if who == "handed on" else "Neg", "x", T=FLOAT)
    held = VariableResource("v", FLOAT)
    held.value = given
    inputs: list[Any] = [held if who == "a variable" else given]
    output = {"handed on": given.copy(), "a part": given[2:], "empty": np.zeros((0, 2), np.float32)}.get(who, given)
    (found,) = describe(node, inputs, [output], 1)
    assert (found.shape, found.size, found.allocation) == (output.shape, 4 * output.size, None)


def test_only_tensors_that_were_written_are_told() -> None:
    node = node_of("Unpack", "x", T=FLOAT, num=4, axis=0)
    held = VariableResource("v", FLOAT)
    found = describe(node, [], [object(), None, held, np.float32(3)], 1)
    assert [(record.slot, record.shape, record.size) for record in found] == [(3, (), 4)]
    held.value = np.zeros(2, np.float32)
    assert [record.slot for record in describe(node, [], [object(), None, held, np.float32(3)], 1)] == [2, 3]


def test_a_number_cannot_be_followed() -> None:
    found = Allocation(4, 1)
    found.follow(np.float32(1))
    assert found.freed is None


def test_types_are_the_node_s() -> None:
    (found,) = describe(node_of("Shape", "x", T=FLOAT, out_type=INT32), [], [np.array([1], np.int32)], 1)
    assert (found.dtype, found.size) == (INT32, 4)
    (text,) = describe(node_of("Placeholder", dtype=STRING), [], [np.array([b"ab", b"c"], object)], 1)
    assert (text.dtype, text.shape) == (STRING, (2,))
