"""Random training programs that once differed make TensorFlow's graphs, placements and numbers."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest

from tests.tf1.trainings_beside_tensorflow import first_difference, records_here

_PATH = Path(__file__).parent.parent / "data" / "tf1" / "trainings.jsonl.gz"


@pytest.mark.slow(2)
@pytest.mark.corpus
def test_training_programs_agree_with_tensorflow() -> None:
    recorded = [json.loads(line) for line in gzip.decompress(_PATH.read_bytes()).splitlines()]
    assert recorded
    found = records_here(record["seed"] for record in recorded)
    differing = {wanted["seed"]: first_difference(wanted, got) for wanted, got in zip(recorded, found, strict=True)}
    assert {seed: text for seed, text in differing.items() if text is not None} == {}


def test_a_difference_is_told() -> None:
    node = ["w", "VariableV2", [], "", {"dtype": "type: DT_FLOAT"}, ["float32_ref(2,)"]]
    step = [["float32", [], [1.0]], {"w:0": ["float32", [2], [1.0, 2.0]]}]
    record = {"seed": 1, "nodes": [node], "placed": [["w", "VariableV2", "CPU:0"]], "steps": [[None, step[1]], step]}
    assert first_difference(record, record) is None
    near = [["float32", [], [1.0001]], {"w:0": ["float32", [2], [1.0, 2.0]]}]
    assert first_difference(record, record | {"steps": [[None, step[1]], near]}) is None
    far = [["float32", [], [1.1]], {"w:0": ["float32", [2], [1.0, 2.0]]}]
    others: dict[str, dict[str, Any]] = {
        "error:": {"error": "ValueError: no"},
        "node 0:": {"nodes": [[*node[:3], "/cpu:0", *node[4:]]]},
        "2 nodes instead of 1": {"nodes": [node, node]},
        "placement:": {"placed": [["w", "VariableV2", "CPU:1"]]},
        "step 1: loss:": {"steps": [[None, step[1]], far]},
    }
    for beginning, other in others.items():
        assert str(first_difference(record, record | other)).startswith(beginning)
