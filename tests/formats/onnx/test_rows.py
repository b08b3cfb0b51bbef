"""Rows against what ONNX Runtime gave, where ONNX's own backend tests have no such case."""

from __future__ import annotations

import numpy as np
import pytest

from tests.formats.onnx.models import run
from tests.formats.onnx.row_cases import RECORDED, all_cases, feeds_of, proto_of

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
