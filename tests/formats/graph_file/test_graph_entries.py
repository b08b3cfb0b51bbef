"""Graph files and the nodes that TensorFlow's Python made for the same program."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from placesim.core.errors import GraphFileError
from placesim.formats.graph_file.reader import graph_file_from_mapping, read_graph_file
from placesim.graph.session_steps import GraphFile
from tests.formats.readings import as_recorded, expanded, read_lines


def from_mapping(graph: dict[str, Any]) -> GraphFile:
    return graph_file_from_mapping(graph)


def from_text(graph: dict[str, Any]) -> GraphFile:
    return read_graph_file(json.dumps(graph), "case.json")


@pytest.mark.parametrize("read", [from_mapping, from_text])
def test_expands_as_recorded(read: Callable[[dict[str, Any]], GraphFile], subtests: pytest.Subtests) -> None:
    cases = read_lines("building.jsonl")
    assert len(cases) == 81
    for case in cases:
        with subtests.test(case["id"]):
            check(case, read)


def check(case: dict[str, Any], read: Callable[[dict[str, Any]], GraphFile]) -> None:
    if "error" not in case["expect"]:
        assert as_recorded(read(case["graph"]).graph) == [expanded(row) for row in case["expect"]["nodes"]]
        return
    with pytest.raises(GraphFileError) as caught:
        read(case["graph"])
    (problem,) = caught.value.problems
    assert (problem.error, problem.message) == (case["expect"]["error"]["type"], case["expect"]["error"]["message"])
