"""Models as PyTorch exports them (`exports.py`): what they give is what ONNX Runtime gave, and in other forms as well."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import placesim

ROOT = Path(__file__).parent.parent.parent.parent
RECORDED = {path.stem: path for path in sorted((ROOT / "tests" / "data" / "onnx").glob("*.npz"))}


def model_path(name: str) -> str:
    own = RECORDED[name].with_suffix(".onnx")
    return str(own if own.exists() else ROOT / "graphs" / own.name)


@pytest.mark.slow
@pytest.mark.parametrize("name", RECORDED)
def test_outputs_are_those_of_onnx_runtime(name: str) -> None:
    recorded = np.load(RECORDED[name])
    feeds = {key.partition(":")[2]: recorded[key] for key in recorded if key.startswith("input:")}
    expected = {key.partition(":")[2]: recorded[key] for key in recorded if key.startswith("output:")}
    results = placesim.run(model_path(name), feed=feeds).results
    assert expected
    for key, value in expected.items():
        assert np.shape(results[key]) == value.shape
        # relative to the largest of a tensor: elements near zero are what is left of others that are not
        assert np.max(np.abs(results[key] - value)) <= 1e-4 * np.max(np.abs(value))
