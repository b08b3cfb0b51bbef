"""Rows against what ONNX Runtime gave, where ONNX's own backend tests have no such case."""

from __future__ import annotations

import numpy as np
import pytest
from onnx import numpy_helper

from tests.formats.onnx.models import run
from tests.formats.onnx.row_cases import RECORDED, RowCase, all_cases, feeds_of, proto_of

CASES = all_cases()


@pytest.mark.slow
@pytest.mark.parametrize("name", CASES)
def test_a_row_does_as_onnx_runtime(name: str) -> None:
    case = CASES[name]
    found = run(proto_of(case), feeds_of(case))
    with np.load(RECORDED) as recorded:
        for index in case.read:
            expected, output = recorded[f"{name}/{index}"], found[f"y{index}"]
            if expected.dtype.kind == "U":
                output = output.astype(str)
            assert (output.dtype, output.shape) == (expected.dtype, expected.shape)
            if expected.dtype.kind == "f":
                np.testing.assert_allclose(output, expected, rtol=1e-4, atol=1e-5)
            else:
                np.testing.assert_array_equal(output, expected)


def test_packed_queries_keys_and_values_are_those_of_three_inputs() -> None:
    """ONNX Runtime's CPU has no kernel for packed inputs."""
    parts = [np.random.default_rng(3).normal(size=(2, 4, 2, 3)).astype(np.float32) for _ in range(3)]
    flat = [part.reshape(2, 4, 6) for part in parts]
    given = [flat, [np.stack(parts, 3)], [flat[0], np.stack(parts[1:], 3)]]
    cases = [RowCase("MultiHeadAttention", inputs, {"num_heads": 2}, domain="com.microsoft") for inputs in given]
    expected, *others = (run(proto_of(case), feeds_of(case))["y0"] for case in cases)
    for found in others:
        np.testing.assert_array_equal(found, expected)


def test_a_vector_of_doubles_is_a_row_for_trees() -> None:
    attrs = {
        "nodes_treeids": [0, 0, 0],
        "nodes_nodeids": [0, 1, 2],
        "nodes_featureids": [1, 0, 0],
        "nodes_values_as_tensor": numpy_helper.from_array(np.array([0.5, 0, 0])),
        "nodes_modes": ["BRANCH_LEQ", "LEAF", "LEAF"],
        "nodes_truenodeids": [1, 0, 0],
        "nodes_falsenodeids": [2, 0, 0],
        "target_treeids": [0, 0],
        "target_nodeids": [1, 2],
        "target_ids": [0, 0],
        "target_weights_as_tensor": numpy_helper.from_array(np.array([3.0, 4.0])),
    }
    for given, expected in (([0.1, 0.4], [[3]]), ([0.4, 0.6], [[4]]), ([[0.4, 0.6]], [[4]])):
        case = RowCase("TreeEnsembleRegressor", [np.array(given)], attrs, domain="ai.onnx.ml")
        assert run(proto_of(case), feeds_of(case))["y0"].tolist() == expected
