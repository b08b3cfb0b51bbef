"""Inputs for which an op would never end: TensorFlow's result where it has one, else an error."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from placesim.api.runs import run
from placesim.core.errors import ResourceExhaustedError
from placesim.ops.kernels.random import candidate_sampling


def only(node: dict[str, Any], *others: dict[str, Any], fetch: str = "o:0") -> Any:
    return run({"nodes": [*others, node], "fetch": [fetch]}).results[fetch]


def test_gamma_numbers_of_shapes_that_are_none() -> None:
    shapes = {"op": "Const", "name": "a", "value": [-1.0, float("nan"), float("inf"), -float("inf")]}
    found = only({"op": "RandomGamma", "name": "o", "inputs": [[2], "a"], "attrs": {"seed": 1}}, shapes)
    np.testing.assert_array_equal(found, [[np.nan, np.nan, np.inf, np.nan]] * 2)


@pytest.mark.parametrize("op", ["MatrixLogarithm", "MatrixSquareRoot"])
@pytest.mark.parametrize("value", [float("inf"), float("nan")])
def test_a_matrix_that_is_not_finite(op: str, value: float) -> None:
    matrix = {"op": "Const", "name": "a", "dtype": "complex64", "value": [[[value, 0.0], [1.0, 0.0]], [[1.0, 0.0], [2.0, 0.0]]]}
    assert np.isnan(only({"op": op, "name": "o", "inputs": ["a"]}, matrix)).all()


def test_more_unique_classes_than_can_be_drawn(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(candidate_sampling, "MAX_TRIES", 100)
    classes = {"op": "Const", "name": "a", "value": [[1]], "dtype": "int64"}
    attrs = {"num_true": 1, "num_sampled": 2, "unique": True, "range_max": 3, "unigrams": [0.0, 1.0, 0.0]}
    with pytest.raises(ResourceExhaustedError, match="only 1 of 2 unique classes were sampled in 100 tries"):
        only({"op": "FixedUnigramCandidateSampler", "name": "o", "inputs": ["a"], "attrs": attrs}, classes)
