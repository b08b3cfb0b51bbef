"""What a step's tensors leave is there for the next step's, and is given back where it would be missed."""

from __future__ import annotations

import platform
import resource

import numpy as np
import pytest

from placesim.formats.graph_file.reader import graph_file_from_mapping
from placesim.graph.session_steps import Config, Feed, Fetch, GraphStep
from placesim.machine.inventory import TaskInventory, build_devices
from placesim.ops.process.memory_limit import ProcessMemory
from placesim.runtime.sessions.session import GraphSession

MEGABYTE = 1 << 20

pytestmark = pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="other C libraries keep what they like")


def page_faults() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt


def test_a_step_is_given_what_the_one_before_left() -> None:
    nodes = [
        {"op": "Placeholder", "name": "x", "dtype": "float32"},
        {"op": "Mul", "name": "y", "inputs": ["x", "x"]},
        {"op": "Neg", "name": "z", "inputs": ["y"]},
        {"op": "Slice", "name": "some", "inputs": ["z", [0], [1]]},
    ]
    session = GraphSession(graph_file_from_mapping({"nodes": nodes}).graph, build_devices([TaskInventory()]), Config())
    step = GraphStep((Fetch("some"),), (Feed("x", np.ones(48 * MEGABYTE // 4, np.float32)),))
    session.run(step)
    before = page_faults()
    for _ in range(4):
        session.run(step)
    # of pages of 2 MB, the largest there are, two tensors have 48 a step
    assert page_faults() - before < 48


def test_what_was_left_does_not_count_as_used() -> None:
    memory = ProcessMemory(256 * MEGABYTE)
    for _ in range(8):
        # small ones on top of large ones, so that the heap does not end with what is free
        large, small = [np.ones(30 * MEGABYTE, np.uint8) for _ in range(6)], np.ones(MEGABYTE // 2, np.uint8)
        del large
        assert memory.has_room(200 * MEGABYTE)
        assert small[0]
