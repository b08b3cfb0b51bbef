"""Pipelines of scikit-learn as skl2onnx converts them (`sklearn_exports.py`): what they give is what ONNX Runtime gave."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import placesim

FOLDER = Path(__file__).parents[2] / "data" / "onnx-sklearn"
NAMES = sorted(path.stem for path in FOLDER.glob("*.onnx"))


def test_there_are_pipelines() -> None:
    assert len(NAMES) > 20


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_a_pipeline_does_as_onnx_runtime(name: str) -> None:
    with np.load(FOLDER / f"{name}.npz") as recorded:
        given = recorded["input:x"]
        expected = {key.partition(":")[2]: recorded[key] for key in recorded if key.startswith("output:")}
    feed = np.array([text.encode() for text in given.flat], object).reshape(given.shape) if given.dtype.kind == "U" else given
    results = placesim.run(FOLDER / f"{name}.onnx", feed={"x": feed}).results
    assert expected
    for key, value in expected.items():
        found = results[key].astype(str) if value.dtype.kind == "U" else results[key]
        assert found.shape == value.shape
        if value.dtype.kind == "f":
            np.testing.assert_allclose(found, value, rtol=1e-4, atol=1e-5)
        else:
            np.testing.assert_array_equal(found, value)
