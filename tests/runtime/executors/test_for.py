"""`For`: what TensorFlow 2.21 computes, and what it refuses."""

from __future__ import annotations

from typing import Any

import pytest

from placesim.api.runs import run
from placesim.core.errors import InvalidArgumentError

BODY = {
    "name": "body",
    "inputs": [{"name": "i", "type": "int32"}, {"name": "x", "type": "float"}],
    "outputs": [{"name": "o", "type": "float", "value": "sum:z:0"}],
    "nodes": [
        {"op": "Cast", "name": "cast", "inputs": ["i"], "attrs": {"SrcT": "int32", "DstT": "float"}},
        {"op": "AddV2", "name": "sum", "inputs": ["x", "cast:y:0"], "attrs": {"T": "float"}},
    ],
}


def summed(start: Any, limit: Any, delta: Any) -> float:
    """0 and all numbers from `start` to `limit` by `delta`."""
    node = {
        "op": "For",
        "name": "loop",
        "inputs": [start, limit, delta, 0.0],
        "attrs": {"T": ["float"], "body": {"func": "body"}},
    }
    (result,) = run({"functions": [BODY], "nodes": [node], "fetch": ["loop"]}).results
    return float(result.value)


@pytest.mark.parametrize(
    ("numbers", "expected"), [((0, 3, 1), 3.0), ((3, 0, -1), 6.0), ((5, 0, -2), 9.0), ((2, 2, 0), 0.0), ((3, 3, 5), 0.0)]
)
def test_the_body_runs_for_each_number(numbers: tuple[int, int, int], expected: float) -> None:
    assert summed(*numbers) == expected


@pytest.mark.parametrize(
    ("numbers", "text"),
    [
        ((0, 3, 0), "Invalid start/limit/delta: 0 3 0"),
        ((3, 0, 1), "Invalid start/limit/delta: 3 0 1"),
        ((0, 5, -1), "Invalid start/limit/delta: 0 5 -1"),
        (([1, 2], 3, 1), "start must be a scalar, but [2]"),
        ((0, [1, 2], 1), "limit must be a scalar, but [2]"),
        ((0, 3, [1, 2]), "delta must be a scalar, but [2]"),
    ],
)
def test_what_never_gets_there_is_refused(numbers: tuple[Any, Any, Any], text: str) -> None:
    with pytest.raises(InvalidArgumentError) as raised:
        summed(*numbers)
    assert raised.value.message.startswith(text)
