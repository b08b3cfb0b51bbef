"""Numbers with an exponent: read as YAML 1.2 and JSON have them, and texts that look like them are written in quotes."""

from __future__ import annotations

from pathlib import Path

import pytest

import placesim
from placesim.formats.graph_file.parsing.yaml_tree import resolve_plain
from placesim.formats.graph_file.writing.yaml_line import yaml_line

GRAPH = """
nodes:
  - {op: Const, name: a, value: 1e-3}
  - {op: Const, name: b, value: 2e-3}
  - {op: Const, name: c, value: 2.5E3}
  - {op: Const, name: text, value: '1e-3'}
  - {op: Const, name: '4e2', value: [1.0, 1e2, .5e1]}
  - {op: Mul, name: product, inputs: ['4e2', 2e0]}
run:
  - fetch: [a, b, c, text, product]
"""
VALUES = ["0.001", "0.002", "2500.0", "b'1e-3'", "[  2. 200.  10.]"]


@pytest.mark.parametrize(("text", "value"), [("1e-3", 0.001), ("-2E5", -2e5), ("+.5e1", 5.0), ("1.e+2", 100.0)])
def test_an_exponent_makes_a_number(text: str, value: float) -> None:
    assert resolve_plain(text) == value
    assert yaml_line([text, value]) == f"['{text}', {value}]"


@pytest.mark.parametrize("text", ["1e", "e3", "1e-", "1e3x", "0x1e3g", "1e3:1"])
def test_other_texts_stay(text: str) -> None:
    assert resolve_plain(text) == text


def test_a_converted_graph_keeps_numbers_and_texts(tmp_path: Path) -> None:
    graph = tmp_path / "graph.yaml"
    graph.write_text(GRAPH, "utf-8")
    again = tmp_path / "again.yaml"
    placesim.convert(str(graph), str(again))
    for path in (graph, again):
        report = placesim.run(str(path))
        assert [str(value.value) for value in report.results] == VALUES
