"""What is written is read back as the same graph."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from placesim.core.dtypes import DTYPES
from placesim.formats.graph_file.reader import graph_file_from_mapping, read_graph_file
from placesim.formats.graph_file.writing.raw_writer import graph_file_document, write_yaml
from placesim.graph.graph import LibraryFunction, NodeDef
from placesim.graph.session_steps import GraphFile
from tests.formats.readings import exact, plain, raw_graphs, short_graphs


def attrs_of(owner: LibraryFunction | NodeDef) -> dict[str, Any]:
    return {name: plain(value) for name, value in owner.attrs.items()}


def everything(file: GraphFile) -> list[Any]:
    graph = file.graph
    functions = [
        (
            f.name,
            f.inputs,
            f.outputs,
            f.control_outputs,
            attrs_of(f),
            [(n.name, n.op, n.inputs, n.device, attrs_of(n)) for n in f.nodes],
        )
        for f in graph.functions.values()
    ]
    steps = None if file.steps is None else [[fetch.label or fetch.name for fetch in step.fetches] for step in file.steps]
    return [file.name, exact(graph), functions, graph.versions, file.inventory, file.config, steps]


@pytest.mark.slow
def test_round_trip(subtests: pytest.Subtests) -> None:
    for case in raw_graphs() + short_graphs():
        with subtests.test(case["id"]):
            file = graph_file_from_mapping(case["graph"], case["id"])
            assert everything(read_graph_file(write_yaml(file), case["id"])) == everything(file)
            assert everything(read_graph_file(json.dumps(graph_file_document(file)), case["id"])) == everything(file)


NUMBERS = [name for name, dtype in DTYPES.items() if dtype.is_integer or dtype.name in ("float", "double", "half", "bfloat16")]


@given(st.sampled_from(NUMBERS), st.lists(st.integers(0, 1), max_size=6), st.booleans())
def test_tensors(name: str, values: list[int], is_column: bool) -> None:
    array = np.array(values).astype(DTYPES[name].numpy).reshape((-1, 1) if is_column else (-1,))
    file = graph_file_from_mapping(
        {"nodes": [{"op": "Const", "name": "c", "value": {"tensor": {"dtype": name, "value": array}}}]}
    )
    assert exact(read_graph_file(write_yaml(file)).graph) == exact(file.graph)


@pytest.mark.slow
@given(st.lists(st.floats(width=32)), st.lists(st.binary()), st.lists(st.complex_numbers(allow_nan=False), min_size=1))
def test_special_values(floats: list[float], texts: list[bytes], numbers: list[complex]) -> None:
    values: list[Any] = [np.array(floats, np.float32), texts, np.array(numbers, np.complex128)]
    file = graph_file_from_mapping({"nodes": [{"op": "Const", "value": value} for value in values]})
    again = read_graph_file(write_yaml(file)).graph
    for node, other in zip(file.graph.nodes, again.nodes, strict=True):
        np.testing.assert_array_equal(node.attrs["value"].array, other.attrs["value"].array)


def test_steps_devices_and_config() -> None:
    text = """
devices: [{job: ps, gpu: {count: 1, model: Tesla T4, memory: 1GiB}}]
config: {gpu_options: {visible_device_list: '0'}, master: /job:ps}
versions: {producer: 21}
nodes: [{op: Const, name: a, value: 1.0}]
run: [{fetch: [a], feed: {a: [2, 3]}, repeat: 2}, {nodes: [{op: Neg, inputs: [a]}], fetch: [Neg]}]
"""
    file = read_graph_file(text, "x")
    again = read_graph_file(write_yaml(file), "x")
    assert everything(again) == everything(file)
    assert file.steps is not None
    assert again.steps is not None
    assert again.steps[0].repeat == 2
    np.testing.assert_array_equal(again.steps[0].feeds[0].value, file.steps[0].feeds[0].value)
    assert [node._replace(location=0) for node in again.steps[1].nodes] == [n._replace(location=0) for n in file.steps[1].nodes]


def test_gpu_options_come_back() -> None:
    options = {
        "allow_growth": True,
        "per_process_gpu_memory_fraction": 1.5,
        "visible_device_list": "1,0",
        "allocator_type": "BFC",
        "experimental": {
            "virtual_devices": [{"memory_limit_mb": [2048, 0.5e3], "device_ordinal": [1, 0]}, {}, {"priority": [-3]}],
            "internal_fragmentation_fraction": 0.125,
            "disallow_retry_on_allocation_failure": True,
            "gpu_system_memory_size_in_mb": 600,
            "num_virtual_devices_per_gpu": 2,
            "use_unified_memory": True,
        },
    }
    devices = {"cpu": {"count": 2, "memory": "8GiB"}, "gpu": {"count": 1, "model": "Tesla P4", "memory": "4GiB"}}
    file = graph_file_from_mapping({"devices": devices, "config": {"gpu_options": options}, "nodes": []}, "f")
    assert graph_file_document(file)["config"] == {"gpu_options": options}
    for text in (write_yaml(file), json.dumps(graph_file_document(file))):
        again = read_graph_file(text, "f")
        assert (again.config, again.inventory) == (file.config, file.inventory)
