"""ParallelConcat, which a session makes a start and one update for each row of."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import placesim
from placesim.core.errors import InvalidArgumentError
from tests.ops.kernels.kernel_calls import Machine


def test_each_input_is_a_row_in_every_step() -> None:
    rows = [{"op": "Const", "name": name, "value": [[value, value + 1.0]]} for name, value in (("a", 1.0), ("b", 3.0))]
    joined = {"op": "ParallelConcat", "name": "o", "inputs": ["b", "a", "b"], "attrs": {"shape": [3, 2]}}
    report = placesim.run({"nodes": [*rows, joined], "run": [{"fetch": ["o"], "repeat": 2}]})
    for result in report.results:
        np.testing.assert_array_equal(result.array, [[3, 4], [1, 2], [3, 4]])


WRONG: list[tuple[tuple[int, ...], tuple[int, ...], int, str]] = [
    # value, update, row, TensorFlow's words
    ((2, 3), (1, 4), 0, "value and update shape doesn't match [2,3] vs. [1,4]"),
    ((2, 3), (2, 3), 0, "update shape doesn't match: [2,3]"),
    ((2, 3), (3,), 0, "value and update shape doesn't match: [2,3] vs. [3]"),
    ((), (1,), 0, "value should be at least rank 1."),
    ((1, 3), (1, 3), 1, "0th dimension of value = 1 must be greater than loc_ = 1"),
    ((0,), (1,), 0, "0th dimension of value = 0 must be greater than loc_ = 0"),
]


@pytest.mark.parametrize(("value", "update", "row", "message"), WRONG, ids=[case[3] for case in WRONG])
def test_rows_of_other_shapes(value: Any, update: Any, row: int, message: str) -> None:
    with pytest.raises(InvalidArgumentError) as found:
        Machine().run("_ParallelConcatUpdate", np.zeros(value, "f"), np.ones(update, "f"), T="float32", loc=row)
    assert found.value.message == message
